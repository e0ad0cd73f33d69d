"""Solving: one way from instances to checked answers, whoever solves them.

Names are imported when they are first used: the network's part needs torch, and most answers do not.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answer import Answer
    from .anytime import AnytimeSolver
    from .api import UnfamiliarWarning, solve, solve_many
    from .diffusion import DiffusionSolver
    from .request import Improvement, Request
    from .results import Found, Results
    from .solver import Abilities, Solver

_HOMES = {
    "Answer": "answer",
    "AnytimeSolver": "anytime",
    "UnfamiliarWarning": "api",
    "solve": "api",
    "solve_many": "api",
    "DiffusionSolver": "diffusion",
    "Improvement": "request",
    "Request": "request",
    "Found": "results",
    "Results": "results",
    "Abilities": "solver",
    "Solver": "solver",
}

__all__ = [
    "Abilities",
    "Answer",
    "AnytimeSolver",
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'icdc.solving' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
