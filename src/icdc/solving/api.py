"""`icdc.solve` and `icdc.solve_many`: instances from Python, answered like files on the command line."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InfeasibleError, InputError, UsageError
from ..models.catalogue import card_of
from ..models.diffusion import Model
from ..problems.contract import Problem
from ..problems.instance import Instance
from ..problems.registry import BUILT_IN, get_problem, problem_of_file, problems_of_matrix
from .answer import Answer
from .path import Observer, solve_instances
from .registry import make_solver
from .solver import Improvement, SolveCallback, Solver


class UnfamiliarWarning(UserWarning):
    """An instance is unlike those a model was trained on, and its answer is not proven optimal."""


def solve(
    instance: Any,
    *,
    problem: str | Problem | None = None,
    model: Model | str | None = None,
    solver: Solver | str | None = None,
    samples: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    start: Sequence[int] | None = None,
    callback: SolveCallback | None = None,
    **options: Any,
) -> Answer:
    """Solve one instance and return a checked answer with a lower bound.

    Parameters
    ----------
    instance : a matrix (nested lists or an array), a mapping of the problem's named arrays, or an `Instance`.
    problem : a name such as "atsp" or "pmsp", or a `Problem`; a matrix that is not square is "pmsp" by itself, and
        a model brings its own.
    model : a `Model`, the name of a shipped one, or a file's path; by default the shipped one for the nearest size.
    solver : another solver: its name, such as "cpsat" or "ga:iterations=500", or a `Solver`.
    samples : tries; the best solution of all of them is the answer. By default 32 for the learned solver, else 1.
    time_limit : seconds; the search goes on until then, or until the bound is met.
    start : a solution to begin with, as `Answer.solution` writes it; the answer is never worse.
    callback : told of every improvement; return True to stop.
    options : further options of the solver, such as steps=10, refine=3 or device="cpu".
    """
    starts = None if start is None else [start]
    (answer,) = _solve([instance], problem, model, solver, samples, seed, time_limit, starts, callback, options)
    if not answer.feasible:
        raise InfeasibleError("no feasible solution was found")
    return answer


def solve_many(
    instances: Iterable[Any],
    *,
    problem: str | Problem | None = None,
    model: Model | str | None = None,
    solver: Solver | str | None = None,
    samples: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    starts: Sequence[Sequence[int]] | None = None,
    callback: SolveCallback | None = None,
    **options: Any,
) -> list[Answer]:
    """Solve instances of any sizes, equal ones together, and return a checked answer for each, in their order.

    An instance for which nothing feasible was found has an answer that says so. `time_limit` is for all of them
    together; `starts` has a solution for each; the other parameters are those of `solve`.
    """
    return _solve(instances, problem, model, solver, samples, seed, time_limit, starts, callback, options)


def _solve(
    instances: Iterable[Any],
    problem: str | Problem | None,
    model: Model | str | None,
    solver: Solver | str | None,
    samples: int | None,
    seed: int,
    time_limit: float | None,
    starts: Sequence[Sequence[int]] | None,
    callback: SolveCallback | None,
    options: Mapping[str, Any],
) -> list[Answer]:
    """Do what `solve` and `solve_many` promise; warnings point to who called them."""
    if samples is not None and samples < 1:
        raise UsageError(f"at least one sample is needed, got {samples}")
    if time_limit is not None and not time_limit > 0:
        raise UsageError(f"the time limit must be more than 0 seconds, got {time_limit:g}")
    chosen = _solver_of(solver, model, options)
    found = [
        _instance_of(instance, problem, model, f"instance {number}" if number else "instance")
        for number, instance in enumerate(instances)
    ]
    if starts is not None and len(starts) != len(found):
        raise UsageError(f"there are {len(starts)} starts for {len(found)} instances")
    begins = None
    if starts is not None:
        begins = [_start_of(start, one) for one, start in zip(found, starts, strict=True)]
    observer = _Caller(callback)
    numbered = solve_instances(
        found, chosen, samples=samples, seed=seed, time_limit=time_limit, starts=begins, observer=observer
    )
    answers = [answer for _, answer in numbered]
    if len(answers) < len(found):
        raise KeyboardInterrupt
    if not all(answer.optimal for answer in answers):
        for sentence in observer.notes:
            warnings.warn(sentence, UnfamiliarWarning, stacklevel=3)
    return answers


class _Caller(Observer):
    """Passes improvements on to a callback and keeps the notes."""

    def __init__(self, callback: SolveCallback | None) -> None:
        self.callback = callback
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def improved(self, improvement: Improvement) -> bool | None:
        return None if self.callback is None else self.callback(improvement)


def _solver_of(solver: Solver | str | None, model: Model | str | None, options: Mapping[str, Any]) -> Solver:
    """Return the solver that is meant, with its options."""
    if isinstance(solver, Solver):
        if options or model is not None:
            raise UsageError("a model and options belong to a solver that is made here; this one is made already")
        return solver
    given = dict(options) if model is None else {"model": model, **options}
    return make_solver(solver or "icdc", **given)


def _instance_of(instance: Any, problem: str | Problem | None, model: Model | str | None, name: str) -> Instance:
    """Return what was given as a checked instance."""
    if isinstance(instance, Instance):
        asked = get_problem(problem) if isinstance(problem, str) else problem
        if asked is not None and type(asked) is not type(instance.problem):
            raise UsageError(f"{instance.name} is an instance of '{instance.problem.name}', not of '{asked.name}'")
        return instance
    chosen = _problem_of(instance, problem, model)
    named = instance if isinstance(instance, Mapping) else {chosen.arrays[0]: instance}
    missing = [array for array in chosen.arrays if array not in named]
    if missing:
        raise UsageError(f"an instance of '{chosen.name}' needs the array '{missing[0]}'")
    arrays = chosen.check({array: _array(named[array], array)[None] for array in chosen.arrays})
    return Instance(name, chosen, {array: values[0] for array, values in arrays.items()})


def _array(values: Any, name: str) -> NDArray[Any]:
    """Return nested lists as an array, or say which row does not fit."""
    try:
        return np.asarray(values)
    except ValueError:
        lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 0 for row in values]
        row = next((row for row, length in enumerate(lengths, 1) if length != lengths[0]), 1)
        raise InputError(
            f"'{name}' must be a matrix: row {row} has {lengths[row - 1]} entries where row 1 has {lengths[0]}"
        ) from None


def _start_of(solution: Sequence[int], instance: Instance) -> NDArray[np.int64]:
    """Return a solution to begin from as a choice (rows,)."""
    choice = instance.problem.choice(list(solution))
    rows = instance.problem.shape(instance.problem.size(instance.batch()))[0]
    if choice.shape != (rows,):
        raise InputError(f"the start of {instance.name} makes {choice.size} choices where it needs {rows}")
    return choice


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
    fitting = [] if isinstance(instance, Mapping) else problems_of_matrix(_array(instance, "the instance").shape)
    if len(fitting) == 1:
        return fitting[0]()
    raise UsageError(f"say which problem this is: problem={', '.join(map(repr, BUILT_IN))}, or one of your own")
