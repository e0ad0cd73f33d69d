"""What a search found, and the checked results that become of it, whoever searched.

Every solution is checked and costed once, exactly, and does without forbidden pairs where it can
(`problems.forbidden`); a given start is kept where nothing better was found; what meets its bound is proven.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..problems.base import Arrays, Problem
from ..problems.forbidden import without_forbidden
from ..search.run import meets
from .first import first_choice
from .request import Improvement, Request
from .verify import Verdict, contradicts, judge, verdicts

REPAIR = 0.5
"""Seconds, where time is limited, in which tours are to do without forbidden steps after the search."""


class Found(NamedTuple):
    """What a search found, not yet checked.

    choice : (count, rows) int64; −1 in rows of instances without any answer.
    seconds : wall-clock time of the search, loading and compilation excluded.
    bound : (count,) float64, lower bounds it proved; None where it proves none.
    proven : (count,) bool, answers it proved optimal; None where it proves none.
    model : the name of the model it used, if any.
    interrupted : whether Ctrl-C ended it early.
    found_by : what found the answer of every instance, a word or two each; None for the solver itself.
    samples : tries that were made of each instance, where a limit may have cut them short; None for all.
    """

    choice: NDArray[np.int64]
    seconds: float
    bound: NDArray[np.float64] | None = None
    proven: NDArray[np.bool_] | None = None
    model: str | None = None
    interrupted: bool = False
    found_by: Sequence[str] | None = None
    samples: int | None = None


@dataclass(frozen=True)
class Results:
    """Checked answers for a batch of instances, in the order they were given.

    choice : (count, rows) int64, the column of each row.
    feasible : (count,) bool, by the problem's own test.
    exact_cost : (count,), the cost computed afresh, int64 where instances hold integers, else float64; it means
        nothing where the choice is not feasible.
    bound : (count,) float64, a proven lower bound on the optimum; −inf where none is known.
    proven : (count,) bool, True where the answer is proven optimal.
    seconds : wall-clock time of the whole batch, loading and compilation excluded.
    model : the model that was used, where there was one.
    interrupted : whether Ctrl-C ended the search early.
    found_by : what found every answer: the solver, a part of it, or "start" where nothing better was found.
    samples : tries that were made of each instance; None where all that were asked for were.
    """

    choice: NDArray[np.int64]
    feasible: NDArray[np.bool_]
    exact_cost: NDArray[Any]
    bound: NDArray[np.float64]
    proven: NDArray[np.bool_]
    seconds: float
    model: str | None = None
    interrupted: bool = False
    found_by: tuple[str, ...] = ()
    samples: int | None = None

    def __len__(self) -> int:
        return len(self.choice)

    @property
    def cost(self) -> NDArray[np.float64]:
        """The cost of every answer, (count,) float64; infinite where it is not feasible."""
        return np.where(self.feasible, self.exact_cost.astype(np.float64), np.inf)

    def verdicts(self) -> list[Verdict]:
        """Return what is true of every answer."""
        return verdicts(self.feasible, self.exact_cost, self.bound, self.proven)


def checked(request: Request, found: Found) -> Results:
    """Check and cost what was found, exactly; keep the start where it is better.

    What is said of the optimum is judged once, in the end, against the final cost: a proof holds for the cost that it
    was made for, and a bound above the cost of a solution is none.
    """
    choice = _choice_of(request, found)
    feasible, cost = judge(request.problem, request.arrays, choice)
    claimed = np.zeros(len(choice), dtype=bool) if found.proven is None else feasible & found.proven
    claims = cost
    choice, cost = with_permitted_pairs(request, choice, np.flatnonzero(feasible & ~claimed), cost)
    found_by = list(found.found_by or [request.solver] * len(choice))
    if request.start is not None:
        _, before = judge(request.problem, request.arrays, request.start)
        kept = ~feasible | (before < cost) | (choice == request.start).all(1)
        found_by = ["start" if keep else by for keep, by in zip(kept, found_by, strict=True)]
        choice = np.where(kept[:, None], request.start, choice)
        feasible, cost = feasible | kept, np.where(kept, before, cost)
    bound = np.full(len(choice), -np.inf)
    for known in (request.bound, found.bound):
        if known is not None:
            bound = np.fmax(bound, np.where(feasible & contradicts(known, cost), -np.inf, known))
    proven = feasible & ((claimed & meets(claims, cost)) | meets(cost, bound))
    if request.last is None and request.callback is not None and feasible.any():
        known_cost = np.where(feasible, cost.astype(np.float64), np.inf)
        request.tell(Improvement(found.seconds, known_cost, choice, bound, found_by))
    return Results(
        choice, feasible, cost, bound, proven, found.seconds, found.model, found.interrupted, tuple(found_by),
        found.samples,
    )  # fmt: skip


def _choice_of(request: Request, found: Found) -> NDArray[np.int64]:
    """Return the choices of what was found, or say what a solver of one's own got wrong."""
    if not isinstance(found, Found):
        raise UsageError(f"the solver '{request.solver}' must return a Found, got {type(found).__name__}")
    wanted = (request.count, request.shape[0])
    choice = np.asarray(found.choice)
    if choice.shape != wanted or not np.issubdtype(choice.dtype, np.integer):
        words = f"{choice.dtype} choices of shape {choice.shape}"
        raise UsageError(f"the solver '{request.solver}' returned {words}, where whole numbers {wanted} are needed")
    for name in ("bound", "proven"):
        value = getattr(found, name)
        if value is not None and np.shape(value) != wanted[:1]:
            words = f"'{name}' of shape {np.shape(value)}"
            raise UsageError(f"the solver '{request.solver}' returned {words}, where {wanted[:1]} is needed")
    return choice.astype(np.int64, copy=False)


def with_permitted_pairs(
    request: Request, choice: NDArray[np.int64], places: NDArray[np.int64], cost: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return choices (count, rows) and costs (count,), better ones at places where forbidden pairs can be done without.

    Deciding step by step may end without a permitted pair, and a search without having found a way out.
    """
    structure, costs = request.problem.structure, request.problem.cost_matrix(request.arrays)
    if structure is None or costs is None or not len(places):
        return choice, cost
    seconds = None if request.time_limit is None else REPAIR
    changed = choice.copy()
    changed[places] = without_forbidden(structure, costs[places], choice[places], seconds)
    feasible, changed_cost = judge(request.problem, request.arrays, changed)
    better = feasible & (changed_cost < cost)
    return np.where(better[:, None], changed, choice), np.where(better, changed_cost, cost)


def known_so_far(request: Request, seconds: float) -> Found:
    """Return the best there is when Ctrl-C ended a search: what it told last, else the start, else any solution."""
    if (last := request.last) is not None:
        choice = np.where(np.isfinite(last.cost)[:, None], last.choice, -1)
        return Found(choice, seconds, last.bound, interrupted=True, found_by=last.found_by)
    if request.start is not None:
        return Found(request.start, seconds, interrupted=True, found_by=["start"] * request.count, samples=0)
    choice = first_choice(request.problem, request.arrays)
    return Found(choice, seconds, interrupted=True, found_by=["construction"] * request.count, samples=0)


def at_once(
    problem: Problem,
    arrays: Arrays,
    start: NDArray[np.int64] | None = None,
    interrupted: bool = True,
) -> Results:
    """Return answers without any search, for when Ctrl-C came before one began: the starts, or what the rule gives."""
    choice = first_choice(problem, arrays) if start is None else start
    feasible, cost = judge(problem, arrays, choice)
    found_by = ("construction" if start is None else "start",) * len(choice)
    bound, proven = np.full(len(choice), -np.inf), np.zeros(len(choice), dtype=bool)
    return Results(choice, feasible, cost, bound, proven, 0.0, None, interrupted, found_by, 0)
