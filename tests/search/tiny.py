"""Tiny tours and schedules, their optima by trying everything, and a search with all of its parts."""

from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icdc.search.run import Budget, InstanceSearch

Choice = NDArray[np.int64]


def run(search: InstanceSearch, seconds: float) -> InstanceSearch:
    """Run all parts of a search within about `seconds`, and return it."""
    budget = Budget(seconds)
    for part, share in ((search.construct, 0.5), (search.search, 0.1), (search.prove, 0.5), (search.search, 1.0)):
        part(budget.share(share))
    return search


def durations_of(seed: int, whole: bool = True, jobs: int = 6, machines: int = 3) -> NDArray[Any]:
    """Durations (jobs, machines) of a kind that changes with the seed."""
    random = np.random.default_rng(seed)
    base = (np.zeros((1, 1), int), random.integers(1, 30, (jobs, 1)), random.integers(1, 30, (1, machines)))[seed % 3]
    durations = base + random.integers(1, (10, 40)[seed % 2], (jobs, machines))
    return durations if whole else durations + random.random(durations.shape)


def loads(durations: NDArray[Any], choice: Choice) -> list[int]:
    """Loads of the machines, by plain addition."""
    result = [0 * durations[0, 0].item() for _ in range(durations.shape[1])]
    for job, machine in enumerate(choice):
        result[machine] += durations[job, machine].item()
    return result


def shortest_makespan(durations: NDArray[Any]) -> float:
    """The least makespan of all choices."""
    jobs, machines = durations.shape
    return min(max(loads(durations, np.array(choice))) for choice in product(range(machines), repeat=jobs))


def random_choice(seed: int, durations: NDArray[Any]) -> Choice:
    return np.random.default_rng(seed).random(durations.shape).argmax(1)


def slow_machines(jobs: int = 120, machines: int = 12) -> NDArray[np.int64]:
    """Durations of machines of very different speeds, on most of which few jobs have a place."""
    rng = np.random.default_rng(1)
    return rng.integers(1, 101, (1, machines)) + rng.integers(1, 21, (jobs, machines))


def distances_of(seed: int, size: int = 9, real: bool = False) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return rng.random((size, size)) if real else rng.integers(-5, 60, (size, size))


def random_tour(size: int, seed: int) -> Choice:
    """The successors of a random tour."""
    return successors(np.random.default_rng(seed).permutation(size))


def successors(order: Choice) -> Choice:
    successor = np.empty(len(order), np.int64)
    successor[order] = np.roll(order, -1)
    return successor


def shortest_tour(distances: NDArray[Any]) -> float:
    """The least length of all tours."""
    orders = np.array([(0, *rest) for rest in permutations(range(1, len(distances)))])
    return float(distances.astype(np.float64)[orders, np.roll(orders, -1, 1)].sum(1).min())
