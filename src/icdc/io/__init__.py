"""Files in and out: instances, solutions, pictures of them, and datasets with references."""

from ..problems.instance import Instance
from .cells import ReadOptions
from .files import write_atomically
from .frames import instances_from
from .read import instances_of, read_instances
from .solutions import choice_of, read_solution, save_animation, save_solution, write_solution

__all__ = [
    "Instance",
    "ReadOptions",
    "choice_of",
    "instances_from",
    "instances_of",
    "read_instances",
    "read_solution",
    "save_animation",
    "save_solution",
    "write_atomically",
    "write_solution",
]
