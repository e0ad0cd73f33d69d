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

_MODULES = {
    "Answer": "solving.answer",
    "Atsp": "problems",
    "Client": "client",
    "DiffusionSolver": "solving.network",
    "FeatureSizes": "problems",
    "Features": "problems.features",
    "FlowShop": "problems",
    "HamiltonianCycle": "problems.rules",
    "InputError": "errors",
    "Instance": "problems",
    "Model": "models.diffusion",
    "Navigation": "problems",
    "OneColumnPerRow": "problems.rules",
    "Pmsp": "problems",
    "Problem": "problems",
    "ReadOptions": "io",
    "Rule": "problems.rules",
    "Setups": "problems",
    "Solver": "solving.solver",
    "Starts": "problems.decoding",
    "TourProblem": "problems",
    "UnfamiliarWarning": "api",
    "UsageError": "errors",
    "assert_conforms": "conformance",
    "checked_matrix": "problems.arrays",
    "finetune": "training.finetuning",
    "get_problem": "problems",
    "improve_schedules": "kernels",
    "improve_tours": "kernels",
    "load": "models.diffusion",
    "make_solver": "solvers",
    "merge_schedules": "kernels",
    "merge_tours": "kernels",
    "picked": "problems.tensors",
    "read_instances": "io",
    "solve": "api",
    "solve_many": "api",
    "totals_by_column": "problems.tensors",
    "train": "training.api",
}
"""The module of each public name."""

__all__ = ["__version__", *_MODULES]

if TYPE_CHECKING:
    from .api import UnfamiliarWarning as UnfamiliarWarning
    from .api import solve as solve
    from .api import solve_many as solve_many
    from .client import Client as Client
    from .conformance import assert_conforms as assert_conforms
    from .errors import InputError as InputError
    from .errors import UsageError as UsageError
    from .io import ReadOptions as ReadOptions
    from .io import read_instances as read_instances
    from .kernels import improve_schedules as improve_schedules
    from .kernels import improve_tours as improve_tours
    from .kernels import merge_schedules as merge_schedules
    from .kernels import merge_tours as merge_tours
    from .models.diffusion import Model as Model
    from .models.diffusion import load as load
    from .problems import Atsp as Atsp
    from .problems import FeatureSizes as FeatureSizes
    from .problems import FlowShop as FlowShop
    from .problems import Instance as Instance
    from .problems import Navigation as Navigation
    from .problems import Pmsp as Pmsp
    from .problems import Problem as Problem
    from .problems import Setups as Setups
    from .problems import TourProblem as TourProblem
    from .problems import get_problem as get_problem
    from .problems.arrays import checked_matrix as checked_matrix
    from .problems.decoding import Starts as Starts
    from .problems.features import Features as Features
    from .problems.rules import HamiltonianCycle as HamiltonianCycle
    from .problems.rules import OneColumnPerRow as OneColumnPerRow
    from .problems.rules import Rule as Rule
    from .problems.tensors import picked as picked
    from .problems.tensors import totals_by_column as totals_by_column
    from .solvers import make_solver as make_solver
    from .solving.answer import Answer as Answer
    from .solving.network import DiffusionSolver as DiffusionSolver
    from .solving.solver import Solver as Solver
    from .training.api import train as train
    from .training.finetuning import finetune as finetune


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'icdc' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
