"""Instance and solution files in and out, and datasets with references."""

from ..files import write_atomically
from .instances import Instance, read_instances
from .solutions import choice_of, read_solution, write_solution

__all__ = ["Instance", "choice_of", "read_instances", "read_solution", "write_atomically", "write_solution"]
