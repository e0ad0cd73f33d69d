"""What every classical solver owes: feasible answers, none below the optimum, bounds never above it."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.errors import UsageError
from icdc.problems import get_problem
from icdc.problems.base import Arrays, Problem
from icdc.solvers import SOLVERS, make_solver
from icdc.solving.answer import judge
from icdc.solving.solver import Result, Solver

QUICK = {"ga": "ga:iterations=20", "pso": "pso:iterations=20", "routing": "routing:seconds=0.02",
         "pyvrp": "pyvrp:iterations=30", "search": "search:seconds=0.05"}  # fmt: skip
CLASSICAL = [name for name in SOLVERS if name not in ("icdc", "network", "matnet", "cplex")]
EXACT = ("cpsat", "highs", "scip", "branch", "dp")
REFUSED = {"dp": "whole numbers|limit cells"}


def close(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))


def small_and_whole(arrays: Arrays) -> bool:
    return all(np.issubdtype(array.dtype, np.integer) and array.max() < 1000 for array in arrays.values())


@pytest.mark.parametrize("name", CLASSICAL)
def test_answers_are_feasible_and_never_better_than_the_optimum(
    name: str,
    tiny: tuple[Problem, Arrays],
    brute_force: Callable[[Problem, Arrays], NDArray[np.float64]],
) -> None:
    problem, arrays = tiny
    solver = make_solver(QUICK.get(name, name))
    kinds = SOLVERS[name].problems
    knows = kinds == "any" or ("schedules" if problem.name == "pmsp" else "tours") in kinds
    assert solver.supports(problem) is knows
    if not knows:
        with pytest.raises(UsageError, match="cannot answer"):
            solver.solve(problem, arrays)
        return
    if name in REFUSED and not small_and_whole(arrays):
        with pytest.raises(UsageError, match=REFUSED[name]):
            solver.solve(problem, arrays)
        return
    results = solver.solve(problem, arrays, samples=2, seed=3)
    optimum = brute_force(problem, arrays)
    slack = 1e-9 * np.maximum(1.0, np.abs(optimum))
    feasible, cost = judge(problem, arrays, results.choice)
    assert feasible.all()
    assert close(cost, results.cost)
    assert (cost >= optimum - slack).all()
    assert (results.bound <= optimum + 1e-12 * np.abs(optimum)).all()
    assert close(cost[results.proven], optimum[results.proven])
    if name in EXACT:
        # beyond the tolerances of their engines, integers are proven by bounds alone
        too_large = name in ("highs", "scip") and all(array.max() > 10**9 for array in arrays.values())
        assert too_large or results.proven.all()
        assert (results.bound >= optimum * (1 - 1e-6) - 1e-6).all()


@pytest.mark.parametrize("name", CLASSICAL)
def test_each_is_a_solver_and_says_what_it_cannot_do(name: str) -> None:
    solver = make_solver(name)
    assert isinstance(solver, Solver)
    assert solver.name == name
    assert any(solver.supports(get_problem(problem)) for problem in ("pmsp", "atsp"))


@pytest.mark.parametrize("name", ["random", "ga:iterations=15", "pso:iterations=15", "lkh", "pyvrp:iterations=20"])
def test_an_instance_is_answered_alike_in_any_batch(name: str) -> None:
    solver = make_solver(name)
    problem = get_problem("pmsp" if solver.supports(get_problem("pmsp")) else "atsp")
    size = (8, 3) if problem.name == "pmsp" else (8,)
    arrays = problem.sample(5, size, np.random.default_rng(1))
    together = solver.solve(problem, arrays, samples=3, seed=4)
    for index in range(5):
        alone = solver.solve(problem, {k: a[index : index + 1] for k, a in arrays.items()}, samples=3, seed=4)
        assert np.array_equal(alone.choice[0], together.choice[index])


@pytest.mark.parametrize("name", ["random", "ga:iterations=3", "pso:iterations=3", "nn", "ni", "fi"])
def test_more_samples_are_never_worse(name: str) -> None:
    solver = make_solver(name)
    problem = get_problem("pmsp" if solver.supports(get_problem("pmsp")) else "atsp")
    arrays = problem.sample(20, (10, 3) if problem.name == "pmsp" else (10,), np.random.default_rng(2))
    costs = [solver.solve(problem, arrays, samples=samples, seed=1).cost for samples in (1, 4, 10)]
    assert (costs[1] <= costs[0]).all()
    assert (costs[2] <= costs[1]).all()
    assert costs[2].mean() < costs[0].mean()


@pytest.mark.parametrize("name", ["cpsat", "scip", "highs", "pyvrp:iterations=1000000", "routing:seconds=5", "lkh"])
def test_the_time_limit_of_a_batch_is_kept_and_answers_stay_feasible(name: str) -> None:
    problem = get_problem("atsp")
    arrays = problem.sample(3, (40,), np.random.default_rng(3))
    solver = make_solver(name)
    solver.solve(problem, {"distances": arrays["distances"][:1, :5, :5]}, time_limit=0.1)  # loads what it needs
    started = time.perf_counter()
    results = solver.solve(problem, arrays, time_limit=0.6)
    assert time.perf_counter() - started < 6.0
    assert judge(problem, arrays, results.choice)[0].all()
    assert (results.bound <= results.cost).all()


def test_with_no_time_at_all_there_is_still_an_answer() -> None:
    for problem, size in ((get_problem("atsp"), (12,)), (get_problem("pmsp"), (12, 3))):
        arrays = problem.sample(4, size, np.random.default_rng(4))
        results: Result = make_solver("cpsat").solve(problem, arrays, time_limit=1e-9)
        assert judge(problem, arrays, results.choice)[0].all()
        assert not results.proven.any()


def test_metaheuristics_stop_when_the_time_is_over() -> None:
    problem = get_problem("pmsp")
    arrays = problem.sample(50, (20, 4), np.random.default_rng(5))
    for name in ("ga", "pso"):
        results = make_solver(f"{name}:iterations=1000000").solve(problem, arrays, time_limit=0.5)
        assert results.seconds < 5.0


def test_processes_change_nothing_but_the_time() -> None:
    problem = get_problem("atsp")
    arrays = problem.sample(6, (9,), np.random.default_rng(6))
    alone = make_solver("lkh").solve(problem, arrays, seed=2)
    shared = make_solver("lkh:processes=2").solve(problem, arrays, seed=2)
    assert np.array_equal(alone.choice, shared.choice)
