"""What a search knows about one instance: the best solution so far, and a bound."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def searched(by: str) -> str:
    """Return what found a solution that search has improved after somebody proposed it."""
    return by if by.endswith("search") else f"{by} + search"


@dataclass(frozen=True)
class Incumbent:
    """The best solution of one instance so far.

    choice : (rows,) int64, the column of each row: the successor of a city, the machine of a job.
    cost : what it costs, an int for whole numbers.
    bound : no solution costs less.
    found_by : what found it: "construction", "search", "exact", or what whoever proposed it is called.
    """

    choice: NDArray[np.int64]
    cost: float | int
    bound: float = -np.inf
    found_by: str = "search"

    @property
    def proven(self) -> bool:
        """Whether nothing is better."""
        return bool(self.cost <= self.bound)
