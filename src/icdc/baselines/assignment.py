"""Tours from the cheapest assignment: cycles patched into one (Karp), or branched on until proven (Carpaneto, Toth).

On random asymmetric matrices the cheapest assignment costs nearly what the best tour does, so that a handful of
branchings prove the optimum; on symmetric ones the bound is weak and a limit is soon met.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..problems.bounds import assignment_bound
from ..solving.solver import Abilities
from .one_by_one import OneByOne, Single, SingleAnswer

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


@dataclass(frozen=True)
class AssignmentPatching(OneByOne):
    """Join the two longest cycles of the cheapest assignment where that costs least, until one is left.

    The assignment is a lower bound as well, so an assignment that is a tour at once is proven optimal.
    """

    name = "patching"
    abilities = Abilities(proof=True)
    structures = ("tour",)

    def load(self) -> None:
        from scipy.optimize import linear_sum_assignment  # noqa: F401

    def answer(self, single: Single) -> SingleAnswer:
        from scipy.optimize import linear_sum_assignment

        costs = single.matrix.astype(np.float64)
        np.fill_diagonal(costs, np.inf)
        successor = linear_sum_assignment(costs)[1].astype(np.int64)
        bound = float(assignment_bound(single.matrix[None])[0])
        cycles = _cycles_of(successor)
        while len(cycles) > 1:
            cycles.sort(key=len)
            one, other = cycles.pop(), cycles.pop()
            _join(costs, successor, one, other)
            cycles.append(np.concatenate([one, other]))
        return SingleAnswer(successor, bound)


@dataclass(frozen=True)
class BranchAndBound(OneByOne):
    """Open the node of the lowest bound, and break the cycle of its assignment that has the fewest free arcs.

    At least one arc of the cycle is missing in a tour: child h misses the h-th and takes those before it, so
    that no two children share a tour. Patching and a quick heuristic give the tour to beat. After `nodes`
    openings, or at the end of its time, the answer is the best tour so far with the lowest open bound.
    Integers are exact; for reals 'proven' means to within the rounding of sums, by which the bound is lowered.
    """

    name = "branch"
    abilities = Abilities(proof=True, start=True)
    structures = ("tour",)

    nodes: int = 1_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes < 1:
            raise UsageError(f"option 'nodes' of solver '{self.name}' must be at least 1, got {self.nodes}")

    def load(self) -> None:
        from scipy.optimize import linear_sum_assignment  # noqa: F401

    def answer(self, single: Single) -> SingleAnswer:
        deadline = np.inf if single.limit is None else time.perf_counter() + single.limit
        costs = single.matrix.astype(np.float64)
        np.fill_diagonal(costs, np.inf)
        cheapest = _assignment(costs)
        assert cheapest is not None  # every tour is an assignment
        error = _rounding(single.matrix)
        if _is_tour(cheapest[1]):
            return SingleAnswer(np.array(cheapest[1]), cheapest[0] - error, True)
        starts = (single.start, AssignmentPatching().answer(single).choice)
        best, choice = min(((_length(costs, start), start.tolist()) for start in starts), key=lambda pair: pair[0])
        open_nodes, made, opened = [Node(cheapest[0], 0, cheapest[1])], 1, 0
        while open_nodes and open_nodes[0].bound < best:
            if opened >= self.nodes or time.perf_counter() > deadline:
                return SingleAnswer(np.array(choice), open_nodes[0].bound - error)
            opened += 1
            for child in _children(costs, heappop(open_nodes)):
                if child.bound >= best:
                    continue
                if _is_tour(child.successor):
                    best, choice = child.bound, child.successor
                else:
                    heappush(open_nodes, child._replace(order=made))
                    made += 1
        return SingleAnswer(np.array(choice), best - error, True)


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
    from scipy.optimize import linear_sum_assignment

    try:
        rows, successor = linear_sum_assignment(costs)
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


def _is_tour(successor: list[int]) -> bool:
    steps, city = 1, successor[0]
    while city != 0:
        steps, city = steps + 1, successor[city]
    return steps == len(successor)


def _length(costs: NDArray[np.float64], successor: NDArray[np.int64]) -> float:
    return float(costs[np.arange(len(costs)), successor].sum())


def _rounding(matrix: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """Return how far a cheapest assignment in float64 may be from the truth; nothing for exact integers."""
    size, largest = len(matrix), float(np.abs(matrix).max())
    exact = np.issubdtype(matrix.dtype, np.integer) and size * largest < 2.0**53
    return 0.0 if exact else 4 * size**2 * float(np.finfo(np.float64).eps) * largest


def _cycles_of(successor: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the cities of each cycle of a permutation (n,)."""
    seen = np.zeros(len(successor), dtype=bool)
    cycles = []
    for start in range(len(successor)):
        cycle, city = [], start
        while not seen[city]:
            seen[city] = True
            cycle.append(city)
            city = int(successor[city])
        if cycle:
            cycles.append(np.array(cycle, dtype=np.int64))
    return cycles


def _join(
    costs: NDArray[np.float64],
    successor: NDArray[np.int64],
    one: NDArray[np.int64],
    other: NDArray[np.int64],
) -> None:
    """Let a city of each cycle swap successors, in place, where the two new steps cost least extra."""
    leaving_one, leaving_other = costs[one, successor[one]], costs[other, successor[other]]
    crossing = costs[one[:, None], successor[other][None, :]] + costs[other[:, None], successor[one][None, :]].T
    extra = crossing - leaving_one[:, None] - leaving_other[None, :]
    row, column = np.unravel_index(int(extra.argmin()), extra.shape)
    i, j = one[row], other[column]
    successor[i], successor[j] = successor[j], successor[i]
