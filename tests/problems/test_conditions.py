"""What people ask for: names become numbers, and whatever cannot be meant is refused in a sentence that says why."""

import re
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

import icdc
from icdc.errors import IcdcError, InfeasibleError, InputError, UsageError
from icdc.problems.atsp import Atsp
from icdc.problems.conditions import with_conditions
from icdc.problems.instance import Conditions, Instance
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.problems.sequencing import FlowShop
from icdc.solvers import make_solver
from icdc.solving.jobs import Observer, solve_instances

NAMES = ("a", "b", "c", "d")
MATRIX = np.array([[0, 3, 4, 5], [6, 0, 7, 8], [1, 2, 0, 9], [4, 1, 2, 0]])
TOUR = Instance("map.csv", Atsp(), {"distances": MATRIX}, NAMES, NAMES)
SHOP = Instance("shop.csv", Pmsp(), {"durations": MATRIX[:, :2]}, NAMES, ("M1", "M2"))
FLOW = Instance("flow.csv", FlowShop(), {"durations": MATRIX[:, :2]}, NAMES, ("M1", "M2"))
BARE = replace(TOUR, rows=None, columns=None)
MASKED = replace(TOUR, forbidden=np.eye(4, k=1, dtype=bool))


def conditions(instance: Instance, **wishes: Any) -> Conditions:
    found = with_conditions(instance, wishes)[0].conditions
    assert found is not None
    return found


def test_names_and_numbers() -> None:
    assert conditions(TOUR, fixed={"a": "c"}, first="b", last="d") == Conditions(((0, 2),), first=1, last=3)
    assert conditions(TOUR, fixed=[(0, 2), ("d", 1)]) == Conditions(((0, 2), (3, 1)))
    assert conditions(TOUR, fixed=[("0", "2"), (np.int64(0), 2)]) == Conditions(((0, 2),))  # said twice, meant once
    assert conditions(BARE, fixed=iter([["0", "2"]]), open=True, first=0) == Conditions(((0, 2),), True, 0)
    assert conditions(SHOP, fixed={"a": "M2"}, busy={"M2": 4.0}) == Conditions(((0, 1),), busy=(0, 4))
    assert conditions(SHOP, busy=np.array([0.5, 0])) == Conditions(busy=(0.5, 0))
    assert conditions(FLOW, fixed={"a": "c"}, last="c") == Conditions(((0, 2),), last=2)
    # a name that is a number goes before the number
    odd = replace(TOUR, rows=("1", "2", "3", "0"), columns=("1", "2", "3", "0"))
    assert conditions(odd, first="0", last="1") == Conditions(first=3, last=0)
    assert conditions(odd, first=0) == Conditions(first=0)
    alone = Instance("x", FlowShop(), {"durations": MATRIX[:1]})
    assert conditions(alone, first=0, last=0) == Conditions(first=0, last=0)


def test_nothing_asked() -> None:
    assert with_conditions(TOUR, {}) == (TOUR, None)
    assert with_conditions(TOUR, {"fixed": []}) == (TOUR, None)


WRONG: list[tuple[Instance, dict[str, Any], type[IcdcError], str]] = [
    (TOUR, {"fixed": {"a": "x"}}, InputError, "fixed: map.csv has no city 'x'; the first is 'a'"),
    (TOUR, {"fixed": [(0, 4)]}, InputError, "fixed: map.csv has no city 4; they count from 0 to 3"),
    (TOUR, {"fixed": [(0, -1)]}, InputError, "fixed: map.csv has no city -1; they count from 0 to 3"),
    (TOUR, {"fixed": [(0, 1.5)]}, InputError, "fixed: map.csv has no city '1.5'"),
    (TOUR, {"fixed": [(0, True)]}, InputError, "fixed: map.csv has no city 'True'"),
    (TOUR, {"fixed": [(0, 1, 2)]}, InputError, "fixed: entry 1 is no pair"),
    (TOUR, {"fixed": ["ab"]}, InputError, "fixed: entry 1 is no pair"),
    (TOUR, {"fixed": "ab"}, UsageError, "fixed must be pairs"),
    (TOUR, {"fixed": 3}, UsageError, "fixed must be pairs"),
    (TOUR, {"fixed": {"a": "a"}}, InputError, "fixed: city 'a' cannot follow itself"),
    (TOUR, {"fixed": [("a", "b"), ("a", "c")]}, InputError,
     "fixed: from city 'a' to city 'c', but also from city 'a' to city 'b'"),
    (TOUR, {"fixed": {"a": "c", "b": "c"}}, InputError,
     "fixed: both city 'a' and city 'b' come right before city 'c'"),
    (TOUR, {"fixed": {"a": "b", "b": "a"}}, InputError,
     "fixed: the steps close a circle before every city is in it: a → b → a"),
    (TOUR, {"fixed": {"c": "a", "a": "b", "b": "c"}, "open": True}, InputError,
     "fixed: the steps close a circle before every city is in it: c → a → b → c"),
    (TOUR, {"fixed": {"a": "b", "b": "c", "c": "d", "d": "a"}, "open": True}, InputError,
     "fixed: the steps lead back to where they begin, and a path does not: a → b → c → d → a"),
    (MASKED, {"fixed": {"a": "b"}}, InputError, "fixed: from city 'a' to city 'b' is forbidden in map.csv"),
    (TOUR, {"fixed": {"a": "b"}, "open": True, "first": "b"}, InputError,
     "fixed: from city 'a' to city 'b', but first says that nothing comes before"),
    (TOUR, {"fixed": {"a": "b"}, "open": True, "last": "a"}, InputError,
     "fixed: from city 'a' to city 'b', but last says that nothing comes after"),
    (TOUR, {"fixed": {"a": "b"}, "open": True, "first": "a", "last": "b"}, InputError,
     "fixed: the steps lead from first to last and leave out 2 others"),
    (TOUR, {"fixed": {"a": "b"}, "first": "a", "last": "b"}, InputError,
     "fixed: the steps lead from first to last and leave out 2 others"),
    (TOUR, {"fixed": {"a": "b"}, "first": "c", "last": "a"}, InputError,
     "fixed: from city 'a' to city 'b', but first and last say from city 'a' to city 'c'"),
    (TOUR, {"fixed": {"a": "b"}, "first": "b", "last": "c"}, InputError,
     "fixed: from city 'a' to city 'b', but first and last say from city 'c' to city 'b'"),
    (MASKED, {"first": "b", "last": "a"}, InputError,
     "first and last: from city 'a' to city 'b' is forbidden in map.csv"),
    (TOUR, {"first": "a", "last": 0}, InputError, "map.csv: first and last both name city 'a'"),
    (TOUR, {"first": "z"}, InputError, "first: map.csv has no city 'z'"),
    (BARE, {"last": "z"}, InputError, "last: map.csv has no city 'z'"),
    (TOUR, {"busy": [1, 2]}, UsageError, "busy is for schedules on parallel machines, and map.csv is of 'atsp'"),
    (SHOP, {"open": True}, UsageError, "open is for tours, and shop.csv is a schedule ('pmsp')"),
    (SHOP, {"first": 0}, UsageError, "first is for tours, and shop.csv is a schedule ('pmsp')"),
    (SHOP, {"last": "a"}, UsageError, "last is for tours, and shop.csv is a schedule ('pmsp')"),
    (SHOP, {"fixed": [("a", "M1"), (0, 1)]}, InputError,
     "fixed: job 'a' with machine 'M2', but also job 'a' with machine 'M1'"),
    (SHOP, {"fixed": {"M1": "a"}}, InputError, "fixed: shop.csv has no job 'M1'"),
    (SHOP, {"fixed": {"a": "b"}}, InputError, "fixed: shop.csv has no machine 'b'; the first is 'M1'"),
    (SHOP, {"busy": {"M3": 1}}, InputError, "busy: shop.csv has no machine 'M3'"),
    (SHOP, {"busy": {"M1": -1}}, InputError,
     "busy: machine 'M1': the number must be finite and not negative, got -1"),
    (SHOP, {"busy": {"M1": float("nan")}}, InputError, "must be finite and not negative, got nan"),
    (SHOP, {"busy": {"M1": "soon"}}, InputError, "busy: machine 'M1': 'soon' is not a number"),
    (SHOP, {"busy": {"M1": True}}, InputError, "busy: machine 'M1': 'True' is not a number"),
    (SHOP, {"busy": {"M1": 2**60}}, InputError, "busy: machine 'M1': the number is too large"),
    (SHOP, {"busy": {"M1": 1, 0: 2}}, InputError, "busy: machine 'M1' is named twice"),
    (SHOP, {"busy": [1]}, InputError, "busy: there are 1 times for 2 machines of shop.csv"),
    (SHOP, {"busy": 3}, UsageError, "busy must be a mapping from machines to times, or a list of times"),
    (FLOW, {"open": True}, UsageError, "open is for tours; a sequence of 'flow-shop' begins and ends anyway"),
    (FLOW, {"busy": [1, 2]}, UsageError, "busy is for schedules on parallel machines"),
    (FLOW, {"fixed": {"a": "b"}, "first": "b"}, InputError,
     "fixed: job 'b' after job 'a', but first says that nothing comes before"),
    (FLOW, {"fixed": {"a": "b"}, "last": "a"}, InputError,
     "fixed: job 'b' after job 'a', but last says that nothing comes after"),
    (FLOW, {"fixed": {"a": "b"}, "first": "a", "last": "b"}, InputError, "leave out 2 others"),
    (TOUR, {"stay": 3}, UsageError, "stay weighs changes against a start, and there is none; give start"),
]  # fmt: skip


@pytest.mark.parametrize(("instance", "wishes", "error", "sentence"), WRONG, ids=lambda part: str(part)[:60])
def test_contradictions_are_named(
    instance: Instance, wishes: dict[str, Any], error: type[IcdcError], sentence: str
) -> None:
    with pytest.raises(IcdcError, match=re.escape(sentence)) as caught:
        with_conditions(instance, wishes)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


def test_a_problem_that_no_matrix_tells_all_about() -> None:
    class Squared(Pmsp):
        """A schedule with another cost."""

        def cost(self, instances: Any, choice: Any) -> Any:
            return super().cost(instances, choice) ** 2

    instance = Instance("x", Squared(), {"durations": MATRIX})
    with pytest.raises(UsageError, match="busy cannot be asked of 'pmsp'"):
        with_conditions(instance, {"busy": [1, 2, 3, 4]})


def test_hidden_travel_times_can_be_asked_about_too() -> None:
    arrays = Navigation().sample(1, (5,), np.random.default_rng(0))
    answer = icdc.solve({name: array[0] for name, array in arrays.items()}, open=True, first=3)
    assert (answer.problem.name, answer.solution[0], answer.optimal) == ("navigation", 3, True)


class TestStart:
    """A solution to begin from, and what is asked besides."""

    def test_one_that_keeps_to_everything_is_begun_from(self) -> None:
        instance, start = with_conditions(TOUR, {"open": True, "last": "b"}, lambda one: one.choice([0, 2, 3, 1]))
        assert start is not None
        assert instance.solution(start) == [0, 2, 3, 1]
        answer = icdc.solve(TOUR, open=True, last="b", start=[0, 2, 3, 1], solver="random")
        assert answer.objective is not None
        assert answer.objective <= 4 + 9 + 1

    @pytest.mark.parametrize(
        ("instance", "wishes", "solution", "sentence"),
        [
            (TOUR, {"fixed": {"a": "b"}}, [0, 2, 1, 3], "it does not have from city 'a' to city 'b'"),
            (TOUR, {"open": True, "first": "b"}, [0, 2, 1, 3], "it begins with city a, not b"),
            (TOUR, {"open": True, "last": "b"}, [0, 2, 1, 3], "it ends with city d, not b"),
            (TOUR, {"first": "b", "last": "a"}, [0, 2, 1, 3], "it ends with city c, not a"),
            (MASKED, {"first": "b"}, [0, 1, 2, 3], "it uses a forbidden pair, from city 'a' to city 'b'"),
            (SHOP, {"fixed": {"a": "M2"}}, [0, 0, 1, 1], "it does not have job 'a' with machine 'M2'"),
            (SHOP, {"busy": [1, 0]}, [0, 0, 1, 2], "it names what the instance does not have"),
            (FLOW, {"fixed": {"a": "b"}}, [0, 2, 1, 3], "job b is not right after job a"),
            (FLOW, {"first": "b"}, [0, 2, 1, 3], "it begins with job a, not b"),
        ],
    )
    def test_one_that_does_not_is_refused(
        self, instance: Instance, wishes: dict[str, Any], solution: list[int], sentence: str
    ) -> None:
        words = re.escape(f"does not keep to what is asked: {sentence}")
        with pytest.raises(InputError, match=words):
            icdc.solve(instance, start=solution, **wishes)

    def test_with_stay_it_is_compared_with_all_the_same(self) -> None:
        """An earlier plan need not keep to new conditions: it tells what a change is, and is not begun from."""
        asked, start = with_conditions(SHOP, {"fixed": {"a": "M2"}, "stay": 2}, lambda one: one.choice([0, 0, 1, 1]))
        assert start is None
        assert asked.conditions == Conditions(((0, 1),), stay=2, before=(0, 0, 1, 1))
        answer = icdc.solve(SHOP, fixed={"a": "M2"}, stay=100, start=[0, 0, 1, 1])
        assert (answer.solution, answer.changes, answer.found_by != "start") == ([1, 0, 1, 1], 1, True)
        assert (answer.cost, answer.objective) == (6, 106)

    def test_with_stay_it_must_still_be_a_solution(self) -> None:
        with pytest.raises(InputError, match=r"the start of shop.csv is not a solution: it names what"):
            icdc.solve(SHOP, stay=1, start=[0, 0, 1, 5])

    def test_some_may_be_begun_from_and_others_not(self) -> None:
        starts = [[0, 0, 1, 1], [1, 0, 1, 1]]
        answers = icdc.solve_many([SHOP, SHOP], fixed={"a": "M2"}, stay=50, starts=starts)
        assert [answer.changes for answer in answers] == [1, 0]
        assert [answer.solution for answer in answers] == [[1, 0, 1, 1]] * 2

    def test_a_large_weight_keeps_everything_and_none_keeps_nothing(self) -> None:
        kept = icdc.solve(TOUR, start=[0, 1, 2, 3], stay=10**6)
        assert (kept.solution, kept.changes, kept.cost, kept.objective) == ([0, 1, 2, 3], 0, 23, 23)
        free = icdc.solve(TOUR, start=[0, 1, 2, 3], stay=0)
        assert free.cost == free.objective == icdc.solve(TOUR).objective
        assert free.changes

    @pytest.mark.parametrize("stay", [-1, float("inf"), float("nan"), "much"])
    def test_what_a_change_may_weigh(self, stay: Any) -> None:
        with pytest.raises(InputError, match="stay"):
            icdc.solve(TOUR, start=[0, 1, 2, 3], stay=stay)


def test_improvements_are_told_as_they_were_asked() -> None:
    """Callbacks hear of paths and schedules of the caller's own size, and of what is minimised."""
    rng = np.random.default_rng(0)
    schedule = rng.integers(1, 30, (30, 3))
    told: list[Any] = []
    answer = icdc.solve(schedule, busy=[0, 40, 7], callback=told.append, solver="search", time_limit=2)
    assert told
    for improvement in told:
        assert improvement.choice.shape == (1, 30)
        work = np.bincount(improvement.choice[0], schedule[np.arange(30), improvement.choice[0]], 3)
        loads = work + np.array([0, 40, 7])
        assert improvement.cost[0] == loads.max()
    assert told[-1].cost[0] == answer.objective
    paths: list[Any] = []
    matrix = rng.integers(1, 99, (9, 9))
    answer = icdc.solve(matrix, problem="atsp", open=True, callback=paths.append)
    assert all(one.choice.shape == (1, 9) for one in paths)
    path = answer.instance.solution(paths[-1].choice[0])
    assert sum(matrix[i, j] for i, j in pairwise(path)) == paths[-1].cost[0] == answer.objective


def test_sizes_that_meet_only_as_they_are_solved_are_not_mixed() -> None:
    """Five cities open and six closed are both tours of six; each comes back as it was asked."""
    rng = np.random.default_rng(0)
    five, six = (Instance("x", Atsp(), {"distances": rng.integers(1, 9, (n, n))}) for n in (5, 6))
    told: list[Any] = []

    class Listening(Observer):
        def improved(self, improvement: Any) -> None:
            told.append(improvement)

    asked = [with_conditions(five, {"open": True})[0], six]
    answers = dict(solve_instances(asked, make_solver("icdc"), observer=Listening()))
    assert [len(answers[place].solution) for place in (0, 1)] == [5, 6]
    assert {one.choice.shape[1] for one in told} == {5, 6}


def test_all_options_reach_solve_many() -> None:
    answers = icdc.solve_many([TOUR, BARE], open=True, first=1, last=0, fixed=iter([(1, 3)]))
    assert [answer.solution for answer in answers] == [[1, 3, 2, 0]] * 2
    with pytest.raises(UsageError, match="open must be true or false, got 'yes'"):
        icdc.solve(TOUR, open="yes")  # type: ignore[arg-type]


def test_no_solution_has_its_reason() -> None:
    forbidden = [[None, 3, 4], [6, None, 7], [1, None, None]]  # b only after a
    with pytest.raises(InfeasibleError, match="city '1' cannot be reached from any other"):
        icdc.solve(forbidden, problem="atsp", fixed=[(0, 2)])


def test_conditions_that_an_instance_has_are_kept() -> None:
    """An answer's own instance can be asked again: as it is, or with changes that weigh; nothing is left out unsaid."""
    before = icdc.solve(SHOP, busy={"M1": 9}, fixed={"a": "M1"})
    assert icdc.solve(before.instance).as_dict() | {"seconds": 0} == before.as_dict() | {"seconds": 0}
    again = icdc.solve(before.instance, start=before.solution, stay=50)
    assert again.instance.conditions == replace(
        before.instance.conditions or Conditions(), stay=50, before=tuple(before.choice.tolist())
    )
    assert (again.changes, again.cost) == (0, before.objective)
    with pytest.raises(UsageError, match=r"shop.csv has conditions already .*ask for all of them together"):
        icdc.solve(before.instance, busy={"M2": 1})


def test_numbers_too_large_for_what_is_asked() -> None:
    large = Instance("x", Atsp(), {"distances": np.full((4, 4), 2**50) * (1 - np.eye(4, dtype=np.int64))})
    with pytest.raises(InputError, match="x: what is asked forbids pairs, and the numbers are too large"):
        icdc.solve(large, fixed=[(0, 2)])
    with pytest.raises(InputError, match="x: with what is asked, the distance matrix has a value that is too large"):
        icdc.solve(large, start=[0, 1, 2, 3], stay=2**53)


def possible(items: int, closed: bool, fixed: list[tuple[int, int]], first: int | None, last: int | None) -> bool:
    """Tell whether some order of all items, and its return if it is closed, has every step and both ends."""
    for order in permutations(range(items)):
        steps = {*pairwise(order), *([(order[-1], order[0])] if closed else [])}
        if set(fixed) <= steps and first in (None, order[0]) and last in (None, order[-1]):
            return True
    return False


@pytest.mark.parametrize("kind", ["tour", "path", "sequence"])
def test_steps_are_refused_exactly_where_no_solution_has_them_all(kind: str) -> None:
    rng, refused, draws = np.random.default_rng(0), 0, 400
    for _ in range(draws):
        items = int(rng.integers(2, 6))
        durations = np.ones((items, items), dtype=np.int64)
        problem, name = (FlowShop(), "durations") if kind == "sequence" else (Atsp(), "distances")
        count = int(rng.integers(0, items + 1))
        fixed = [(int(row), int(rng.integers(items))) for row in rng.permutation(items)[:count]]
        first, last = (int(item) if rng.integers(2) else None for item in rng.permutation(items)[:2])
        wishes = {"fixed": fixed, "open": kind == "path", "first": first, "last": last}
        try:
            with_conditions(Instance("x", problem, {name: durations}), wishes)
            told = True
        except InputError:
            told = False
        assert told == possible(items, kind == "tour", fixed, first, last), wishes
        refused += not told
    assert 0.2 * draws < refused < 0.9 * draws  # both happen often


def test_a_whole_tour_may_be_fixed() -> None:
    steps = {"a": "c", "c": "b", "b": "d", "d": "a"}
    answer = icdc.solve(TOUR, fixed=steps)
    assert (answer.solution, answer.optimal) == ([0, 2, 1, 3], True)
    answer = icdc.solve(TOUR, fixed=steps, first="b", last="c")
    assert answer.solution == [1, 3, 0, 2]
    path = icdc.solve(TOUR, fixed={"a": "c", "c": "b", "b": "d"}, open=True, first="a", last="d")
    assert (path.solution, path.objective, path.optimal) == ([0, 2, 1, 3], 14, True)


def test_a_long_circle_is_shortened() -> None:
    large = Instance("x", Atsp(), {"distances": np.ones((12, 12), dtype=np.int64)})
    steps = [(i, (i + 1) % 10) for i in range(10)]
    with pytest.raises(InputError, match=re.escape("0 → 1 → 2 → 3 → 4 → … → 0")):
        with_conditions(large, {"fixed": steps})
