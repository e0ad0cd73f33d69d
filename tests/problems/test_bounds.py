"""Bounds are never above the optimum, whatever the numbers, and are as good as they promise to be."""

from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as numpy_arrays
from numpy.typing import NDArray
from scipy.optimize import linprog

from icdc.problems import bounds, get_problem
from icdc.problems.bounds import assignment_bound, scheduling_bound

WHOLE = st.one_of(st.integers(0, 2), st.integers(0, 19), st.integers(0, 10**13))
REAL = st.floats(0, 1e12, allow_subnormal=False)


@st.composite
def matrices(draw: st.DrawFn, smallest: int, largest: int, square: bool) -> NDArray[Any]:
    """Draw a batch of matrices, of integers or reals, sometimes with equal rows."""
    rows = draw(st.integers(smallest, largest))
    columns = rows if square else draw(st.integers(1, 3))
    kind, elements = draw(st.sampled_from([(np.int64, WHOLE), (np.float64, REAL)]))
    batch = draw(numpy_arrays(kind, (2, rows, columns), elements=elements))
    if draw(st.booleans()):
        batch[:, 1:] = batch[:, :1]
    return batch


def makespan_optimum(times: NDArray[Any]) -> float:
    jobs, machines = times.shape
    loads = (
        [sum(times[j, m] for j in range(jobs) if chosen[j] == m) for m in range(machines)]
        for chosen in product(range(machines), repeat=jobs)
    )
    return float(min(max(load) for load in loads))


def tour_optimum(costs: NDArray[Any]) -> float:
    tours = ((0, *rest, 0) for rest in permutations(range(1, len(costs))))
    return float(min(sum(costs[i, j] for i, j in pairwise(t)) for t in tours))


@settings(max_examples=120)
@given(matrices(1, 5, square=False))
def test_scheduling_bound_is_below_the_optimum(durations: NDArray[Any]) -> None:
    bound = scheduling_bound(durations)
    assert bound.shape == (2,)
    assert (bound >= 0).all()
    for index in range(2):
        assert bound[index] <= makespan_optimum(durations[index])


@settings(max_examples=120)
@given(matrices(2, 6, square=True))
def test_assignment_bound_is_below_the_optimum(costs: NDArray[Any]) -> None:
    bound = assignment_bound(costs)
    for index in range(2):
        assert bound[index] <= tour_optimum(costs[index])


def test_one_machine_and_two_cities_are_bounded_exactly() -> None:
    assert scheduling_bound(np.array([[[3], [4], [5]]])).tolist() == [12.0]
    assert assignment_bound(np.array([[[0, 3], [4, 0]]])).tolist() == [7.0]


def test_assignment_bound_is_the_cheapest_way_of_leaving_every_city() -> None:
    """All permutations without a fixed point, with costs on the diagonal that must not count."""
    costs = np.random.default_rng(5).integers(0, 30, (20, 5, 5))
    leaving = [p for p in permutations(range(5)) if all(i != j for i, j in enumerate(p))]
    exact = [min(sum(matrix[i, j] for i, j in enumerate(p)) for p in leaving) for matrix in costs]
    assert assignment_bound(costs).tolist() == exact


def test_scheduling_bound_is_the_linear_program_rounded_up() -> None:
    durations = get_problem("pmsp").sample(40, (12, 4), np.random.default_rng(0))["durations"]
    for bound, times in zip(scheduling_bound(durations), durations.astype(float), strict=True):
        jobs, machines = times.shape
        once = np.hstack([np.kron(np.eye(jobs), np.ones(machines)), np.zeros((jobs, 1))])
        load = np.hstack([np.hstack([np.diag(row) for row in times]), -np.ones((machines, 1))])
        objective = np.append(np.zeros(jobs * machines), 1.0)
        plain = linprog(objective, load, np.zeros(machines), once, np.ones(jobs)).fun
        assert bound == max(np.ceil(plain - 1e-6), times.min(1).max())


def test_no_schedule_is_shorter_than_its_longest_job() -> None:
    """One job cannot be split, though the linear program does that: shared, it would take half its time."""
    assert scheduling_bound(np.array([[[9, 9], [1, 1]]])).tolist() == [9.0]
    assert scheduling_bound(np.array([[[9.5, 30.0], [1.0, 1.0]]])).tolist() == [9.5]


def test_bounds_do_not_depend_on_the_batch() -> None:
    durations = get_problem("pmsp").sample(37, (9, 3), np.random.default_rng(1))["durations"]
    alone = np.concatenate([scheduling_bound(one[None]) for one in durations])
    assert np.array_equal(alone, scheduling_bound(durations))


def test_every_problem_offers_its_bound() -> None:
    rng = np.random.default_rng(2)
    for name, size in (("atsp", (7,)), ("navigation", (7,)), ("pmsp", (7, 2))):
        problem = get_problem(name)
        arrays = problem.sample(3, size, rng)
        bound = problem.lower_bound(arrays)
        assert bound is not None
        assert bound.shape == (3,)
        assert (bound > 0).all()


def test_rounding_of_sums_never_lifts_a_bound_above_the_exact_optimum() -> None:
    rng = np.random.default_rng(3)
    for costs, times in zip(rng.random((150, 1, 5, 5)), rng.random((150, 1, 6, 1)), strict=True):
        tours = ((0, *rest, 0) for rest in permutations(range(1, 5)))
        exact = min(sum(Fraction(float(costs[0, i, j])) for i, j in pairwise(tour)) for tour in tours)
        assert Fraction(float(assignment_bound(costs)[0])) <= exact
        assert Fraction(float(scheduling_bound(times)[0])) <= sum(Fraction(float(t)) for t in times.ravel())


def test_sums_of_integers_beyond_float64_stay_below_the_optimum() -> None:
    """Three distances whose sum has no float64, the nearest of which lies above it."""
    large = 2**53 - 1
    costs = np.full((1, 3, 3), large)
    costs[0, 0, 1] -= 2
    assert float(3 * large - 2) > 3 * large - 2
    assert int(assignment_bound(costs)[0]) <= 3 * large - 2
    small = np.full((1, 3, 3), 10**9)
    assert assignment_bound(small).tolist() == [3 * 10**9]  # while sums are exact, nothing is taken off


@pytest.mark.parametrize("whole", [True, False])
def test_large_instances_are_priced_alone_to_the_same_bound(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    durations = np.random.default_rng(4).integers(1, 100, (3, 40, 8))
    times = durations if whole else durations / 7
    together = bounds.scheduling_bound(times)
    monkeypatch.setattr(bounds, "_LARGE", 0)
    assert bounds.scheduling_bound(times) == pytest.approx(together, rel=1e-9)
