"""Files in and out: instances, solutions, pictures of them, and datasets with references."""

from ..problems.instance import Instance
from .files import write_atomically
from .instances import read_instances
from .pictures import save_animation, save_solution
from .solutions import choice_of, read_solution, write_solution

__all__ = [
    "Instance",
    "choice_of",
    "read_instances",
    "read_solution",
    "save_animation",
    "save_solution",
    "write_atomically",
    "write_solution",
]
