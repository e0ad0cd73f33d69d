"""The last word on an answer: feasible or not, what it costs, how far from optimal it can be.

Nothing here knows how an answer was made. Costs are computed afresh from the instance as it was given, on the
CPU, in 64-bit integers where the instance holds integers and in float64 otherwise: by the problem's own word, or, where
it promises a `structure`, by what that promise says about its matrix, for which no torch is needed. The conformance kit
compares the two.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problems.base import Arrays, Problem
from ..problems.conditions import objective, violation
from ..problems.forbidden import forbidden_pair, highest_cost
from ..problems.instance import Instance
from ..problems.restating import restate
from ..search.run import SAME, rounded_up
from ..search.structures import structure_of


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
        whole = isinstance(self.objective, int) and isinstance(self.bound, int)
        if excess <= (0 if whole else SAME * abs(self.bound)):
            return 0.0
        return excess / abs(self.bound) if self.bound else None

    @property
    def optimal(self) -> bool:
        """Whether the bound is met, so that nothing better exists."""
        return self.gap == 0.0


def verify(
    problem: Problem, arrays: Arrays, choice: NDArray[np.int64], bound: NDArray[np.float64] | None = None
) -> list[Verdict]:
    """Judge one solution of every instance, with the problem's own lower bound and a given one, if it is higher.

    Parameters
    ----------
    problem : the contract of the problem.
    arrays : the instances, leading axis count.
    choice : (count, rows) int64, the column of each row.
    bound : (count,) float64, lower bounds proven by whoever solved them; −inf where there is none.
    """
    best = lower_bounds(problem, arrays)
    return verdicts(*judge(problem, arrays, choice), best if bound is None else np.fmax(best, bound))


def permitted(verdict: Verdict, instance: Instance, choice: NDArray[np.int64]) -> Verdict:
    """Return a verdict on a choice (rows,) of an instance that may have forbidden pairs: none of them may be used.

    Numbers that stand in for forbidden pairs are larger than any permitted solution, and no bound of anything.
    """
    if instance.forbidden is None:
        return verdict
    highest = highest_cost(instance)
    bound = verdict.bound if verdict.bound is not None and verdict.bound <= highest else None
    feasible = verdict.feasible and forbidden_pair(instance, choice) is None
    return Verdict(feasible, verdict.objective if feasible else None, bound)


def verdict_on(instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Verdict:
    """Judge a choice (rows,) of one instance, with its forbidden pairs and what else is asked of it.

    bound : a lower bound on the objective that is known already.
    """
    if choice.shape != instance.shape[:1]:
        return Verdict(False, None, None)
    known = None if bound is None else np.array([bound])
    solved = restate(instance)
    if solved is instance:
        (verdict,) = verify(instance.problem, instance.batch(), choice[None], known)
        return permitted(verdict, instance, choice)
    low = lower_bounds(solved.problem, solved.batch())
    feasible = violation(instance, choice) is None
    # what it costs by the asked instance is the last word, and does not depend on how it was restated
    cost = np.array([objective(instance, choice) if feasible else 0])
    exact = cost if solved.integral else cost.astype(np.float64)
    (verdict,) = verdicts(np.array([feasible]), exact, low if known is None else np.fmax(low, known))
    highest = highest_cost(solved)
    return verdict if verdict.bound is None or verdict.bound <= highest else replace(verdict, bound=None)


def lower_bounds(problem: Problem, arrays: Arrays) -> NDArray[np.float64]:
    """Return the problem's own lower bound of every instance, (count,); −inf where it has none."""
    bound = problem.lower_bound(arrays)
    return np.full(len(next(iter(arrays.values()))), -math.inf) if bound is None else bound


def judge(problem: Problem, arrays: Arrays, choice: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return whether choices (count, rows) are feasible and what they cost, (count,) each.

    Costs are int64 or float64, and mean nothing where a choice is not feasible.
    """
    rows, columns = problem.shape(problem.size(arrays))
    if choice.shape != (len(next(iter(arrays.values()))), rows):
        raise ValueError(f"there are choices of shape {choice.shape} for {rows} rows")
    costs = None if problem.structure is None else problem.cost_matrix(arrays)
    if problem.structure is not None and costs is not None:
        return structure_of(problem.structure).judge(costs, choice)
    import torch

    from ..problems.tensors import to_tensors

    instances = to_tensors(arrays)
    chosen = torch.from_numpy(np.ascontiguousarray(choice, dtype=np.int64))[:, None]
    feasible = problem.feasible(instances, chosen)[:, 0].numpy()
    # an infeasible choice may point outside the matrix; cost it as if it stayed inside, and do not tell
    cost = problem.cost(instances, chosen.clamp(0, columns - 1))[:, 0]
    return feasible, (cost.double() if cost.is_floating_point() else cost).numpy()


def verdicts(
    feasible: NDArray[np.bool_],
    cost: NDArray[Any],
    bound: NDArray[np.float64],
    proven: NDArray[np.bool_] | None = None,
) -> list[Verdict]:
    """Return a verdict for every instance from (count,) each: feasible or not, exact cost, lower bound, proof.

    An answer that is proven optimal is its own bound.
    """
    integral = np.issubdtype(cost.dtype, np.integer)
    shown = [_shown(low, integral) for low in bound.tolist()]
    known = np.zeros(len(cost), dtype=bool) if proven is None else proven
    return [
        Verdict(ok, value if ok else None, value if ok and done else low)
        for ok, value, low, done in zip(feasible.tolist(), cost.tolist(), shown, known.tolist(), strict=True)
    ]


def contradicts(bound: NDArray[np.float64], cost: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell where lower bounds (count,) cannot be true, as they are above the costs (count,) of solutions."""
    if np.issubdtype(cost.dtype, np.integer):
        return np.asarray(rounded_up(bound) > cost)
    return np.asarray(bound > cost + SAME * np.abs(cost))


def _shown(low: float, integral: bool) -> int | float | None:
    """Return a bound as it is shown: nothing if there is none, the next integer where costs are integers."""
    if not math.isfinite(low):
        return None
    return int(rounded_up(np.array(low))) if integral else low
