"""Families of processing times: what breaks a method that was tuned on uniform numbers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .families import NORMAL_STEPS, Draw, Family, looked_up, normal_table, rounded_exponentials

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise

HUGE = 1_000_000
"""The processing time that forbids a pair: below 10,000 jobs no schedule without it is as long."""

_SPEEDS = 1024
"""Different speeds of a machine."""


def _uniform(high: int) -> Draw:
    def draw(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
        return {"durations": 1 + noise.integers(high, *size)}

    return draw


def _job_correlated(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """A base of every job plus noise: machines nearly alike, the hardest to balance."""
    jobs, machines = size
    return {"durations": 2 + noise.integers(100, jobs, 1) + noise.integers(20, jobs, machines)}


def _machine_correlated(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """A base of every machine plus noise: jobs nearly alike, most of the work on the fast machines."""
    jobs, machines = size
    return {"durations": 2 + noise.integers(100, 1, machines) + noise.integers(20, jobs, machines)}


def _speeds(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """The work of a job over the speed of a machine, each pair disturbed."""
    jobs, machines = size
    work, speed = 100 + noise.integers(901, jobs, 1), looked_up(_speed_table(), noise.integers(_SPEEDS, 1, machines))
    disturbed = work * (800 + noise.integers(401, jobs, machines))
    return {"durations": ((2 * disturbed + speed) // (2 * speed)).clamp_min(1)}


def _heavy_tailed(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    return {"durations": looked_up(_log_normal_table(), noise.integers(NORMAL_STEPS, *size))}


def _forbidden(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """Each job has one machine for sure, and every other one with a chance of a third."""
    import torch

    jobs, machines = size
    durations = 1 + noise.integers(100, jobs, machines)
    own = noise.integers(machines, jobs, 1) == torch.arange(machines, device=durations.device)
    return {"durations": torch.where(own | (noise.integers(3, jobs, machines) == 0), durations, HUGE)}


@cache
def _speed_table() -> tuple[int, ...]:
    """Speeds from 1 to e², in thousandths."""
    return rounded_exponentials([2.0 * (step + 0.5) / _SPEEDS for step in range(_SPEEDS)], 1000.0)


@cache
def _log_normal_table() -> tuple[int, ...]:
    return tuple(max(1, value) for value in rounded_exponentials(normal_table(1.2), 20.0))


SCHEDULE_FAMILIES: dict[str, Family] = {
    "paper": Family("the paper's own: integers from 2 to 19"),
    "uniform-100": Family("integers from 1 to 100", _uniform(100)),
    "uniform-1000": Family("integers from 1 to 1000", _uniform(1000), 10.0),
    "job-correlated": Family("a base 1–100 of every job plus 1–20 for each pair", _job_correlated),
    "machine-correlated": Family("a base 1–100 of every machine plus 1–20 for each pair", _machine_correlated),
    "speeds": Family("work 100–1000 over a speed from 1 to e², each pair up to 20 % off", _speeds, 10.0),
    "heavy-tailed": Family("log-normal, median 20, σ = 1.2: a few pairs far longer than the rest", _heavy_tailed),
    "forbidden": Family(
        f"1–100 on about a third of the machines; the others are forbidden, by {HUGE:,}", _forbidden, forbids=True
    ),
}
"""By name; the draw of each is uniform where nothing else is said."""
