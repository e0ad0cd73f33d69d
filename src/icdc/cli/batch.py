"""From instances to answers: group equal shapes, cut groups into jobs, solve and verify a job, keep the order."""

import inspect
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Instance
from ..errors import UsageError
from ..problem import Arrays, Problem
from ..problems import problem_path
from ..solver import Results, Solver
from ..solving.report import Answer
from ..solving.verify import verify
from .watch import Watch


@dataclass(frozen=True)
class Group:
    """Instances of one problem, shape and kind of number, with their places in the input."""

    places: list[int]
    instances: list[Instance]

    @property
    def problem(self) -> Problem:
        """The problem they share."""
        return self.instances[0].problem

    @property
    def arrays(self) -> Arrays:
        """Their arrays, stacked."""
        names = self.instances[0].arrays
        return {name: np.stack([instance.arrays[name] for instance in self.instances]) for name in names}


@dataclass(frozen=True)
class Plan:
    """How a group is to be solved: by whom, with which model, how many samples, from which seed.

    together : how many instances are solved in one call: enough to keep a device busy, few enough that answers
        appear while others wait. It depends on nothing but the plan, so a batch is always cut the same way.
    """

    solver: Solver
    model: str | None
    samples: int
    seed: int
    together: int = 32


@dataclass(frozen=True)
class Job:
    """Instances that are solved in one call, and the solutions (count, rows) they start from, if any."""

    group: Group
    plan: Plan
    start: NDArray[np.int64] | None = None

    @property
    def places(self) -> list[int]:
        """The places of the instances in the input."""
        return self.group.places


def grouped(instances: Sequence[Instance]) -> list[Group]:
    """Group instances that can be stacked; integers and reals stay apart, so that integers stay exact."""
    found: dict[Any, list[int]] = {}
    for place, instance in enumerate(instances):
        kinds = tuple((a.shape, np.issubdtype(a.dtype, np.integer)) for a in instance.arrays.values())
        found.setdefault((problem_path(instance.problem), kinds), []).append(place)
    return [Group(places, [instances[place] for place in places]) for places in found.values()]


def jobs_of(group: Group, plan: Plan, starts: Sequence[NDArray[np.int64]] | None = None) -> list[Job]:
    """Cut a group into jobs; `starts` are solutions by place in the input."""
    jobs = []
    for begin in range(0, len(group.places), plan.together):
        part = slice(begin, begin + plan.together)
        places = group.places[part]
        start = None if starts is None else np.stack([starts[place] for place in places])
        jobs.append(Job(Group(places, group.instances[part]), plan, start))
    return jobs


def run_jobs(jobs: Sequence[Job], time_limit: float | None, watch: Watch) -> Iterator[dict[int, Answer]]:
    """Do job after job, sharing out the time that is left by numbers of instances; Ctrl-C ends it."""
    begun = time.perf_counter()
    left = sum(len(job.places) for job in jobs)
    for job in jobs:
        share = None
        if time_limit is not None:
            share = max(0.01, time_limit - (time.perf_counter() - begun)) * len(job.places) / left
        left -= len(job.places)
        yield answer(job.group, job.plan, watch, time_limit=share, start=job.start)
        if watch.interrupted:
            return


def answer(
    group: Group,
    plan: Plan,
    watch: Watch,
    *,
    time_limit: float | None = None,
    start: NDArray[np.int64] | None = None,
) -> dict[int, Answer]:
    """Solve a group and verify every answer; never worse than the start (count, rows), if there is one.

    Returns
    -------
    An answer for each place of the group; only for those that have one, if Ctrl-C ended the search
    (`watch.interrupted` then tells).
    """
    problem, arrays = group.problem, group.arrays
    if not plan.solver.supports(problem):
        raise UsageError(f"the solver '{plan.solver.name}' does not solve '{problem.name}'")
    watch.begin(group)
    begun = time.perf_counter()
    results = _solve(plan, problem, arrays, time_limit, start, watch)
    seconds = (time.perf_counter() - begun) / len(group.places)
    choices = np.where(np.isfinite(results.cost)[:, None], results.choice, -1)
    bound = np.where(results.proven, results.cost, results.bound)
    verdicts = verify(problem, arrays, choices, bound)
    if start is not None:
        started = verify(problem, arrays, start, bound)
        choices = choices.copy()
        for i, (found, before) in enumerate(zip(verdicts, started, strict=True)):
            if found.objective is None or (before.objective is not None and before.objective < found.objective):
                verdicts[i], choices[i] = before, start[i]
    answers = {
        place: Answer(instance, choice, verdict, plan.samples, seconds, plan.seed, plan.solver.name, plan.model)
        for place, instance, choice, verdict in zip(group.places, group.instances, choices, verdicts, strict=True)
    }
    if watch.interrupted:  # what was not reached is not an answer
        return {place: found for place, found in answers.items() if found.verdict.feasible}
    return answers


def in_order(answers: Iterator[dict[int, Answer]]) -> Iterator[tuple[int, Answer]]:
    """Yield answers with their places in the order of the input, each as soon as all before it are there."""
    waiting: dict[int, Answer] = {}
    following = 0
    for found in answers:
        waiting.update(found)
        while following in waiting:
            yield following, waiting.pop(following)
            following += 1
    # after an interruption some places stay empty; what was found is still worth having
    for place in sorted(waiting):
        yield place, waiting[place]


def _solve(
    plan: Plan,
    problem: Problem,
    arrays: Arrays,
    time_limit: float | None,
    start: NDArray[np.int64] | None,
    watch: Watch,
) -> Results:
    """Call the solver with as much as it understands; after Ctrl-C, return what it had found by then."""
    understood = inspect.signature(plan.solver.solve).parameters
    extra: dict[str, Any] = {"start": start, "callback": watch}
    given = {name: value for name, value in extra.items() if value is not None and name in understood}
    try:
        results = plan.solver.solve(
            problem, arrays, samples=plan.samples, seed=plan.seed, time_limit=time_limit, **given
        )
        watch.interrupted = bool(results.extra.get("interrupted", False))
        return results
    except KeyboardInterrupt:
        watch.interrupted = True
    count, rows = len(next(iter(arrays.values()))), problem.shape(problem.size(arrays))[0]
    nothing = np.full(count, -np.inf)
    if watch.last is not None:
        choice, cost = watch.last.choice, watch.last.cost
    else:
        choice, cost = np.zeros((count, rows), dtype=np.int64), -nothing
    return Results(choice, cost, nothing, np.zeros(count, dtype=bool), 0.0)
