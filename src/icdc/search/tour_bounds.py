"""Lower bounds on tours: prices of assignments, the subtour relaxation, and a proof where one is within reach.

Prices of leaving and of entering a city change nothing about which tour is shortest: every tour pays all of them. What
they leave of a step's cost, its excess, tells good steps from bad ones, and with prices at which no excess is negative
their sum is a lower bound.

The cheapest assignment may fall into cycles. The subtour relaxation demands as well that every group of cities is left
at least once, for the groups that its own solutions show to be missing. Its prices order the steps far better than
those of an assignment where distances are nearly symmetric. The bound is worked out again from the prices alone,
whatever the tolerances of the solver.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .run import Budget, within

Numbers = NDArray[Any]
"""Costs: int64, or float64."""
Indices = NDArray[np.int64]
Groups = NDArray[np.bool_]
"""(groups, n): which cities are in it."""

QUICK = 100
"""Cities up to which an assignment takes no longer than a few milliseconds, whatever the distances."""
PRICING_ROUND = 4
"""Linear programs between two looks at all steps, which cost more than the few in the program."""
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Prices:
    """Prices with the bound that they prove.

    leaving, entering : (n,), of the kind of the costs.
    excess : (n, n), what a step costs beyond all prices, those of leaving a group of cities as well.
    bound : no tour is shorter; whole for integers, lowered by all possible rounding for reals.
    """

    leaving: Numbers
    entering: Numbers
    excess: Numbers
    bound: float


def with_barrier(distances: Numbers) -> Numbers:
    """Return costs (n, n) in int64 or float64 whose diagonal costs more than any tour.

    Integers so large that sums of them would not fit are turned into reals.
    """
    size = len(distances)
    largest = float(np.abs(distances[~np.eye(size, dtype=bool)]).max())
    whole = np.issubdtype(distances.dtype, np.integer) and largest * 2 * size < 2.0**58
    costs = distances.astype(np.int64 if whole else np.float64)
    np.fill_diagonal(costs, np.array(largest * 2 * size + 1).astype(costs.dtype))
    return costs


def assignment(costs: Numbers, budget: Budget) -> tuple[Indices | None, Prices]:
    """Return the cheapest assignment (n,) of successors and its prices, or None and some prices if time is short.

    No step costs less than its prices, and the steps of the assignment cost just as much, to within rounding, unless
    the time is over before: any prices of entering prove their bound.
    """
    from scipy.optimize import linear_sum_assignment

    size, entering = len(costs), np.zeros(len(costs), costs.dtype)
    successor = None
    # a thread that can be left behind takes longer to start than a small assignment takes
    solve = partial(linear_sum_assignment, _without_diagonal(costs))
    solution = within(budget, solve) if size > QUICK else solve()
    if solution is None:
        entering = (costs - costs.min(1)[:, None]).min(0)
    else:
        successor = solution[1].astype(np.int64)
        own = costs[np.arange(size), successor]
        # Bellman and Ford: exchanging successors along any path must not pay. Reals may fall by a last digit forever.
        last_digits = 0.0 if np.issubdtype(costs.dtype, np.integer) else 4 * EPSILON
        for _ in range(size):
            lower = np.minimum(entering, (costs - (own - entering[successor])[:, None]).min(0))
            settled = (entering - lower <= last_digits * (np.abs(own).max() + np.abs(lower).max())).all()
            entering = lower
            if settled or budget.over:
                break
    leaving = (costs - entering).min(1)
    bound = float(leaving.sum() + entering.sum()) - _rounding(costs, float(np.abs(entering).max()), 2)
    return successor, Prices(leaving, entering, costs - leaving[:, None] - entering, bound)


def sum_error(matrix: Numbers) -> float:
    """Return how far a cheapest assignment in float64 may be from the truth; nothing for exact integers."""
    size, largest = len(matrix), float(np.abs(matrix).max())
    exact = np.issubdtype(matrix.dtype, np.integer) and size * largest < 2.0**53
    return 0.0 if exact else 4 * size**2 * EPSILON * largest


def _rounding(costs: Numbers, largest_price: float, terms: int) -> float:
    """Return how far a bound from prices may be off: each step less `terms` prices, summed over all cities.

    Nothing for integers.
    """
    if np.issubdtype(costs.dtype, np.integer):
        return 0.0
    size = len(costs)
    used = float(np.abs(np.where(costs >= costs[0, 0], 0, costs)).max())
    return 4 * EPSILON * size * (size + terms) * (used + largest_price)


def _without_diagonal(costs: Numbers) -> NDArray[np.float64]:
    """Return costs (n, n) as reals whose diagonal is infinite."""
    reals = costs.astype(np.float64)
    np.fill_diagonal(reals, np.inf)
    return reals


@dataclass(frozen=True)
class Relaxation:
    """The solution of the linear program: prices with their bound, and the groups that had to be left."""

    prices: Prices
    groups: Groups


def subtour_relaxation(
    costs: Numbers, prices: Prices, successor: Indices, budget: Budget, width: int = 6, rounds: float = np.inf
) -> Relaxation:
    """Return prices of the subtour relaxation of costs (n, n), or the best reached within budget and `rounds`.

    The `width` steps of least excess at `prices` and those of the tour `successor` are looked at first; others join
    when the prices say that they pay. It ends early when the bound says that the tour is shortest.

    rounds : linear programs at most.
    """
    turn, size, cities = 0, len(costs), np.arange(len(costs))
    shortest = float(costs[cities, successor].sum())
    barrier = costs[0, 0]
    largest = float(np.abs(costs[costs < barrier]).max())
    width = min(width, size - 1)
    used = np.zeros((size, size), dtype=bool)
    used[cities[:, None], np.argpartition(prices.excess, width - 1, axis=1)[:, :width]] = True
    used[np.argpartition(prices.excess, width - 1, axis=0)[:width], cities] = True
    used &= costs < barrier
    used[cities, successor] = True
    groups: Groups = np.zeros((0, size), dtype=bool)
    best = Relaxation(prices, groups)
    while best.prices.bound < shortest and not budget.over and turn < rounds:
        tail, head = np.nonzero(used)
        solution = _linear_program(costs[tail, head], tail, head, groups, budget.left)
        if solution is None:
            break
        share, leaving, entering, toll = solution
        missing = violated_groups(size, tail, head, share, budget)
        turn += 1
        last = budget.over or turn >= rounds
        complete = len(missing) == 0 and not last
        if complete or last or turn % PRICING_ROUND == 0:
            better = priced(costs, entering, groups, toll)
            if better.bound > best.prices.bound:
                best = Relaxation(better, groups)
            pays = _excess(costs, entering, groups, toll) < leaving[:, None] - 1e-9 * largest
            if complete and not (pays & ~used).any():
                break
            used |= pays
        groups = np.unique(np.concatenate([groups, missing]), axis=0)
    return best


def _excess(
    costs: Numbers, entering: NDArray[np.float64], groups: Groups, toll: NDArray[np.float64], scale: float = 1.0
) -> NDArray[np.float64]:
    """Return what steps cost (n, n), times `scale`, beyond entering a city and leaving groups; ∞ on the diagonal."""
    inside = groups.astype(np.float64)
    usable = np.where(costs >= costs[0, 0], np.inf, costs * scale)
    return np.asarray(usable - entering - (inside.T * toll) @ (1.0 - inside))


def priced(costs: Numbers, entering: NDArray[np.float64], groups: Groups, toll: NDArray[np.float64]) -> Prices:
    """Return the bound that prices of entering cities (n,) and tolls (groups,) for leaving groups prove.

    Every tour pays all prices, and each toll (at least 0) at least once. For each city it also pays at least the least
    of its row beyond the entering prices and tolls, which is its leaving price. For integers the prices are rounded to
    fractions with one denominator, so that everything is exact.
    """
    size, whole = len(costs), np.issubdtype(costs.dtype, np.integer)
    highest = float(np.abs(entering).max()) + float(toll.sum())
    largest = (float(np.abs(costs[costs < costs[0, 0]]).max()) + highest) * 4 * size
    exact = whole and largest < 2.0**52
    scale = min(1024.0, 2.0 ** np.floor(np.log2(2.0**52 / max(1.0, largest)))) if exact else 1.0
    if exact:
        entering, toll = np.rint(entering * scale), np.rint(toll * scale)
    excess = _excess(costs, entering, groups, toll, scale)
    leaving = excess.min(1)
    total = float(leaving.sum() + entering.sum() + toll.sum())
    if exact:
        bound = float(-(-total // scale))
    else:
        bound = total - _rounding(costs.astype(np.float64), highest, len(groups) + 2)
    excess = (excess - leaving[:, None]) / scale
    leaving, entering = leaving / scale, entering / scale
    if whole:
        leaving, entering = np.rint(leaving), np.rint(entering)
    return Prices(leaving.astype(costs.dtype), entering.astype(costs.dtype), excess, bound)


def violated_groups(size: int, tail: Indices, head: Indices, share: NDArray[np.float64], budget: Budget) -> Groups:  # noqa: C901
    """Return groups of cities (groups, n) that a fractional solution leaves less than once; none if there is none.

    When the time is over, those so far.

    Leaving and entering balance, so steps count for both directions. Cities joined by a whole step belong to the
    same side of some cut that is least (Crowder and Padberg): they are merged, and what is left is cut by Stoer and
    Wagner's method, every phase of which may show a group.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    positive = share > 1e-9
    tail, head, share = tail[positive], head[positive], share[positive]
    count, label = connected_components(csr_array((share, (tail, head)), shape=(size, size)), directed=False)
    if count > 1:
        return np.asarray(label[None, :] == np.arange(count)[:, None])
    flow: list[dict[int, float]] = [{} for _ in range(size)]
    for i, j, x in zip(tail.tolist(), head.tolist(), share.tolist(), strict=True):
        flow[i][j] = flow[j][i] = flow[i].get(j, 0.0) + x
    members = [[city] for city in range(size)]
    alive = dict.fromkeys(range(size))
    missing: list[list[int]] = []

    def merge(one: int, other: int) -> None:
        members[one] += members[other]
        del alive[other]
        for third, x in flow[other].items():
            del flow[third][other]
            if third != one:
                flow[one][third] = flow[third][one] = flow[one].get(third, 0.0) + x
        if sum(flow[one].values()) < 2 - 1e-6 and len(alive) > 1:
            missing.append(list(members[one]))

    todo = list(alive)
    while todo and len(alive) > 2:
        one = todo.pop()
        if one in alive:
            other = next((third for third, x in flow[one].items() if x >= 1 - 1e-9), None)
            if other is not None:
                merge(one, other)
                todo.append(one)
    while len(alive) > 1 and not budget.over:
        reached = [next(iter(alive))]
        weight = dict(flow[reached[0]])
        cut = 0.0
        while len(reached) < len(alive):
            city = max(weight, key=weight.__getitem__)
            cut = weight.pop(city)
            reached.append(city)
            for third, x in flow[city].items():
                if third in weight:
                    weight[third] += x
                elif third not in reached:
                    weight[third] = x
        if cut < 2 - 1e-6:
            missing.append(list(members[reached[-1]]))
        merge(reached[-2], reached[-1])
    groups = np.zeros((len(missing), size), dtype=bool)
    for row, cities in enumerate(missing):
        groups[row, cities] = True
    return groups


def prove(
    costs: Numbers, successor: Indices, relaxation: Relaxation, budget: Budget, nodes: int | None = None
) -> tuple[Indices, bool]:
    """Return a shortest tour (n,) and True, or the same tour and False where the budget did not suffice.

    Steps whose excess is more than the tour is above the bound are in no shorter tour. On the others an integer
    program is solved, again with more groups whenever its solution falls into cycles.

    nodes : of each integer program, and programs, at most.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    size, cities = len(costs), np.arange(len(costs))
    shortest, prices, groups = float(costs[cities, successor].sum()), relaxation.prices, relaxation.groups
    if shortest <= prices.bound:
        return successor, True
    whole = np.issubdtype(costs.dtype, np.integer)
    slack = shortest - prices.bound + (1 if whole else 1e-9 * abs(shortest))
    tail, head = np.nonzero((prices.excess <= slack) & (costs < costs[0, 0]))
    programs = 0
    while not budget.over and (nodes is None or programs < nodes):
        programs += 1
        options: Any = {"time_limit": min(max(0.01, budget.left), 1e9), "mip_rel_gap": 0.0}
        if nodes is not None:
            options["node_limit"] = nodes
        solution = milp(
            costs[tail, head].astype(np.float64),
            integrality=np.ones(len(tail), np.int64),
            bounds=Bounds(0, 1),
            constraints=[
                LinearConstraint(_degrees(size, tail, head), 1, 1),
                LinearConstraint(_leaving(groups, tail, head), 1, np.inf),
            ],
            options=options,
        )
        if solution.status == 2:  # no tour is left: it is shortest
            return successor, True
        if solution.status != 0:
            return successor, False
        taken = solution.x > 0.5
        if len(missing := violated_groups(size, tail, head, taken.astype(np.float64), budget)) == 0:
            tour = np.empty(size, np.int64)
            tour[tail[taken]] = head[taken]
            return (tour if float(costs[cities, tour].sum()) < shortest else successor), True
        groups = np.concatenate([groups, missing])
    return successor, False


def _linear_program(
    costs: Numbers, tail: Indices, head: Indices, groups: Groups, seconds: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """Solve the relaxation on some steps: (share of each, prices of leaving and entering, tolls), or None."""
    from scipy.optimize import linprog

    size = groups.shape[1]
    solution = linprog(
        costs.astype(np.float64),
        A_eq=_degrees(size, tail, head),
        b_eq=np.ones(2 * size),
        A_ub=-_leaving(groups, tail, head),
        b_ub=-np.ones(len(groups)),
        method="highs-ds",
        options={"time_limit": min(max(0.01, seconds), 1e9)},
    )
    if solution.status != 0:
        return None
    both = np.asarray(solution.eqlin.marginals)
    toll = np.clip(-np.asarray(solution.ineqlin.marginals), 0.0, None)
    return np.asarray(solution.x), both[:size], both[size:], toll


def _degrees(size: int, tail: Indices, head: Indices) -> Any:
    """Return the matrix (2n, steps) that counts how often each city is left and entered."""
    from scipy.sparse import csr_array

    step = np.arange(len(tail))
    rows, columns = np.concatenate([tail, size + head]), np.concatenate([step, step])
    return csr_array((np.ones(2 * len(tail)), (rows, columns)), shape=(2 * size, len(tail)))


def _leaving(groups: Groups, tail: Indices, head: Indices) -> Any:
    """Return the matrix (groups, steps) that counts how often each group is left."""
    from scipy.sparse import csr_array

    return csr_array((groups[:, tail] & ~groups[:, head]).astype(np.float64))
