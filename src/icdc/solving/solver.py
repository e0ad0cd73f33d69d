"""What a solver is, learned or classical: what it can do, what it is asked, and what it answers.

A solver of one's own subclasses `Solver`, says what it can do in `abilities`, and implements `refusal` and `search`.
`Solver.solve` does the rest for all of them alike: it refuses what cannot be answered, and checks the answers.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, UsageError
from ..options import check_all
from ..problems.base import Arrays, Problem, Size
from ..problems.forbidden import without_forbidden
from ..search.run import Budget, Incumbent, contradicts
from ..search.structures import structure_of
from .answer import judge

REPAIR = 0.5
"""Seconds, where time is limited, in which tours are to do without forbidden steps after the search."""


@dataclass(frozen=True)
class Abilities:
    """What a solver can make use of.

    samples : more samples make better answers; without it every number of samples is as good as one.
    device : it can run on a GPU.
    bound : it works out lower bounds at least as good as the problem's own, which is then not asked for them.
    trace : it can show the steps of its search, to animate them.
    """

    samples: bool = False
    device: bool = False
    bound: bool = False
    trace: bool = False


@dataclass(frozen=True)
class Improvement:
    """What a callback receives.

    seconds : since the start.
    cost, choice : (count,) and (count, rows), the best of every instance so far; infinite where there is none.
    bound : (count,), the proven lower bounds known so far; −inf where there is none.
    found_by : what found the best of every instance: the solver or a part of it; "" where there is none.
    places : where these instances are among those that were given to `solve_many`, counted from 0; () where a solver is
        called by itself.
    """

    seconds: float
    cost: NDArray[np.float64]
    choice: NDArray[np.int64]
    bound: NDArray[np.float64]
    found_by: Sequence[str]
    places: tuple[int, ...] = ()


SolveCallback = Callable[[Improvement], bool | None]
"""Told of every improvement; returning True ends the search once every instance has an answer."""


class Result(Incumbent):
    """The best solution of every instance of a batch, and how it was made.

    Attributes
    ----------
    seconds : wall-clock time of the search, loading and compilation excluded.
    model : the name of the model that was used, if any.
    interrupted : whether Ctrl-C ended the search early.
    samples : tries of each instance, where a limit may have cut them short; None for all that were asked for.
    """

    seconds: float = 0.0
    model: str | None = None
    interrupted: bool = False
    samples: int | None = None

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Which instances have a feasible solution, (count,)."""
        return self.solved


@dataclass
class Request:
    """What a solver is asked to answer, with how much effort, and what it has so far.

    problem, arrays : the instances, all of one size, leading axis count.
    samples : independent tries for each instance, where that means something.
    seed : of all random numbers.
    time_limit : seconds for the whole batch.
    start : (count, rows), feasible solutions to begin from.
    bound : (count,), proven lower bounds that are known already; −inf where none is.
    callback : told of every improvement.
    solver : the name of the solver, for solutions that do not say what found them.

    Attributes
    ----------
    result : the best solutions so far, the starts at first; `offer` adds to it.
    budget : the seconds that are left of the time limit.
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
    result: Result = field(init=False)
    budget: Budget = field(init=False)
    _began: float = field(init=False)
    _reported: bool = field(default=False, init=False)
    _enough: bool = field(default=False, init=False)
    _lock: Any = field(default_factory=threading.RLock, init=False)

    def __post_init__(self) -> None:
        whole = self.costs is not None and bool(np.issubdtype(self.costs.dtype, np.integer))
        self.result = Result(self.count, self.shape[0], whole)
        if self.bound is not None:
            self.result.raise_bound(self.bound)
        if self.start is not None:
            self.result.offer(self.start, self._cost_of_start(self.start), "start")
        self.start_clock()

    @cached_property
    def count(self) -> int:
        """How many instances there are."""
        return len(next(iter(self.arrays.values())))

    @cached_property
    def size(self) -> Size:
        """Their size."""
        return self.problem.size(self.arrays)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of their solution matrices."""
        return self.problem.shape(self.size)

    @cached_property
    def costs(self) -> NDArray[Any] | None:
        """What each pair costs, (count, rows, columns), where the problem promises a structure; else None."""
        return None if self.problem.structure is None else self.problem.cost_matrix(self.arrays)

    @property
    def seconds(self) -> float:
        """The seconds since the clock was started."""
        return time.perf_counter() - self._began

    def stopped(self, places: slice = slice(None)) -> bool:
        """Tell whether a callback has ended the search for some instances; not before each of them has a solution."""
        return self._enough and bool(self.result.solved[places].all())

    def start_clock(self) -> None:
        """Let the time begin now: what is loaded and compiled before does not count."""
        self._began, self.budget = time.perf_counter(), Budget(self.time_limit)

    def part(self, places: slice | Sequence[int] | NDArray[Any]) -> Arrays:
        """Return the arrays of some instances."""
        return {name: array[places] for name, array in self.arrays.items()}

    def offer(
        self,
        choice: ArrayLike,
        cost: ArrayLike | None = None,
        found_by: str = "",
        places: slice | Sequence[int] | NDArray[Any] = slice(None),
    ) -> None:
        """Keep the solutions that are better than those so far, and tell the callback if there are any.

        choice : (offered, rows) whole numbers, a solution of each instance at `places`; the default is all instances.
        cost : (offered,), infinite for what is no solution; worked out where it is left out.
        found_by : a word or two; the solver itself by default.
        """
        choices, at = np.asarray(choice), np.arange(self.count)[places]
        if choices.shape != (len(at), self.shape[0]) or not np.issubdtype(choices.dtype, np.integer):
            words = f"{choices.dtype} choices of shape {choices.shape}"
            needed = f"whole numbers {(len(at), self.shape[0])} are needed"
            raise UsageError(f"the solver '{self.solver}' offered {words}, where {needed}")
        if cost is None:
            feasible, cost = judge(self.problem, self.part(at), choices)
            choices, cost, at = choices[feasible], cost[feasible], at[feasible]
        with self._lock:
            if self.result.offer(choices, cost, found_by or self.solver, at).any():
                self.report()

    def report(self) -> None:
        """Tell the callback of the best so far."""
        self._reported = True
        if self.callback is not None:
            best = self.result.copy()
            improvement = Improvement(self.seconds, best.cost, best.choice, best.bound, best.found_by.tolist())
            self._enough |= bool(self.callback(improvement))

    def answer_at_once(self) -> None:
        """Take what the rule of the problem gives without any search, where there is no solution yet."""
        places = np.flatnonzero(~self.result.solved)
        if len(places):
            self.offer(first_choice(self.problem, self.part(places)), None, "construction", places)

    def check(self) -> Result:
        """Return the result with every solution judged, and costed exactly.

        Solutions do without forbidden pairs where they can, and a start is kept where nothing is better. What is said
        of the optimum is judged here once, against the final cost: a bound above the cost of a solution is none.
        """
        last, seconds = self.result.copy(), self.seconds  # a proof that was left behind may still offer to it
        feasible, costs = judge(self.problem, self.arrays, last.choice)
        result = Result(self.count, self.shape[0], bool(np.issubdtype(costs.dtype, np.integer)))
        result.choice[feasible], result.exact_cost[feasible] = last.choice[feasible], costs[feasible]
        result.found_by[feasible] = last.found_by[feasible]
        if self.start is not None:
            result.offer(self.start, self._cost_of_start(self.start), "start")
        for bound in (self.bound, last.bound):
            if bound is not None:
                result.raise_bound(np.where(contradicts(bound, result.exact_cost), -np.inf, bound))
        self._repair(result)
        result.bound[contradicts(result.bound, result.exact_cost)] = -np.inf
        result.seconds, result.model = seconds, self.result.model
        result.interrupted, result.samples = self.result.interrupted, self.result.samples
        self.result = result
        if not self._reported and result.solved.any():
            self.report()
        return result

    def _repair(self, result: Result) -> None:
        """Replace solutions by better ones without forbidden pairs, where such are found.

        Deciding step by step may end without a permitted pair, and a search without having found a way out.
        """
        places = np.flatnonzero(result.solved & ~result.proven)
        if self.problem.structure is None or self.costs is None or not len(places):
            return
        seconds, found_by = None if self.time_limit is None else REPAIR, result.found_by.copy()
        changed = without_forbidden(self.problem.structure, self.costs[places], result.choice[places], seconds)
        feasible, costs = judge(self.problem, self.part(places), changed)
        result.offer(changed[feasible], costs[feasible], "", places[feasible])
        result.found_by[:] = found_by

    def _cost_of_start(self, start: NDArray[np.int64]) -> NDArray[Any]:
        """Return what the starts cost, and refuse those that do not fit the instances or are not feasible."""
        wanted = (self.count, self.shape[0])
        if start.shape != wanted:
            raise InputError(f"the start has shape {start.shape}, these instances need {wanted}")
        feasible, cost = judge(self.problem, self.arrays, start)
        if not feasible.all():
            raise InputError("the start is not a feasible solution")
        return cost


class Solver(ABC):
    """Anything that answers a batch of instances of one size. Options are the fields of a dataclass.

    Class attributes
    ----------------
    name : the word for it on the command line and in answers.
    abilities : what it can make use of.
    default_samples : tries of an instance by default.
    quick_options : options, each with its type, that are understood without importing what lists all of them.
    """

    name: ClassVar[str]
    abilities: ClassVar[Abilities] = Abilities()
    default_samples: ClassVar[int] = 1
    quick_options: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Say in a sentence why it cannot answer a problem; None if it can."""

    @abstractmethod
    def search(self, request: Request) -> None:
        """Answer a request that this solver does not refuse: offer solutions to it, as soon as there are any."""

    def supports(self, problem: Problem) -> bool:
        """Tell whether this solver can answer instances of a problem."""
        return self.refusal(problem) is None

    def solve(
        self,
        problem: Problem,
        arrays: Arrays,
        *,
        samples: int = 1,
        seed: int = 0,
        time_limit: float | None = None,
        start: NDArray[np.int64] | None = None,
        bound: NDArray[np.float64] | None = None,
        callback: SolveCallback | None = None,
    ) -> Result:
        """Answer every instance of `arrays` (leading axis: count) and check the answers; see `Request`."""
        options = check_all({"time_limit": time_limit, "samples": samples, "seed": seed})
        self._refuse(problem)
        request = Request(problem, arrays, start=start, bound=bound, callback=callback, solver=self.name, **options)
        try:
            returned: object = self.search(request)
            if returned is not None:
                raise UsageError(f"the solver '{self.name}' must offer its solutions to the request, not return them")
        except KeyboardInterrupt:
            request.result.interrupted = True
            if not request.result.solved.any():
                request.answer_at_once()
                request.result.samples = 0
        return request.check()

    def prepare(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        """Return a solver that has all it needs for instances of a size, itself by default; refuse other problems.

        device : where its weights, if it has any, are to lie; by default where it runs.
        """
        self._refuse(problem)
        return self

    def batch_size(self, problem: Problem, size: Size, samples: int, device: str | None = None) -> int:
        """Return how many instances of a size to solve in one call, on its own or another kind of device.

        Enough to keep the device busy, few enough that answers appear while others wait.
        """
        return 32

    def unfamiliar(self, problem: Problem, arrays: Arrays) -> list[str | None]:
        """Say for every instance what about it is new to a learned solver; None where nothing is."""
        return [None] * len(next(iter(arrays.values())))

    @property
    def model_name(self) -> str | None:
        """The name of the model it uses, once that is known."""
        return None

    @property
    def runs_on(self) -> str:
        """The device it runs on: "cpu", "cuda", or "auto"."""
        return str(getattr(self, "device", "cpu"))

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Return the options of this solver by name, each with its type."""
        kind: Any = cls
        hints = get_type_hints(kind)
        return {option.name: hints[option.name] for option in fields(kind)} if is_dataclass(kind) else {}

    def _refuse(self, problem: Problem) -> None:
        if (reason := self.refusal(problem)) is not None:
            raise UsageError(reason)


def first_choice(problem: Problem, arrays: Arrays) -> NDArray[np.int64]:
    """Return a choice (count, rows) for every instance: its rule follows the cheapest pairs, in its own order.

    Where a structure is promised no torch is needed. It need not be feasible where a problem forbids more than its rule
    knows.
    """
    costs = problem.cost_matrix(arrays)
    if costs is not None and problem.structure is not None:
        return structure_of(problem.structure).first_choice(costs)
    import torch

    from ..problems.tensors import to_tensors

    rows, columns = problem.shape(problem.size(arrays))
    count = len(next(iter(arrays.values())))
    scores = torch.zeros(count, rows, columns)
    if costs is not None:
        scores = -torch.from_numpy(np.array(costs, dtype=np.float32))
    mask = problem.mask(to_tensors(arrays))
    choice = problem.rule.follow(scores, torch.zeros(count, dtype=torch.long), mask)
    return np.asarray(choice.numpy(), dtype=np.int64)
