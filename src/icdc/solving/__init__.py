"""Solving: one way from instances to checked answers, whoever solves them."""

from .answer import Answer
from .api import UnfamiliarWarning, solve, solve_many
from .diffusion import DiffusionSolver
from .solver import Abilities, Found, Improvement, Request, Results, Solver

__all__ = [
    "Abilities",
    "Answer",
    "DiffusionSolver",
    "Found",
    "Improvement",
    "Request",
    "Results",
    "Solver",
    "UnfamiliarWarning",
    "solve",
    "solve_many",
]
