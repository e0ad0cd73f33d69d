"""Verification: exact costs, bounds, gaps, against plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc.problems.atsp import Atsp
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.search.run import meets
from icdc.solving.verify import Verdict, verify

small = st.integers(0, 2**31)


@given(data=st.data(), jobs=st.integers(1, 6), machines=st.integers(1, 4))
def test_makespan(data: st.DataObject, jobs: int, machines: int) -> None:
    times = [[data.draw(small) for _ in range(machines)] for _ in range(jobs)]
    choice = [data.draw(st.integers(0, machines - 1)) for _ in range(jobs)]
    (verdict,) = verify(Pmsp(), {"durations": np.array([times])}, np.array([choice]))
    loads = [sum(times[j][m] for j in range(jobs) if choice[j] == m) for m in range(machines)]
    assert verdict.feasible
    assert verdict.objective == max(loads)
    assert type(verdict.objective) is int
    assert type(verdict.bound) is int
    assert verdict.bound <= max(loads)


@given(tour=st.permutations(range(5)), seed=st.integers(0, 99))
def test_tour(tour: list[int], seed: int) -> None:
    problem = Atsp()
    arrays = problem.sample(1, (5,), np.random.default_rng(seed))
    (verdict,) = verify(problem, arrays, problem.choice(tour)[None])
    matrix = arrays["distances"][0].tolist()
    assert verdict.objective == sum(matrix[a][b] for a, b in zip(tour, tour[1:] + tour[:1], strict=True))


def test_narrow_integers_do_not_wrap() -> None:
    durations = np.full((1, 30, 1), 200, dtype=np.uint8)
    (verdict,) = verify(Pmsp(), {"durations": durations}, np.zeros((1, 30), dtype=np.int64))
    assert (verdict.objective, verdict.optimal) == (6000, True)


def test_sums_beyond_float64_stay_exact() -> None:
    durations = np.full((1, 3, 1), 2**53 - 1)
    (verdict,) = verify(Pmsp(), {"durations": durations}, np.zeros((1, 3), dtype=np.int64))
    assert verdict.objective == 3 * (2**53 - 1)


@pytest.mark.parametrize("choice", [[1, 0, 3, 2], [0, 1, 2, 3], [1, 2, 3, 9], [1, 2, 3, -1], [1, 1, 1, 1]])
def test_infeasible(choice: list[int]) -> None:
    problem = Atsp()
    arrays = problem.sample(1, (4,), np.random.default_rng(0))
    (verdict,) = verify(problem, arrays, np.array([choice]))
    assert not verdict.feasible
    assert verdict.objective is None
    assert verdict.gap is None
    assert not verdict.optimal


def test_the_better_bound_counts_and_integers_round_it_up() -> None:
    arrays = {"durations": np.full((1, 3, 2), 2)}
    choice = np.array([[0, 0, 1]])
    assert verify(Pmsp(), arrays, choice)[0].bound == 3
    assert verify(Pmsp(), arrays, choice, np.array([3.2]))[0].bound == 4
    assert verify(Pmsp(), arrays, choice, np.array([3.2]))[0].optimal
    assert verify(Pmsp(), arrays, choice, np.array([1.5]))[0].bound == 3
    assert verify(Pmsp(), arrays, choice, np.array([-np.inf]))[0].bound == 3
    # rounding of a float must not lift a bound by one
    assert verify(Pmsp(), arrays, choice, np.array([3.0000001]))[0].bound == 3


def test_real_costs() -> None:
    problem = Navigation()
    arrays = problem.sample(2, (6,), np.random.default_rng(1))
    tours = np.stack([problem.choice([0, 1, 2, 3, 4, 5]), problem.choice([5, 3, 1, 0, 2, 4])])
    for index, verdict in enumerate(verify(problem, arrays, tours)):
        r, s, f = (arrays[name][index] for name in ("coordinates", "slowness", "traffic"))
        total = sum(((r[i] - r[j]) ** 2).sum() * s[i, j] + f[i, j] for i, j in enumerate(tours[index]))
        assert verdict.objective == pytest.approx(total, rel=1e-12)
        assert type(verdict.objective) is float


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
    verdict = Verdict(True, objective, bound)
    assert verdict.gap == (None if gap is None else pytest.approx(gap))
    assert verdict.optimal == (gap == 0.0)


def test_a_bound_that_nobody_knows_is_not_met() -> None:
    cost, bound = np.array([0.0, -1.0, 5.0, 5.0]), np.array([-np.inf, -np.inf, 5.0, 4.0])
    assert meets(cost, bound).tolist() == [False, False, True, False]


def test_a_bound_is_met_in_proportion_whatever_the_unit() -> None:
    """Costs far below 1, of times in tiny units, are not proven by being small."""
    for unit in (1.0, 1e-6, 1e-12, 1e-300, 1e12):
        cost, bound = unit * np.array([3.0, 3.0, 3.0 * (1 + 1e-12)]), unit * np.array([3.0, 2.0, 3.0])
        assert meets(cost, bound).tolist() == [True, False, True]
    assert meets(np.array([0.0, 1e-12]), np.zeros(2)).tolist() == [True, False]
