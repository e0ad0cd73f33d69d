"""Exact solvers against brute force and against each other, and the paper's two formulations."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as numpy_arrays
from numpy.typing import NDArray

from icdc.baselines.formulations import LinearModel, mtz_model, read_schedule, read_tour, sequencing_model
from icdc.baselines.support import as_integers
from icdc.problems import get_problem
from icdc.problems.base import Arrays, Problem
from icdc.solving.registry import make_solver

FEW = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
BruteForce = Callable[[Problem, Arrays], NDArray[np.float64]]
VALUES = st.one_of(st.integers(0, 3), st.integers(0, 10**6))


@FEW
@given(st.data())
@pytest.mark.parametrize("name", ["cpsat", "highs", "scip"])
def test_schedules_are_proven_optimal(brute_force: BruteForce, name: str, data: st.DataObject) -> None:
    shape = (1, data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3)))
    arrays = {"durations": data.draw(numpy_arrays(np.int64, shape, elements=VALUES))}
    results = make_solver(name).solve(get_problem("pmsp"), arrays)
    assert results.proven.all()
    assert np.array_equal(results.cost, brute_force(get_problem("pmsp"), arrays))
    assert np.array_equal(results.bound, results.cost)


@FEW
@given(st.data())
@pytest.mark.parametrize("name", ["cpsat", "highs", "scip"])
def test_tours_are_proven_optimal(brute_force: BruteForce, name: str, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 6))
    arrays = {"distances": data.draw(numpy_arrays(np.int64, (1, size, size), elements=VALUES))}
    results = make_solver(name).solve(get_problem("atsp"), arrays)
    assert results.proven.all()
    assert np.array_equal(results.cost, brute_force(get_problem("atsp"), arrays))
    assert np.array_equal(results.bound, results.cost)


def test_exact_solvers_agree_beyond_brute_force() -> None:
    rng = np.random.default_rng(0)
    for problem, size in ((get_problem("atsp"), (12,)), (get_problem("pmsp"), (8, 3))):
        arrays = problem.sample(2, size, rng)
        costs = [make_solver(name).solve(problem, arrays).cost for name in ("cpsat", "highs", "scip")]
        assert np.array_equal(costs[0], costs[1])
        assert np.array_equal(costs[0], costs[2])


def satisfied(model: LinearModel, point: NDArray[np.float64]) -> bool:
    value = model.rows @ point
    inside = (value >= model.row_lower - 1e-9).all() and (value <= model.row_upper + 1e-9).all()
    return bool(inside and (point >= model.lower).all() and (point <= model.upper).all())


def test_starts_satisfy_the_formulations_and_read_back() -> None:
    rng = np.random.default_rng(1)
    times, machine = rng.random((6, 3)), rng.integers(0, 3, 6)
    schedule = sequencing_model(times, machine)
    assert satisfied(schedule, schedule.start)
    assert np.array_equal(read_schedule(schedule.start, 6, 3), machine)
    makespan = max(times[machine == m, m].sum() for m in range(3))
    assert schedule.objective @ schedule.start == pytest.approx(makespan)

    costs, successor = rng.random((5, 5)), np.array([3, 4, 0, 1, 2])
    tour = mtz_model(costs, successor)
    assert satisfied(tour, tour.start)
    assert np.array_equal(read_tour(tour.start, 5), successor)
    assert tour.objective @ tour.start == pytest.approx(costs[np.arange(5), successor].sum())


def test_formulation_of_tours_forbids_subtours() -> None:
    two_cycles = np.array([1, 0, 3, 4, 2])
    model = mtz_model(np.ones((5, 5)), np.array([1, 2, 3, 4, 0]))
    point = model.start.copy()
    point[:25] = np.eye(5)[two_cycles].ravel()
    positions = np.random.default_rng(0).uniform(1, 4, (200, 4))
    assert not any(satisfied(model, np.concatenate([point[:25], u])) for u in positions)


@given(numpy_arrays(np.float64, (5, 5), elements=st.floats(0, 1e6, allow_subnormal=False)))
def test_reals_as_integers_keep_costs_within_the_stated_error(matrix: NDArray[np.float64]) -> None:
    integers = as_integers(matrix, tour=True)
    successor = np.array([1, 2, 3, 4, 0])
    real = matrix[np.arange(5), successor].sum()
    assert integers.values.min() >= 0
    assert abs(integers.cost(float(integers.values[np.arange(5), successor].sum())) - real) <= integers.error + 1e-9


def test_integers_that_fit_are_left_exact() -> None:
    matrix = np.array([[0, 10**9], [5, 0]])
    integers = as_integers(matrix, largest=10**9)
    assert np.array_equal(integers.values, matrix)
    assert integers.error == 0.0
    assert as_integers(np.array([[0.0, 0.25], [1.5, 0.0]])).values.tolist() == [[0, 25], [150, 0]]
