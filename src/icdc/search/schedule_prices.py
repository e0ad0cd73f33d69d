"""Prices of machines: the duals of the linear program of a schedule, and what follows from them.

For any prices λ ≥ 0 of the machines with Σ λ = 1, no makespan is below Σ_j min_m λ_m p_jm (weak duality). What a pair
(j, m) gives away is λ_m p_jm − min_k λ_k p_jk: the bound rises by so much if the job has to run there.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..later import optimize, sparse

Floats = NDArray[np.float64]
_EPSILON = float(np.finfo(np.float64).eps)
_SMALL = 4000
"""Pairs up to which the linear program takes all columns at once; beyond, it starts from the best few of each job."""
_COLUMNS = 6
_ROUNDS = 3
_LARGEST = 24_000
"""Columns of a linear program beyond which the balanced prices have to do (it would take more than about a second)."""


@dataclass(frozen=True)
class Prices:
    """Prices (machines,) that sum to one, what each pair gives away (jobs, machines), ∞ where forbidden, and the bound.

    `bound` is safe against rounding, and a whole number for whole durations. `fraction` (jobs, machines) is the share
    of each job on each machine in the linear program, or None where it was not solved.
    """

    machine: Floats
    given: Floats
    bound: float
    fraction: Floats | None = None

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
    times = durations.astype(np.float64)
    if allowed is not None:
        times[~allowed] = np.inf
    scale = times[np.isfinite(times)].max(initial=0.0) or 1.0
    guess = _balanced(times / scale)
    duals, fraction = _linear_program(times / scale, guess, until)
    value, best = max((_value(times, prices), index) for index, prices in enumerate((guess, duals)))
    machine = (guess, duals)[best]
    priced = _times_prices(times, machine)
    return Prices(machine, priced - priced.min(1, keepdims=True), _safe(times, value, durations.dtype), fraction)


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


def _linear_program(times: Floats, guess: Floats, until: float) -> tuple[Floats, Floats | None]:
    """Solve min C, Σ_m x_jm = 1, Σ_j p_jm x_jm ≤ C on the columns that matter; return the duals of the loads and x.

    Columns that would lower the optimum are added a few times. Should some be missing at the end, the duals are still
    valid prices, because the bound is evaluated afresh on all pairs.
    """
    jobs, machines = times.shape
    finite = np.isfinite(times)
    if finite.sum() <= _SMALL:
        columns = finite
    else:
        order = np.argsort(_times_prices(times, guess), axis=1, kind="stable")[:, : min(_COLUMNS, machines)]
        columns = np.zeros_like(finite)
        np.put_along_axis(columns, order, True, 1)
        columns &= finite
    prices, fraction = guess, None
    for _ in range(_ROUNDS):
        left = until - time.monotonic()
        if columns.sum() > _LARGEST or left <= 0:
            break
        answer = _solve(times, columns, left)
        if answer.status != 0:
            break
        prices = np.clip(-np.asarray(answer.ineqlin.marginals), 0.0, None)
        if prices.sum() <= 0:
            prices = guess
            break
        prices = prices / prices.sum()
        fraction = np.zeros((jobs, machines))
        fraction[columns] = answer.x[:-1]
        priced = _times_prices(times, prices)
        missing = (priced < np.where(columns, priced, np.inf).min(1, keepdims=True) * (1 - 1e-9)) & ~columns
        if not missing.any():
            break
        columns = columns | missing
    return prices, fraction


def _solve(times: Floats, columns: NDArray[np.bool_], seconds: float) -> Any:
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
    return optimize.linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=load,
        b_ub=np.zeros(machines),
        A_eq=assigned,
        b_eq=np.ones(jobs),
        method="highs",
        options={"time_limit": min(max(0.01, seconds), 1e9)},
    )
