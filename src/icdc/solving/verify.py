"""The last word on an answer: feasible or not, what it costs, how far from optimal it can be.

Nothing here knows how an answer was made. Costs are computed afresh from the instance as it was given, on the
CPU, in 64-bit integers where the instance holds integers and in float64 otherwise.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ..problem import Arrays, Problem, to_tensors

_SAME = 1e-9
"""Relative difference below which a real cost counts as equal to its bound: the rounding of a sum."""


@dataclass(frozen=True)
class Verdict:
    """What is true of a solution.

    objective : its cost, an int where the instance holds integers; None if it is infeasible.
    bound : a proven lower bound on the optimum, rounded up where costs are integers; None if none is known.
    """

    feasible: bool
    objective: int | float | None
    bound: int | float | None

    @property
    def gap(self) -> float | None:
        """How far the cost can be above the optimum, as a fraction of the bound; None where unknown."""
        if self.objective is None or self.bound is None:
            return None
        excess = self.objective - self.bound
        if excess <= _SAME * abs(self.bound):
            return 0.0
        return excess / abs(self.bound) if self.bound else None

    @property
    def optimal(self) -> bool:
        """Whether the bound is met, so that nothing better exists."""
        return self.gap == 0.0


def verify(
    problem: Problem,
    arrays: Arrays,
    choice: NDArray[np.int64],
    bound: NDArray[np.float64] | None = None,
) -> list[Verdict]:
    """Judge one solution of every instance.

    Parameters
    ----------
    problem : the contract of the problem.
    arrays : the instances, leading axis count.
    choice : (count, rows) int64, the column of each row.
    bound : (count,) float64, lower bounds proven by whoever solved them (−inf where there is none); the
        problem's own bound counts too, and the higher one is kept.
    """
    instances = to_tensors(arrays)
    chosen = torch.from_numpy(np.ascontiguousarray(choice, dtype=np.int64))[:, None]
    feasible = problem.feasible(instances, chosen)[:, 0].tolist()
    # an infeasible choice may point outside the matrix; cost it as if it stayed inside, and do not tell
    columns = problem.shape(problem.size(arrays))[1]
    cost = problem.cost(instances, chosen.clamp(0, columns - 1))[:, 0]
    integral = not cost.is_floating_point()
    best = np.full(len(choice), -math.inf)
    for known in (problem.lower_bound(arrays), bound):
        if known is not None:
            best = np.fmax(best, known)
    return [
        Verdict(ok, value if ok else None, _bound(low, integral))
        for ok, value, low in zip(feasible, cost.tolist(), best.tolist(), strict=True)
    ]


def _bound(low: float, integral: bool) -> int | float | None:
    """Return a bound as it is shown: nothing if there is none, the next integer where costs are integers."""
    if not math.isfinite(low):
        return None
    if not integral:
        return low
    return math.ceil(low - max(1e-6, _SAME * abs(low)))
