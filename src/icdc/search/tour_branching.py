"""Cycles of permutations: when they are one tour, joining them into one, and branch and bound on assignments."""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .run import Budget, Incumbent
from .tour_bounds import Indices, Numbers, sum_error

Arc = tuple[int, int]
PASSES = 30
"""Passes over all pairs of cities in which cycles are joined."""


def is_tour(successor: Indices) -> NDArray[np.bool_]:
    """Tell which successors (…, n) lead through all n cities and back."""
    cities = np.arange(successor.shape[-1])
    every = (np.sort(successor, -1) == cities).all(-1)
    ahead = np.where(every[..., None], successor, cities)
    # the lowest city within 1, 2, 4, … steps, until these lead all the way around
    lowest, steps = np.minimum(cities, ahead), 1
    while steps < len(cities):
        lowest = np.minimum(lowest, np.take_along_axis(lowest, ahead, -1))
        ahead, steps = np.take_along_axis(ahead, ahead, -1), 2 * steps
    return np.asarray(every & (lowest == 0).all(-1))


def cycles_of(successor: Indices | list[int]) -> Iterator[list[int]]:
    """Yield the cities of each cycle of a permutation (n,) as they are walked, each from its lowest city."""
    following = successor if isinstance(successor, list) else successor.tolist()
    visited = [False] * len(following)
    for city in range(len(following)):
        cycle = []
        while not visited[city]:
            visited[city] = True
            cycle.append(city)
            city = following[city]
        if cycle:
            yield cycle


def length(costs: Numbers, successor: Indices) -> Any:
    """Return what a permutation (n,) costs, an integer for integers."""
    return costs[np.arange(len(costs)), successor].sum()


def patched(excess: Numbers, successor: Indices, budget: Budget) -> Indices:
    """Join the cycles of an assignment into one tour: two cities swap successors where that costs least.

    In each pass every city names its best partner in another cycle; the swaps are made, cheapest first, as long as
    they join two cycles and neither city has swapped in this pass. Where that takes too long, as every city names the
    same partner, each of the cycles left is joined to the next.
    """
    size, cities = len(excess), np.arange(len(excess))
    successor, label = successor.copy(), np.empty(len(excess), np.int64)
    for _ in range(PASSES):
        cycles = list(cycles_of(successor))
        if len(cycles) == 1 or budget.over:
            break
        for number, cycle in enumerate(cycles):
            label[cycle] = number
        towards = excess[:, successor] - excess[cities, successor][:, None]
        extra = towards + towards.T
        extra[label[:, None] == label[None, :]] = np.iinfo(np.int64).max if extra.dtype == np.int64 else np.inf
        nearest = extra.argmin(1)
        joined = list(range(size))
        swapped = np.zeros(size, dtype=bool)
        for city in np.argsort(extra[cities, nearest], kind="stable").tolist():
            other_city = int(nearest[city])
            first, second = _root(joined, int(label[city])), _root(joined, int(label[other_city]))
            if first != second and not swapped[city] and not swapped[other_city]:
                joined[first] = second
                swapped[city] = swapped[other_city] = True
                successor[city], successor[other_city] = successor[other_city], successor[city]
    for one, other in pairwise([np.array(cycle) for cycle in cycles_of(successor)]):
        change = excess[np.ix_(one, successor[other])] + excess[np.ix_(other, successor[one])].T
        change -= excess[one, successor[one]][:, None] + excess[other, successor[other]]
        row, column = np.unravel_index(int(change.argmin()), change.shape)
        city, partner = one[row], other[column]
        successor[city], successor[partner] = successor[partner], successor[city]
    return successor


def _root(joined: list[int], label: int) -> int:
    while joined[label] != label:
        label = joined[label]
    return label


class Node(NamedTuple):
    """All tours that take some arcs and avoid others.

    bound : what the cheapest assignment of that kind costs.
    order : when it was made; of equal bounds the older goes first, and the rest is never compared.
    successor : that assignment, which is not one tour.
    """

    bound: float
    order: int
    successor: list[int]
    included: frozenset[Arc] = frozenset()
    excluded: tuple[Arc, ...] = ()


def branch(matrix: Numbers, incumbent: Incumbent, nodes: int, budget: Budget) -> None:
    """Open the node of the lowest bound, and break the cycle of its assignment that has the fewest free arcs.

    At least one arc of the cycle is missing in a tour: child h misses the h-th and takes those before it, so that no
    two children share a tour (Carpaneto, Toth). After `nodes` openings, or when the time is over, the incumbent has the
    best tour so far and the lowest open bound. Integers are exact; for reals that bound is lowered by the rounding of
    sums, and a proof holds to within that.

    matrix : (n, n) what steps cost; the diagonal is ignored.
    incumbent : of this instance alone; its tour is to be beaten, or any first one where there is none.
    """
    costs = matrix.astype(np.float64)
    np.fill_diagonal(costs, np.inf)
    cheapest = _assignment(costs)
    assert cheapest is not None  # every tour is an assignment

    def offer(successor: list[int]) -> None:
        choice = np.array(successor)
        incumbent.offer(choice, length(matrix, choice), "exact")

    if len(next(cycles_of(cheapest[1]))) == len(costs):
        offer(cheapest[1])
        incumbent.raise_bound(cheapest[0])
        return
    if not incumbent.solved[0]:
        offer([*range(1, len(costs)), 0])
    best = float(length(costs, incumbent.choice[0]))
    open_nodes, made, opened = [Node(cheapest[0], 0, cheapest[1])], 1, 0
    while open_nodes and open_nodes[0].bound < best:
        if opened >= nodes or budget.over:
            incumbent.raise_bound(open_nodes[0].bound - sum_error(matrix))
            return
        opened += 1
        for child in _children(costs, heappop(open_nodes)):
            if child.bound >= best:
                continue
            if len(next(cycles_of(child.successor))) == len(costs):
                best = child.bound
                offer(child.successor)
            else:
                heappush(open_nodes, child._replace(order=made))
                made += 1
    incumbent.raise_bound(best)


def _children(costs: NDArray[np.float64], node: Node) -> Iterator[Node]:
    """Yield the parts of a node that avoid one arc each of the cycle with the fewest free ones."""
    permitted = costs.copy()
    for i, j in node.included:
        _include(permitted, i, j)
    for i, j in node.excluded:
        permitted[i, j] = np.inf
    arcs = [[(city, node.successor[city]) for city in cycle] for cycle in cycles_of(node.successor)]
    cycle = min(arcs, key=lambda cycle: sum(arc not in node.included for arc in cycle))
    included = set(node.included)
    first = cycle[0][0]
    for i, j in cycle:
        if (i, j) in included:
            continue
        # all arcs before this one are taken, so that going back to the first city closes a cycle as well
        excluded = ((i, j), (i, first))
        kept = permitted[i, j]
        permitted[i, [j, first]] = np.inf
        cheapest = _assignment(permitted)
        if cheapest is not None:
            yield Node(cheapest[0], 0, cheapest[1], frozenset(included), node.excluded + excluded)
        permitted[i, j] = kept
        _include(permitted, i, j)
        included.add((i, j))


def _include(permitted: NDArray[np.float64], i: int, j: int) -> None:
    """Leave city `i` no other successor and city `j` no other predecessor, in place."""
    kept = permitted[i, j]
    permitted[i] = np.inf
    permitted[:, j] = np.inf
    permitted[i, j] = kept


def _assignment(costs: NDArray[np.float64]) -> tuple[float, list[int]] | None:
    """Return the cost and the successors of the cheapest assignment of a matrix (n, n), or None without one."""
    from scipy.optimize import linear_sum_assignment

    try:
        rows, successor = linear_sum_assignment(costs)
    except ValueError:  # every assignment has an infinite entry
        return None
    return float(costs[rows, successor].sum()), successor.tolist()
