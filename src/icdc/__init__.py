"""IC/DC: feasible solutions of matrix-shaped combinatorial problems, from diffusion trained without examples.

    import icdc
    answer = icdc.solve(matrix, problem="atsp")          # a shipped model, checked, with a lower bound
    model = icdc.load("atsp-20")                         # a shipped model, or any model file
    model = icdc.train("atsp-20", time_limit=60)         # a preset, or a TOML file

Names are imported when they are first used, so that `import icdc` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "solve": "icdc.solving.api",
    "train": "icdc.training.api",
    "finetune": "icdc.finetuning",
    "load": "icdc.model",
    "Model": "icdc.model",
    "Problem": "icdc.problem",
    "Rule": "icdc.rules",
    "OneColumnPerRow": "icdc.rules",
    "HamiltonianCycle": "icdc.rules",
    "DiffusionSolver": "icdc.solving",
    "make_solver": "icdc.solvers",
    "get_problem": "icdc.problems",
}

if TYPE_CHECKING:
    from .finetuning import finetune
    from .model import Model, load
    from .problem import Problem
    from .problems import get_problem
    from .rules import HamiltonianCycle, OneColumnPerRow, Rule
    from .solvers import make_solver
    from .solving import DiffusionSolver
    from .solving.api import solve
    from .training.api import train

__all__ = [
    "DiffusionSolver",
    "HamiltonianCycle",
    "Model",
    "OneColumnPerRow",
    "Problem",
    "Rule",
    "__version__",
    "finetune",
    "get_problem",
    "load",
    "make_solver",
    "solve",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'icdc' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
