"""Lower bounds on schedules: prices of machines from a linear program, and knapsacks of whole jobs.

For any prices λ ≥ 0 of the machines' time with Σ λ = 1, no makespan is below Σ_j min_m λ_m p_jm (weak duality). What a
pair (j, m) gives away is λ_m p_jm − min_k λ_k p_jk: the bound rises by so much if the job has to run there.

Where jobs are long on some machines, time is not all that is scarce there: a machine that needs 80 for any job holds 6
of them by 500, not 6.25. A schedule that ends by T has at most n_m jobs on machine m, as many of the shortest there
as add up to T. Places have prices μ ≥ 0 then: no makespan up to T is below Σ_j min_m (λ_m p_jm + μ_m) − Σ_m μ_m n_m.

Knapsacks prove more for integers, as no machine runs fractions of jobs. Can all jobs end by T? Give job j a reward
u_j ≥ 0. Each machine collects at most K_m(u), what a knapsack of size T holds. If Σ_m K_m(u) < Σ_j u_j for any rewards,
not all jobs fit and every makespan is above T. Rewards come from subgradient steps; they are rounded to integers before
the knapsacks are filled, in 64-bit integers, so that the proof is exact.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import compiled
from .run import Budget

Floats = NDArray[np.float64]
EPSILON = float(np.finfo(np.float64).eps)
SMALL = 4000
"""Pairs up to which the linear program takes all columns at once; beyond, it starts from the best few of each job."""
COLUMNS = 6
FEWER_COLUMNS = 4
"""The same where there are good prices already."""
ROUNDS = 3
"""Linear programs, each with the columns that would lower the optimum of the one before."""
MIXED = 0.02
"""Part of the prices of time alone in those of time and places."""
CROWDED = 0.01
"""Jobs by which fractions may exceed the places of a machine before places are worth a program of their own."""
LARGEST = 24_000
"""Columns of a linear program beyond which the balanced prices have to do (it would take more than about a second)."""
UNIT = 1_000_000
"""Rewards are integers that add up to this much a machine."""
STEPS = 120
"""Subgradient steps for one T before it is given up."""
LARGEST_KNAPSACK = 20_000_000
"""Entries of a knapsack for all jobs up to which it is filled."""


@dataclass(frozen=True)
class Prices:
    """What time and places on machines are worth, and what follows from it.

    machine : (machines,) prices of time, that sum to one.
    reduced : (jobs, machines) reduced costs, what each pair gives away; ∞ where it is forbidden.
    bound : no schedule ends earlier; safe against rounding, and a whole number for whole durations.
    level : no schedule that ends by `limit` ends earlier, by these prices alone and before it is rounded.
    reward : (jobs,) what a job costs at its best machine.
    fraction : (jobs, machines) the share of each job on each machine in the linear program; None: it was not solved.
    limit : where places have prices, the end that their number was worked out for.
    """

    machine: Floats
    reduced: Floats
    bound: float
    level: float
    reward: Floats
    fraction: Floats | None = None
    limit: float = np.inf

    def scaled(self) -> Floats:
        """Return what pairs give away (jobs, machines) in units of time on an average machine."""
        return self.reduced * len(self.machine)


def price(
    durations: NDArray[np.generic], budget: Budget | None = None, allowed: NDArray[np.bool_] | None = None
) -> Prices:
    """Return prices for durations (jobs, machines): duals of the linear program, or near ones if that is too large.

    Or if there is no time for it.

    allowed : (jobs, machines), the pairs that may be used; None for all.
    """
    times = durations.astype(np.float64)
    if allowed is not None:
        times[~allowed] = np.inf
    scale = times[np.isfinite(times)].max(initial=0.0) or 1.0
    guess = _balanced(times / scale)
    duals = _linear_program(times / scale, _times_prices(times, guess), budget or Budget())
    candidates = [guess] if duals is None else [guess, duals.machine]
    value, best = max((_value(times, prices), index) for index, prices in enumerate(candidates))
    priced = _times_prices(times, candidates[best])
    reward, fraction = priced.min(1), None if duals is None else duals.fraction
    bound = _safe(times, value, durations.dtype)
    return Prices(candidates[best], priced - reward[:, None], bound, value, reward, fraction)


def price_below(
    durations: NDArray[np.generic], prices: Prices, limit: float, budget: Budget | None = None
) -> Prices | None:
    """Return prices of time and places for schedules of durations (jobs, machines) that end by `limit`.

    None where the fractions of `prices` put no more jobs on a machine than it holds, or there is no time. If no
    schedule ends by `limit`, the bound may say so.
    """
    times = durations.astype(np.float64)
    places = most_jobs(times, limit)
    beyond = limit + 1.0 if np.issubdtype(durations.dtype, np.integer) else limit
    if places.sum() < len(times):
        return replace(prices, bound=max(prices.bound, beyond))
    if prices.fraction is None or (prices.fraction.sum(0) <= places + CROWDED).all():
        return None
    scale = times.max(initial=0.0) or 1.0
    duals = _linear_program(times / scale, prices.reduced, budget or Budget(), places)
    if duals is None:
        return None
    level, _, _ = _valued(times, duals.machine, scale * duals.place, places)
    bound = min(beyond, _safe(times, level, durations.dtype))
    # pairs that these prices cannot distinguish, and there are many, are distinguished by a little of the others
    machine = (1 - MIXED) * duals.machine + MIXED * prices.machine
    level, reduced, reward = _valued(times, machine, (1 - MIXED) * scale * duals.place, places)
    return Prices(machine, reduced, max(prices.bound, bound), level, reward, duals.fraction, limit)


def _valued(times: Floats, machine: Floats, place: Floats, places: NDArray[np.int64]) -> tuple[float, Floats, Floats]:
    """Return the level of prices of time and places, what pairs give away, and what jobs cost at best."""
    priced = _times_prices(times, machine) + place
    reward = priced.min(1)
    worth, spent = float(reward.sum()), float(place @ places)
    level = worth - spent - 4 * len(times) * EPSILON * (worth + spent)
    return level, priced - reward[:, None], reward


def most_jobs(times: NDArray[Any], limit: float) -> NDArray[np.int64]:
    """Return how many jobs each machine can hold (machines,) by `limit`; times (jobs, machines), ∞ where forbidden."""
    # sums of reals may be rounded up, whole ones are exact
    return np.asarray((np.sort(times, 0).cumsum(0) <= limit * (1 + 1e-12)).sum(0), dtype=np.int64)


def _times_prices(times: Floats, prices: Floats) -> Floats:
    priced: Floats = np.full_like(times, np.inf)
    np.multiply(times, prices, out=priced, where=np.isfinite(times))
    return priced


def _value(times: Floats, prices: Floats) -> float:
    return float(_times_prices(times, prices).min(1).sum())


def _safe(times: Floats, value: float, kind: np.dtype[np.generic]) -> float:
    """Lower a sum of priced times by what rounding may have added; whole data round up, and no job is ever split."""
    value -= 4 * len(times) * EPSILON * value
    longest = float(times.min(1).max())
    if np.issubdtype(kind, np.integer):
        # just above a whole number may be that number plus rounding: never round it up a whole unit
        return float(max(np.ceil(value - 1e-9 * max(1.0, value)), longest))
    return float(max(value, longest * (1 - EPSILON)))


def _balanced(times: Floats, rounds: int = 60) -> Floats:
    """Raise prices of machines that jobs crowd on and lower those of others until fractional loads are nearly equal."""
    machines = times.shape[1]
    finite = np.where(np.isfinite(times), times, 0.0)
    prices: Floats = np.full(machines, 1.0 / machines)
    best, best_value = prices, _value(times, prices)
    for turn in range(rounds):
        priced = _times_prices(times, prices)
        least = priced.min(1, keepdims=True)
        unit = max(float(least.mean()), 1e-300)
        share = np.exp((least - priced) / (max(0.03, 0.5 * 0.9**turn) * unit))
        share /= share.sum(1, keepdims=True)
        load = np.einsum("jm,jm->m", share, finite)
        ratio = np.clip(load / max(float(load.mean()), 1e-300), 0.4, 2.5)
        prices = prices * ratio ** (0.5 * 0.95**turn)
        prices = prices / prices.sum()
        value = _value(times, prices)
        if value > best_value:
            best, best_value = prices, value
    return best


class _Duals(NamedTuple):
    """Prices of time and of places (machines,) and the fractions (jobs, machines) of a linear program."""

    machine: Floats
    place: Floats
    fraction: Floats


def _linear_program(
    times: Floats, priced: Floats, budget: Budget, places: NDArray[np.int64] | None = None
) -> _Duals | None:
    """Solve min C, Σ_m x_jm = 1, Σ_j p_jm x_jm ≤ C (and Σ_j x_jm ≤ n_m) on the columns that matter.

    At first these are the few of each job that `priced` (jobs, machines) is least for. Columns that would lower the
    optimum are added a few times. Should some be missing at the end, the duals are still valid prices, because the
    bound is evaluated afresh on all pairs. None where there is no time for it.
    """
    jobs, machines = times.shape
    finite = np.isfinite(times)
    if finite.sum() <= SMALL:
        columns = finite
    else:
        few = COLUMNS if places is None else FEWER_COLUMNS
        order = np.argsort(priced, axis=1, kind="stable")[:, : min(few, machines)]
        columns = np.zeros_like(finite)
        np.put_along_axis(columns, order, True, 1)
        columns &= finite
    duals = None
    for _ in range(ROUNDS):
        if columns.sum() > LARGEST or budget.over:
            break
        solution = _solve(times, columns, budget.left, places)
        if solution.status != 0:
            break
        prices = np.clip(-np.asarray(solution.ineqlin.marginals), 0.0, None)
        total = prices[:machines].sum()
        if total <= 0:
            break
        prices = prices / total
        fraction = np.zeros((jobs, machines))
        fraction[columns] = solution.x[:-1]
        place = np.zeros(machines) if places is None else prices[machines:]
        duals = _Duals(prices[:machines], place, fraction)
        priced = _times_prices(times, duals.machine) + place
        missing = (priced < np.where(columns, priced, np.inf).min(1, keepdims=True) * (1 - 1e-9)) & ~columns
        if not missing.any():
            break
        columns = columns | missing
    return duals


class Rows(NamedTuple):
    """Matrices of constraints on shares x of some pairs and the makespan C: how often jobs, loads less C, and jobs."""

    assigned: Any
    load: Any
    held: Any


def rows_of(times: Floats, columns: NDArray[np.bool_]) -> Rows:
    """Return Σ_m x_jm (jobs), Σ_j p_jm x_jm − C (machines) and Σ_j x_jm (machines) of columns (jobs, machines)."""
    from scipy.sparse import csr_array

    jobs, machines = times.shape
    job, machine = np.nonzero(columns)
    count = len(job)
    every, ones = np.arange(count), np.ones(count)
    values = np.append(times[job, machine], -np.ones(machines))
    place = np.append(machine, np.arange(machines)), np.append(every, np.full(machines, count))
    return Rows(
        csr_array((ones, (job, every)), shape=(jobs, count + 1)),
        csr_array((values, place), shape=(machines, count + 1)),
        csr_array((ones, (machine, every)), shape=(machines, count + 1)),
    )


def _solve(times: Floats, columns: NDArray[np.bool_], seconds: float, places: NDArray[np.int64] | None) -> Any:
    from scipy.optimize import linprog
    from scipy.sparse import vstack

    jobs, machines = times.shape
    rows = rows_of(times, columns)
    return linprog(
        np.append(np.zeros(rows.load.shape[1] - 1), 1.0),
        A_ub=rows.load if places is None else vstack([rows.load, rows.held]),
        b_ub=np.zeros(machines) if places is None else np.append(np.zeros(machines), places),
        A_eq=rows.assigned,
        b_eq=np.ones(jobs),
        # with two kinds of scarce things the simplex method takes three times as long as an interior point
        method="highs" if places is None else "highs-ipm",
        options={"time_limit": min(max(0.01, seconds), 1e9)},
    )


@compiled
def collect(durations, rewards, capacity, chosen):  # type: ignore[no-untyped-def]
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
            if long > capacity or reward <= 0:
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
            if long <= capacity and rewards[job] > 0 and taken[job, room]:
                room -= long
                chosen[job] += 1
    return total


def knapsack_bound(durations: NDArray[Any], prices: Prices, incumbent: int, budget: Budget) -> float:
    """Return a lower bound on every makespan of whole durations (jobs, machines), at least `prices.bound`.

    First try to prove the incumbent optimal; else bisect for the largest refutable T. Without seconds the answer
    depends on nothing but the arguments. Real durations keep their bound, as do loads so long that a table over them
    would be too large.
    """
    low = prices.bound
    if not np.issubdtype(durations.dtype, np.integer) or incumbent * durations.shape[0] > LARGEST_KNAPSACK:
        return low
    times = np.ascontiguousarray(durations, dtype=np.int64)
    rewards = prices.reward / max(prices.reward.sum(), 1e-300) * len(prices.machine)
    high = incumbent - 1  # the largest T worth refuting; all T < low are refuted
    first = True
    while low <= high and not budget.over:
        capacity = int(high if first else (low + high) // 2)
        first = False
        refuted, rewards = _refute(times, capacity, rewards, budget)
        if refuted:
            low = float(capacity + 1)
        else:
            high = capacity - 1
    return low


def _refute(times: NDArray[np.int64], capacity: int, rewards: Floats, budget: Budget) -> tuple[bool, Floats]:
    """Look for rewards that show that not all jobs end by `capacity`; return whether they do, and the best rewards."""
    chosen = np.zeros(len(times), np.int64)
    best, best_rewards, speed, stale = -np.inf, rewards, 1.0, 0
    for _ in range(STEPS):
        whole = np.floor(np.maximum(rewards, 0.0) * UNIT).astype(np.int64)
        missing = int(whole.sum()) - int(collect(times, whole, capacity, chosen))
        if missing > 0:
            return True, rewards
        if budget.over:
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
        distance = (0.001 * float(whole.sum()) - missing) / UNIT
        rewards = np.maximum(rewards + speed * distance / length * direction, 0.0)
        if rewards.sum() <= 0:
            break
        # only proportions matter: where T cannot be refuted, steps would lead to no rewards at all
        rewards = rewards / rewards.sum() * times.shape[1]
    return False, best_rewards
