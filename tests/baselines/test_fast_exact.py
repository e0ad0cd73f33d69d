"""The two quick exact solvers: against brute force, against CP-SAT, within limits, and what they refuse."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as numpy_arrays
from numpy.typing import NDArray

from icdc.errors import UsageError
from icdc.io.datasets import standard_set
from icdc.problems import get_problem
from icdc.problems.base import Arrays, Problem
from icdc.search.schedule_tables import load_tables, read_schedule
from icdc.solving.registry import make_solver
from icdc.solving.verify import judge

SOME = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
BruteForce = Callable[[Problem, Arrays], NDArray[np.float64]]


@SOME
@given(st.data())
def test_branching_is_proven_optimal(brute_force: BruteForce, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 7))
    values = st.one_of(st.integers(0, 3), st.integers(0, 10**6))
    arrays = {"distances": data.draw(numpy_arrays(np.int64, (1, size, size), elements=values))}
    results = make_solver("branch").solve(get_problem("atsp"), arrays)
    assert results.proven.all()
    assert np.array_equal(results.cost, brute_force(get_problem("atsp"), arrays))
    assert np.array_equal(results.bound, results.cost)


@SOME
@given(st.data())
def test_dynamic_programming_is_proven_optimal(brute_force: BruteForce, data: st.DataObject) -> None:
    shape = (1, data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4)))
    values = st.one_of(st.integers(0, 3), st.integers(0, 40))
    unit = data.draw(st.sampled_from([1, 7, 10**6]))
    arrays = {"durations": data.draw(numpy_arrays(np.int64, shape, elements=values)) * unit}
    results = make_solver("dp").solve(get_problem("pmsp"), arrays)
    assert results.proven.all()
    assert np.array_equal(results.cost, brute_force(get_problem("pmsp"), arrays))
    assert np.array_equal(results.bound, results.cost)


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
    tables = load_tables(times, 5)
    assert tables is not None
    assert [table.tolist() for table in tables] == [
        [0, 5, 5, 5, 5],
        [3, 5, 0, 5, 5],
        [5, 3, 5, 0, 5],
        [5, 4, 5, 1, 5],
    ]
    assert read_schedule(times, tables, 5) is not None
    assert np.array_equal(read_schedule(times, tables, 5), [0, 0, 1])  # type: ignore[arg-type]
    shorter = load_tables(times, 3)
    assert shorter is not None
    assert read_schedule(times, shorter, 3) is None


def test_wide_tables_have_entries_that_hold_their_loads(brute_force: BruteForce) -> None:
    """Makespans beyond 127 and beyond 32,767 take entries of more than a byte and of more than two."""
    rng = np.random.default_rng(4)
    for highest in (100, 20_000):
        arrays = {"durations": rng.integers(highest // 2, highest, (3, 7, 2))}
        results = make_solver("dp").solve(get_problem("pmsp"), arrays)
        assert np.array_equal(results.cost, brute_force(get_problem("pmsp"), arrays))
