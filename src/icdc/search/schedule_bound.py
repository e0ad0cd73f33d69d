"""A bound for whole durations above that of the linear program: no machine runs fractions of jobs.

Can all jobs end by T? Give job j a reward u_j ≥ 0. Each machine collects at most K_m(u), what a knapsack of size T
holds. If Σ_m K_m(u) < Σ_j u_j for any rewards, not all jobs fit and every makespan is above T. Rewards come from
subgradient steps; they are rounded to integers before the knapsacks are filled, in 64-bit integers, so that the proof
is exact.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..jit import compiled
from .schedule_prices import Prices

_UNIT = 1_000_000
"""Rewards are integers that add up to this much a machine."""
_STEPS = 120
"""Subgradient steps for one T before it is given up."""


@compiled
def collect(durations, usable, rewards, capacity, chosen):  # type: ignore[no-untyped-def]
    """Fill each machine's knapsack; count in `chosen` (jobs,) how many machines take each job; return Σ_m K_m(u)."""
    jobs, machines = durations.shape
    chosen[:] = 0
    total = 0
    value = np.zeros(capacity + 1, np.int64)
    after = np.zeros(capacity + 1, np.int64)
    taken = np.zeros((jobs, capacity + 1), np.bool_)
    for machine in range(machines):
        value[:] = 0
        for job in range(jobs):
            long, reward = durations[job, machine], rewards[job]
            if not usable[job, machine] or long > capacity or reward <= 0:
                continue
            for room in range(long):
                after[room] = value[room]
                taken[job, room] = False
            for room in range(long, capacity + 1):
                better = value[room - long] + reward
                taken[job, room] = better > value[room]
                after[room] = max(value[room], better)
            value, after = after, value
        total += value[capacity]
        room = capacity
        for back in range(jobs):
            job = jobs - 1 - back
            long = durations[job, machine]
            if usable[job, machine] and long <= capacity and rewards[job] > 0 and taken[job, room]:
                room -= long
                chosen[job] += 1
    return total


def knapsack_bound(
    durations: NDArray[Any],
    prices: Prices,
    incumbent: int,
    *,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Return a lower bound on every makespan of whole durations (jobs, machines), at least `prices.bound`.

    First it is tried to show that nothing is below the incumbent; failing that, the largest T that can be refuted is
    looked for by halving. Without `seconds` the answer depends on nothing but the arguments. Real durations keep
    their bound, as do loads so long that a table over them would be too large.
    """
    low = prices.bound
    if not np.issubdtype(durations.dtype, np.integer) or incumbent * durations.shape[0] > 20_000_000:
        return low
    times = np.ascontiguousarray(durations, dtype=np.int64)
    usable = np.isfinite(prices.given)
    until = np.inf if seconds is None else clock() + seconds
    rewards = prices.reward / max(prices.reward.sum(), 1e-300) * len(prices.machine)
    high = incumbent - 1  # the largest T worth refuting; all T < low are refuted
    first = True
    while low <= high and clock() < until:
        capacity = int(high if first else (low + high) // 2)
        first = False
        refuted, rewards = _refute(times, usable, capacity, rewards, until, clock)
        if refuted:
            low = float(capacity + 1)
        else:
            high = capacity - 1
    return low


def _refute(
    times: NDArray[np.int64],
    usable: NDArray[np.bool_],
    capacity: int,
    rewards: NDArray[np.float64],
    until: float,
    clock: Callable[[], float],
) -> tuple[bool, NDArray[np.float64]]:
    """Look for rewards that show that not all jobs end by `capacity`; return whether found, and the best rewards."""
    chosen = np.zeros(len(times), np.int64)
    best, best_rewards, speed, stale = -np.inf, rewards, 1.0, 0
    for _ in range(_STEPS):
        whole = np.floor(np.maximum(rewards, 0.0) * _UNIT).astype(np.int64)
        missing = int(whole.sum()) - int(collect(times, usable, whole, capacity, chosen))
        if missing > 0:
            return True, rewards
        if clock() > until:
            break
        if missing > best:
            best, best_rewards, stale = missing, rewards, 0
        else:
            stale += 1
            if stale % 6 == 0:
                speed /= 1.5
        direction = 1.0 - chosen
        length = float(direction @ direction)
        if length == 0:  # every job taken once: a schedule that ends by `capacity` exists
            break
        # towards rewards at which the shortfall would be a thousandth of all there is
        distance = (0.001 * float(whole.sum()) - missing) / _UNIT
        rewards = np.maximum(rewards + speed * distance / length * direction, 0.0)
        if rewards.sum() <= 0:
            break
        # only proportions matter: where T cannot be refuted, steps would lead to no rewards at all
        rewards = rewards / rewards.sum() * times.shape[1]
    return False, best_rewards
