"""The way from instances to checked answers; every caller takes it: Python, the command line, a service.

Instances are cut into jobs, those of one problem, size and kind of number together; a job is solved in one call.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..problems.base import Arrays, Problem
from ..problems.conditions import in_words, violation
from ..problems.forbidden import forbidden_pair, highest_cost, why_impossible
from ..problems.instance import Instance
from ..problems.restating import from_original, restate, to_original
from .answer import Answer, lower_bounds, make_answer, value_of
from .solver import Improvement, Request, Result, Solver

if TYPE_CHECKING:
    from .cluster import Cluster
    from .resume import AnswersFile

LOADING, MOST_LOADING = 1.0, 0.25
"""Seconds, and a part of the others' time, that the first job has more than its share, as it loads libraries."""


@dataclass(frozen=True)
class Job:
    """Instances that are solved in one call, and how.

    places : where they are in the input.
    instances : plain ones, as solvers take them; those with conditions are the `original` of another.
    solver, samples, seed : what solves them, ready to start, with how many samples, from which seed.
    start : (count, rows), solutions of these to begin from.
    """

    places: list[int]
    instances: list[Instance]
    solver: Solver
    samples: int
    seed: int
    start: NDArray[np.int64] | None = None

    @cached_property
    def originals(self) -> list[Instance]:
        """The instances as the caller gave them, with their conditions."""
        return [one.original or one for one in self.instances]

    @property
    def problem(self) -> Problem:
        """The problem that is solved."""
        return self.instances[0].problem

    @cached_property
    def arrays(self) -> Arrays:
        """The arrays that are solved, stacked."""
        return stack(self.instances)

    def for_originals(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return choices (count, rows) of the instances as choices of their originals."""
        return np.stack([to_original(one, row) for one, row in zip(self.instances, choice, strict=True)])

    def part(self, kept: Sequence[int]) -> "Job":
        """Return the part of the job with some of its instances, by their numbers in it."""
        places, some = [self.places[number] for number in kept], [self.instances[number] for number in kept]
        start = None if self.start is None else self.start[list(kept)]
        return replace(self, places=places, instances=some, start=start)


class Observer:
    """Hears how solving goes; every method may be overridden, and does nothing here."""

    def note(self, sentence: str) -> None:
        """Hear what the caller should know, such as that instances are new to the model."""

    def begin(self, job: Job, bound: NDArray[np.float64]) -> None:
        """Hear that a job begins, and the lower bounds (count,) known before it; −inf where there is none."""

    def improved(self, improvement: Improvement) -> bool | None:
        """Hear of an improvement; returning True ends the search of the job once every instance has an answer."""
        return None


def solve_instances(
    instances: Sequence[Instance],
    solver: Solver,
    *,
    samples: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    starts: Sequence[NDArray[np.int64] | None] | None = None,
    observer: Observer | None = None,
    cluster: "Cluster | None" = None,
    file: "AnswersFile | None" = None,
) -> Iterator[tuple[int, Answer]]:
    """Yield a checked answer for every instance, with the instance's place in the input.

    Instances of one size are solved together, each size by the model that suits it. Ctrl-C ends it; what was found by
    then is still yielded, and says that it was interrupted.

    Parameters
    ----------
    instances : of any problems and sizes, each with its conditions.
    samples : tries for each instance; None for as many as the solver takes by itself.
    time_limit : seconds for all instances together.
    starts : a solution (rows,) of every instance to begin from, or None for those without; no answer is worse.
    observer : hears how it goes.
    cluster : other machines that do the work.
    file : takes the answers as they come; they are then yielded in that order instead of the order of the input, and
        those that the file had before are not made again.
    """
    observer = observer or Observer()
    remote = None if cluster is None else cluster.device_of(solver)
    jobs = cut_jobs(instances, solver, samples, seed, starts, observer, remote)

    def answers_of(some: Sequence[Job]) -> Iterator[dict[int, Answer]]:
        return do_all(some, time_limit, observer) if cluster is None else cluster.do_all(some, time_limit)

    if file is None:
        yield from in_order(answers_of(jobs))
        return
    before = file.take_up(instances, jobs, time_limit is not None)
    # a job is done whole or not at all, so that a batch that was stopped ends like one that was not
    for fresh in answers_of([job for job in jobs if not before >= set(job.places)]):
        if any(answer.interrupted for answer in fresh.values()):
            yield from fresh.items()  # not for the file: the next call gives these instances their full effort
            return
        new = {place: answer for place, answer in fresh.items() if place not in before}
        file.append(new)
        yield from new.items()


def cut_jobs(
    instances: Sequence[Instance],
    solver: Solver,
    samples: int | None,
    seed: int,
    starts: Sequence[NDArray[np.int64] | None] | None,
    observer: Observer,
    remote: str | None = None,
) -> list[Job]:
    """Cut instances into jobs, always the same way for the same instances, and say what is new to the solver.

    remote : the kind of device on which other machines will do the jobs, if they do.
    """
    jobs = []
    solved = [restate(instance) for instance in instances]
    begins = [None] * len(instances) if starts is None else starts
    for places in group_alike(solved, [start is not None for start in begins]):
        group = [solved[place] for place in places]
        problem, arrays = group[0].problem, stack(group)
        size = problem.size(arrays)
        ready = solver.prepare(problem, size, None if remote is None else "cpu")
        _note_what_is_new(ready, group, arrays, observer)
        tries = solver.default_samples if samples is None else samples
        most = ready.batch_size(problem, size, tries, remote)
        for begin in range(0, len(places), most):
            part = places[begin : begin + most]
            begun = [from_original(solved[place], one) for place in part if (one := begins[place]) is not None]
            start = np.stack(begun) if begun else None
            jobs.append(Job(part, group[begin : begin + most], ready, tries, seed, start))
    return jobs


def stack(instances: Sequence[Instance]) -> Arrays:
    """Return the arrays of instances of one size with a leading axis count."""
    return {name: np.stack([one.arrays[name] for one in instances]) for name in instances[0].arrays}


def group_alike(instances: Sequence[Instance], begun: Sequence[bool]) -> list[list[int]]:
    """Group the places of instances that can be solved together, with or without a solution to begin from.

    Integers and reals stay apart, so that integers stay exact, and so do those whose originals are of different sizes.
    """
    groups: dict[Any, list[int]] = {}
    for place, instance in enumerate(instances):
        kinds = tuple((a.shape, np.issubdtype(a.dtype, np.integer)) for a in instance.arrays.values())
        # problems of one class are alike unless they hold something of their own
        problem, original = instance.problem, instance.original or instance
        kind = id(problem) if vars(problem) else type(problem)
        key = (kind, kinds, type(original.problem), original.shape[0], begun[place])
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _note_what_is_new(solver: Solver, instances: Sequence[Instance], arrays: Arrays, observer: Observer) -> None:
    """Say in one line where instances are outside what the solver's model knows."""
    sentences = solver.unfamiliar(instances[0].problem, arrays)
    new = [(one.name, words) for one, words in zip(instances, sentences, strict=True) if words is not None]
    if new:
        name, words = new[0]
        others = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
        observer.note(f"{name}{others} is new to the model '{solver.model_name}': {words}")


def do_all(jobs: Sequence[Job], time_limit: float | None, observer: Observer) -> Iterator[dict[int, Answer]]:
    """Do job after job, sharing out the time that is left by numbers of instances; Ctrl-C ends it."""
    began = time.perf_counter()
    left = sum(len(job.places) for job in jobs)
    for number, job in enumerate(jobs):
        share = None
        if time_limit is not None:
            share = max(0.01, time_limit - (time.perf_counter() - began)) * len(job.places) / left
            if number == 0:
                share += min(LOADING, MOST_LOADING * (time_limit - share))
        late = time_limit is not None and time.perf_counter() - began >= time_limit
        left -= len(job.places)
        answers = do(job, share, observer, late=late)
        yield answers
        if len(answers) < len(job.places) or any(answer.interrupted for answer in answers.values()):
            return


def do(job: Job, time_limit: float | None, observer: Observer, *, late: bool = False) -> dict[int, Answer]:
    """Solve the instances of a job; return an answer for each place.

    After Ctrl-C only for those that have one, and they say so. Where it is too `late` for any search, the answer is
    what the problem's rule gives at once.
    """
    began = time.perf_counter()
    possible = [number for number, one in enumerate(job.instances) if why_impossible(one) is None]
    impossible = {
        job.places[number]: _answer(job, number, np.full(one.shape[0], -1), None, -np.inf)
        for number, one in enumerate(job.instances)
        if number not in set(possible)
    }
    if impossible:
        job = job.part(possible)
    if not possible:
        return impossible
    result = _result(job, time_limit, observer, began, late)
    seconds = (time.perf_counter() - began) / len(job.places)
    about = {
        "samples": job.samples if result.samples is None else result.samples,
        "seconds": seconds,
        "model": result.model,
        "interrupted": result.interrupted,
    }
    answers = {
        place: _answer(job, number, result.choice[number], result.exact_cost[number].item() if ok else None,
                       result.bound[number], found_by=result.found_by[number] or None, **about)
        for number, (place, ok) in enumerate(zip(job.places, result.solved.tolist(), strict=True))
    }  # fmt: skip
    return impossible | {place: one for place, one in answers.items() if one.feasible or not result.interrupted}


def _result(job: Job, time_limit: float | None, observer: Observer, began: float, late: bool) -> Result:
    """Return what the solver of a job finds; without any search where it is too late, or was interrupted before."""
    interrupted = False
    try:
        if not late:
            return _searched(job, time_limit, observer, began)
    except KeyboardInterrupt:  # before the solver had begun; while it searches, it sees to that itself
        interrupted = True
    request = Request(job.problem, job.arrays, start=job.start)
    request.answer_at_once()
    request.result.interrupted, request.result.samples = interrupted, 0
    return request.check()


def _searched(job: Job, time_limit: float | None, observer: Observer, began: float) -> Result:
    """Return what the solver of a job finds, while the observer hears of it."""
    bound = None if job.solver.abilities.bound else lower_bounds(job.problem, job.arrays)
    highest = np.array([highest_cost(one) for one in job.instances], dtype=np.float64)
    low = np.full(len(job.places), -np.inf) if bound is None else bound
    observer.begin(job, np.where(low <= highest, low, -np.inf))

    def improved(best: Improvement) -> bool | None:
        # numbers that stand in for forbidden pairs are never shown
        cost = np.where(best.cost <= highest, best.cost, np.inf)
        low = np.where(best.bound <= highest, best.bound, -np.inf)
        choice, places = job.for_originals(best.choice), tuple(job.places)
        return observer.improved(replace(best, cost=cost, choice=choice, bound=low, places=places))

    return job.solver.solve(
        job.problem,
        job.arrays,
        samples=job.samples,
        seed=job.seed,
        time_limit=None if time_limit is None else max(0.001, time_limit - (time.perf_counter() - began)),
        start=job.start,
        bound=bound,
        callback=improved,
    )


def _answer(
    job: Job, number: int, solution: NDArray[np.int64], value: int | float | None, bound: float, **made: Any
) -> Answer:
    """Return the answer of an instance of a job, by its number in it, from a choice (rows,) of what was solved."""
    solved, instance = job.instances[number], job.originals[number]
    choice = to_original(solved, solution)
    if value is not None and forbidden_pair(solved, solution) is not None:
        value = None
    if value is not None and solved is not instance:
        value = value_of(instance, solved, choice)
        if value is None:
            wrong = violation(instance, choice)
            raise AssertionError(f"{instance.name}: what was solved is not what was asked: {wrong}")
    usual = {"samples": job.samples, "seed": job.seed, "solver": job.solver.name, "model": job.solver.model_name}
    answer = make_answer(instance, solved, choice, value, bound, **(usual | made))
    if solved is instance or answer.feasible:
        return answer
    words = in_words(instance)
    cause = "every solution that was found uses a forbidden pair"
    cause += "" if words is None else f" or does not keep to what is asked ({words})"
    return replace(answer, cause=why_impossible(solved) or (None if solved.forbidden is None else cause))


def in_order(answers: Iterable[dict[int, Answer]]) -> Iterator[tuple[int, Answer]]:
    """Yield answers with their places in the order of the input, each as soon as all before it are there."""
    waiting: dict[int, Answer] = {}
    following = 0
    for fresh in answers:
        waiting.update(fresh)
        while following in waiting:
            yield following, waiting.pop(following)
            following += 1
    # after an interruption some places stay empty; what was found is still worth having
    for place in sorted(waiting):
        yield place, waiting[place]
