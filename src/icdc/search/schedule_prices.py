"""Prices of machines: the duals of the linear program of a schedule, and what follows from them.

For any prices λ ≥ 0 of the machines' time with Σ λ = 1, no makespan is below Σ_j min_m λ_m p_jm (weak duality). What a
pair (j, m) gives away is λ_m p_jm − min_k λ_k p_jk: the bound rises by so much if the job has to run there.

Where jobs are long on some machines, time is not all that is scarce there: a machine that needs 80 for any job holds 6
of them by 500, not 6.25. A schedule that ends by T has at most n_m jobs on machine m, as many of the shortest there
as add up to T. Places have prices μ ≥ 0 then: no makespan up to T is below Σ_j min_m (λ_m p_jm + μ_m) − Σ_m μ_m n_m.
"""

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..later import optimize, sparse

Floats = NDArray[np.float64]
_EPSILON = float(np.finfo(np.float64).eps)
_SMALL = 4000
"""Pairs up to which the linear program takes all columns at once; beyond, it starts from the best few of each job."""
_COLUMNS = 6
_FEWER_COLUMNS = 4
"""The same where good prices are known already."""
_ROUNDS = 3
_MIXED = 0.02
"""Part of the prices of time alone in those of time and places."""
_CROWDED = 0.01
"""Jobs by which fractions may exceed the places of a machine before places are worth a program of their own."""
_LARGEST = 24_000
"""Columns of a linear program beyond which the balanced prices have to do (it would take more than about a second)."""


@dataclass(frozen=True)
class Prices:
    """What time and places on machines are worth, and what follows from it.

    machine : (machines,) prices of time, that sum to one.
    given : (jobs, machines) what each pair gives away, ∞ where it is forbidden.
    bound : no schedule ends earlier; safe against rounding, and a whole number for whole durations.
    level : no schedule that ends by `limit` ends earlier, by these prices alone and before it is rounded.
    reward : (jobs,) what a job costs at its best machine.
    fraction : (jobs, machines) the share of each job on each machine in the linear program; None: it was not solved.
    limit : where places have prices, the end that their number was worked out for.
    """

    machine: Floats
    given: Floats
    bound: float
    level: float
    reward: Floats
    fraction: Floats | None = None
    limit: float = np.inf

    def scaled(self) -> Floats:
        """Return what pairs give away (jobs, machines) in units of time on an average machine."""
        return self.given * len(self.machine)


def price(
    durations: NDArray[np.generic], allowed: NDArray[np.bool_] | None = None, *, seconds: float | None = None
) -> Prices:
    """Return prices for durations (jobs, machines): duals of the linear program, or near ones if that is too large.

    Or if it takes more than about `seconds`.
    """
    until = np.inf if seconds is None else time.monotonic() + seconds
    times = _with_infinities(durations, allowed)
    scale = times[np.isfinite(times)].max(initial=0.0) or 1.0
    guess = _balanced(times / scale)
    found = _linear_program(times / scale, _times_prices(times, guess), until)
    duals, fraction = (guess, None) if found is None else (found.machine, found.fraction)
    value, best = max((_value(times, prices), index) for index, prices in enumerate((guess, duals)))
    machine = (guess, duals)[best]
    priced = _times_prices(times, machine)
    reward = priced.min(1)
    return Prices(machine, priced - reward[:, None], _safe(times, value, durations.dtype), value, reward, fraction)


def price_below(
    durations: NDArray[np.generic],
    prices: Prices,
    limit: float,
    allowed: NDArray[np.bool_] | None = None,
    *,
    seconds: float | None = None,
) -> Prices | None:
    """Return prices of time and places for schedules of durations (jobs, machines) that end by `limit`.

    None where places are not scarce: the fractions of `prices`, the ones to improve, put no more jobs on any machine
    than it can hold. And where there is no time to find them. If no schedule ends by `limit`, the bound may say so.
    """
    until = np.inf if seconds is None else time.monotonic() + seconds
    times = _with_infinities(durations, allowed)
    places = most_jobs(times, limit)
    beyond = limit + 1.0 if np.issubdtype(durations.dtype, np.integer) else limit
    if places.sum() < len(times):
        return replace(prices, bound=max(prices.bound, beyond))
    if prices.fraction is None or (prices.fraction.sum(0) <= places + _CROWDED).all():
        return None
    scale = times[np.isfinite(times)].max(initial=0.0) or 1.0
    found = _linear_program(times / scale, prices.given, until, places)
    if found is None:
        return None
    level, _, _ = _valued(times, found.machine, scale * found.place, places)
    bound = min(beyond, _safe(times, level, durations.dtype))
    # pairs that these prices cannot tell apart, and there are many, are told apart by a little of the others
    machine = (1 - _MIXED) * found.machine + _MIXED * prices.machine
    level, given, reward = _valued(times, machine, (1 - _MIXED) * scale * found.place, places)
    return Prices(machine, given, max(prices.bound, bound), level, reward, found.fraction, limit)


def _valued(times: Floats, machine: Floats, place: Floats, places: NDArray[np.int64]) -> tuple[float, Floats, Floats]:
    """Return the level of prices of time and places, what pairs give away, and what jobs cost at best."""
    priced = _times_prices(times, machine) + place
    reward = priced.min(1)
    worth, spent = float(reward.sum()), float(place @ places)
    level = worth - spent - 4 * len(times) * _EPSILON * (worth + spent)
    return level, priced - reward[:, None], reward


def most_jobs(times: NDArray[Any], limit: float) -> NDArray[np.int64]:
    """Return how many jobs each machine can hold (machines,) by `limit`; times (jobs, machines), ∞ where forbidden."""
    # sums of reals may be rounded up, whole ones are exact
    return np.asarray((np.sort(times, 0).cumsum(0) <= limit * (1 + 1e-12)).sum(0), dtype=np.int64)


def _with_infinities(durations: NDArray[np.generic], allowed: NDArray[np.bool_] | None) -> Floats:
    times = durations.astype(np.float64)
    if allowed is not None:
        times[~allowed] = np.inf
    return times


def _times_prices(times: Floats, prices: Floats) -> Floats:
    priced: Floats = np.full_like(times, np.inf)
    np.multiply(times, prices, out=priced, where=np.isfinite(times))
    return priced


def _value(times: Floats, prices: Floats) -> float:
    return float(_times_prices(times, prices).min(1).sum())


def _safe(times: Floats, value: float, kind: np.dtype[np.generic]) -> float:
    """Lower a sum of priced times by what rounding may have added; whole data round up, and no job is ever split."""
    value -= 4 * len(times) * _EPSILON * value
    longest = float(times.min(1).max())
    if np.issubdtype(kind, np.integer):
        # just above a whole number may be that number plus rounding: never round it up a whole unit
        return float(max(np.ceil(value - 1e-9 * max(1.0, value)), longest))
    return float(max(value, longest * (1 - _EPSILON)))


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
    times: Floats, priced: Floats, until: float, places: NDArray[np.int64] | None = None
) -> _Duals | None:
    """Solve min C, Σ_m x_jm = 1, Σ_j p_jm x_jm ≤ C (and Σ_j x_jm ≤ n_m) on the columns that matter.

    At first these are the few of each job that `priced` (jobs, machines) is least for. Columns that would lower the
    optimum are added a few times. Should some be missing at the end, the duals are still valid prices, because the
    bound is evaluated afresh on all pairs. None where there is no time for it.
    """
    jobs, machines = times.shape
    finite = np.isfinite(times)
    if finite.sum() <= _SMALL:
        columns = finite
    else:
        few = _COLUMNS if places is None else _FEWER_COLUMNS
        order = np.argsort(priced, axis=1, kind="stable")[:, : min(few, machines)]
        columns = np.zeros_like(finite)
        np.put_along_axis(columns, order, True, 1)
        columns &= finite
    duals = None
    for _ in range(_ROUNDS):
        left = until - time.monotonic()
        if columns.sum() > _LARGEST or left <= 0:
            break
        answer = _solve(times, columns, left, places)
        if answer.status != 0:
            break
        prices = np.clip(-np.asarray(answer.ineqlin.marginals), 0.0, None)
        total = prices[:machines].sum()
        if total <= 0:
            break
        prices = prices / total
        fraction = np.zeros((jobs, machines))
        fraction[columns] = answer.x[:-1]
        place = np.zeros(machines) if places is None else prices[machines:]
        duals = _Duals(prices[:machines], place, fraction)
        priced = _times_prices(times, duals.machine) + place
        missing = (priced < np.where(columns, priced, np.inf).min(1, keepdims=True) * (1 - 1e-9)) & ~columns
        if not missing.any():
            break
        columns = columns | missing
    return duals


def _solve(times: Floats, columns: NDArray[np.bool_], seconds: float, places: NDArray[np.int64] | None) -> Any:
    jobs, machines = times.shape
    job, machine = np.nonzero(columns)
    count = len(job)
    assigned: Any = sparse.csr_array((np.ones(count), (job, np.arange(count))), shape=(jobs, count + 1))
    load: Any = sparse.csr_array(
        (
            np.concatenate([times[job, machine], -np.ones(machines)]),
            (np.concatenate([machine, np.arange(machines)]), np.append(np.arange(count), np.full(machines, count))),
        ),
        shape=(machines, count + 1),
    )
    most = np.zeros(machines)
    if places is not None:
        held: Any = sparse.csr_array((np.ones(count), (machine, np.arange(count))), shape=(machines, count + 1))
        load, most = sparse.vstack([load, held]), np.append(most, places)
    return optimize.linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=load,
        b_ub=most,
        A_eq=assigned,
        b_eq=np.ones(jobs),
        # with two kinds of scarce things the simplex method takes three times as long as an interior point
        method="highs" if places is None else "highs-ipm",
        options={"time_limit": min(max(0.01, seconds), 1e9)},
    )
