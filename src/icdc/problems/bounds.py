"""Lower bounds that are proven whatever solved them: weak duality and exact rounding, nothing to trust."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..search.schedule_bounds import price
from .forbidden import permitted_in

_EPSILON = float(np.finfo(np.float64).eps)
_LARGE = 5000
"""Pairs of job and machine from which on an instance is priced on its own, on the columns that matter: the same bound,
several times as fast."""
_BLOCK = 16
"""Instances in one linear program: enough to hide the cost of a call, few enough for the simplex method."""


def assignment_bound(costs: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return the assignment bound (count,) of tours through `costs` (count, n, n); diagonals are ignored.

    A tour gives every city one successor and one predecessor, so the cheapest way of doing so without
    staying in place costs no more. Safe against rounding: sums of integers are exact, sums of reals are
    lowered by the largest error a sum of n terms can carry.
    """
    from scipy.optimize import linear_sum_assignment

    size = costs.shape[1]
    off_diagonal = costs.astype(np.float64)
    off_diagonal[:, np.arange(size), np.arange(size)] = np.inf
    bound = np.empty(len(costs))
    for index, matrix in enumerate(off_diagonal):
        rows, columns = linear_sum_assignment(matrix)
        picked = matrix[rows, columns]
        bound[index] = picked.sum() - _rounding(size, float(np.abs(picked).sum()), costs.dtype)
    return bound


def scheduling_bound(durations: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return the linear-programming bound (count,) on the makespan of `durations` (count, jobs, machines).

    For any prices λ ≥ 0 of the machines with Σ λ = 1, no makespan is below Σ_j min_m λ_m p_jm (weak
    duality). The prices come from a linear program; the bound is evaluated from them afresh, so that
    tolerances of the solver cannot make it wrong. No job can be shorter than its shortest time either.
    Integer data: rounded up. Forbidden pairs are in no best schedule, and left out.
    """
    permitted = permitted_in(durations)
    if durations[0].size > _LARGE:
        return np.array(
            [price(matrix, allowed=allowed).bound for matrix, allowed in zip(durations, permitted, strict=True)]
        )
    times = durations.astype(np.float64)
    times[~permitted] = np.inf
    prices = np.concatenate([_machine_prices(times[start : start + _BLOCK]) for start in range(0, len(times), _BLOCK)])
    jobs = durations.shape[1]
    priced = np.multiply(prices[:, None, :], times, out=times.copy(), where=permitted).min(2).sum(1)
    priced = priced - 4 * jobs * _EPSILON * priced
    if np.issubdtype(durations.dtype, np.integer):
        # a value just above an integer may be that integer plus rounding: never round it up a whole unit
        priced = np.ceil(priced - 1e-9 * np.maximum(1.0, priced))
    longest = times.min(2).max(1)
    return np.asarray(np.maximum(priced, longest), dtype=np.float64)


def _machine_prices(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve min Σ C, Σ_m x_jm = 1, Σ_j p_jm x_jm ≤ C, x ≥ 0 for a block of instances; times of ∞ are left out.

    Return the dual prices (block, machines) of the loads. They are non-negative and sum to one by
    construction; if the solver fails they are equal, which is valid.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    block, jobs, machines = times.shape
    finite = np.isfinite(times)
    scale = np.where(finite, times, 0.0).max((1, 2), keepdims=True)
    scaled = np.where(finite, times, 0.0) / np.where(scale > 0, scale, 1.0)
    # variables: x of every cell (instance, job, machine), then the makespan of every instance
    cell = np.arange(times.size)
    variables = times.size + block
    assigned: Any = csr_array((np.ones(times.size), (cell // machines, cell)), shape=(block * jobs, variables))
    machine = np.arange(block * machines)
    load_row = np.concatenate([cell // (jobs * machines) * machines + cell % machines, machine])
    load_column = np.concatenate([cell, times.size + machine // machines])
    load_value = np.concatenate([scaled.ravel(), -np.ones(block * machines)])
    load: Any = csr_array((load_value, (load_row, load_column)), shape=(block * machines, variables))
    limits: Any = (0, None)
    if not finite.all():
        highest = np.append(np.where(finite, np.inf, 0.0), np.full(block, np.inf))
        limits = np.stack([np.zeros(variables), highest], 1)
    answer = linprog(
        np.concatenate([np.zeros(times.size), np.ones(block)]),
        A_ub=load,
        b_ub=np.zeros(block * machines),
        A_eq=assigned,
        b_eq=np.ones(block * jobs),
        bounds=limits,
        method="highs",
    )
    equal = np.full((block, machines), 1.0 / machines)
    if answer.status != 0:
        return equal
    prices = np.clip(-np.asarray(answer.ineqlin.marginals).reshape(block, machines), 0.0, None)
    total = prices.sum(1, keepdims=True)
    return np.asarray(np.where(total > 0, prices / np.where(total > 0, total, 1.0), equal))


def _rounding(terms: int, magnitude: float, dtype: np.dtype[np.generic]) -> float:
    """Return how far a float64 sum of `terms` values may be from the truth; nothing for exact integers."""
    exact = np.issubdtype(dtype, np.integer) and magnitude < 2.0**53
    return 0.0 if exact else 4 * terms * _EPSILON * magnitude
