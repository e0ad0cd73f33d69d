"""An integer program on the few machines at which each job gives away least, and when its answer is a proof."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..later import optimize, sparse
from .schedule_prices import Prices
from .schedules import Choice, Durations, makespan

_EXACT = 1_000_000
"""Makespans up to which the solver's tolerances (1e-6 of a constraint) cannot confuse two whole numbers."""


@dataclass(frozen=True)
class Restricted:
    """The better choice (jobs,) found, or None; and whether the better one of it and the incumbent is optimal.

    `complete`: every pair left out was shown to be in no better schedule, so that a search of the rest is a proof.
    """

    choice: Choice | None
    makespan: float | int
    optimal: bool
    complete: bool


def restricted_mip(
    durations: Durations,
    prices: Prices,
    incumbent: Choice,
    seconds: float,
    width: int = 5,
    nodes: int | None = None,
) -> Restricted:
    """Look for a schedule better than `incumbent` (jobs,) on the `width` machines at which each job gives away least.

    A pair (j, m) is in no schedule better than the incumbent's makespan C if p_jm ≥ C, or if the bound raised by what
    the pair gives away, Σ_j min_m λ_m p_jm + given_jm, is above C − 1 (whole durations; weak duality with that pair
    fixed). Such pairs are never used. `optimal` is said if the durations are whole, all pairs left out are of
    that kind, and the solver (HiGHS, in floating point) has searched all the rest: either it ends with a
    best schedule, or it says that there is none below C. With real durations it is never said. It ends after `seconds`,
    or after `nodes` of the solver's tree.
    """
    whole = np.issubdtype(durations.dtype, np.integer)
    value = makespan(durations, incumbent)
    usable = np.isfinite(prices.given)
    level = np.where(usable, durations * prices.machine, np.inf).min(1).sum()
    # lowered by more than rounding can have added to the sums
    raised = (level + prices.given) * (1 - 1e-9)
    possible = usable & (durations < value) & (raised <= value - 1 if whole else raised < value)
    columns = np.zeros_like(possible)
    np.put_along_axis(columns, np.argsort(prices.given, axis=1, kind="stable")[:, :width], True, 1)
    columns &= possible
    complete = bool((columns == possible).all())
    sure = complete and bool(whole) and value <= _EXACT
    if not columns.any(1).all():  # a job with no machine left: nothing better is among these columns
        return Restricted(None, value.item(), sure, complete)
    most = float(value - 1) if whole else float(value) * (1 - 1e-6)
    answer = _solve(durations, columns, most, bool(whole), seconds, nodes)
    # 0: solved; 2: infeasible; anything else: out of time, or trouble
    choice = None
    if answer.x is not None:
        share = np.zeros(columns.shape)
        share[columns] = answer.x[:-1]
        rounded = np.where(columns, share, -1.0).argmax(1)
        if makespan(durations, rounded) < value:
            choice = rounded
    if choice is None:
        return Restricted(None, value.item(), sure and answer.status == 2, complete)
    return Restricted(choice, makespan(durations, choice).item(), sure and answer.status == 0, complete)


def _solve(
    durations: Durations, columns: NDArray[np.bool_], most: float, whole: bool, seconds: float, nodes: int | None
) -> Any:
    """Minimise C subject to Σ_m x_jm = 1, Σ_j p_jm x_jm ≤ C ≤ most, x binary, on the given columns."""
    options: Any = {"time_limit": min(max(0.01, seconds), 1e9), "mip_rel_gap": 0.0}
    if nodes is not None:
        options["node_limit"] = nodes
    jobs, machines = durations.shape
    job, machine = np.nonzero(columns)
    count = len(job)
    times = durations[job, machine].astype(np.float64)
    assigned: Any = sparse.csr_array((np.ones(count), (job, np.arange(count))), shape=(jobs, count + 1))
    load: Any = sparse.csr_array(
        (
            np.append(times, -np.ones(machines)),
            (np.append(machine, np.arange(machines)), np.append(np.arange(count), np.full(machines, count))),
        ),
        shape=(machines, count + 1),
    )
    return optimize.milp(
        np.append(np.zeros(count), 1.0),
        constraints=[optimize.LinearConstraint(assigned, 1, 1), optimize.LinearConstraint(load, -np.inf, 0)],
        integrality=np.append(np.ones(count), float(whole)),
        bounds=optimize.Bounds(0, np.append(np.ones(count), most)),
        options=options,
    )
