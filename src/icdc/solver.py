"""The protocol of a solver, learned or classical, and what it returns."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .problem import Arrays, Problem


@dataclass(frozen=True)
class Results:
    """Answers for a batch of instances, in the order they were given.

    choice : (count, rows) int64, the column of each row.
    cost : (count,) float64, in the units of the instance.
    bound : (count,) float64, a proven lower bound on the optimum; −inf where none is known.
    proven : (count,) bool, True where the solver proved its answer optimal.
    seconds : wall-clock time of the whole batch, loading and compilation excluded.
    """

    choice: NDArray[np.int64]
    cost: NDArray[np.float64]
    bound: NDArray[np.float64]
    proven: NDArray[np.bool_]
    seconds: float
    extra: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.cost)


@runtime_checkable
class Solver(Protocol):
    """Anything that answers a batch of instances of one size."""

    name: str

    def supports(self, problem: Problem) -> bool:
        """Tell whether this solver can answer instances of a problem."""
        ...

    def solve(
        self, problem: Problem, arrays: Arrays, *, samples: int = 1, seed: int = 0, time_limit: float | None = None
    ) -> Results:
        """Answer every instance of `arrays` (leading axis: count).

        `samples` is how many independent tries each instance gets, where that means something;
        `time_limit` is in seconds for the whole batch.
        """
        ...
