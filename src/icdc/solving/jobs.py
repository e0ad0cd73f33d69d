"""Jobs: instances of one problem, size and kind of number, which are solved in one call, and how they are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problems.base import Arrays, Problem
from ..problems.instance import Instance
from ..problems.restating import Restated
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
    """Instances that can be stacked, with their places in the input and the solutions (count, rows) to start from.

    restated : how the instances were asked, where they may be solved as others; None where they are what was asked.
    """

    places: list[int]
    instances: list[Instance]
    plan: Plan
    start: NDArray[np.int64] | None = None
    restated: list[Restated] | None = None

    @property
    def problem(self) -> Problem:
        """The problem they share."""
        return self.instances[0].problem

    @property
    def meant(self) -> list[Instance]:
        """The instances as they were asked."""
        return self.instances if self.restated is None else [made.asked for made in self.restated]

    @property
    def arrays(self) -> Arrays:
        """Their arrays, stacked."""
        return stacked(self.instances)


def stacked(instances: Sequence[Instance]) -> Arrays:
    """Return the arrays of instances of one size with a leading axis count."""
    return {name: np.stack([one.arrays[name] for one in instances]) for name in instances[0].arrays}


def alike(
    instances: Sequence[Instance], asked: Sequence[Instance] | None = None, begun: Sequence[bool] | None = None
) -> list[list[int]]:
    """Group the places of instances that can be stacked; integers and reals stay apart, so that integers stay exact.

    asked : what they stand for, of which the sizes are not mixed, either.
    begun : whether each has a solution to begin from; those with and without are not mixed.
    """
    found: dict[Any, list[int]] = {}
    for place, instance in enumerate(instances):
        kinds = tuple((a.shape, np.issubdtype(a.dtype, np.integer)) for a in instance.arrays.values())
        # problems of one class are alike unless they hold something of their own
        problem = instance.problem
        mine = None if asked is None else (type(asked[place].problem), asked[place].shape[0])
        started = begun is not None and begun[place]
        key = (id(problem) if vars(problem) else type(problem), kinds, mine, started)
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
    restated: Sequence[Restated] | None = None,
) -> list[Job]:
    """Cut instances into jobs, always the same way for the same instances, and say what is new to the solver.

    starts : solutions by place in the input, None where there is none.
    remote_device : the kind of device on which other machines will do the jobs, if they do.
    restated : how the instances were asked, where they may stand for others.
    """
    jobs = []
    asked = None if restated is None else [made.asked for made in restated]
    begins = [None] * len(instances) if starts is None else starts
    for places in alike(instances, asked, [one is not None for one in begins]):
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
            made = None if restated is None else [restated[place] for place in places[part]]
            jobs.append(Job(places[part], group[part], plan, start, restated=made))
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
    restated = None if job.restated is None else [job.restated[number] for number in kept]
    return Job(list(places), [job.instances[number] for number in kept], job.plan, start, restated)


def back(restated: Sequence[Restated] | None, choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return choices (count, rows) of the instances of a job as those of the instances that were asked."""
    if restated is None or all(made.solved is made.asked for made in restated):
        return choice
    return np.stack([made.back(row) for made, row in zip(restated, choice, strict=True)])
