"""Exact solvers against brute force and each other, within limits, in every unit; the paper's two formulations."""

import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as numpy_arrays
from numpy.typing import NDArray

from icdc.api import solve
from icdc.baselines.mip import LinearModel, mtz_model, schedule_of, sequencing_model, tour_of
from icdc.baselines.one_by_one import as_integers
from icdc.errors import InputError, UsageError
from icdc.io.datasets import standard_set
from icdc.problems import get_problem
from icdc.problems.base import Arrays, Problem
from icdc.search.run import Budget
from icdc.search.schedule_exact import load_tables, read_schedule
from icdc.solvers import make_solver
from icdc.solving.answer import judge

FEW = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
BruteForce = Callable[[Problem, Arrays], NDArray[np.float64]]
VALUES = st.one_of(st.integers(0, 3), st.integers(0, 10**6))


@FEW
@given(st.data())
@pytest.mark.parametrize(
    ("name", "problem"),
    [*product(("cpsat", "highs", "scip"), ("pmsp", "atsp")), ("branch", "atsp"), ("dp", "pmsp")],
)
def test_answers_are_proven_optimal(brute_force: BruteForce, name: str, problem: str, data: st.DataObject) -> None:
    values, unit = VALUES, 1
    if problem == "atsp":
        size = data.draw(st.integers(2, 6))
        array, shape = "distances", (1, size, size)
    else:
        array, shape = "durations", (1, data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3)))
    if name == "dp":
        values, unit = st.one_of(st.integers(0, 3), st.integers(0, 40)), data.draw(st.sampled_from([1, 7, 10**6]))
    arrays = {array: data.draw(numpy_arrays(np.int64, shape, elements=values)) * unit}
    results = make_solver(name).solve(get_problem(problem), arrays)
    assert results.proven.all()
    assert np.array_equal(results.cost, brute_force(get_problem(problem), arrays))
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
    schedule = sequencing_model(times, machine, Budget())
    assert schedule is not None
    assert satisfied(schedule, schedule.start)
    assert np.array_equal(schedule_of(schedule.start, 6, 3), machine)
    makespan = max(times[machine == m, m].sum() for m in range(3))
    assert schedule.objective @ schedule.start == pytest.approx(makespan)

    costs, successor = rng.random((5, 5)), np.array([3, 4, 0, 1, 2])
    tour = mtz_model(costs, successor, Budget())
    assert tour is not None
    assert satisfied(tour, tour.start)
    assert np.array_equal(tour_of(tour.start, 5), successor)
    assert tour.objective @ tour.start == pytest.approx(costs[np.arange(5), successor].sum())


def test_formulation_of_tours_forbids_subtours() -> None:
    two_cycles = np.array([1, 0, 3, 4, 2])
    model = mtz_model(np.ones((5, 5)), np.array([1, 2, 3, 4, 0]), Budget())
    assert model is not None
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


@pytest.mark.parametrize(
    ("solver", "name", "count"),
    [
        ("branch", "atsp-20", 300),
        ("branch", "atsp-50", 10),
        ("branch", "navigation-20", 50),
        ("dp", "pmsp-20x3", 100),
        ("dp", "pmsp-20x4", 100),
        ("dp", "pmsp-20x5", 5),
    ],
)
def test_they_reach_the_proven_optima_of_the_standard_sets(solver: str, name: str, count: int) -> None:
    """The shipped references are CP-SAT's."""
    dataset = standard_set(name).first(count)
    results = make_solver(solver).solve(dataset.problem, dataset.arrays)
    assert results.proven.all()
    assert dataset.reference is not None
    assert np.allclose(results.cost, dataset.reference, rtol=1e-12)
    assert judge(dataset.problem, dataset.arrays, results.choice)[0].all()


@pytest.mark.parametrize(("solver", "problem", "size"), [("branch", "atsp", (20,)), ("dp", "pmsp", (20, 4))])
def test_they_agree_with_cpsat(solver: str, problem: str, size: tuple[int, ...]) -> None:
    arrays = get_problem(problem).sample(10, size, np.random.default_rng(8))
    mine, other = (make_solver(name).solve(get_problem(problem), arrays) for name in (solver, "cpsat"))
    assert mine.proven.all()
    assert np.array_equal(mine.cost, other.cost)


def symmetric(count: int, cities: int) -> Arrays:
    """Return Euclidean instances, whose assignments are full of two-cycles: hard for branching."""
    points = np.random.default_rng(2).random((count, cities, 2))
    return {"distances": np.hypot(*np.moveaxis(points[:, :, None] - points[:, None], -1, 0))}


@pytest.mark.parametrize("limits", [{"nodes": 3}, {"time_limit": 0.2}])
def test_branching_that_is_cut_off_says_so(limits: dict[str, float]) -> None:
    problem, arrays = get_problem("atsp"), symmetric(2, 40)
    solver = make_solver("branch", **{key: value for key, value in limits.items() if key == "nodes"})
    started = time.perf_counter()
    results = solver.solve(problem, arrays, time_limit=limits.get("time_limit"))
    assert time.perf_counter() - started < 5.0
    assert not results.proven.any()
    assert judge(problem, arrays, results.choice)[0].all()
    assert (results.bound < results.cost).all()
    lower = problem.lower_bound(arrays)
    assert lower is not None
    assert (results.bound >= lower - 1e-9).all()
    patched = make_solver("patching").solve(problem, arrays)
    assert (results.cost <= patched.cost + 1e-12).all()


def test_branching_needs_a_node() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        make_solver("branch:nodes=0")


def test_dynamic_programming_without_time_is_not_a_proof() -> None:
    problem = get_problem("pmsp")
    arrays = problem.sample(4, (20, 4), np.random.default_rng(3))
    results = make_solver("dp").solve(problem, arrays, time_limit=1e-4)
    assert not results.proven.any()
    assert judge(problem, arrays, results.choice)[0].all()
    assert (results.bound <= results.cost).all()


def test_what_is_too_large_or_not_whole_is_refused_with_the_limit() -> None:
    problem = get_problem("pmsp")
    arrays = problem.sample(1, (20, 4), np.random.default_rng(3))
    with pytest.raises(UsageError, match=r"20 jobs on 4 machines, more than its limit cells=1000"):
        make_solver("dp:cells=1000").solve(problem, arrays)
    with pytest.raises(UsageError, match="whole numbers"):
        make_solver("dp").solve(problem, {"durations": arrays["durations"] + 0.5})
    whole = make_solver("dp").solve(problem, {"durations": arrays["durations"].astype(np.float64)})
    assert np.array_equal(whole.cost, make_solver("dp").solve(problem, arrays).cost)


def test_tables_hold_the_least_load_of_the_last_machine() -> None:
    times = np.array([[2, 3], [1, 5], [4, 1]])
    tables = load_tables(times, 5, Budget())
    assert tables is not None
    assert [table.tolist() for table in tables] == [
        [0, 5, 5, 5, 5],
        [3, 5, 0, 5, 5],
        [5, 3, 5, 0, 5],
        [5, 4, 5, 1, 5],
    ]
    assert read_schedule(times, tables, 5) is not None
    assert np.array_equal(read_schedule(times, tables, 5), [0, 0, 1])  # type: ignore[arg-type]
    shorter = load_tables(times, 3, Budget())
    assert shorter is not None
    assert read_schedule(times, shorter, 3) is None


def test_wide_tables_have_entries_that_hold_their_loads(brute_force: BruteForce) -> None:
    """Makespans beyond 127 and beyond 32,767 take entries of more than a byte and of more than two."""
    rng = np.random.default_rng(4)
    for highest in (100, 20_000):
        arrays = {"durations": rng.integers(highest // 2, highest, (3, 7, 2))}
        results = make_solver("dp").solve(get_problem("pmsp"), arrays)
        assert np.array_equal(results.cost, brute_force(get_problem("pmsp"), arrays))


TINY_UNITS = [
    ("pmsp", [[4.3e-7, 9.3e-7, 5e-7]] * 4, 9.3e-7),
    ("pmsp", [[1e-9, 3e-9], [2e-9, None], [5e-9, 4e-9]], 4e-9),
    ("pmsp", [[3.7e-7, 1.1], [0.9, 2.0], [8e-7, 5e-7]], 0.90000037),
    ("atsp", [[0, 1e-9, 3e-9], [2e-9, 0, None], [5e-9, 4e-9, 0]], 9e-9),
]
EXACT = ["search", "cpsat", "highs", "scip", "branch"]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("problem", "matrix", "optimum"), TINY_UNITS)
def test_small_units_are_as_good_as_others(name: str, problem: str, matrix: Any, optimum: float) -> None:
    """Scales and what stands in for forbidden pairs are relative."""
    if name == "branch" and problem == "pmsp":
        return
    answer = solve(matrix, problem=problem, solver=name)
    assert answer.objective == pytest.approx(optimum, rel=1e-9)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("conditions"), [{"busy": [0, 2e-9]}, {"fixed": [[0, 0]]}])
def test_conditions_hold_in_small_units(name: str, conditions: dict[str, Any]) -> None:
    matrix, ends = [[1e-9, 3e-9], [2e-9, 2.5e-9], [5e-9, 4e-9]], {"busy": 6e-9, "fixed": 4e-9}
    if name != "branch":
        answer = solve(matrix, problem="pmsp", solver=name, **conditions)
        assert answer.objective == pytest.approx(ends[next(iter(conditions))], rel=1e-9)


LARGE = 2**50
LARGE_CASES = [
    ("pmsp", [[2**52, None]], 2**52),
    ("pmsp", [[2**52 + 1, 2**52], [2**52 - 9, 7]], 2**52),
    ("pmsp", [[LARGE + 1, LARGE + 3], [LARGE + 5, LARGE], [LARGE + 7, LARGE + 2]], 2 * LARGE + 2),
    ("atsp", [[0, LARGE + 1, LARGE + 5], [LARGE, 0, LARGE + 3], [LARGE + 7, LARGE + 9, 0]], 3 * LARGE + 11),
]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("problem", "matrix", "optimum"), LARGE_CASES)
def test_large_integers_are_exact_or_not_proven(name: str, problem: str, matrix: Any, optimum: int) -> None:
    if name == "branch" and problem == "pmsp":
        return
    answer = solve(matrix, problem=problem, solver=name)
    assert answer.feasible
    assert answer.objective is not None
    assert answer.objective >= optimum
    assert answer.bound is None or answer.bound <= optimum
    assert answer.objective == optimum or not answer.optimal
    assert name in ("highs", "scip", "search") or (answer.objective == optimum and answer.optimal)


@pytest.mark.parametrize("name", [*EXACT, "ect", "random", "ga:iterations=3"])
def test_sums_of_integers_that_would_not_be_exact_are_refused(name: str) -> None:
    """The largest sum is said in one place, before any solver sees the numbers."""
    with pytest.raises(InputError, match="too large to be added exactly"):
        solve(np.full((1500, 1), 2**53), problem="pmsp", solver=name)


@pytest.mark.parametrize("name", ["cpsat", "highs", "scip"])
def test_nothing_is_proven_of_numbers_too_far_apart(name: str) -> None:
    """Where tolerances, or integers that stand for reals, hide differences as large as the cost."""
    durations = np.array([[1e-7, 800.0], [3e-7, 1e-7], [2e-7, 1e-7]])
    results = make_solver(name).solve(get_problem("pmsp"), {"durations": durations[None]})
    assert results.feasible.all()
    assert results.bound[0] <= 2e-7 * (1 + 1e-9)
    assert not results.proven[0] or results.cost[0] <= 2e-7 * (1 + 1e-9)
