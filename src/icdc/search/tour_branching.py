"""Branch and bound on assignments (Carpaneto, Toth): proofs in milliseconds where assignments are nearly tours."""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..later import optimize
from .run import Budget, Incumbent

Arc = tuple[int, int]


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


def branch(matrix: NDArray[Any], incumbent: Incumbent, nodes: int, budget: Budget) -> None:
    """Open the node of the lowest bound, and break the cycle of its assignment that has the fewest free arcs.

    At least one arc of the cycle is missing in a tour: child h misses the h-th and takes those before it, so that no
    two children share a tour. After `nodes` openings, or when the time is over, the incumbent has the best tour so far
    and the lowest open bound. Integers are exact; for reals that bound is lowered by the rounding of sums, and a proof
    holds to within that.

    matrix : (n, n) what steps cost; the diagonal is ignored.
    incumbent : of this instance alone; its tour is to be beaten, or any first one where there is none.
    """
    costs = matrix.astype(np.float64)
    np.fill_diagonal(costs, np.inf)
    cheapest = _assignment(costs)
    assert cheapest is not None  # every tour is an assignment

    def offer(successor: list[int] | NDArray[np.int64]) -> None:
        choice = np.asarray(successor)
        incumbent.offer(choice, _length(matrix, choice), "exact")

    if len(next(_cycles(cheapest[1]))) == len(costs):
        offer(cheapest[1])
        incumbent.raise_bound(cheapest[0])
        return
    if not incumbent.solved[0]:
        offer(np.roll(np.arange(len(costs)), -1))
    best = float(_length(costs, incumbent.choice[0]))
    open_nodes, made, opened = [Node(cheapest[0], 0, cheapest[1])], 1, 0
    while open_nodes and open_nodes[0].bound < best:
        if opened >= nodes or budget.over:
            incumbent.raise_bound(open_nodes[0].bound - sum_error(matrix))
            return
        opened += 1
        for child in _children(costs, heappop(open_nodes)):
            if child.bound >= best:
                continue
            if len(next(_cycles(child.successor))) == len(costs):
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
    cycle = min(_cycles(node.successor), key=lambda cycle: sum(arc not in node.included for arc in cycle))
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
    try:
        rows, successor = optimize.linear_sum_assignment(costs)
    except ValueError:  # every assignment has an infinite entry
        return None
    return float(costs[rows, successor].sum()), successor.tolist()


def _cycles(successor: list[int]) -> Iterator[list[Arc]]:
    """Yield the arcs of each cycle of a permutation, in the order they are walked."""
    left = set(range(len(successor)))
    while left:
        city, cycle = min(left), []
        while city in left:
            left.remove(city)
            cycle.append((city, successor[city]))
            city = successor[city]
        yield cycle


def is_tour(successor: NDArray[np.int64]) -> NDArray[np.bool_]:
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


def _length(costs: NDArray[Any], successor: NDArray[np.int64]) -> Any:
    return costs[np.arange(len(costs)), successor].sum()


def sum_error(matrix: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """Return how far a cheapest assignment in float64 may be from the truth; nothing for exact integers."""
    size, largest = len(matrix), float(np.abs(matrix).max())
    exact = np.issubdtype(matrix.dtype, np.integer) and size * largest < 2.0**53
    return 0.0 if exact else 4 * size**2 * float(np.finfo(np.float64).eps) * largest
