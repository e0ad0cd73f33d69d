"""IC/DC: feasible solutions of matrix-shaped combinatorial problems, from diffusion trained without examples.

    import icdc
    answer = icdc.solve(matrix, problem="atsp")          # a shipped model, checked, with a lower bound
    model = icdc.load("atsp")                            # a shipped model, or any model file
    model = icdc.train("atsp-20", time_limit=60)         # a preset, or a TOML file

Names are imported when they are first used, so that `import icdc` costs nothing.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Read when torch is loaded: threads that wait sleep instead of spinning, which on a machine that is busy with something
# else makes small networks many times faster. A value that is set already stays; so import icdc before torch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOMES = {
    "solve": "icdc.solving.api",
    "solve_many": "icdc.solving.api",
    "UnfamiliarWarning": "icdc.solving.api",
    "Answer": "icdc.solving.answer",
    "Client": "icdc.client",
    "Solver": "icdc.solving.solver",
    "train": "icdc.training.api",
    "finetune": "icdc.training.finetuning",
    "load": "icdc.models.diffusion",
    "Model": "icdc.models.diffusion",
    "Problem": "icdc.problems",
    "Features": "icdc.problems.features",
    "FeatureSizes": "icdc.problems",
    "Rule": "icdc.problems.rules",
    "OneColumnPerRow": "icdc.problems.rules",
    "HamiltonianCycle": "icdc.problems.rules",
    "Pmsp": "icdc.problems",
    "Atsp": "icdc.problems",
    "Navigation": "icdc.problems",
    "TourProblem": "icdc.problems",
    "Instance": "icdc.problems",
    "Starts": "icdc.problems.decoding",
    "improve_schedules": "icdc.kernels",
    "improve_tours": "icdc.kernels",
    "merge_schedules": "icdc.kernels",
    "merge_tours": "icdc.kernels",
    "picked": "icdc.problems.tensors",
    "totals_by_column": "icdc.problems.tensors",
    "checked_matrix": "icdc.problems.arrays",
    "assert_conforms": "icdc.conformance",
    "read_instances": "icdc.io",
    "ReadOptions": "icdc.io",
    "InputError": "icdc.errors",
    "UsageError": "icdc.errors",
    "DiffusionSolver": "icdc.solving",
    "make_solver": "icdc.solving.registry",
    "get_problem": "icdc.problems",
}

if TYPE_CHECKING:
    from .client import Client
    from .conformance import assert_conforms
    from .errors import InputError, UsageError
    from .io import ReadOptions, read_instances
    from .kernels import improve_schedules, improve_tours, merge_schedules, merge_tours
    from .models.diffusion import Model, load
    from .problems import (
        Atsp,
        FeatureSizes,
        Instance,
        Navigation,
        Pmsp,
        Problem,
        TourProblem,
        get_problem,
    )
    from .problems.arrays import checked_matrix
    from .problems.decoding import Starts
    from .problems.features import Features
    from .problems.rules import HamiltonianCycle, OneColumnPerRow, Rule
    from .problems.tensors import picked, totals_by_column
    from .solving import DiffusionSolver
    from .solving.answer import Answer
    from .solving.api import UnfamiliarWarning, solve, solve_many
    from .solving.registry import make_solver
    from .solving.solver import Solver
    from .training.api import train
    from .training.finetuning import finetune

__all__ = [
    "Answer",
    "Atsp",
    "Client",
    "DiffusionSolver",
    "FeatureSizes",
    "Features",
    "HamiltonianCycle",
    "InputError",
    "Instance",
    "Model",
    "Navigation",
    "OneColumnPerRow",
    "Pmsp",
    "Problem",
    "ReadOptions",
    "Rule",
    "Solver",
    "Starts",
    "TourProblem",
    "UnfamiliarWarning",
    "UsageError",
    "__version__",
    "assert_conforms",
    "checked_matrix",
    "finetune",
    "get_problem",
    "improve_schedules",
    "improve_tours",
    "load",
    "make_solver",
    "merge_schedules",
    "merge_tours",
    "picked",
    "read_instances",
    "solve",
    "solve_many",
    "totals_by_column",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'icdc' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
