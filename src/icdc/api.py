"""`icdc.solve` and `icdc.solve_many`: instances from Python, answered like files on the command line."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import InfeasibleError, InputError, UsageError
from .io.cells import ReadOptions
from .io.frames import instances_from
from .options import OPTIONS, check, check_all, check_kind, mention
from .problems import get_problem, problem_of_file
from .problems.base import Problem
from .problems.conditions import CONDITIONS, Item, with_conditions
from .problems.forbidden import forbidden_pair
from .problems.instance import Instance, Number
from .solvers import make_solver
from .solving.answer import Answer
from .solving.jobs import Observer, solve_instances
from .solving.solver import Improvement, SolveCallback, Solver

if TYPE_CHECKING:
    from .models.diffusion import Model


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
    fixed: Mapping[Item, Item] | Iterable[Sequence[Item]] | None = None,
    stay: Number | None = None,
    open: bool = False,
    first: Item | None = None,
    last: Item | None = None,
    busy: Mapping[Item, Number] | Sequence[Number] | None = None,
    callback: SolveCallback | None = None,
    forbidden: Literal["nan"] | None = None,
    reading: ReadOptions | None = None,
    **options: Any,
) -> Answer:
    """Solve one instance and return a checked answer with a lower bound.

    Parameters
    ----------
    instance : a matrix (nested lists, an array, a pandas or polars frame), a mapping of the problem's named arrays, an
        `Instance`, or the path of a file with one. None and inf in a matrix are forbidden pairs.
    problem : a name such as "atsp", "pmsp", "flow-shop" or "setups", or a `Problem`; a matrix that is not square is
        "pmsp" by itself, and a model brings its own.
    model : a `Model`, the name of a shipped one, or a file's path; by default the shipped one for the nearest size.
    solver : another solver: its name, such as "network", "search" or "ga:iterations=500", or a `Solver`. By default
        search, proofs and the network work together.
    samples : tries of the network: 8 by default, 32 of the network alone; of other solvers the best of as many, 1.
    time_limit : seconds; the search goes on until then, or until the bound is met. Without one the effort is fixed.
    start : a solution to begin with, as `Answer.solution` writes it; the answer is never worse.
    fixed : pairs that the answer must have, by names or numbers from 0, as a mapping or a list of pairs: a job and its
        machine; a city, or a job of a sequence, and the one right after it.
    stay : what each change of the start weighs: a step of a tour that the start does not have costs so much more, a
        job that moves takes so much longer on its new machine. `Answer.objective`, bound and gap count it,
        `Answer.cost` does not.
    open : a tour need not return to where it began.
    first, last : where a tour, a path or a sequence begins and ends, by name or number.
    busy : until when machines are busy with something else: a mapping from machines, by name or number, to times, or a
        list with a time for each machine.
    callback : told of every improvement (`Improvement`: seconds, cost, choice, and with several instances the places of
        those it is about); return True to stop.
    forbidden : "nan" if NaN marks a forbidden pair; otherwise it is refused.
    reading : answers to what a file or a frame may leave open, such as ReadOptions(metric="euclidean").
    options : further options of the solver, such as steps=10, refine=3 or device="cpu".
    """
    options |= {name: value for name, value in locals().items() if name not in ("instance", "start", "options")}
    answers = _solve([instance], None if start is None else [start], options)
    if len(answers) != 1:
        raise UsageError(f"{instance} holds {len(answers)} instances; solve_many answers them all")
    (answer,) = answers
    if not answer.feasible:
        raise InfeasibleError(answer.reason or "no feasible solution was found")
    return answer


def solve_many(
    instances: Iterable[Any] | str | Path, *, starts: Sequence[Sequence[int]] | None = None, **options: Any
) -> list[Answer]:
    """Solve instances of any sizes, equal ones together, and return a checked answer for each, in their order.

    An instance for which nothing feasible was found has an answer that says so. `starts` has a solution for each, or
    None; the other options are those of `solve`: `time_limit` is for all instances together, and conditions hold for
    each of them. A path, alone or among the instances, stands for all instances of its file.
    """
    return _solve([instances] if isinstance(instances, str | Path) else instances, starts, options)


def _solve(instances: Iterable[Any], starts: Sequence[Sequence[int]] | None, options: dict[str, Any]) -> list[Answer]:
    """Answer instances by the options of `solve`; warnings point to the caller of that."""

    def taken(*names: str) -> dict[str, Any]:
        return {name: options.pop(name, None) for name in names}

    run, conditions = check_all(taken("time_limit", "samples", "seed")), taken(*CONDITIONS)
    problem, model, callback, reading = taken("problem", "model", "callback", "reading").values()
    if callback is not None and not callable(callback):
        raise UsageError(f"the callback must be callable, got {type(callback).__name__}")
    reading = reading or ReadOptions()
    if check("forbidden", options.pop("forbidden", None)) == "nan":
        reading = replace(reading, nan_forbidden=True)
    solver = _solver_of(options.pop("solver", None), model, options)
    wanted = _problem_of(problem, model)
    read = [
        one
        for number, instance in enumerate(instances)
        for one in instances_from(instance, wanted, f"instance {number}" if number else "instance", reading)
    ]
    if starts is not None and len(starts) != len(read):
        raise UsageError(f"there are {len(starts)} starts for {len(read)} instances")
    if isinstance(conditions["fixed"], Iterator):  # read for every instance
        conditions["fixed"] = list(conditions["fixed"])
    solutions = [None] * len(read) if starts is None else starts
    posed = [
        with_conditions(one, conditions, None if solution is None else partial(_start_of, solution))
        for one, solution in zip(read, solutions, strict=True)
    ]
    observer = _Caller(callback)
    numbered = solve_instances(
        [one for one, _ in posed], solver, **run, starts=[choice for _, choice in posed], observer=observer
    )
    answers = [answer for _, answer in numbered]
    if len(answers) < len(read):
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
    check_kind(solver, Solver | str | None, mention("solver"))
    if not (model is None or isinstance(model, str | os.PathLike)):
        from .models.diffusion import Model

        check_kind(model, Model | str | os.PathLike | None, mention("model"))
    if isinstance(solver, Solver):
        if options or model is not None:
            raise UsageError("a model and options belong to a solver that is made here; this one is made already")
        return solver
    check_all({name: value for name, value in options.items() if name in OPTIONS})
    return make_solver(solver or "icdc", **({} if model is None else {"model": model}), **options)


def _start_of(solution: Sequence[int], instance: Instance) -> NDArray[np.int64]:
    """Return a solution to begin from as a choice (rows,)."""
    choice = instance.choice(list(solution))
    rows = instance.shape[0]
    if choice.shape != (rows,):
        raise InputError(f"the start of {instance.name} makes {choice.size} choices where it needs {rows}")
    if instance.conditions is not None or instance.problem.restated:
        return choice  # checked together with what is asked
    if (pair := forbidden_pair(instance, choice)) is not None:
        raise InputError(f"the start of {instance.name} uses a forbidden pair: {instance.pair_text(pair)}")
    return choice


def _problem_of(problem: str | Problem | None, model: Model | str | None) -> Problem | None:
    """Return the problem that is asked for, if one is: by its own name, or by the model's."""
    check_kind(problem, Problem | str | None, mention("problem"))
    if isinstance(problem, Problem):
        return problem
    if problem is not None:
        return get_problem(problem)
    if model is not None and not isinstance(model, str | os.PathLike):
        return model.problem
    if model is not None:
        from .models.catalogue import card_of

        return problem_of_file(str(card_of(model)["problem"]), None, f"the model '{model}'")
    return None
