"""What is solved is what was asked: every restatement against all solutions of tiny instances, counted out by hand."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise, permutations, product
from typing import Any

import numpy as np
import pytest

import icdc
from icdc.errors import IcdcError, InfeasibleError
from icdc.problems.atsp import Atsp
from icdc.problems.conditions import changes, cost, in_words, objective, violation, with_conditions
from icdc.problems.forbidden import forbidden_pair, highest_cost
from icdc.problems.instance import Conditions, Instance
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.problems.restating import from_original, restate, to_original
from icdc.problems.sequencing import FlowShop, Setups
from icdc.solvers import make_solver
from icdc.solving.answer import judge, judge_answer
from icdc.solving.jobs import solve_instances

Words = dict[str, Any]
"""A solution in plain words: its order or its machines, what it costs, how many changes, what is weighed."""


def tours(instance: Instance, asked: Conditions) -> Iterator[Words]:
    """Yield every tour or path that keeps to what is asked, by the matrix alone."""
    matrix = instance.problem.cost_matrix(instance.batch())[0].tolist()  # type: ignore[index]
    size = len(matrix)
    for order in permutations(range(size)):
        if not asked.open and asked.first is None and asked.last is None and order[0] != 0:
            continue  # where a tour begins means nothing
        if asked.first is not None and order[0] != asked.first:
            continue
        if asked.last is not None and order[-1] != asked.last:
            continue
        if not asked.open and asked.first is None and asked.last is not None and order[-1] != asked.last:
            continue
        steps = list(zip(order, order[1:] if asked.open else [*order[1:], order[0]], strict=False))
        if any(instance.forbidden is not None and instance.forbidden[step] for step in steps):
            continue
        if not set(asked.fixed) <= set(steps):
            continue
        total = sum(matrix[i][j] for i, j in steps)
        new = 0
        if asked.before is not None:
            new = sum(asked.before[i] != j for i, j in steps)
        yield {"solution": list(order), "cost": total, "changes": new, "objective": total + (asked.stay or 0) * new}


def schedules(instance: Instance, asked: Conditions) -> Iterator[Words]:
    times = instance.arrays["durations"].tolist()
    jobs, machines = len(times), len(times[0])
    for chosen in product(range(machines), repeat=jobs):
        if any(instance.forbidden is not None and instance.forbidden[pair] for pair in enumerate(chosen)):
            continue
        if any(chosen[job] != machine for job, machine in asked.fixed):
            continue
        moved = [asked.before is not None and asked.before[job] != chosen[job] for job in range(jobs)]
        ends = []
        for weight in (0, asked.stay or 0):
            loads = list(asked.busy or [0] * machines)
            for job, machine in enumerate(chosen):
                loads[machine] += times[job][machine] + (weight if moved[job] else 0)
            ends.append(max(loads))
        yield {"solution": list(chosen), "cost": ends[0], "changes": sum(moved), "objective": ends[1]}


def flow_shop_end(times: list[list[float]]) -> float:
    """Return when the last job of a no-wait flow shop is done, trying later and later beginnings of each job."""
    taken: list[list[tuple[float, float]]] = [[] for _ in times[0]]
    end, earliest = 0.0, 0.0
    for job in times:
        # a job can begin at any of these moments or never: when some machine becomes free just as it arrives
        offsets = [sum(job[:place]) for place in range(len(job))]
        moments = {earliest} | {free - offset for rows, offset in zip(taken, offsets, strict=True) for _, free in rows}
        for begin in sorted(moment for moment in moments if moment >= earliest):
            mine = [(begin + offset, begin + offset + time) for offset, time in zip(offsets, job, strict=True)]
            if all(start >= free for rows, (start, _) in zip(taken, mine, strict=True) for _, free in rows):
                break
        for rows, span in zip(taken, mine, strict=True):
            rows.append(span)
        end, earliest = max(end, mine[-1][1]), begin
    return end


def one_machine_end(instance: Instance, order: tuple[int, ...]) -> float:
    setups, times, initial = (instance.arrays[name].tolist() for name in ("setups", "durations", "initial"))
    now = initial[order[0]] + times[order[0]]
    for before, job in pairwise(order):
        now += setups[before][job] + times[job]
    return now


def sequences(instance: Instance, asked: Conditions) -> Iterator[Words]:
    flow = isinstance(instance.problem, FlowShop)
    jobs = len(instance.arrays["durations"])
    times = instance.arrays["durations"].tolist()
    for order in permutations(range(jobs)):
        steps = list(pairwise(order))
        marked = instance.forbidden
        if marked is not None and (any(marked[step] for step in steps) or marked[jobs, order[0]]):
            continue
        if asked.first not in (None, order[0]) or asked.last not in (None, order[-1]):
            continue
        if not set(asked.fixed) <= set(steps):
            continue
        end = flow_shop_end([times[job] for job in order]) if flow else one_machine_end(instance, order)
        new = 0 if asked.before is None else sum(asked.before[i] != j for i, j in steps)
        yield {"solution": list(order), "cost": end, "changes": new, "objective": end + (asked.stay or 0) * new}


def all_of(instance: Instance) -> list[Words]:
    asked = instance.conditions or Conditions()
    makers: dict[type, Callable[[Instance, Conditions], Iterator[Words]]] = {
        Atsp: tours, Navigation: tours, Pmsp: schedules, FlowShop: sequences, Setups: sequences,
    }  # fmt: skip
    return list(makers[type(instance.problem)](instance, asked))


def plain(kind: type, rng: np.random.Generator, size: int, real: bool = False, masked: bool = False) -> Instance:
    """Return a tiny instance, its numbers drawn from few so that there are ties."""
    problem = kind()
    sizes = (size, int(rng.integers(1, 4))) if len(problem.size_names) > 1 else (size,)
    arrays = problem.check(problem.sample(1, sizes, rng))
    if kind is not Navigation:
        arrays = problem.check({name: rng.integers(0, 12, array.shape) for name, array in arrays.items()})
        arrays = {name: array + rng.random(array.shape) if real else array for name, array in arrays.items()}
    instance = Instance("tiny", problem, {name: array[0] for name, array in problem.check(arrays).items()})
    if masked and kind in (Atsp, Pmsp, Setups):
        from icdc.problems.forbidden import with_stand_ins

        mask = rng.random(problem.shape(problem.size(instance.batch()))) < 0.2
        if kind is not Pmsp:
            np.fill_diagonal(mask, False)
        if kind is Setups:
            mask[:, -1] = False  # anything may come last
        if mask.any():
            instance = replace(instance, arrays=with_stand_ins(problem, instance.arrays, mask), forbidden=mask)
    return instance


def random_wishes(
    instance: Instance, rng: np.random.Generator, only: tuple[str, ...] | None = None, whole: bool = False
) -> dict[str, Any]:
    """Return random things to ask for, some of which may contradict each other."""
    problem = instance.problem
    rows, columns = problem.named(problem.size(instance.batch()))
    tour = problem.structure == "tour"
    possible = ["fixed", "stay"]
    possible += ["first", "last"] if tour else ["busy"]
    possible += ["open"] if tour and not problem.restated else []
    wanted = [word for word in possible if rng.random() < 0.5] if only is None else [w for w in only if w in possible]
    given: dict[str, Any] = {}
    for word in wanted:
        if word == "fixed":
            count = int(rng.integers(1, 3))
            given[word] = [
                (int(rng.integers(rows)), int(rng.integers(rows if tour else columns))) for _ in range(count)
            ]
        elif word == "stay":
            given[word] = int(rng.integers(0, 6)) if whole or rng.random() < 0.7 else float(rng.random() * 5)
        elif word == "busy":
            given[word] = [int(rng.integers(0, 9)) * (rng.random() < 0.7) for _ in range(columns)]
        elif word == "open":
            given[word] = True
        else:
            given[word] = int(rng.integers(rows))
    return given


def asked_of(instance: Instance, wishes: dict[str, Any], rng: np.random.Generator) -> Instance | None:
    """Return an instance with conditions; None if they are refused as contradictory."""
    problem = instance.problem
    rows, columns = problem.named(problem.size(instance.batch()))
    earlier = (
        rng.permutation(rows).tolist() if problem.structure == "tour" else rng.integers(columns, size=rows).tolist()
    )
    start = None if wishes.get("stay") is None else (lambda one: one.choice(earlier))
    try:
        return with_conditions(instance, wishes, start)[0]
    except IcdcError:
        return None


def choices(solved: Instance) -> Iterator[np.ndarray]:
    """Yield every choice of a plain instance that uses no forbidden pair."""
    rows, columns = solved.problem.shape(solved.problem.size(solved.batch()))
    if solved.problem.structure == "tour":
        found = (np.array(solved.problem.choice([0, *order])) for order in permutations(range(1, rows)))
    else:
        found = (np.array(chosen) for chosen in product(range(columns), repeat=rows))
    yield from (choice for choice in found if forbidden_pair(solved, choice) is None)


KINDS = (Atsp, Pmsp, Navigation, FlowShop, Setups)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_restating_loses_nothing_adds_nothing_and_costs_the_same(kind: type) -> None:
    """The permitted solutions of what is solved are those of what was asked, one to one, at the same cost."""
    rng = np.random.default_rng(3)
    compared = 0
    while compared < 40:
        instance = plain(kind, rng, int(rng.integers(2, 5)), real=rng.random() < 0.2, masked=rng.random() < 0.4)
        asked = asked_of(instance, random_wishes(instance, rng), rng)
        if asked is None:
            continue
        wanted = {tuple(words["solution"]): words for words in all_of(asked)}
        made = restate(asked)
        assert made.conditions is None
        found = {}
        for choice in choices(made):
            back = to_original(made, choice)
            assert violation(asked, back) is None
            assert np.array_equal(from_original(made, back), choice)
            solution = tuple(asked.solution(back))
            assert solution not in found
            assert np.array_equal(asked.choice(list(solution)), back)
            found[solution] = back
            feasible, total = judge(made.problem, made.batch(), choice[None])
            assert feasible[0]
            words = wanted[solution]
            assert total[0] == pytest.approx(words["objective"], abs=1e-9) == objective(asked, back)
            assert total[0] <= highest_cost(made)
            assert cost(asked, back) == pytest.approx(words["cost"], abs=1e-9)
            if asked.conditions is not None and asked.conditions.stay is not None:
                assert changes(asked, back) == words["changes"]
        assert found.keys() == wanted.keys()
        compared += 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_answers_are_the_best_of_all(kind: type) -> None:
    """Through the whole path: proven optimal, the objective of the best by hand, or infeasible where there is none."""
    rng = np.random.default_rng(7)
    instances = []
    while len(instances) < 25:
        instance = plain(kind, rng, int(rng.integers(2, 5)), masked=rng.random() < 0.3)
        # schedules of real times are rarely proven
        asked = asked_of(instance, random_wishes(instance, rng, whole=kind is Pmsp), rng)
        if asked is not None:
            instances.append(replace(asked, name=f"tiny {len(instances)}"))
    answers = dict(solve_instances(instances, make_solver("icdc")))
    assert any(answer.feasible for answer in answers.values())
    for place, instance in enumerate(instances):
        answer, wanted = answers[place], all_of(instance)
        assert answer.instance is instance
        assert answer.feasible == bool(wanted)
        if not wanted:
            assert answer.reason
            continue
        best = min(words["objective"] for words in wanted)
        assert answer.objective == pytest.approx(best, abs=1e-9)
        assert answer.optimal
        (mine,) = [words for words in wanted if words["solution"] == answer.solution]
        assert answer.cost == pytest.approx(mine["cost"], abs=1e-9)
        if answer.changes is not None:
            assert answer.changes == mine["changes"]
        assert isinstance(answer.objective, int) == restate(instance).integral
        again = judge_answer(instance, answer.choice)
        assert (again.feasible, again.objective) == (True, answer.objective)
        assert again.bound is None or again.bound <= best + 1e-9


WISHES = ("fixed", "stay", "open", "first", "last", "busy")


@pytest.mark.parametrize("kind", [Atsp, Pmsp, FlowShop, Setups], ids=lambda kind: kind.name)
def test_every_pair_of_wishes_goes_together(kind: type) -> None:
    """Each pair of options that a problem knows is met, and has the solutions that keep to both."""
    rng = np.random.default_rng(11)
    for pair in combinations(WISHES, 2):
        for _ in range(30):
            instance = plain(kind, rng, 4)
            wishes = random_wishes(instance, rng, pair)
            asked = asked_of(instance, wishes, rng)
            if asked is not None:
                break
        assert asked is not None
        made = restate(asked)
        best = min((words["objective"] for words in all_of(asked)), default=None)
        costs = [judge(made.problem, made.batch(), c[None])[1][0] for c in choices(made)]
        assert min(costs, default=None) == (best if best is None else pytest.approx(best))


def test_whole_numbers_stay_whole() -> None:
    rng = np.random.default_rng(0)
    tour, schedule = plain(Atsp, rng, 4), plain(Pmsp, rng, 4)
    machines = schedule.arrays["durations"].shape[1]
    assert restate(with_conditions(tour, {"open": True, "first": 1})[0]).integral
    assert restate(with_conditions(tour, {"stay": 2.0}, lambda one: one.choice([0, 1, 2, 3]))[0]).integral
    assert not restate(with_conditions(tour, {"stay": 0.5}, lambda one: one.choice([0, 1, 2, 3]))[0]).integral
    assert restate(with_conditions(schedule, {"busy": [3] * machines})[0]).integral
    assert not restate(with_conditions(schedule, {"busy": [2.5] * machines})[0]).integral


def test_a_fixed_step_forbids_all_others_of_its_two_cities() -> None:
    """One of the two would do; both tell solvers and bounds more."""
    asked, _ = with_conditions(plain(Atsp, np.random.default_rng(0), 4), {"fixed": {0: 2}})
    forbidden = restate(asked).forbidden
    assert forbidden is not None
    assert np.argwhere(forbidden).tolist() == [[0, 1], [0, 3], [1, 2], [3, 2]]


def test_nothing_is_restated_where_nothing_is_asked() -> None:
    instance = plain(Pmsp, np.random.default_rng(0), 3)
    made = restate(instance)
    assert made is instance
    choice = np.array([0, 0, 0])
    assert to_original(made, choice) is choice
    assert from_original(made, choice) is choice
    assert in_words(instance) is None
    assert changes(instance, choice) is None


def test_a_step_back_into_a_path_may_be_forbidden() -> None:
    """The return of an open path is no step: what the matrix says of it does not count."""
    matrix = np.array([[0, 1, 5], [9, 0, 1], [9, 9, 0]])
    forbidden = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], dtype=bool)
    instance = Instance("x", Atsp(), {"distances": matrix}, forbidden=forbidden)
    for wishes in ({"open": True}, {"open": True, "first": 0}, {"open": True, "last": 2}):
        asked, _ = with_conditions(instance, wishes)
        (answer,) = [answer for _, answer in solve_instances([asked], make_solver("icdc"))]
        assert (answer.solution, answer.objective, answer.optimal) == ([0, 1, 2], 2, True)
    asked, _ = with_conditions(instance, {"open": True, "first": 2})
    (answer,) = [answer for _, answer in solve_instances([asked], make_solver("icdc"))]
    assert not answer.feasible
    assert (answer.as_dict()["solution"], answer.as_dict()["reason"]) == (None, answer.reason)
    assert str(answer.reason) in str(answer)
    assert "city '2'" in str(answer.reason)


@pytest.mark.parametrize(
    ("choice", "wrong"),
    [
        ([1, 2, 2], None),  # 0 → 1 → 2, where it ends
        ([1, 2, 0], "it is no path"),
        ([1, 1, 2], "it is no path"),
        ([1, 0, 2], "it is no path"),
        ([0, 1, 2], "it is no path"),
        ([3, 2, 2], "names what"),
        ([-1, 2, 2], "names what"),
    ],
)
def test_what_a_path_is(choice: list[int], wrong: str | None) -> None:
    instance = Instance("x", Atsp(), {"distances": np.ones((3, 3), dtype=np.int64)}, conditions=Conditions(open=True))
    said = violation(instance, np.array(choice))
    assert said is None if wrong is None else wrong in str(said)
    assert judge_answer(instance, np.array(choice)).feasible == (wrong is None)


def test_what_a_tour_is() -> None:
    instance = Instance("x", Atsp(), {"distances": np.ones((4, 4), dtype=np.int64)}, conditions=Conditions(first=1))
    assert violation(instance, np.array([1, 2, 3, 0])) is None
    assert instance.solution(np.array([1, 2, 3, 0])) == [1, 2, 3, 0]
    for choice in ([1, 0, 3, 2], [1, 2, 1, 0], [2, 2, 3, 0], [1, 2, 3, 3]):
        assert "no tour" in str(violation(instance, np.array(choice)))


FREE, NONE = [1, 2, 3], [np.inf] * 3


@pytest.mark.parametrize(
    ("setups", "initial", "wanted", "reason"),
    [
        ([[0, 1, 1], [np.inf, 0, 1], [np.inf, 1, 0]], [np.inf, 1, 1], {}, "job 'a' cannot be reached from any other"),
        ([[0, 1, 2], [1, 0, 2], [1, 2, 0]], NONE, {}, "no job may be the first"),
        ([[0, *NONE[1:]], [np.inf, 0, np.inf], [*NONE[1:], 0]], FREE, {}, "the jobs a, b have only 1 permitted"),
        ([[0, 1, np.inf], [1, 0, np.inf], [np.inf, np.inf, 0]], FREE, {"last": "a"}, "job 'c' has no permitted job to"),
        (
            [[0, 1, 1], [1, 0, np.inf], [1, 1, 0]],
            [1, np.inf, np.inf],
            {"last": "c"},
            "the jobs b, (the beginning) have",
        ),
        ([[0, 1, 1], [1, 0, np.inf], [1, 1, 0]], [np.inf, np.inf, 1], {"last": "c"}, "from job 'c' to job 'a'"),
    ],
)
def test_reasons_are_said_in_the_words_of_what_was_asked(
    setups: Any, initial: Any, wanted: dict[str, Any], reason: str
) -> None:
    """Of jobs, and of the beginning and the end, where a tour through one city more is solved."""
    named = {"setups": setups, "initial": initial, "jobs": ["a", "b", "c"]}
    with pytest.raises(InfeasibleError) as caught:
        icdc.solve(named, problem="setups", **wanted)
    assert reason in str(caught.value)
    assert "idle" not in str(caught.value)


def test_words() -> None:
    asked = Conditions(((0, 1),), True, 2, 0, None, 3, (1, 2, 2))
    instance = Instance("x", Atsp(), {"distances": np.ones((3, 3), dtype=np.int64)}, conditions=asked)
    assert in_words(instance) == "an open path from city 2 to city 0; 1 step fixed; each new step weighs 3"
    closed = replace(instance, conditions=Conditions(first=1, last=0))
    assert in_words(closed) == "beginning with city 1, ending with city 0"
    schedule = Instance(
        "x", Pmsp(), {"durations": np.ones((3, 2))}, conditions=Conditions(((0, 1), (1, 1)), busy=(0, 2.5), stay=0.5)
    )
    assert in_words(schedule) == ("2 jobs fixed; 1 machine busy at the beginning; each job that moves weighs 0.5")
    assert asked.as_dict() == {
        "fixed": [[0, 1]], "open": True, "first": 2, "last": 0, "stay": 3, "before": [1, 2, 2],
    }  # fmt: skip
    assert Conditions(first=0, busy=(0, 1)).as_dict() == {"first": 0, "busy": [0, 1]}
    for one in (asked, Conditions(), Conditions(first=0, busy=(0, 1.5))):
        assert Conditions.from_dict(json.loads(json.dumps(one.as_dict()))) == one


def test_pictures_show_what_was_asked() -> None:
    """A path does not return, busy machines are hatched, and a bound on weighed changes is none on the makespan."""
    tour, _ = with_conditions(plain(Atsp, np.random.default_rng(0), 4), {"open": True})
    left, right, *_ = tour.problem.draw_solution(tour, tour.choice([2, 0, 1, 3])).axes
    assert len(left.patches) == 3
    assert left.get_title().startswith("path through 4 cities")
    assert len(right.collections[0].get_paths()) == 3
    schedule = Instance("x", Pmsp(), {"durations": np.array([[4, 9], [2, 3]])})
    asked, _ = with_conditions(schedule, {"busy": [0, 5], "stay": 3}, lambda one: one.choice([0, 0]))
    (ax,) = asked.problem.draw_solution(asked, np.array([0, 1]), 11.0).axes
    assert ax.get_title() == "makespan 8"
    assert [bar.get_width() for bar in ax.patches if bar.get_hatch()] == [5]
    without = replace(asked, conditions=Conditions(busy=(0, 5)))
    assert without.problem.draw_solution(without, np.array([0, 1]), 7.0).axes[0].get_title() == "makespan 8, bound 7"
