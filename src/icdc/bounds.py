"""Lower bounds that are proven whatever solved them: weak duality and exact rounding, nothing to trust."""

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog

_EPSILON = float(np.finfo(np.float64).eps)
_BLOCK = 16
"""Instances in one linear program: enough to hide the cost of a call, few enough for the simplex method."""


def assignment_bound(costs: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return the assignment bound (count,) of tours through `costs` (count, n, n); diagonals are ignored.

    A tour gives every city one successor and one predecessor, so the cheapest way of doing so without
    staying in place costs no more. Safe against rounding: sums of integers are exact, sums of reals are
    lowered by the largest error a sum of n terms can carry.
    """
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

    For any prices λ ≥ 0 of the machines with Σ λ = 1, no makespan is below Σ_j min_m λ_m p_jm (weak duality).
    The prices come from a linear program; the bound is evaluated from them afresh, so that tolerances of the
    solver cannot make it wrong. No job can be shorter than its shortest time either. Integer data: rounded up.
    """
    times = durations.astype(np.float64)
    prices = np.concatenate(
        [_machine_prices(times[start : start + _BLOCK]) for start in range(0, len(times), _BLOCK)]
    )
    jobs = durations.shape[1]
    priced = (prices[:, None, :] * times).min(2).sum(1)
    priced = priced - 4 * jobs * _EPSILON * priced
    if np.issubdtype(durations.dtype, np.integer):
        # a value just above an integer may be that integer plus rounding: never round it up a whole unit
        priced = np.ceil(priced - 1e-9 * np.maximum(1.0, priced))
    longest = times.min(2).max(1)
    return np.asarray(np.maximum(priced, longest), dtype=np.float64)


def _machine_prices(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve min Σ C, Σ_m x_jm = 1, Σ_j p_jm x_jm ≤ C, x ≥ 0 for a block; return its dual prices (block, machines).

    Prices are non-negative and sum to one by construction; when the solver fails they are equal, which is valid.
    """
    block, jobs, machines = times.shape
    scale = times.max((1, 2), keepdims=True)
    scaled = times / np.where(scale > 0, scale, 1.0)
    cells = jobs * machines
    # every job once: one row per job, over its machines
    assigned = sparse.kron(sparse.eye(block * jobs), np.ones((1, machines)))
    assigned = sparse.hstack([assigned, sparse.csr_array((block * jobs, block))])
    # every load within the makespan: one row per machine, over its jobs, minus the makespan
    row = np.arange(block)[:, None, None] * machines + np.arange(machines)[None, None, :]
    row = np.broadcast_to(row, times.shape).ravel()
    load = sparse.csr_array((scaled.ravel(), (row, np.arange(block * cells))), shape=(block * machines, block * cells))
    makespan = sparse.kron(sparse.eye(block), np.ones((machines, 1)))
    answer = linprog(
        np.concatenate([np.zeros(block * cells), np.ones(block)]),
        A_ub=sparse.hstack([load, -makespan]).tocsr(),
        b_ub=np.zeros(block * machines),
        A_eq=assigned.tocsr(),
        b_eq=np.ones(block * jobs),
        method="highs",
    )
    if answer.status != 0:
        return np.full((block, machines), 1.0 / machines)
    prices = np.clip(-np.asarray(answer.ineqlin.marginals).reshape(block, machines), 0.0, None)
    total = prices.sum(1, keepdims=True)
    return np.where(total > 0, prices / np.where(total > 0, total, 1.0), 1.0 / machines)


def _rounding(terms: int, magnitude: float, dtype: np.dtype[np.generic]) -> float:
    """Return how far a float64 sum of `terms` values may be from the truth; nothing for exact integers."""
    exact = np.issubdtype(dtype, np.integer) and magnitude < 2.0**53
    return 0.0 if exact else 4 * terms * _EPSILON * magnitude
