"""Exact schedules: tables over the loads of machines, and an integer program on the best few machines of each job."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .run import Budget
from .schedule_bounds import Prices, most_jobs, rows_of
from .schedule_moves import Choice, Durations

Table = NDArray[np.unsignedinteger]
LARGEST_EXACT = 1_000_000
"""Makespans up to which the solver's tolerances (1e-6 of a constraint) cannot confuse two whole numbers."""
ANY_GAP = 1e9
"""Relative gap at which the solver is content with any solution."""
UNSPLIT = 0.999
"""Share of a job on one machine from which on a linear program does not split it."""


def makespan(durations: Durations, choice: Choice) -> Any:
    """Return the load of the fullest machine, exact for whole numbers; for choices (..., jobs) one number each."""
    jobs = np.arange(len(durations))
    flat = choice.reshape(-1, len(durations))
    loads = np.zeros((len(flat), durations.shape[1]), durations.dtype)
    np.add.at(loads, (np.arange(len(flat))[:, None], flat), durations[jobs, flat])
    return loads.max(1).reshape(choice.shape[:-1])[()]


def load_tables(times: NDArray[np.int64], limit: int, budget: Budget) -> list[Table] | None:
    """Return the tables before the first job and after every job, each (limit,) × (machines − 1).

    An entry is the least load of the last machine when the others have the loads of its index, and `limit`
    where that load cannot be below `limit`. None if the time is over first.

    times : (jobs, machines) non-negative.
    """
    machines = times.shape[1]
    kind = np.min_scalar_type(2 * limit).type  # sums of two entries fit, and small entries are fast
    table = np.full((limit,) * (machines - 1), limit, dtype=kind)
    table[(0,) * (machines - 1)] = 0
    tables = [table]
    for *others, last in np.minimum(times, limit).tolist():
        if budget.over:
            return None
        after = np.minimum(table + kind(last), kind(limit))
        for axis, duration in enumerate(others):
            ahead = (slice(None),) * axis
            longer = after[(*ahead, slice(duration, None))]
            np.minimum(longer, table[(*ahead, slice(None, limit - duration))], out=longer)
        tables.append(after)
        table = after
    return tables


def read_schedule(times: NDArray[np.int64], tables: list[Table], limit: int) -> Choice | None:
    """Return the machine of each job (jobs,) in the best schedule of `load_tables`; None if there is none."""
    jobs, machines = times.shape
    highest = tables[-1].copy()
    for axis in range(machines - 1):
        load = np.arange(limit, dtype=highest.dtype).reshape(-1, *(1,) * (machines - 2 - axis))
        np.maximum(highest, load, out=highest)
    best = int(highest.argmin())
    if highest.flat[best] >= limit:
        return None
    loads = [int(load) for load in np.unravel_index(best, highest.shape)]
    last = int(tables[-1][tuple(loads)])
    choice = np.full(jobs, machines - 1, dtype=np.int64)
    for job in reversed(range(jobs)):
        before, (*others, duration) = tables[job], times[job].tolist()
        if last >= duration and before[tuple(loads)] == last - duration:
            last -= duration
            continue
        for machine, length in enumerate(others):
            earlier = loads.copy()
            earlier[machine] -= length
            if earlier[machine] >= 0 and before[tuple(earlier)] == last:
                loads, choice[job] = earlier, machine
                break
    return choice


@dataclass(frozen=True)
class Restricted:
    """A better choice (jobs,), or None; and whether the better one of it and the incumbent is optimal.

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
    budget: Budget,
    width: int = 5,
    nodes: int | None = None,
    ranked: NDArray[np.float64] | None = None,
    settled: NDArray[np.bool_] | None = None,
) -> Restricted:
    """Look for a schedule better than `incumbent` (jobs,) on the `width` machines per job with the smallest `ranked`.

    ranked : (jobs, machines), by default the reduced costs.
    settled : (jobs,), which jobs stay on the machine that has most of them in the linear program; any better schedule
        will do then, which takes less time than the best.

    A pair (j, m) is in no schedule better than the incumbent's makespan C if p_jm ≥ C, or if the bound raised by what
    the pair gives away, level + reduced_jm, is above C − 1 (whole durations; weak duality with that pair fixed). Such
    pairs are never used, nor are more pairs of a machine than it can hold jobs by then. `optimal` is set only for whole
    durations, when all omitted pairs are excluded this way and HiGHS (in floating point) finished: with a best
    schedule, or because there is none below C. The search ends when the time is over, or after `nodes` of the solver's
    tree.
    """
    whole = bool(np.issubdtype(durations.dtype, np.integer))
    value = makespan(durations, incumbent)
    most = float(value - 1) if whole else float(value) * (1 - 1e-6)
    if (int(value) - 1 if whole else most) > prices.limit:  # exact: large integers are no floats
        raise ValueError(f"prices of schedules that end by {prices.limit} say nothing of all that end by {most}")
    # lowered by more than rounding can have added to the sums
    raised = (prices.level + prices.reduced) * (1 - 1e-9)
    possible = (durations < value) & (raised <= value - 1 if whole else raised < value)
    columns = np.zeros_like(possible)
    ranked = prices.reduced if ranked is None else ranked
    np.put_along_axis(columns, np.argsort(ranked, axis=1, kind="stable")[:, :width], True, 1)
    if settled is not None and prices.fraction is not None:
        columns[settled] = False
        columns[settled, prices.fraction.argmax(1)[settled]] = True
    columns &= possible
    complete = bool((columns == possible).all())
    sure = complete and whole and value <= LARGEST_EXACT
    if not columns.any(1).all():  # a job with no machine left: nothing better is among these columns
        return Restricted(None, value.item(), sure, complete)
    weights, least = (prices.reduced, most) if settled is not None else (None, prices.bound)
    solution = _solve(durations, columns, (least, most), whole, budget, nodes, weights)
    # 0: solved; 2: infeasible; anything else: out of time, or trouble
    choice = None
    if solution.x is not None:
        share = np.zeros(columns.shape)
        share[columns] = solution.x[:-1]
        rounded = np.where(columns, share, -1.0).argmax(1)
        if makespan(durations, rounded) < value:
            choice = rounded
    if choice is None:
        return Restricted(None, value.item(), sure and solution.status == 2, complete)
    best = sure and solution.status == 0 and settled is None
    return Restricted(choice, makespan(durations, choice).item(), best, complete)


def settled_jobs(prices: Prices, share: float) -> NDArray[np.bool_] | None:
    """Return which jobs (jobs,) to leave where the linear program puts them, so that `share` of all is free.

    Jobs that it splits are free, too, and of the others those that would give away least on their second machine. None
    where there was no linear program.
    """
    if prices.fraction is None or prices.reduced.shape[1] < 2:
        return None
    split = prices.fraction.max(1) < UNSPLIT
    second = np.partition(prices.reduced, 1, axis=1)[:, 1]
    free = np.lexsort((second, ~split))[: int(split.sum() + share * len(split))]
    settled = np.ones(len(split), dtype=np.bool_)
    settled[free] = False
    return settled


def _solve(
    durations: Durations,
    columns: NDArray[np.bool_],
    between: tuple[float, float],
    whole: bool,
    budget: Budget,
    nodes: int | None,
    weights: NDArray[np.float64] | None,
) -> Any:
    """Minimise C subject to Σ_m x_jm = 1, Σ_j p_jm x_jm ≤ C, Σ_j x_jm ≤ places_m, x binary, on the columns.

    C lies `between` two numbers, the higher of which says how many places there are. With `weights` (jobs, machines) C
    does not count: any x is a solution, and those of little weight are looked for first.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    options: Any = {"time_limit": min(max(0.01, budget.left), 1e9), "mip_rel_gap": 0.0 if weights is None else ANY_GAP}
    if nodes is not None:
        options["node_limit"] = nodes
    count = int(columns.sum())
    places = most_jobs(durations, between[1])
    rows = rows_of(durations.astype(np.float64), columns)
    constraints = [LinearConstraint(rows.assigned, 1, 1), LinearConstraint(rows.load, -np.inf, 0)]
    scarce = np.flatnonzero(places < columns.sum(0))
    if len(scarce):
        constraints.append(LinearConstraint(rows.held[scarce], -np.inf, places[scarce]))
    objective = np.append(np.zeros(count), 1.0) if weights is None else np.append(weights[columns], 0.0)
    return milp(
        objective,
        constraints=constraints,
        integrality=np.append(np.ones(count), float(whole)),
        bounds=Bounds(np.append(np.zeros(count), between[0]), np.append(np.ones(count), between[1])),
        options=options,
    )
