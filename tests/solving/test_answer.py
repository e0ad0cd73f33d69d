"""Answers: exact costs, bounds and gaps against plain Python; what people read and what programs parse."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import icdc
from icdc.problems.atsp import Atsp
from icdc.problems.base import Problem
from icdc.problems.instance import Instance
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.search.run import meets
from icdc.solving.answer import Answer, json_line, judge_answer, text


def answer(
    problem: Problem,
    arrays: dict[str, np.ndarray],
    choice: list[int],
    objective: float | None,
    bound: float | None,
    **names: tuple[str, ...],
) -> Answer:
    instance = Instance("file", problem, arrays, **names)
    return Answer(instance, np.array(choice), objective, bound, 8, 1.23456789, 5, "icdc", "small")


def test_a_schedule() -> None:
    durations = np.array([[3, 9], [9, 4], [2, 9]], dtype=np.uint8)
    found = answer(
        Pmsp(),
        {"durations": durations},
        [0, 1, 0],
        5,
        4,
        rows=("paint", "cut", "pack"),
        columns=("M1", "M2"),
    )
    assert text(found).splitlines() == [
        "file: 3 jobs on 2 machines, makespan 5, at least 4 is needed (gap 25.00 %)",
        "  machine M1  5  ████████████████████████  paint pack",
        "  machine M2  4  ███████████████████       cut",
        "  icdc (small), 8 samples, seed 5, 1.23 s",
    ]
    assert str(found) == text(found)


def test_an_idle_machine_and_no_work() -> None:
    idle = answer(Pmsp(), {"durations": np.array([[0, 1]])}, [0], 0, 0)
    lines = text(idle).splitlines()
    assert lines[0] == "file: 1 job on 2 machines, makespan 0, optimal"
    assert lines[2].endswith("–")


def test_a_long_tour_is_wrapped_and_comes_home() -> None:
    size = 60
    tour = list(range(size))
    found = answer(Atsp(), {"distances": np.ones((size, size), int)}, np.roll(tour, -1).tolist(), 60, None)
    lines = text(found).splitlines()
    assert lines[0] == "file: tour of 60 cities, length 60"
    assert all(len(line) <= 100 for line in lines)
    assert " ".join(lines[1:-1]).split(" → ")[-1] == "0"


def test_the_objective_is_called_as_the_problem_calls_it() -> None:
    class Late(Pmsp):
        objective = "lateness"

    late = answer(Late(), {"durations": np.array([[1, 2]])}, [0], 1, None)
    assert text(late).splitlines()[0] == "file: 1 job on 2 machines, lateness 1"


def test_an_infeasible_answer() -> None:
    found = answer(Pmsp(), {"durations": np.ones((2, 2))}, [0, 0], None, 1.0)
    assert "infeasible" in text(found)
    parsed = json.loads(json_line(found))
    assert parsed["feasible"] is False
    assert parsed["objective"] is None


def test_properties_and_json_agree() -> None:
    found = answer(Pmsp(), {"durations": np.ones((2, 2))}, [0, 1], 1.0, 0.5)
    parsed = json.loads(json_line(found))
    assert parsed["objective"] == found.objective == 1.0
    assert parsed["bound"] == found.bound == 0.5
    assert parsed["gap"] == found.gap == 1.0
    assert parsed["solution"] == found.solution == [0, 1]
    assert parsed["problem"] == found.problem.name
    assert parsed["feasible"] == found.feasible
    assert not found.optimal
    assert parsed["seconds"] == 1.234568


def test_answers_are_equal_after_pickling_and_different_where_anything_is() -> None:
    answer = icdc.solve([[3, 5], [4, 2], [1, 1]], solver="ect")
    again = pickle.loads(pickle.dumps(answer))
    assert again == answer
    assert hash(again) == hash(answer)
    assert len({again, answer}) == 1
    assert answer != replace(answer, seed=1)
    assert answer != replace(answer, choice=1 - answer.choice)
    assert answer != "an answer"
    instance = answer.instance
    others = [
        replace(instance, name="other"),
        replace(instance, rows=("a", "b", "c")),
        replace(instance, coordinates=np.zeros((3, 2))),
        replace(instance, arrays={"durations": instance.arrays["durations"] + 1}),
        replace(instance, arrays={"durations": instance.arrays["durations"].astype(float)}),
        replace(instance, problem=icdc.Atsp()),
    ]
    for other in others:
        assert other != instance
        assert answer != replace(answer, instance=other)
    assert instance != 3


def test_notebooks_show_the_text_and_the_picture() -> None:
    answer = icdc.solve([[3, 5], [4, 2], [1, 1]], solver="ect")
    answer = replace(answer, instance=replace(answer.instance, name="<b>"))
    shown = answer._repr_html_()
    assert shown.startswith("<pre>&lt;b&gt;: 3 jobs on 2 machines")
    assert "<svg" in shown
    assert "<?xml" not in shown
    infeasible = replace(answer, objective=None, bound=None)
    assert "<svg" not in infeasible._repr_html_()


small = st.integers(0, 2**31)


@given(data=st.data(), jobs=st.integers(1, 6), machines=st.integers(1, 4))
def test_makespan(data: st.DataObject, jobs: int, machines: int) -> None:
    times = [[data.draw(small) for _ in range(machines)] for _ in range(jobs)]
    choice = [data.draw(st.integers(0, machines - 1)) for _ in range(jobs)]
    answer = judge_answer(Instance("x", Pmsp(), {"durations": np.array(times)}), np.array(choice))
    loads = [sum(times[j][m] for j in range(jobs) if choice[j] == m) for m in range(machines)]
    assert answer.feasible
    assert answer.objective == max(loads)
    assert type(answer.objective) is int
    assert type(answer.bound) is int
    assert answer.bound <= max(loads)


@given(tour=st.permutations(range(5)), seed=st.integers(0, 99))
def test_tour(tour: list[int], seed: int) -> None:
    problem = Atsp()
    matrix = problem.sample(1, (5,), np.random.default_rng(seed))["distances"][0]
    answer = judge_answer(Instance("x", problem, {"distances": matrix}), problem.choice(tour))
    assert answer.objective == sum(int(matrix[a, b]) for a, b in zip(tour, tour[1:] + tour[:1], strict=True))


@pytest.mark.parametrize(("jobs", "time", "kind"), [(30, 200, np.uint8), (3, 2**53 - 1, np.int64)])
def test_sums_of_integers_are_exact(jobs: int, time: int, kind: type) -> None:
    """Narrow integers do not wrap, and sums beyond float64 keep their last digits."""
    instance = Instance("x", Pmsp(), {"durations": np.full((jobs, 1), time, dtype=kind)})
    assert judge_answer(instance, np.zeros(jobs, dtype=np.int64)).objective == jobs * time


@pytest.mark.parametrize("choice", [[1, 0, 3, 2], [0, 1, 2, 3], [1, 2, 3, 9], [1, 2, 3, -1], [1, 1, 1, 1]])
def test_infeasible(choice: list[int]) -> None:
    problem = Atsp()
    matrix = problem.sample(1, (4,), np.random.default_rng(0))["distances"][0]
    answer = judge_answer(Instance("x", problem, {"distances": matrix}), np.array(choice))
    assert not answer.feasible
    assert answer.gap is None
    assert not answer.optimal


@pytest.mark.parametrize(("given", "bound"), [(-np.inf, 3), (1.5, 3), (3.0000001, 3), (3.2, 4), (5.0, None)])
def test_the_better_bound_counts_and_integers_round_it_up(given: float, bound: int | None) -> None:
    """Rounding of a float does not lift a bound by one; one above the cost of a solution is none."""
    answer = judge_answer(Instance("x", Pmsp(), {"durations": np.full((3, 2), 2)}), np.array([0, 0, 1]), given)
    assert (answer.objective, answer.bound, answer.optimal) == (4, bound, bound == 4)


def test_real_costs() -> None:
    problem = Navigation()
    arrays = problem.sample(2, (6,), np.random.default_rng(1))
    tours = np.stack([problem.choice([0, 1, 2, 3, 4, 5]), problem.choice([5, 3, 1, 0, 2, 4])])
    for index, tour in enumerate(tours):
        answer = judge_answer(Instance("x", problem, {name: array[index] for name, array in arrays.items()}), tour)
        r, s, f = (arrays[name][index] for name in ("coordinates", "slowness", "traffic"))
        total = sum(((r[i] - r[j]) ** 2).sum() * s[i, j] + f[i, j] for i, j in enumerate(tour))
        assert answer.objective == pytest.approx(total, rel=1e-12)
        assert type(answer.objective) is float


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (12, 10, 0.2),
        (10, 10, 0.0),
        (10.0 + 1e-12, 10.0, 0.0),
        (10.0, 10.0 + 1e-12, 0.0),
        (5.0, -10.0, 1.5),
        (0, 0, 0.0),
        (3, 0, None),
        (3, None, None),
        (5 * 10**9 + 3, 5 * 10**9, 6e-10),  # whole numbers are not rounded
    ],
)
def test_gap(objective: float, bound: float | None, gap: float | None) -> None:
    answer = Answer(Instance("x", Pmsp(), {}), np.zeros(1, dtype=np.int64), objective, bound)
    assert answer.gap == (None if gap is None else pytest.approx(gap))
    assert answer.optimal == (gap == 0.0)


def test_a_bound_is_met_in_proportion_whatever_the_unit() -> None:
    """Costs far below 1, of times in tiny units, are not proven by being small; a bound of −inf is never met."""
    for unit in (1.0, 1e-6, 1e-12, 1e-300, 1e12):
        cost, bound = unit * np.array([3.0, 3.0, 3.0 * (1 + 1e-12)]), unit * np.array([3.0, 2.0, 3.0])
        assert meets(cost, bound).tolist() == [True, False, True]
    assert meets(np.array([0.0, 1e-12]), np.zeros(2)).tolist() == [True, False]
    assert meets(np.array([0.0, -1.0]), np.full(2, -np.inf)).tolist() == [False, False]
