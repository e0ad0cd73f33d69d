"""Assignment patching: the cheapest assignment, its cycles joined two by two into one tour (Karp)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .each import Answer, EachInstance, Task


@dataclass(frozen=True)
class AssignmentPatching(EachInstance):
    """Join the two longest cycles of the cheapest assignment where that costs least, until one is left.

    The assignment is a lower bound as well, so an assignment that is a tour at once is proven optimal.
    """

    name = "patching"
    takes_samples = False

    def load(self) -> None:
        from scipy.optimize import linear_sum_assignment  # noqa: F401

    def answer(self, task: Task) -> Answer:
        from scipy.optimize import linear_sum_assignment

        from ..bounds import assignment_bound

        costs = task.matrix.astype(np.float64)
        np.fill_diagonal(costs, np.inf)
        successor = linear_sum_assignment(costs)[1].astype(np.int64)
        bound = float(assignment_bound(task.matrix[None])[0])
        cycles = _cycles(successor)
        while len(cycles) > 1:
            cycles.sort(key=len)
            one, other = cycles.pop(), cycles.pop()
            _join(costs, successor, one, other)
            cycles.append(np.concatenate([one, other]))
        return Answer(successor, bound)


def _cycles(successor: NDArray[np.int64]) -> list[NDArray[np.int64]]:
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
