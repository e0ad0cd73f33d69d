"""Tiny schedules and their optima by trying everything."""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from icdc.search.run import Budget, InstanceSearch


def instance(
    seed: int, whole: bool = True, jobs: int = 6, machines: int = 3
) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
    """Durations (jobs, machines) of a kind that changes with the seed, and the allowed pairs of every third seed."""
    random = np.random.default_rng(seed)
    base = (np.zeros((1, 1), int), random.integers(1, 30, (jobs, 1)), random.integers(1, 30, (1, machines)))[seed % 3]
    durations = base + random.integers(1, (10, 40)[seed % 2], (jobs, machines))
    allowed = None
    if seed % 4 == 3:
        allowed = random.random((jobs, machines)) < 0.6
        allowed[np.arange(jobs), random.integers(0, machines, jobs)] = True
    return (durations if whole else durations + random.random(durations.shape)), allowed


def loads(durations: NDArray[np.generic], choice: NDArray[np.int64]) -> list[int]:
    """Loads of the machines, by plain addition."""
    result = [0 * durations[0, 0].item() for _ in range(durations.shape[1])]
    for job, machine in enumerate(choice):
        result[machine] += durations[job, machine].item()
    return result


def optimum(durations: NDArray[np.generic], allowed: NDArray[np.bool_] | None) -> float:
    """The least makespan of all choices."""
    jobs, machines = durations.shape
    return min(
        max(loads(durations, np.array(choice)))
        for choice in product(range(machines), repeat=jobs)
        if allowed is None or all(allowed[job, machine] for job, machine in enumerate(choice))
    )


def random_choice(seed: int, durations: NDArray[np.generic], allowed: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """A random choice that is allowed."""
    random = np.random.default_rng(seed)
    score = random.random(durations.shape)
    return (score if allowed is None else np.where(allowed, score, -1.0)).argmax(1)


def run(search: InstanceSearch, seconds: float) -> InstanceSearch:
    """Run all parts of a search within about `seconds`, and return it."""
    budget = Budget(seconds)
    for part, share in ((search.construct, 0.5), (search.search, 0.1), (search.prove, 0.5), (search.search, 1.0)):
        part(budget.share(share))
    return search
