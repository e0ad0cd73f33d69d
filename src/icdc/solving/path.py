"""The way from instances to checked answers; every caller takes it: Python, the command line, a service.

Instances are cut into jobs, those of one problem, size and kind of number together; a job is solved in one call.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..problems.conditions import in_words, objective, violation
from ..problems.forbidden import highest_cost, why_impossible
from ..problems.instance import Instance
from ..problems.restating import from_original, restate, to_original
from .answer import Answer
from .jobs import Job, Observer, part_of, plan_jobs, to_originals
from .request import Improvement, SolveCallback
from .results import Results, at_once
from .solver import Solver
from .verify import Verdict, lower_bounds, permitted

if TYPE_CHECKING:
    from .answers_file import AnswersFile
    from .cluster import Cluster

LOADING, MOST_LOADING = 1.0, 0.25
"""Seconds, and a part of the others' time, that the first job has more than its share, as it loads libraries."""


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
    solver : who answers them.
    samples : tries for each instance; None for as many as the solver takes by itself.
    time_limit : seconds for all instances together.
    starts : a solution (rows,) of every instance to begin from, or None for those without; no answer is worse.
    observer : hears how it goes.
    cluster : other machines that do the work.
    file : takes the answers as they come; they are then yielded in that order instead of the order of the input, and
        those that the file had before are not made again.
    """
    observer = observer or Observer()
    solved = [restate(instance) for instance in instances]
    if starts is not None:
        starts = [None if one is None else from_original(made, one) for made, one in zip(solved, starts, strict=True)]
    jobs = plan_jobs(
        solved,
        solver,
        samples,
        seed,
        starts,
        observer,
        None if cluster is None else cluster.device_of(solver),
    )

    def answers_of(some: Sequence[Job]) -> Iterator[dict[int, Answer]]:
        done = do_all(some, time_limit, observer) if cluster is None else cluster.do_all(some, time_limit)
        for answers in done:
            yield {place: _as_asked(answer, solved[place]) for place, answer in answers.items()}

    if file is None:
        yield from in_order(answers_of(jobs))
        return
    known = file.take_up(instances, jobs, time_limit is not None)
    # a job is done whole or not at all, so that a batch that was stopped ends like one that was not
    for fresh in answers_of([job for job in jobs if not known >= set(job.places)]):
        if any(answer.interrupted for answer in fresh.values()):
            yield from fresh.items()  # not for the file: the next call gives these instances their full effort
            return
        new = {place: answer for place, answer in fresh.items() if place not in known}
        file.append(new)
        yield from new.items()


def _as_asked(answer: Answer, solved: Instance) -> Answer:
    """Return the answer of a restated instance as one of the instance that was asked, its objective computed afresh."""
    instance, bound = solved.original, answer.bound
    if instance is None:
        return answer
    choice = to_original(solved, answer.choice)
    if answer.feasible and (wrong := violation(instance, choice)) is not None:
        raise AssertionError(f"{instance.name}: what was solved is not what was asked: {wrong}")
    if not answer.feasible:
        words = in_words(instance)
        found = "every solution that was found uses a forbidden pair"
        found += "" if words is None else f" or does not keep to what is asked ({words})"
        cause = why_impossible(solved) or (None if solved.forbidden is None else found)
        return replace(answer, instance=instance, choice=choice, cause=cause)
    value = objective(instance, choice)
    value = value if solved.integral else float(value)
    # costs of reals may differ in their last digits where they are added up in another order
    verdict = Verdict(True, value, value if answer.optimal else bound)
    return replace(answer, instance=instance, choice=choice, verdict=verdict)


def do(job: Job, time_limit: float | None, observer: Observer, *, late: bool = False) -> dict[int, Answer]:
    """Solve the instances of a job; return an answer for each place.

    After Ctrl-C only for those that have one, and they say so. Where it is too `late` for any search, the answer is
    what the problem's rule gives at once.
    """
    begun = time.perf_counter()
    impossible = _without_solution(job)
    if len(impossible) == len(job.places):
        return impossible
    if impossible:
        rest = part_of(job, [place for place in job.places if place not in impossible])
        return impossible | do(rest, time_limit, observer, late=late)
    problem, arrays, plan = job.problem, job.arrays, job.plan
    if late:
        return _answers(job, at_once(problem, arrays, job.start, interrupted=False), begun)
    try:
        bound = None if plan.solver.abilities.bound else lower_bounds(problem, arrays)
        highest = np.array([highest_cost(instance) for instance in job.instances], dtype=np.float64)
        known = np.full(len(job.places), -np.inf) if bound is None else bound
        observer.begin(job, np.where(known <= highest, known, -np.inf))
        left = None if time_limit is None else max(0.001, time_limit - (time.perf_counter() - begun))
        results = plan.solver.solve(
            problem,
            arrays,
            samples=plan.samples,
            seed=plan.seed,
            time_limit=left,
            start=job.start,
            bound=bound,
            callback=_without_stand_ins(highest, _with_places(job, observer.improved)),
        )
    except KeyboardInterrupt:  # before the solver had begun; while it searches, it sees to that itself
        results = at_once(problem, arrays, job.start)
    return _answers(job, results, begun)


def _answers(job: Job, results: Results, begun: float) -> dict[int, Answer]:
    """Return the checked answer of every place of a job."""
    plan = job.plan
    seconds = (time.perf_counter() - begun) / len(job.places)
    judged = [
        permitted(verdict, instance, choice)
        for instance, choice, verdict in zip(job.instances, results.choice, results.verdicts(), strict=True)
    ]
    rows = zip(job.places, job.instances, results.choice, judged, results.found_by, strict=True)
    return {
        place: Answer(
            instance, choice, verdict, plan.samples if results.samples is None else results.samples, seconds,
            plan.seed, plan.solver.name, results.model,
            interrupted=results.interrupted, found_by=found_by,
        )
        for place, instance, choice, verdict, found_by in rows
        if verdict.feasible or not results.interrupted
    }  # fmt: skip


def _without_solution(job: Job) -> dict[int, Answer]:
    """Return the answers for instances of a job whose forbidden pairs leave no solution."""
    plan, answers = job.plan, {}
    for place, instance in zip(job.places, job.instances, strict=True):
        if why_impossible(instance) is not None:
            nothing = np.full(instance.shape[0], -1)
            verdict = Verdict(False, None, None)
            name, model = plan.solver.name, plan.solver.model_name
            answers[place] = Answer(instance, nothing, verdict, plan.samples, 0.0, plan.seed, name, model)
    return answers


def _without_stand_ins(highest: NDArray[np.float64], callback: SolveCallback) -> SolveCallback:
    """Return a callback that never hears of a number that stands in for a forbidden pair: it is told infinity.

    highest : (count,), what permitted solutions cost at most; infinite where all pairs are permitted.
    """
    if np.isinf(highest).all():
        return callback

    def told(improvement: Improvement) -> bool | None:
        cost = np.where(improvement.cost <= highest, improvement.cost, np.inf)
        bound = improvement.bound
        bound = None if bound is None else np.where(bound <= highest, bound, -np.inf)
        return callback(replace(improvement, cost=cost, bound=bound))

    return told


def _with_places(job: Job, callback: SolveCallback) -> SolveCallback:
    """Return a callback that hears, too, where in the input the instances of a job are, and of choices as asked."""

    def told(improvement: Improvement) -> bool | None:
        choice = to_originals(job.instances, improvement.choice)
        return callback(replace(improvement, places=tuple(job.places), choice=choice))

    return told


def do_all(jobs: Sequence[Job], time_limit: float | None, observer: Observer) -> Iterator[dict[int, Answer]]:
    """Do job after job, sharing out the time that is left by numbers of instances; Ctrl-C ends it."""
    begun = time.perf_counter()
    left = sum(len(job.places) for job in jobs)
    for number, job in enumerate(jobs):
        share = None
        if time_limit is not None:
            share = max(0.01, time_limit - (time.perf_counter() - begun)) * len(job.places) / left
            if number == 0:
                share += min(LOADING, MOST_LOADING * (time_limit - share))
        late = time_limit is not None and time.perf_counter() - begun >= time_limit
        left -= len(job.places)
        answers = do(job, share, observer, late=late)
        yield answers
        if len(answers) < len(job.places) or any(answer.interrupted for answer in answers.values()):
            return


def in_order(answers: Iterator[dict[int, Answer]]) -> Iterator[tuple[int, Answer]]:
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
