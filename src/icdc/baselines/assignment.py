"""Tours from the cheapest assignment: cycles patched into one (Karp), or branched on until proven (Carpaneto, Toth).

On random asymmetric matrices the cheapest assignment costs nearly what the best tour does, so that a handful of
branchings prove the optimum; on symmetric ones the bound is weak and a limit is soon met.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..problems.bounds import assignment_bound
from ..search.run import Budget, Incumbent
from ..search.tour_branching import branch, sum_error
from .one_by_one import OneByOne, Single, SingleAnswer


@dataclass(frozen=True)
class AssignmentPatching(OneByOne):
    """Join the two longest cycles of the cheapest assignment where that costs least, until one is left.

    The assignment is a lower bound as well, so an assignment that is a tour at once is proven optimal.
    """

    name = "patching"
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
    structures = ("tour",)

    nodes: int = 1_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes < 1:
            raise UsageError(f"option 'nodes' of solver '{self.name}' must be at least 1, got {self.nodes}")

    def load(self) -> None:
        from scipy.optimize import linear_sum_assignment  # noqa: F401

    def answer(self, single: Single) -> SingleAnswer:
        cities, whole = len(single.matrix), bool(np.issubdtype(single.matrix.dtype, np.integer))
        incumbent = Incumbent(1, cities, whole)
        for tour in (single.start, AssignmentPatching().answer(single).choice):
            incumbent.offer(tour, single.matrix[np.arange(cities), tour].sum(), "start")
        branch(single.matrix, incumbent, self.nodes, Budget(single.limit))
        proven = bool(incumbent.proven[0])
        bound = incumbent.bound[0] - (sum_error(single.matrix) if proven else 0.0)
        return SingleAnswer(incumbent.choice[0], float(bound), proven)


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
