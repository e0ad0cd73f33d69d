"""Learning the instances at hand before they are answered: what is asked for, and how it becomes a part of solving.

The training itself is `icdc.training.adapting`; it is imported only where somebody asks for it.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import options
from ..errors import UsageError
from ..problems.forbidden import why_impossible
from ..problems.registry import import_class
from .beside import IMPORTING
from .jobs import Job, Known, Observer, back, stacked
from .request import Improvement, Request
from .solver import Solver

ADAPTER = "icdc.training.adapting:InstanceTraining"
MOST_INSTANCES, MOST_PAIRS = 256, 2_000_000
"""Instances of a group that are learned, and elements of all their matrices, at most."""
ADAPTED = ", adapted"
"""What follows the name of a model whose weights were changed for the instances at hand."""


@dataclass(frozen=True)
class Adapt:
    """How long to learn the instances at hand before they are answered.

    Parameters
    ----------
    seconds : of everything that belongs to it: finding solutions to learn from, training, comparing. A part of the time
        limit where there is one.
    rounds : of training, instead of seconds: a seed then repeats itself on the same machine.
    """

    seconds: float | None = None
    rounds: int = 0

    def __post_init__(self) -> None:
        options.optional(options.seconds, self.seconds, "adapt")
        options.whole(self.rounds, "rounds of adapting")
        if (self.seconds is None) == (self.rounds == 0):
            raise UsageError("adapting takes seconds or rounds, one of the two")


class Adapted(NamedTuple):
    """What came of adapting to some instances.

    solver : the solver with the better weights of the two.
    choice : (count, rows), the best solutions met on the way; −1 in rows of instances without any.
    bound : (count,), proven lower bounds; −inf where there is none.
    found_by : what found each solution.
    sentence : what happened, for whoever asked.
    finished, interrupted : whether a callback, or Ctrl-C, ended it.
    """

    solver: Solver
    choice: NDArray[np.int64]
    bound: NDArray[np.float64]
    found_by: Sequence[str]
    sentence: str
    finished: bool = False
    interrupted: bool = False


class Adapter(ABC):
    """Makes a solver's model better for given instances."""

    @abstractmethod
    def adapt(self, solver: Solver, request: Request, adapt: Adapt) -> Adapted:
        """Learn the instances that a solver is about to be asked for; how long is said by `adapt`, not by a limit."""


def check_adapt(adapt: "Adapt | float | None", solver: Solver, time_limit: float | None) -> Adapt | None:
    """Return what is asked for, or say in a sentence why it cannot be done."""
    if adapt is None:
        return None
    asked = adapt if isinstance(adapt, Adapt) else Adapt(options.seconds(adapt, "adapt"))
    if not solver.abilities.adapt:
        raise UsageError(f"the solver '{solver.name}' has no model to adapt: only icdc and network have one")
    if time_limit is not None and asked.seconds is not None and asked.seconds >= time_limit:
        raise UsageError(
            f"adapting is a part of the time limit: {asked.seconds:g} of {time_limit:g} seconds leave none to solve in"
        )
    return asked


def adapt_jobs(jobs: Sequence[Job], adapt: Adapt, observer: Observer) -> list[Job]:
    """Return jobs with adapted solvers, each with the best solutions known by then to begin from.

    Jobs of one plan, which are of one size, are learned together; groups share the seconds by numbers of instances.
    After Ctrl-C only the jobs that have solutions are left, and they say so.
    """
    began = time.perf_counter()
    left = sum(len(job.places) for job in jobs)
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        groups.setdefault(id(job.plan), []).append(job)
    done: dict[int, Job] = {}
    for group in groups.values():
        count = sum(len(job.places) for job in group)
        share = adapt
        if adapt.seconds is not None:
            spent = time.perf_counter() - began
            share = Adapt(max(0.01, adapt.seconds - spent) * count / left)
        left -= count
        fresh, interrupted = _adapt_group(group, share, observer)
        done |= {id(old): new for old, new in zip(group, fresh, strict=True)}
        if interrupted:
            known = [done[id(job)] for job in jobs if id(job) in done]
            return [_ended(job, interrupted=True) for job in known if job.known is not None]
    return [done[id(job)] for job in jobs]


def _adapt_group(group: Sequence[Job], adapt: Adapt, observer: Observer) -> tuple[list[Job], bool]:
    """Return the jobs of one group, adapted, and whether Ctrl-C ended it."""
    began = time.perf_counter()
    plan, problem = group[0].plan, group[0].problem
    learned = _learned(group)
    rows = [(job, number) for job in learned for number in _possible(job)]
    if not rows:
        return list(group), False
    instances = [job.instances[number] for job, number in rows]
    starts = None
    if learned[0].start is not None:
        starts = np.stack([job.start[number] for job, number in rows if job.start is not None])
    places = tuple(job.places[number] for job, number in rows)
    asked = [job.restated[number] for job, number in rows if job.restated is not None] or None

    def tell(improvement: Improvement) -> bool | None:
        return observer.improved(replace(improvement, places=places, choice=back(asked, improvement.choice)))

    if adapt.seconds is not None and adapt.seconds < IMPORTING and "torch" not in sys.modules:
        observer.adapted(f"not adapted: {adapt.seconds:.3g} seconds are too few to load a network")
        return list(group), False
    adapter = import_class(ADAPTER, Adapter, "adapter")()  # type: ignore[type-abstract]
    if adapt.seconds is not None:  # importing it took some of them
        adapt = Adapt(max(0.01, adapt.seconds - (time.perf_counter() - began)))
    request = Request(problem, stacked(instances), plan.samples, plan.seed, start=starts, callback=tell)
    found = adapter.adapt(plan.solver, request, adapt)
    observer.adapted(found.sentence)
    ready = replace(plan, solver=found.solver)
    seconds = (time.perf_counter() - began) / sum(len(job.places) for job in group)
    place_of = {(id(job), number): row for row, (job, number) in enumerate(rows)}
    fresh = []
    for job in group:
        known = [place_of.get((id(job), number)) for number in range(len(job.places))]
        fresh.append(_with_known(replace(job, plan=ready), known, found, seconds))
    return fresh, found.interrupted


def _learned(group: Sequence[Job]) -> list[Job]:
    """Return the first jobs of a group, as many as fit into memory together; always one."""
    chosen: list[Job] = []
    instances = pairs = 0
    for job in group:
        rows, columns = job.instances[0].shape
        instances, pairs = instances + len(job.places), pairs + len(job.places) * rows * columns
        if chosen and (instances > MOST_INSTANCES or pairs > MOST_PAIRS):
            break
        chosen.append(job)
    return chosen


def _possible(job: Job) -> list[int]:
    """Return which instances of a job have a solution at all."""
    return [number for number, one in enumerate(job.instances) if why_impossible(one) is None]


def _with_known(job: Job, rows: Sequence[int | None], found: Adapted, seconds: float) -> Job:
    """Return a job that begins from what was found; `rows` says where its instances are there."""
    choice = np.full((len(rows), job.instances[0].shape[0]), -1, dtype=np.int64)
    bound, by = np.full(len(rows), -np.inf), [""] * len(rows)
    for number, row in enumerate(rows):
        if row is not None:
            choice[number], bound[number], by[number] = found.choice[row], found.bound[row], found.found_by[row]
    without = [number for number in _possible(job) if choice[number, 0] < 0]
    if without:  # nothing is known of some instances: those of other jobs, or nothing feasible was met
        return replace(job, known=None)
    return replace(job, start=choice, known=Known(tuple(by), bound, seconds, found.finished, found.interrupted))


def _ended(job: Job, interrupted: bool) -> Job:
    """Return a job that is answered with what is known."""
    assert job.known is not None
    return replace(job, known=job.known._replace(finished=True, interrupted=interrupted))
