"""Jobs: instances of one problem, size and kind of number, which are solved in one call, and how they are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problems.base import Arrays, Problem
from ..problems.instance import Instance
from ..problems.restating import to_original
from .request import Improvement
from .solver import Solver


class Observer:
    """Hears how solving goes; every method may be overridden, and does nothing here."""

    def note(self, sentence: str) -> None:
        """Hear something that whoever asked should know, such as that instances are new to the model."""

    def begin(self, job: "Job", bound: NDArray[np.float64]) -> None:
        """Hear that a job begins, and the lower bounds (count,) known before it; −inf where there is none."""

    def improved(self, improvement: Improvement) -> bool | None:
        """Hear of an improvement; returning True ends the search of the job once every instance has an answer."""
        return None


@dataclass(frozen=True)
class Plan:
    """How instances of one size are solved: by whom, ready to start, with how many samples, from which seed."""

    solver: Solver
    samples: int
    seed: int


@dataclass(frozen=True)
class Job:
    """Instances that can be stacked, with their places in the input and the solutions (count, rows) to start from."""

    places: list[int]
    instances: list[Instance]
    plan: Plan
    start: NDArray[np.int64] | None = None

    @property
    def problem(self) -> Problem:
        """The problem they share."""
        return self.instances[0].problem

    @property
    def meant(self) -> list[Instance]:
        """The instances as they were asked."""
        return [instance.original or instance for instance in self.instances]

    @property
    def arrays(self) -> Arrays:
        """Their arrays, stacked."""
        return stacked(self.instances)


def stacked(instances: Sequence[Instance]) -> Arrays:
    """Return the arrays of instances of one size with a leading axis count."""
    return {name: np.stack([one.arrays[name] for one in instances]) for name in instances[0].arrays}


def alike(instances: Sequence[Instance], begun: Sequence[bool] | None = None) -> list[list[int]]:
    """Group the places of instances that can be stacked; integers and reals stay apart, so that integers stay exact.

    begun : whether each has a solution to begin from; those with and without are not mixed.
    """
    found: dict[Any, list[int]] = {}
    for place, instance in enumerate(instances):
        kinds = tuple((a.shape, np.issubdtype(a.dtype, np.integer)) for a in instance.arrays.values())
        # problems of one class are alike unless they hold something of their own
        problem = instance.problem
        original = instance.original or instance  # sizes of these are not mixed, either
        started = begun is not None and begun[place]
        kind = id(problem) if vars(problem) else type(problem)
        key = (kind, kinds, type(original.problem), original.shape[0], started)
        found.setdefault(key, []).append(place)
    return list(found.values())


def plan_jobs(
    instances: Sequence[Instance],
    solver: Solver,
    samples: int | None,
    seed: int,
    starts: Sequence[NDArray[np.int64] | None] | None,
    observer: Observer,
    remote_device: str | None = None,
) -> list[Job]:
    """Cut instances into jobs, always the same way for the same instances, and say what is new to the solver.

    starts : solutions by place in the input, None where there is none.
    remote_device : the kind of device on which other machines will do the jobs, if they do.
    """
    jobs = []
    begins = [None] * len(instances) if starts is None else starts
    for places in alike(instances, [one is not None for one in begins]):
        group = [instances[place] for place in places]
        problem, arrays = group[0].problem, stacked(group)
        size = problem.size(arrays)
        ready = solver.prepared(problem, size, None if remote_device is None else "cpu")
        _say_what_is_new(ready, group, arrays, observer)
        plan = Plan(ready, solver.default_samples if samples is None else samples, seed)
        together = ready.together(problem, size, plan.samples, remote_device)
        for begin in range(0, len(places), together):
            part = slice(begin, begin + together)
            given = [one for place in places[part] if (one := begins[place]) is not None]
            start = np.stack(given) if given else None
            jobs.append(Job(places[part], group[part], plan, start))
    return jobs


def _say_what_is_new(solver: Solver, instances: Sequence[Instance], arrays: Arrays, observer: Observer) -> None:
    """Say in one line where instances are outside what the solver's model knows."""
    said = solver.unfamiliar(instances[0].problem, arrays)
    names = [instance.name for instance, words in zip(instances, said, strict=True) if words is not None]
    if names:
        what = next(words for words in said if words is not None)
        others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        observer.note(f"{names[0]}{others} is new to the model '{solver.model_name}': {what}")


def part_of(job: Job, places: Sequence[int]) -> Job:
    """Return the part of a job at some of its places."""
    kept = [number for number, place in enumerate(job.places) if place in set(places)]
    start = None if job.start is None else job.start[kept]
    return Job(list(places), [job.instances[number] for number in kept], job.plan, start)


def to_originals(instances: Sequence[Instance], choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return choices (count, rows) of the instances of a job as those of the instances that were asked."""
    if all(instance.original is None for instance in instances):
        return choice
    return np.stack([to_original(instance, row) for instance, row in zip(instances, choice, strict=True)])
