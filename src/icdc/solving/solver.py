"""What a solver is, learned or classical: what it can do, what it is asked, and what it returns.

A solver of one's own subclasses `Solver`, says what it can do in `abilities`, and implements `refusal` and `search`.
`Solver.solve` does the rest for all of them alike: it refuses what cannot be answered, checks and costs every solution
once, exactly, does without forbidden pairs where it can (`problems.repair`), keeps a given start where nothing better
was found, and says what is proven.
"""

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .. import options
from ..errors import InputError, UsageError
from ..problems.contract import Arrays, Problem, Size
from ..problems.repair import without_forbidden
from .first import first_choice
from .verify import Verdict, judge, meets, verdicts


@dataclass(frozen=True)
class Abilities:
    """What a solver can make use of.

    samples : more samples make better answers; without it every number of samples is as good as one.
    device : it can run on a GPU.
    bound : it works out lower bounds at least as good as the problem's own, which is then not asked for them.
    trace : it can show the steps of its search, to animate them.
    adapt : it has a diffusion model, which can be trained on the instances at hand; see `with_model`.
    """

    samples: bool = False
    device: bool = False
    bound: bool = False
    trace: bool = False
    adapt: bool = False


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


class Solver(ABC):
    """Anything that answers a batch of instances of one size. Options are the fields of a dataclass.

    Class attributes
    ----------------
    name : the word for it on the command line and in answers.
    abilities : what it can make use of.
    default_samples : tries of an instance where nobody says how many.
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
    def search(self, request: Request) -> Found:
        """Answer a request that this solver does not refuse."""

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
    ) -> Results:
        """Answer every instance of `arrays` (leading axis: count) and check the answers; see `Request`."""
        time_limit = options.optional(options.seconds, time_limit)
        samples, seed = options.samples(samples, time_limit), options.seed(seed)
        self._refuse(problem)
        request = Request(problem, arrays, samples, seed, time_limit, start, bound, callback, self.name)
        if start is not None:
            check_start(request)
        began = time.perf_counter()
        try:
            found = self.search(request)
        except KeyboardInterrupt:
            seconds, last = time.perf_counter() - began, request.last
            if last is not None:
                choice = np.where(np.isfinite(last.cost)[:, None], last.choice, -1)
                found = Found(choice, seconds, last.bound, interrupted=True, found_by=last.found_by)
            elif request.start is not None:
                found = Found(request.start, seconds, interrupted=True, found_by=["start"] * request.count, samples=0)
            else:
                choice = first_choice(problem, arrays)
                found = Found(choice, seconds, interrupted=True, found_by=["construction"] * request.count, samples=0)
        return self._checked(request, found)

    def prepared(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        """Return a solver that has all it needs for instances of a size, itself by default; refuse other problems.

        device : where its weights, if it has any, are to lie; by default where it runs.
        """
        self._refuse(problem)
        return self

    def together(self, problem: Problem, size: Size, samples: int, device: str | None = None) -> int:
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

    def _checked(self, request: Request, found: Found) -> Results:
        """Check and cost what was found, exactly; keep the start where it is better."""
        choice = with_permitted_pairs(request, self._choice_of(request, found))
        found_by = list(found.found_by or [self.name] * len(choice))
        feasible, cost = judge(request.problem, request.arrays, choice)
        if request.start is not None:
            _, before = judge(request.problem, request.arrays, request.start)
            kept = ~feasible | (before < cost) | (choice == request.start).all(1)
            found_by = ["start" if keep else by for keep, by in zip(kept, found_by, strict=True)]
            choice = np.where(kept[:, None], request.start, choice)
            feasible, cost = feasible | kept, np.where(kept, before, cost)
        bound = np.full(len(choice), -np.inf)
        for known in (request.bound, found.bound):
            if known is not None:
                bound = np.fmax(bound, known)
        claimed = np.zeros(len(choice), dtype=bool) if found.proven is None else found.proven
        proven = feasible & (claimed | meets(cost.astype(np.float64), bound))
        if request.last is None and request.callback is not None and feasible.any():
            known_cost = np.where(feasible, cost.astype(np.float64), np.inf)
            request.tell(Improvement(found.seconds, known_cost, choice, bound, found_by))
        return Results(
            choice, feasible, cost, bound, proven, found.seconds, found.model, found.interrupted, tuple(found_by),
            found.samples,
        )  # fmt: skip

    def _choice_of(self, request: Request, found: Found) -> NDArray[np.int64]:
        """Return the choices of what was found, or say what a solver of one's own got wrong."""
        if not isinstance(found, Found):
            raise UsageError(f"the solver '{self.name}' must return a Found, got {type(found).__name__}")
        wanted = (request.count, request.shape[0])
        choice = np.asarray(found.choice)
        if choice.shape != wanted or not np.issubdtype(choice.dtype, np.integer):
            words = f"{choice.dtype} choices of shape {choice.shape}"
            raise UsageError(f"the solver '{self.name}' returned {words}, where whole numbers {wanted} are needed")
        for name in ("bound", "proven"):
            value = getattr(found, name)
            if value is not None and np.shape(value) != wanted[:1]:
                words = f"'{name}' of shape {np.shape(value)}"
                raise UsageError(f"the solver '{self.name}' returned {words}, where {wanted[:1]} is needed")
        return choice.astype(np.int64, copy=False)


def with_permitted_pairs(request: Request, choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return choices (count, rows), changed where a solver ended with forbidden pairs, as far as that helps.

    Who decides step by step may be left without a permitted pair; who searches may not have found a way out.
    """
    structure, costs = request.problem.structure, request.problem.cost_matrix(request.arrays)
    if structure is None or costs is None:
        return choice
    sound = judge(request.problem, request.arrays, choice)[0]
    choice = choice.copy()
    choice[sound] = without_forbidden(structure, costs[sound], choice[sound])
    return choice


def at_once(
    problem: Problem,
    arrays: Arrays,
    start: NDArray[np.int64] | None = None,
    bound: NDArray[np.float64] | None = None,
    interrupted: bool = True,
) -> Results:
    """Return answers without any search, for when Ctrl-C came before one began: the starts, or what the rule gives."""
    choice = first_choice(problem, arrays) if start is None else start
    feasible, cost = judge(problem, arrays, choice)
    known = np.full(len(choice), -np.inf) if bound is None else bound
    proven = feasible & meets(cost.astype(np.float64), known)
    found_by = ("construction" if start is None else "start",) * len(choice)
    return Results(choice, feasible, cost, known, proven, 0.0, None, interrupted, found_by, 0)


def check_start(request: Request) -> None:
    """Refuse solutions to begin from that do not fit the instances of a request or are not feasible."""
    assert request.start is not None
    wanted = (request.count, request.shape[0])
    if request.start.shape != wanted:
        raise InputError(f"the start has shape {request.start.shape}, these instances need {wanted}")
    if not judge(request.problem, request.arrays, request.start)[0].all():
        raise InputError("the start is not a feasible solution")


def fingerprints(arrays: Arrays) -> NDArray[np.int64]:
    """Return a number for every instance that depends on its values alone, (count,), to draw random numbers by."""
    plain = [np.ascontiguousarray(arrays[name], dtype=np.float64) for name in sorted(arrays)]
    prints = []
    for index in range(len(plain[0])):
        digest = hashlib.blake2b(digest_size=4)
        for array in plain:
            digest.update(array[index].tobytes())
        prints.append(int.from_bytes(digest.digest(), "little"))
    return np.array(prints, dtype=np.int64)
