"""The way from instances to checked answers; every caller takes it: Python, the command line, a service.

Instances are cut into jobs, those of one problem, size and kind of number together; a job is solved in one call.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..problems.asked import in_words, objective, violation
from ..problems.contract import Arrays, Problem
from ..problems.forbidden import highest_cost, why_impossible
from ..problems.instance import Instance
from ..problems.restating import Restated, restate, why_restated_is_impossible
from .answer import Answer
from .solver import Improvement, Results, SolveCallback, Solver, at_once
from .verify import Verdict, lower_bounds, permitted

if TYPE_CHECKING:
    from .adapting import Adapt
    from .answers_file import AnswersFile
    from .cluster import Cluster


class Observer:
    """Hears how solving goes; every method may be overridden, and does nothing here."""

    def note(self, sentence: str) -> None:
        """Hear something that whoever asked should know, such as that instances are new to the model."""

    def adapted(self, sentence: str) -> None:
        """Hear what came of adapting the model to the instances, where that was asked for."""

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


class Known(NamedTuple):
    """What is known of a job's instances when it begins, where the model was adapted to them before.

    found_by : what found each solution that the job starts from.
    bound : (count,), proven lower bounds; −inf where there is none.
    seconds : what adapting took, for each instance.
    finished : the job is to be answered with what is known.
    interrupted : because Ctrl-C ended it.
    """

    found_by: tuple[str, ...]
    bound: NDArray[np.float64]
    seconds: float
    finished: bool = False
    interrupted: bool = False


@dataclass(frozen=True)
class Job:
    """Instances that can be stacked, with their places in the input and the solutions (count, rows) to start from.

    restated : how the instances were asked, where they may be solved as others; None where they are what was asked.
    """

    places: list[int]
    instances: list[Instance]
    plan: Plan
    start: NDArray[np.int64] | None = None
    known: Known | None = None
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
    adapt: "Adapt | None" = None,
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
    adapt : train the solver's model on the instances first; its seconds are a part of the time limit.
    """
    observer = observer or Observer()
    restated = [restate(instance) for instance in instances]
    if starts is not None:
        starts = [None if one is None else made.forth(one) for made, one in zip(restated, starts, strict=True)]
    jobs = plan_jobs(
        [made.solved for made in restated],
        solver,
        samples,
        seed,
        starts,
        observer,
        None if cluster is None else cluster.device_of(solver),
        restated,
    )

    def answers_of(some: Sequence[Job]) -> Iterator[dict[int, Answer]]:
        for answers in found_by_jobs(some):
            yield {place: _as_asked(answer, restated[place]) for place, answer in answers.items()}

    def found_by_jobs(some: Sequence[Job]) -> Iterator[dict[int, Answer]]:
        if cluster is not None:
            return cluster.do_all(some, time_limit)
        if adapt is None or not some:
            return do_all(some, time_limit, observer)
        from .adapting import adapt_jobs

        began = time.perf_counter()
        ready = adapt_jobs(some, adapt, observer)
        left = None if time_limit is None else max(0.01, time_limit - (time.perf_counter() - began))
        return do_all(ready, left, observer)

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


def stacked(instances: Sequence[Instance]) -> Arrays:
    """Return the arrays of instances of one size with a leading axis count."""
    return {name: np.stack([one.arrays[name] for one in instances]) for name in instances[0].arrays}


def _as_asked(answer: Answer, restated: Restated) -> Answer:
    """Return the answer of a restated instance as one of the instance that was asked, its objective computed afresh."""
    if restated.solved is restated.asked:
        return answer
    instance, bound = restated.asked, answer.bound
    choice = restated.back(answer.choice)
    if answer.feasible and (wrong := violation(instance, choice)) is not None:
        raise AssertionError(f"{instance.name}: what was solved is not what was asked: {wrong}")
    if not answer.feasible:
        words = in_words(instance)
        found = "every solution that was found uses a forbidden pair"
        found += "" if words is None else f" or does not keep to what is asked ({words})"
        cause = why_restated_is_impossible(restated) or (None if restated.solved.forbidden is None else found)
        return replace(answer, instance=instance, choice=choice, cause=cause)
    value = objective(instance, choice)
    value = value if restated.solved.integral else float(value)
    # costs of reals may differ in their last digits where they are added up in another order
    verdict = Verdict(True, value, value if answer.optimal else bound)
    return replace(answer, instance=instance, choice=choice, verdict=verdict)


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
        mine = None if asked is None else (type(asked[place].problem), _rows(asked[place]))
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
        rest = _job_of(job, [place for place in job.places if place not in impossible])
        return impossible | do(rest, time_limit, observer, late=late)
    problem, arrays, plan = job.problem, job.arrays, job.plan
    if late:
        return _answers(job, at_once(problem, arrays, job.start, interrupted=False), begun)
    known = job.known
    try:
        if plan.solver.abilities.bound or (known is not None and known.finished):
            bound = np.full(len(job.places), -np.inf)
        else:
            bound = lower_bounds(problem, arrays)
        if known is not None:
            bound = np.fmax(bound, known.bound)
        highest = np.array([highest_cost(instance) for instance in job.instances], dtype=np.float64)
        observer.begin(job, np.where(bound <= highest, bound, -np.inf))
        left = None if time_limit is None else max(0.001, time_limit - (time.perf_counter() - begun))
        if known is not None and known.finished:
            results = at_once(problem, arrays, job.start, bound, known.interrupted)
        else:
            results = plan.solver.solve(
                problem,
                arrays,
                samples=plan.samples,
                seed=plan.seed,
                time_limit=left,
                start=job.start,
                bound=None if plan.solver.abilities.bound and known is None else bound,
                callback=_without_stand_ins(highest, _with_places(job, observer.improved)),
            )
    except KeyboardInterrupt:  # before the solver had begun; while it searches, it sees to that itself
        results = at_once(problem, arrays, job.start)
    return _answers(job, results, begun)


def _answers(job: Job, results: Results, begun: float) -> dict[int, Answer]:
    """Return the checked answer of every place of a job."""
    plan = job.plan
    seconds = (time.perf_counter() - begun) / len(job.places) + (0.0 if job.known is None else job.known.seconds)
    judged = [
        permitted(verdict, instance, choice)
        for instance, choice, verdict in zip(job.instances, results.choice, results.verdicts(), strict=True)
    ]
    rows = zip(job.places, job.instances, results.choice, judged, _found_by(job, results.found_by), strict=True)
    return {
        place: Answer(
            instance, choice, verdict, plan.samples if results.samples is None else results.samples, seconds,
            plan.seed, plan.solver.name, results.model,
            interrupted=results.interrupted, found_by=found_by,
        )
        for place, instance, choice, verdict, found_by in rows
        if verdict.feasible or not results.interrupted
    }  # fmt: skip


def _found_by(job: Job, said: Sequence[str]) -> list[str]:
    """Return what found every answer; where it is what the job began with, what had found that."""
    if job.known is None:
        return list(said)
    return [first if by == "start" else by for by, first in zip(said, job.known.found_by, strict=True)]


def _without_solution(job: Job) -> dict[int, Answer]:
    """Return the answers for instances of a job whose forbidden pairs leave no solution."""
    plan, answers = job.plan, {}
    for place, instance in zip(job.places, job.instances, strict=True):
        if why_impossible(instance) is not None:
            nothing = np.full(_rows(instance), -1)
            verdict = Verdict(False, None, None)
            name, model = plan.solver.name, plan.solver.model_name
            answers[place] = Answer(instance, nothing, verdict, plan.samples, 0.0, plan.seed, name, model)
    return answers


def _job_of(job: Job, places: Sequence[int]) -> Job:
    """Return the part of a job at some of its places."""
    kept = [number for number, place in enumerate(job.places) if place in set(places)]
    start = None if job.start is None else job.start[kept]
    known = job.known
    if known is not None:
        known = known._replace(found_by=tuple(known.found_by[number] for number in kept), bound=known.bound[kept])
    restated = None if job.restated is None else [job.restated[number] for number in kept]
    return Job(list(places), [job.instances[number] for number in kept], job.plan, start, known, restated)


def _rows(instance: Instance) -> int:
    """Return how many rows a solution has."""
    return instance.problem.shape(instance.problem.size(instance.batch()))[0]


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
        by = None if improvement.found_by is None else _found_by(job, improvement.found_by)
        choice = back(job.restated, improvement.choice)
        return callback(replace(improvement, places=tuple(job.places), choice=choice, found_by=by))

    return told


def back(restated: Sequence[Restated] | None, choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return choices (count, rows) of the instances of a job as those of the instances that were asked."""
    if restated is None or all(made.solved is made.asked for made in restated):
        return choice
    return np.stack([made.back(row) for made, row in zip(restated, choice, strict=True)])


def do_all(jobs: Sequence[Job], time_limit: float | None, observer: Observer) -> Iterator[dict[int, Answer]]:
    """Do job after job, sharing out the time that is left by numbers of instances; Ctrl-C ends it."""
    begun = time.perf_counter()
    left = sum(len(job.places) for job in jobs)
    for job in jobs:
        share = None
        if time_limit is not None:
            share = max(0.01, time_limit - (time.perf_counter() - begun)) * len(job.places) / left
        late = time_limit is not None and time.perf_counter() - begun >= time_limit
        left -= len(job.places)
        answers = do(job, share, observer, late=late)
        yield answers
        if job.known is not None and job.known.finished:
            continue  # the others have been told to end, too
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


def _say_what_is_new(solver: Solver, instances: Sequence[Instance], arrays: Arrays, observer: Observer) -> None:
    """Say in one line where instances are outside what the solver's model knows."""
    said = solver.unfamiliar(instances[0].problem, arrays)
    names = [instance.name for instance, words in zip(instances, said, strict=True) if words is not None]
    if names:
        what = next(words for words in said if words is not None)
        others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        observer.note(f"{names[0]}{others} is new to the model '{solver.model_name}': {what}")
