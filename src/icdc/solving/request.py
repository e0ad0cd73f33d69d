"""What a solver is asked to answer, and what it tells while it searches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..problems.base import Arrays, Problem, Size
from .verify import judge


@dataclass(frozen=True)
class Improvement:
    """What a callback is told.

    seconds : since the start.
    cost, choice : (count,) and (count, rows), the best of every instance so far; infinite where there is none.
    bound : (count,), the proven lower bounds known so far; −inf where there is none.
    found_by : what found the best of every instance; see `Found`.
    places : where these instances are among those that were given to `solve_many`, counted from 0; () where a solver is
        called by itself.
    """

    seconds: float
    cost: NDArray[np.float64]
    choice: NDArray[np.int64]
    bound: NDArray[np.float64] | None = None
    found_by: Sequence[str] | None = None
    places: tuple[int, ...] = ()


SolveCallback = Callable[[Improvement], bool | None]
"""Told of every improvement; returning True ends the search once every instance has an answer."""


@dataclass
class Request:
    """What a solver is asked to answer, and with how much effort.

    problem, arrays : the instances, all of one size, leading axis count.
    samples : independent tries for each instance, where that means something.
    seed : of all random numbers.
    time_limit : seconds for the whole batch.
    start : (count, rows), feasible solutions to begin from.
    bound : (count,), proven lower bounds that are known already; −inf where none is.
    callback : told of every improvement.
    solver : the name of who is asked, for improvements that do not say what found them.
    """

    problem: Problem
    arrays: Arrays
    samples: int = 1
    seed: int = 0
    time_limit: float | None = None
    start: NDArray[np.int64] | None = None
    bound: NDArray[np.float64] | None = None
    callback: SolveCallback | None = None
    solver: str = ""
    last: Improvement | None = field(default=None, init=False)
    """The last improvement that was told, for when the search is interrupted."""

    @property
    def count(self) -> int:
        """How many instances there are."""
        return len(next(iter(self.arrays.values())))

    @property
    def size(self) -> Size:
        """Their size."""
        return self.problem.size(self.arrays)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of their solution matrices."""
        return self.problem.shape(self.size)

    def tell(self, improvement: Improvement) -> bool:
        """Pass an improvement on, complete; return whether the search should end."""
        if improvement.bound is None:
            bound = np.full(self.count, -np.inf) if self.bound is None else self.bound
            improvement = replace(improvement, bound=bound)
        if improvement.found_by is None:
            improvement = replace(improvement, found_by=[self.solver] * self.count)
        self.last = improvement
        return self.callback is not None and bool(self.callback(improvement))


def check_start(request: Request) -> None:
    """Refuse solutions to begin from that do not fit the instances of a request or are not feasible."""
    assert request.start is not None
    wanted = (request.count, request.shape[0])
    if request.start.shape != wanted:
        raise InputError(f"the start has shape {request.start.shape}, these instances need {wanted}")
    if not judge(request.problem, request.arrays, request.start)[0].all():
        raise InputError("the start is not a feasible solution")
