"""`icdc.solve`: one instance from Python, answered like a file on the command line."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data.instances import Instance
from ..errors import InfeasibleError, UsageError
from ..model import Model, card_of
from ..problem import Problem
from ..problems import get_problem, problem_of_file
from ..solver import Solver
from .report import Answer
from .solver import DiffusionSolver, SolveCallback
from .verify import verify

DEFAULT_SAMPLES = 32


def solve(
    instance: Any,
    *,
    problem: str | Problem | None = None,
    model: Model | str | None = None,
    solver: Solver | None = None,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    time_limit: float | None = None,
    start: Sequence[int] | None = None,
    callback: SolveCallback | None = None,
    **options: Any,
) -> Answer:
    """Solve one instance and return a checked answer with a lower bound.

    Parameters
    ----------
    instance : a matrix (nested lists or an array), or a mapping of the problem's named arrays.
    problem : a name such as "atsp" or "pmsp", or a `Problem`; a matrix that is not square is "pmsp" by itself, and
        a model brings its own.
    model : a `Model`, the name of a shipped one, or a file's path; by default the shipped one for the nearest size.
    solver : another solver, for example `icdc.make_solver("cpsat")`.
    samples : trajectories; the best solution of all of them is the answer.
    time_limit : seconds; the search goes on until then, or until the bound is met.
    start : a solution to begin with, as `Answer.solution` writes it; the answer is never worse.
    callback : told of every improvement; return True to stop.
    options : further options of `DiffusionSolver`, such as steps=10, refine=3 or device="cpu".
    """
    chosen = _problem_of(instance, problem, model)
    named = instance if isinstance(instance, Mapping) else {chosen.arrays[0]: instance}
    missing = [name for name in chosen.arrays if name not in named]
    if missing:
        raise UsageError(f"an instance of '{chosen.name}' needs the array '{missing[0]}'")
    arrays = chosen.check({name: np.asarray(named[name])[None] for name in chosen.arrays})
    if solver is None:
        solver = DiffusionSolver(model, **options)
    elif options or model is not None:
        raise UsageError("a model and its options are for the learned solver, not for another")
    begin: dict[str, Any] = {} if start is None else {"start": chosen.choice(list(start))[None]}
    if callback is not None:
        begin["callback"] = callback
    results = solver.solve(chosen, arrays, samples=samples, seed=seed, time_limit=time_limit, **begin)
    found = Instance("instance", chosen, {name: array[0] for name, array in arrays.items()})
    verdict = verify(chosen, arrays, results.choice)[0]
    if not verdict.feasible:
        raise InfeasibleError("no feasible solution was found")
    return Answer(
        found, results.choice[0], verdict, samples, results.seconds, seed, solver.name, results.extra.get("model")
    )


def _problem_of(instance: Any, problem: str | Problem | None, model: Model | str | None) -> Problem:
    """Return the problem that is meant, or ask for it."""
    if isinstance(problem, Problem):
        return problem
    if problem is not None:
        return get_problem(problem)
    if isinstance(model, Model):
        return model.problem
    if model is not None:
        return problem_of_file(str(card_of(model)["problem"]), None, f"the model '{model}'")
    if not isinstance(instance, Mapping):
        shape = np.shape(instance)
        if len(shape) == 2 and shape[0] != shape[1]:
            return get_problem("pmsp")
    raise UsageError('say which problem this is: problem="atsp", "pmsp" or "navigation", or one of your own')
