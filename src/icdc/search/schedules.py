"""Schedules on unrelated machines without a network: starts from prices, descent to a local optimum, tabu search.

Durations are (jobs, machines); `allowed` of the same shape marks the pairs that may be used (None: all). Whole numbers
are added as 64-bit integers and stay exact; others are 64-bit floats.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..jit import compiled, fast_here
from .run import Budget, run_all
from .schedule_moves import descend
from .schedule_prices import Prices, price
from .schedule_tabu import Tabu, place

Durations = NDArray[Any]
Choice = NDArray[np.int64]
Allowed = NDArray[np.bool_]
NEAR = 8
"""Machines a job may go to in a chain: those at which it gives away least."""


@dataclass(frozen=True)
class Starts:
    """Choices (count, jobs) at local optima, the best first, their makespans (count,), and the prices behind them."""

    choices: Choice
    makespans: NDArray[Any]
    prices: Prices


def makespan(durations: Durations, choice: Choice) -> Any:
    """Return the load of the fullest machine, exact for whole numbers; for choices (..., jobs) one number each."""
    times = numbers(durations)
    jobs = np.arange(len(times))
    flat = choice.reshape(-1, len(times))
    loads = np.zeros((len(flat), times.shape[1]), times.dtype)
    np.add.at(loads, (np.arange(len(flat))[:, None], flat), times[jobs, flat])
    return loads.max(1).reshape(choice.shape[:-1])[()]


def construct(durations: Durations, allowed: Allowed | None = None, *, seconds: float | None = None) -> Starts:
    """Return good schedules and the prices behind them: fractions rounded, and a priced greedy, longest first.

    `seconds` limits the linear program and the descents; without a linear program there are still prices.
    """
    times = numbers(durations, allowed)
    until = None if seconds is None else time.monotonic() + seconds
    prices = price(times, allowed, seconds=seconds)
    left = None if until is None else max(0.0, until - time.monotonic())
    return follow(times, prices, allowed, seconds=left)


def follow(
    durations: Durations, prices: Prices, allowed: Allowed | None = None, *, seconds: float | None = None
) -> Starts:
    """Return the schedules that prices lead to, at local optima; `seconds` limits the descents."""
    times = numbers(durations, allowed)
    given = prices.scaled()
    longest = np.argsort(-np.where(np.isfinite(given), times, np.inf).min(1), kind="stable")
    # where many pairs give away nothing, fractions tell which; the most promising first: time may not do for both
    rounded = (
        given.argmin(1) if prices.fraction is None else np.where(np.isfinite(given), prices.fraction, -1.0).argmax(1)
    )
    choices = np.stack([rounded, greedy(times, given, longest, prices.bound)])
    improved = improve(times, choices, allowed, prices, seconds=seconds)
    makespans = makespan(times, improved)
    order = np.argsort(makespans, kind="stable")
    return Starts(improved[order], makespans[order], prices)


def improve(
    durations: Durations,
    choice: Choice,
    allowed: Allowed | None = None,
    prices: Prices | None = None,
    *,
    seconds: float | None = None,
) -> Choice:
    """Return choices (..., jobs) no worse than the ones given, at a local optimum (or after a limit).

    The limits are `seconds`, and 20 changes per job. With `seconds`, and nothing compiled, there are no chains (3).

    At a local optimum no machine with the largest load can be relieved, every machine touched ending below the
    makespan, (1) by moving one of its jobs, (2) by exchanging it for a job of another machine, or (3) by moving it to a
    machine from which a job goes on to a third, from which a job may come back; in (3) the first two jobs go to the
    NEAR machines at which they give away least.
    """
    times = numbers(durations, allowed)
    _check(times, choice, allowed)
    jobs, machines = times.shape
    given = (prices or price(times, allowed)).given
    near = np.argsort(given, axis=1, kind="stable")[:, :NEAR]
    near[~np.isfinite(np.take_along_axis(given, near, 1))] = -1
    if seconds is not None and not fast_here():
        near[:] = -1  # looking for one chain could take seconds where nothing is compiled
    usable = np.isfinite(given)
    load, size = np.zeros(machines, times.dtype), np.zeros(machines, np.int64)
    members, position = np.zeros((machines, jobs), np.int64), np.zeros(jobs, np.int64)
    until = np.inf if seconds is None else time.monotonic() + seconds
    # with a limit one change at a time: without a compiler a single one may take a tenth of a second
    limit, slices = (20 * jobs, 1) if seconds is None else (1, 20 * jobs)
    improved = choice.astype(np.int64).reshape(-1, jobs)
    for row in improved:
        before, row_before = makespan(times, row), row.copy()
        place(times, row, load, members, size, position)
        for _ in range(slices):
            if time.monotonic() >= until or not descend(times, usable, near, limit, row, load, members, size, position):
                break
        if makespan(times, row) > before:  # sums of reals kept up by additions may drift
            row[:] = row_before
    return improved.reshape(choice.shape)


def iterate(
    durations: Durations,
    choice: Choice,
    budget: Budget,
    allowed: Allowed | None = None,
    *,
    prices: Prices | None = None,
    bound: float | None = None,
    seed: int = 0,
) -> Choice:
    """Search on from a choice (jobs,) until the budget is spent or the bound is met; return the best one.

    Parameters
    ----------
    prices, bound
        What `construct` found; a better lower bound may be given, at which the search ends. Default: worked out.
    """
    times = numbers(durations, allowed)
    _check(times, choice, allowed)
    prices = prices or price(times, allowed)
    goal = max(prices.bound, bound or 0.0)
    given = np.ascontiguousarray(prices.scaled())
    searches = [Tabu(times, given, choice, goal, seed * 1000 + index) for index in range(max(1, budget.searches))]
    run_all(searches, budget)
    found = min(searches, key=lambda search: search.best[0]).best_choice.copy()
    # sums of reals kept up by additions may drift
    return found if makespan(times, found) <= makespan(times, choice) else choice.astype(np.int64)


@compiled
def greedy(durations, given, order, level):  # type: ignore[no-untyped-def]
    """Give jobs in `order` to machines: least given away plus work above `level`, then the earliest end."""
    load = np.zeros(durations.shape[1], durations.dtype)
    choice = np.zeros(len(durations), np.int64)
    for job in order:
        best, best_score, best_end = -1, 0.0, load[0]
        for machine in range(len(load)):
            end = load[machine] + durations[job, machine]
            score = given[job, machine] + max(0.0, float(end - level))
            if np.isfinite(score) and (best < 0 or score < best_score or (score == best_score and end < best_end)):
                best, best_score, best_end = machine, score, end
        choice[job] = best
        load[best] = best_end
    return choice


def numbers(durations: Durations, allowed: Allowed | None = None) -> Durations:
    """Return durations as int64 or float64; those of forbidden pairs are zero and never used."""
    whole = np.issubdtype(durations.dtype, np.integer) or durations.dtype == np.bool_
    numbers = np.ascontiguousarray(durations, dtype=np.int64 if whole else np.float64)
    if allowed is None:
        return numbers
    if not allowed.any(1).all():
        raise ValueError("a job has no machine it may run on")
    return np.where(allowed, numbers, numbers.dtype.type(0))


def _check(times: Durations, choice: Choice, allowed: Allowed | None) -> None:
    jobs, machines = times.shape
    if choice.shape[-1:] != (jobs,) or (choice.size and not 0 <= choice.min() <= choice.max() < machines):
        raise ValueError(f"a choice needs a machine from 0 to {machines - 1} for each of {jobs} jobs")
    if allowed is not None and not allowed[np.arange(jobs), choice].all():
        raise ValueError("a choice uses a pair of job and machine that is not allowed")
