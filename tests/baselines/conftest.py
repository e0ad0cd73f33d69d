"""Optima by trying everything, and small instances with every kind of degeneracy."""

from collections.abc import Callable
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.problems import get_problem
from icdc.problems.base import Arrays, Problem
from icdc.problems.tensors import to_tensors


def best_makespan(durations: NDArray[Any]) -> Any:
    """Return the least makespan of one instance (jobs, machines) over all assignments."""
    jobs, machines = durations.shape
    best = None
    for assignment in product(range(machines), repeat=jobs):
        load = [durations.dtype.type(0)] * machines
        for job, machine in enumerate(assignment):
            load[machine] = load[machine] + durations[job, machine]
        if best is None or max(load) < best:
            best = max(load)
    return best


def best_tour(costs: NDArray[Any]) -> Any:
    """Return the least length of a tour through one matrix (n, n) over all tours."""
    tours = ((0, *rest, 0) for rest in permutations(range(1, len(costs))))
    return min(sum(costs[i, j] for i, j in pairwise(tour)) for tour in tours)


def optima(problem: Problem, arrays: Arrays) -> NDArray[np.float64]:
    """Return the optimal costs (count,) of tiny instances."""
    if problem.name == "pmsp":
        return np.array([best_makespan(matrix) for matrix in arrays["durations"]], dtype=np.float64)
    costs = problem.travel(to_tensors(arrays)).numpy()  # type: ignore[attr-defined]
    return np.array([best_tour(matrix) for matrix in costs], dtype=np.float64)


@pytest.fixture
def brute_force() -> Callable[[Problem, Arrays], NDArray[np.float64]]:
    return optima


def _tiny() -> dict[str, tuple[str, Arrays]]:
    rng = np.random.default_rng(5)
    constant = np.full((1, 5, 5), 7)
    return {
        "schedules": ("pmsp", {"durations": rng.integers(2, 20, (3, 6, 3))}),
        "schedules of reals": ("pmsp", {"durations": rng.random((3, 6, 3)) * 10}),
        "one machine": ("pmsp", {"durations": rng.integers(0, 9, (2, 5, 1))}),
        "one job": ("pmsp", {"durations": rng.integers(0, 9, (2, 1, 4))}),
        "equal jobs": ("pmsp", {"durations": np.full((1, 6, 3), 4)}),
        "jobs of no length": ("pmsp", {"durations": np.zeros((1, 4, 2), dtype=np.int64)}),
        "huge durations": ("pmsp", {"durations": rng.integers(10**11, 10**12, (2, 5, 2))}),
        "tours": ("atsp", {"distances": rng.integers(0, 100, (3, 7, 7))}),
        "tours of reals": ("atsp", {"distances": rng.random((3, 6, 6))}),
        "two cities": ("atsp", {"distances": rng.integers(0, 9, (2, 2, 2))}),
        "three cities": ("atsp", {"distances": rng.integers(0, 99, (4, 3, 3))}),
        "four cities": ("atsp", {"distances": rng.integers(0, 99, (4, 4, 4))}),
        "equal distances": ("atsp", {"distances": constant}),
        "no distances": ("atsp", {"distances": constant * 0}),
        "ties": ("atsp", {"distances": rng.integers(0, 2, (4, 6, 6))}),
        "huge distances": ("atsp", {"distances": rng.integers(10**11, 10**12, (2, 5, 5))}),
        "navigation": ("navigation", get_problem("navigation").sample(2, (6,), rng)),
    }


TINY = _tiny()


@pytest.fixture(params=list(TINY))
def tiny(request: pytest.FixtureRequest) -> tuple[Problem, Arrays]:
    """Return instances small enough to try every solution, one kind at a time."""
    name, arrays = TINY[request.param]
    problem = get_problem(name)
    return problem, problem.check(arrays)
