"""Families of durations to measure schedules on: what is likely to break a method tuned on uniform numbers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Durations = NDArray[np.int64]
FORBIDDEN = np.iinfo(np.int64).max
"""Stands for "this machine cannot run this job" in the family with forbidden pairs."""


def _uniform(high: int) -> Callable[[np.random.Generator, int, int], Durations]:
    return lambda random, jobs, machines: random.integers(1, high + 1, (jobs, machines))


def _job_correlated(random: np.random.Generator, jobs: int, machines: int) -> Durations:
    """A base U(1, 100) of every job plus noise U(1, 20): machines nearly alike, the hardest to balance."""
    return random.integers(1, 101, (jobs, 1)) + random.integers(1, 21, (jobs, machines))


def _machine_correlated(random: np.random.Generator, jobs: int, machines: int) -> Durations:
    """A base U(1, 100) of every machine plus noise U(1, 20): jobs nearly alike, most work on the fast machines."""
    return random.integers(1, 101, (1, machines)) + random.integers(1, 21, (jobs, machines))


def _speeds(random: np.random.Generator, jobs: int, machines: int) -> Durations:
    """The work of a job over the speed of a machine (from 1 to e²), each pair disturbed by up to 20 %."""
    work, speed = random.integers(100, 1001, (jobs, 1)), np.exp(2 * random.random((1, machines)))
    return np.maximum(1, np.rint(work / speed * random.uniform(0.8, 1.2, (jobs, machines)))).astype(np.int64)


def _heavy_tails(random: np.random.Generator, jobs: int, machines: int) -> Durations:
    """Log-normal: a few jobs far longer than the rest."""
    return np.maximum(1, np.rint(20 * np.exp(random.normal(0.0, 1.2, (jobs, machines))))).astype(np.int64)


def _forbidden(random: np.random.Generator, jobs: int, machines: int) -> Durations:
    """Uniform 1-100; each job may run on about a third of the machines (on one at least)."""
    durations = random.integers(1, 101, (jobs, machines))
    closed = random.random((jobs, machines)) > 1 / 3
    closed[np.arange(jobs), random.integers(0, machines, jobs)] = False
    return np.where(closed, FORBIDDEN, durations)


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], Durations]] = {
    "uniform-100": _uniform(100),
    "uniform-1000": _uniform(1000),
    "job-correlated": _job_correlated,
    "machine-correlated": _machine_correlated,
    "speeds": _speeds,
    "heavy-tails": _heavy_tails,
    "forbidden": _forbidden,
}


def durations(family: str, jobs: int, machines: int, seed: int) -> tuple[Durations, NDArray[np.bool_] | None]:
    """Return one instance (jobs, machines) and the pairs that are allowed (None: all); the same for the same seed."""
    numbers = FAMILIES[family](
        np.random.default_rng([seed, jobs, machines, list(FAMILIES).index(family)]), jobs, machines
    )
    allowed = numbers != FORBIDDEN
    return np.where(allowed, numbers, 0), None if allowed.all() else allowed
