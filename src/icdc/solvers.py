"""Every solver by name: `make_solver("ga:iterations=500")`. Nothing is imported before it is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import UsageError
from .options import check_kind, read_text
from .problems import import_class
from .solving.solver import Solver


@dataclass(frozen=True)
class Entry:
    """Where a solver lives and what it is for, known without importing it."""

    path: str
    problems: str
    summary: str
    extra: str | None = None


PYTHON_ONLY = frozenset(["sampling", "trace"])
"""Options that no text can hold."""

SOLVERS: dict[str, Entry] = {
    "icdc": Entry("icdc.solving.anytime:AnytimeSolver", "any", "search, proofs and network together: the default"),
    "network": Entry("icdc.solving.network:DiffusionSolver", "any trained", "the learned diffusion model alone"),
    "matnet": Entry("icdc.baselines.matnet:MatNetSolver", "any trained", "MatNet, a learned pointer network"),
    "search": Entry("icdc.baselines.exact:ClassicalSearch", "schedules, tours", "prices, local search and proofs"),
    "random": Entry("icdc.baselines.heuristics:RandomSolver", "any", "feasible at random, best of the samples"),
    "cpsat": Entry("icdc.baselines.exact:CpSat", "schedules, tours", "CP-SAT, exact", "exact"),
    "highs": Entry("icdc.baselines.mip:Highs", "schedules, tours", "the paper's MIP through HiGHS, exact", "exact"),
    "scip": Entry("icdc.baselines.mip:Scip", "schedules, tours", "the paper's MIP through SCIP, exact", "exact"),
    "cplex": Entry("icdc.baselines.mip:Cplex", "schedules, tours", "the paper's MIP through your own CPLEX", "exact"),
    "branch": Entry("icdc.baselines.exact:BranchAndBound", "tours", "branch and bound on assignments, exact"),
    "dp": Entry("icdc.baselines.exact:DynamicProgram", "schedules", "dynamic programming over loads, exact"),
    "sjf": Entry(
        "icdc.baselines.heuristics:ShortestJobFirst", "schedules", "shortest job first on the machine that is free"
    ),
    "ect": Entry("icdc.baselines.heuristics:EarliestCompletion", "schedules", "list scheduling by earliest completion"),
    "lpt": Entry(
        "icdc.baselines.heuristics:LongestFirst", "schedules", "longest jobs first, each to earliest completion"
    ),
    "ga": Entry("icdc.baselines.heuristics:GeneticAlgorithm", "schedules", "genetic algorithm"),
    "pso": Entry("icdc.baselines.heuristics:ParticleSwarm", "schedules", "particle swarm"),
    "nn": Entry("icdc.baselines.heuristics:NearestNeighbour", "tours", "nearest neighbour"),
    "ni": Entry("icdc.baselines.heuristics:NearestInsertion", "tours", "nearest insertion"),
    "fi": Entry("icdc.baselines.heuristics:FurthestInsertion", "tours", "furthest insertion"),
    "patching": Entry("icdc.baselines.exact:AssignmentPatching", "tours", "assignment, its cycles patched into a tour"),
    "lkh": Entry("icdc.baselines.engines:Lkh", "tours", "LKH-3 through elkai (non-commercial licence)", "lkh"),
    "pyvrp": Entry("icdc.baselines.engines:PyVrp", "tours", "PyVRP, iterated local search", "pyvrp"),
    "routing": Entry("icdc.baselines.engines:Routing", "tours", "OR-Tools routing, guided local search", "exact"),
}


def make_solver(spec: str, **options: Any) -> Solver:
    """Return the solver that `name`, `name:key=value,key=value` or, for one of your own, `module:Class` describes.

    Further keyword options are Python values and win over those in the text. An unknown name, an unknown
    option or a value of the wrong kind is a UsageError that lists what there is; a solver whose optional
    package is missing raises MissingExtraError with the pip line.
    """
    name, rest = _split(spec)
    cls = solver_class(spec)
    if not rest and not options:
        return cls()  # some solvers would import much only to list their options
    kinds = cls.quick_options if not rest and options.keys() <= cls.quick_options.keys() else cls.options()
    written = {key: kind for key, kind in kinds.items() if key not in PYTHON_ONLY}
    for part in filter(None, rest.split(",")):
        key, equals, text = part.partition("=")
        if not equals:
            raise UsageError(f"solver option '{part}' of '{name}' must look like key=value")
        _reject_unknown(name, key, written)
        if key not in options:
            options[key] = read_text(text, kinds[key], f"option '{key}' of solver '{name}'")
    for key, value in options.items():
        _reject_unknown(name, key, kinds)
        if key not in PYTHON_ONLY:
            check_kind(value, kinds[key], f"option '{key}' of solver '{name}'")
    return cls(**options)


def options_of(spec: str) -> dict[str, Any]:
    """Return the options of the solver that a text describes: the type of each, by name."""
    return solver_class(spec).options()


def solver_class(spec: str) -> type[Solver]:
    """Return the class of the solver that a text describes; see `make_solver`."""
    name = _split(spec)[0]
    if name not in SOLVERS and ":" not in name:
        raise UsageError(f"unknown solver '{name}'; choose one of {', '.join(SOLVERS)}, or module:Class for your own")
    return import_class(SOLVERS[name].path if name in SOLVERS else name, Solver, "solver")  # type: ignore[type-abstract]


def _split(spec: str) -> tuple[str, str]:
    """Return the name, or `module:Class`, and the options of a text."""
    name, _, rest = spec.partition(":")
    if name in SOLVERS or not rest:
        return name, rest
    cls, _, options = rest.partition(":")
    return f"{name}:{cls}", options


def _reject_unknown(name: str, key: str, known: Mapping[str, Any]) -> None:
    if key not in known:
        valid = f"choose from {', '.join(known)}" if known else "it has none"
        raise UsageError(f"solver '{name}' has no option '{key}'; {valid}")
