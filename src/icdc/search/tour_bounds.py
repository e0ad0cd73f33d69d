"""The subtour bound on tours, by cutting planes, and a proof of optimality from it where one is within reach.

The cheapest assignment may fall into cycles. The linear program here asks as well that every group of cities is left
at least once, for the groups that its own answers show to be missing. Its prices order the steps far better than those
of an assignment where distances are nearly symmetric; they bound the tours whatever the solver's tolerances,
because the bound is worked out again from the prices alone.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..later import csgraph, optimize, sparse
from .tour_prices import Indices, Numbers, Prices, rounding

Groups = NDArray[np.bool_]
"""(groups, n): which cities are in it."""
LOOK = 4
"""Linear programs between two looks at all steps, which cost more than the few it knows."""


@dataclass(frozen=True)
class Relaxation:
    """What the linear program found: prices with their bound, and the groups that had to be left."""

    prices: Prices
    groups: Groups


def subtour_prices(
    costs: Numbers,
    prices: Prices,
    successor: Indices,
    seconds: float = np.inf,
    width: int = 6,
    rounds: float = np.inf,
) -> Relaxation:
    """Return prices of the subtour relaxation of costs (n, n), or the best reached within about `seconds`.

    Or within so many `rounds`, a linear program each.

    The steps of least excess at `prices` and those of the tour `successor` are looked at first; others join when the
    prices say that they pay. It ends early when the bound says that the tour is shortest.
    """
    deadline, turn = time.perf_counter() + seconds, 0
    size, cities = len(costs), np.arange(len(costs))
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
    while best.prices.bound < shortest and time.perf_counter() < deadline and turn < rounds:
        tail, head = np.nonzero(used)
        answer = _solve(costs[tail, head], tail, head, groups, deadline - time.perf_counter())
        if answer is None:
            break
        value, leaving, entering, toll = answer
        missing = violated(size, tail, head, value, deadline)
        turn += 1
        last = time.perf_counter() >= deadline or turn >= rounds
        complete = len(missing) == 0 and not last
        if complete or last or turn % LOOK == 0:
            found = priced(costs, entering, groups, toll)
            if found.bound > best.prices.bound:
                best = Relaxation(found, groups)
            pays = beyond(costs, entering, groups, toll) < leaving[:, None] - 1e-9 * largest
            if complete and not (pays & ~used).any():
                break
            used |= pays
        groups = np.unique(np.concatenate([groups, missing]), axis=0)
    return best


def beyond(
    costs: Numbers, entering: NDArray[np.float64], groups: Groups, toll: NDArray[np.float64], scale: float = 1.0
) -> NDArray[np.float64]:
    """Return what steps cost (n, n), times `scale`, beyond entering a city and leaving groups; forbidden ones ∞."""
    inside = groups.astype(np.float64)
    usable = np.where(costs >= costs[0, 0], np.inf, costs * scale)
    return np.asarray(usable - entering - (inside.T * toll) @ (1.0 - inside))


def priced(costs: Numbers, entering: NDArray[np.float64], groups: Groups, toll: NDArray[np.float64]) -> Prices:
    """Return the bound that prices of entering cities (n,) and tolls (groups,) for leaving groups prove.

    Every tour pays all prices, each toll (at least 0) at least once, and for each city at least the least that is
    beyond them in its row, which is its price of leaving. For integers the prices are rounded to fractions with one
    denominator, so that everything is exact.
    """
    size, whole = len(costs), np.issubdtype(costs.dtype, np.integer)
    tops = float(np.abs(entering).max()) + float(toll.sum())
    largest = (float(np.abs(costs[costs < costs[0, 0]]).max()) + tops) * 4 * size
    exact = whole and largest < 2.0**52
    scale = min(1024.0, 2.0 ** np.floor(np.log2(2.0**52 / max(1.0, largest)))) if exact else 1.0
    if exact:
        entering, toll = np.rint(entering * scale), np.rint(toll * scale)
    excess = beyond(costs, entering, groups, toll, scale)
    leaving = excess.min(1)
    total = float(leaving.sum() + entering.sum() + toll.sum())
    if exact:
        bound = float(-(-total // scale))
    else:
        bound = total - rounding(costs.astype(np.float64), tops, len(groups) + 2)
    excess = (excess - leaving[:, None]) / scale
    leaving, entering = leaving / scale, entering / scale
    if whole:
        leaving, entering = np.rint(leaving), np.rint(entering)
    return Prices(leaving.astype(costs.dtype), entering.astype(costs.dtype), excess, bound)


def violated(size: int, tail: Indices, head: Indices, value: NDArray[np.float64], deadline: float = np.inf) -> Groups:
    """Return groups of cities (groups, n) that a fractional solution leaves less than once; none if there is none.

    At the deadline (of `time.perf_counter`) those found by then.

    Leaving and entering balance, so steps count for both directions. Cities joined by a whole step belong to the
    same side of some cut that is least (Crowder and Padberg): they are merged, and what is left is cut by Stoer and
    Wagner's method, every phase of which may show a group.
    """
    positive = value > 1e-9
    tail, head, value = tail[positive], head[positive], value[positive]
    graph = sparse.csr_array((value, (tail, head)), shape=(size, size))
    count, label = csgraph.connected_components(graph, directed=False)
    if count > 1:
        return np.asarray(label[None, :] == np.arange(count)[:, None])
    flow: list[dict[int, float]] = [{} for _ in range(size)]
    for i, j, x in zip(tail.tolist(), head.tolist(), value.tolist(), strict=True):
        flow[i][j] = flow[j][i] = flow[i].get(j, 0.0) + x
    members = [[city] for city in range(size)]
    alive = dict.fromkeys(range(size))
    found: list[list[int]] = []

    def merge(one: int, other: int) -> None:
        members[one] += members[other]
        del alive[other]
        for third, x in flow[other].items():
            del flow[third][other]
            if third != one:
                flow[one][third] = flow[third][one] = flow[one].get(third, 0.0) + x
        if sum(flow[one].values()) < 2 - 1e-6 and len(alive) > 1:
            found.append(list(members[one]))

    todo = list(alive)
    while todo and len(alive) > 2:
        one = todo.pop()
        if one in alive:
            other = next((third for third, x in flow[one].items() if x >= 1 - 1e-9), None)
            if other is not None:
                merge(one, other)
                todo.append(one)
    while len(alive) > 1 and time.perf_counter() < deadline:
        reached = [next(iter(alive))]
        weight = dict(flow[reached[0]])
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
            found.append(list(members[reached[-1]]))
        merge(reached[-2], reached[-1])
    groups = np.zeros((len(found), size), dtype=bool)
    for row, cities in enumerate(found):
        groups[row, cities] = True
    return groups


def prove(
    costs: Numbers, successor: Indices, relaxation: Relaxation, seconds: float = np.inf, nodes: int | None = None
) -> tuple[Indices, bool]:
    """Return a shortest tour (n,) and True, or the best known and False where `seconds` did not suffice.

    Or `nodes`, of each of at most that many integer programs.

    Steps whose excess is more than the tour is above the bound are in no shorter tour. On the others an integer
    program is solved, again with more groups whenever its answer falls into cycles.
    """
    deadline = time.perf_counter() + seconds
    size, cities = len(costs), np.arange(len(costs))
    shortest, prices, groups = float(costs[cities, successor].sum()), relaxation.prices, relaxation.groups
    if shortest <= prices.bound:
        return successor, True
    whole = np.issubdtype(costs.dtype, np.integer)
    slack = shortest - prices.bound + (1 if whole else 1e-9 * abs(shortest))
    tail, head = np.nonzero((prices.excess <= slack) & (costs < costs[0, 0]))
    programs = 0
    while time.perf_counter() < deadline and (nodes is None or programs < nodes):
        programs += 1
        options: Any = {"time_limit": min(max(0.01, deadline - time.perf_counter()), 1e9), "mip_rel_gap": 0.0}
        if nodes is not None:
            options["node_limit"] = nodes
        rows, out = _degrees(size, tail, head), _leaving(groups, tail, head)
        rules = [optimize.LinearConstraint(rows, 1, 1), optimize.LinearConstraint(out, 1, np.inf)]
        answer = optimize.milp(
            costs[tail, head].astype(np.float64),
            integrality=np.ones(len(tail), np.int64),
            bounds=optimize.Bounds(0, 1),
            constraints=rules,
            options=options,
        )
        if answer.status == 2:  # no tour is left: the known one is shortest
            return successor, True
        if answer.status != 0:
            return successor, False
        taken = answer.x > 0.5
        if len(missing := violated(size, tail, head, taken.astype(np.float64))) == 0:
            found = np.empty(size, np.int64)
            found[tail[taken]] = head[taken]
            return (found if float(costs[cities, found].sum()) < shortest else successor), True
        groups = np.concatenate([groups, missing])
    return successor, False


def _solve(
    costs: Numbers, tail: Indices, head: Indices, groups: Groups, seconds: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """Solve the linear program on some steps: (how much of each, prices of leaving and entering, tolls), or None."""
    size = groups.shape[1]
    out: Any = -_leaving(groups, tail, head)
    answer = optimize.linprog(
        costs.astype(np.float64),
        A_eq=_degrees(size, tail, head),
        b_eq=np.ones(2 * size),
        A_ub=out,
        b_ub=-np.ones(len(groups)),
        method="highs-ds",
        options={"time_limit": min(max(0.01, seconds), 1e9)},
    )
    if answer.status != 0:
        return None
    both = np.asarray(answer.eqlin.marginals)
    toll = np.clip(-np.asarray(answer.ineqlin.marginals), 0.0, None)
    return np.asarray(answer.x), both[:size], both[size:], toll


def _degrees(size: int, tail: Indices, head: Indices) -> Any:
    """Return the matrix (2n, steps) that counts how often each city is left and entered."""
    step = np.arange(len(tail))
    rows, columns = np.concatenate([tail, size + head]), np.concatenate([step, step])
    return sparse.csr_array((np.ones(2 * len(tail)), (rows, columns)), shape=(2 * size, len(tail)))


def _leaving(groups: Groups, tail: Indices, head: Indices) -> Any:
    """Return the matrix (groups, steps) that counts how often each group is left."""
    return sparse.csr_array((groups[:, tail] & ~groups[:, head]).astype(np.float64))
