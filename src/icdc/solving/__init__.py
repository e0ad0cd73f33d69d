"""Solving: one way from instances to checked answers, by whatever solver."""

from ..search.run import Incumbent
from .answer import Answer
from .solver import Abilities, Improvement, Request, Result, Solver

__all__ = ["Abilities", "Answer", "Improvement", "Incumbent", "Request", "Result", "Solver"]
