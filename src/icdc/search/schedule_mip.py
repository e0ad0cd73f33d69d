"""An integer program on the few machines at which each job gives away least, and when its answer is a proof."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..later import optimize, sparse
from .schedule_prices import Prices, most_jobs
from .schedules import Choice, Durations, makespan

_EXACT = 1_000_000
"""Makespans up to which the solver's tolerances (1e-6 of a constraint) cannot confuse two whole numbers."""

_ANY = 1e9
"""Relative gap at which the solver is content with any answer."""
_UNSPLIT = 0.999
"""Share of a job on one machine from which on a linear program does not split it."""


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
    ranked: NDArray[np.float64] | None = None,
    settled: NDArray[np.bool_] | None = None,
) -> Restricted:
    """Look for a schedule better than `incumbent` (jobs,) on the `width` machines at which each job gives away least.

    Or on those for which `ranked` (jobs, machines) is least. Jobs that are `settled` (jobs,) stay on the machine that
    has most of them in the linear program; any better schedule will do then, which is found sooner than the best.

    A pair (j, m) is in no schedule better than the incumbent's makespan C if p_jm ≥ C, or if the bound raised by what
    the pair gives away, level + given_jm, is above C − 1 (whole durations; weak duality with that pair fixed). Such
    pairs are never used, nor are more pairs of a machine than it can hold jobs by then. `optimal` is said if the
    durations are whole, all pairs left out are of that kind, and the solver (HiGHS, in floating point) has searched all
    the rest: either it ends with a best schedule, or it says that there is none below C. With real durations it is
    never said. It ends after `seconds`, or after `nodes` of the solver's tree.
    """
    whole = np.issubdtype(durations.dtype, np.integer)
    value = makespan(durations, incumbent)
    usable = np.isfinite(prices.given)
    most = float(value - 1) if whole else float(value) * (1 - 1e-6)
    if most > prices.limit:
        raise ValueError(f"prices of schedules that end by {prices.limit} say nothing of all that end by {most}")
    # lowered by more than rounding can have added to the sums
    raised = (prices.level + prices.given) * (1 - 1e-9)
    possible = usable & (durations < value) & (raised <= value - 1 if whole else raised < value)
    columns = np.zeros_like(possible)
    ranked = prices.given if ranked is None else ranked
    np.put_along_axis(columns, np.argsort(ranked, axis=1, kind="stable")[:, :width], True, 1)
    if settled is not None and prices.fraction is not None:
        most_of_it = np.where(usable, prices.fraction, -1.0).argmax(1)
        columns[settled] = False
        columns[settled, most_of_it[settled]] = True
    columns &= possible
    complete = bool((columns == possible).all())
    sure = complete and bool(whole) and value <= _EXACT
    if not columns.any(1).all():  # a job with no machine left: nothing better is among these columns
        return Restricted(None, value.item(), sure, complete)
    places = most_jobs(np.where(usable, durations, np.inf), most)
    weights, least = (prices.given, most) if settled is not None else (None, prices.bound)
    answer = _solve(durations, columns, (least, most), bool(whole), places, seconds, nodes, weights)
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
    best = sure and answer.status == 0 and settled is None
    return Restricted(choice, makespan(durations, choice).item(), best, complete)


def settled_jobs(prices: Prices, share: float) -> NDArray[np.bool_] | None:
    """Return which jobs (jobs,) to leave where the linear program puts them, so that `share` of all is free.

    And whatever jobs it splits. Of the others those are free that would give away least on their second machine. None
    where there was no linear program.
    """
    if prices.fraction is None or prices.given.shape[1] < 2:
        return None
    split = prices.fraction.max(1) < _UNSPLIT
    second = np.partition(prices.given, 1, axis=1)[:, 1]
    free = np.lexsort((second, ~split))[: int(split.sum() + share * len(split))]
    settled = np.ones(len(split), dtype=np.bool_)
    settled[free] = False
    return settled


def _solve(
    durations: Durations,
    columns: NDArray[np.bool_],
    between: tuple[float, float],
    whole: bool,
    places: NDArray[np.int64],
    seconds: float,
    nodes: int | None,
    weights: NDArray[np.float64] | None = None,
) -> Any:
    """Minimise C subject to Σ_m x_jm = 1, Σ_j p_jm x_jm ≤ C, Σ_j x_jm ≤ places_m, x binary, on the columns.

    C is known to be `between` two numbers. With `weights` (jobs, machines) C does not count: any x is an answer, and
    those of little weight are looked for first.
    """
    options: Any = {"time_limit": min(max(0.01, seconds), 1e9), "mip_rel_gap": 0.0 if weights is None else _ANY}
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
    constraints = [optimize.LinearConstraint(assigned, 1, 1), optimize.LinearConstraint(load, -np.inf, 0)]
    scarce = np.flatnonzero(places < columns.sum(0))
    if len(scarce):
        held: Any = sparse.csr_array((np.ones(count), (machine, np.arange(count))), shape=(machines, count + 1))
        constraints.append(optimize.LinearConstraint(held[scarce], -np.inf, places[scarce]))
    objective = np.append(np.zeros(count), 1.0) if weights is None else np.append(weights[job, machine], 0.0)
    return optimize.milp(
        objective,
        constraints=constraints,
        integrality=np.append(np.ones(count), float(whole)),
        bounds=optimize.Bounds(np.append(np.zeros(count), between[0]), np.append(np.ones(count), between[1])),
        options=options,
    )
