"""What every search keeps and spends: the best solutions so far, and the time or the steps that are left.

incumbent = Incumbent(count=100, rows=20, whole=True)
budget = Budget(seconds=10.0)
for place in incumbent.open():
    search = TourSearch(matrices[place], seed, incumbent=incumbent.at(place))
    search.construct(budget.share(0.5))
"""

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T")
LARGEST_WHOLE = 2**53
"""Integers up to here are numbers of float64, as bounds are."""
SAME = 1e-9
"""Relative difference below which a real cost counts as equal to its bound: the rounding of a sum."""
SLICE = 0.02
"""Seconds between two looks at the clock."""


class Incumbent:
    """The best solution of every instance of a batch so far, and a lower bound on the optimum of each.

    Whole costs are kept as integers and compared exactly. Any thread may offer solutions.

    Parameters
    ----------
    count, rows : instances, and rows of a solution.
    whole : whether costs are integers.

    Attributes
    ----------
    choice : (count, rows) int64, the column of each row: the successor of a city, the machine of a job; −1 in all rows
        of an instance without a solution.
    exact_cost : (count,) int64 or float64, what it costs; the largest number there is without a solution.
    bound : (count,) float64, no solution costs less; −inf where there is none.
    found_by : (count,) str, what found the solution: "construction", "search", "exact", …; "" without one.
    """

    def __init__(self, count: int, rows: int, whole: bool) -> None:
        highest = np.iinfo(np.int64).max if whole else np.inf
        self.choice = np.full((count, rows), -1, dtype=np.int64)
        self.exact_cost: NDArray[Any] = np.full(count, highest, dtype=np.int64 if whole else np.float64)
        self.bound = np.full(count, -np.inf)
        self.found_by = np.full(count, "", dtype=object)
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.choice)

    @property
    def whole(self) -> bool:
        """Whether costs are integers."""
        return bool(np.issubdtype(self.exact_cost.dtype, np.integer))

    @property
    def solved(self) -> NDArray[np.bool_]:
        """Which instances have a solution, (count,)."""
        return np.asarray(self.choice[:, 0] >= 0)

    @property
    def cost(self) -> NDArray[np.float64]:
        """What solutions cost, (count,) float64; infinite without one."""
        return np.where(self.solved, self.exact_cost.astype(np.float64), np.inf)

    @property
    def proven(self) -> NDArray[np.bool_]:
        """Which solutions meet their bound, so that nothing is better, (count,)."""
        return self.solved & meets(self.exact_cost, self.bound)

    def open(self) -> list[int]:
        """Return the places of instances whose optimum is not proven."""
        return np.flatnonzero(~self.proven).tolist()

    def offer(
        self,
        choice: ArrayLike,
        cost: ArrayLike,
        found_by: str,
        places: slice | Sequence[int] | NDArray[Any] = slice(None),
    ) -> NDArray[np.bool_]:
        """Keep the solutions that are better than those so far; return which were, (offered,).

        choice, cost : (offered, rows) and (offered,), a solution of each instance at `places`; of infinite cost: none.
        """
        choices, costs = np.atleast_2d(np.asarray(choice)), np.atleast_1d(np.asarray(cost))
        with self._lock:
            at = np.arange(len(self))[places]
            better = costs < self.exact_cost[at]
            self.choice[at[better]] = choices[better]
            self.exact_cost[at[better]] = costs[better]
            self.found_by[at[better]] = found_by
        return np.asarray(better)

    def raise_bound(self, bound: ArrayLike, places: slice | Sequence[int] | NDArray[Any] = slice(None)) -> None:
        """Keep lower bounds (offered,) of the instances at `places` that are higher than those so far.

        Integers that no float64 holds may have been rounded up on their way here, by less than is taken off them.
        """
        low = np.asarray(bound, dtype=np.float64)
        if self.whole:
            low = np.where(np.abs(low) > LARGEST_WHOLE, np.nextafter(low, -np.inf), low)
        with self._lock:
            self.bound[places] = np.fmax(self.bound[places], low)

    def take(self, other: "Incumbent", places: Sequence[int] | NDArray[Any]) -> None:
        """Become what another one knows of the instances at `places`."""
        for name in ("choice", "exact_cost", "bound", "found_by"):
            setattr(self, name, getattr(other, name)[places].copy())

    def at(self, place: int) -> Self:
        """Return the incumbent of one instance alone: a view, so that what is offered to it is offered here."""
        one = self._part()
        part = slice(place, place + 1)
        one.choice, one.exact_cost, one.bound = self.choice[part], self.exact_cost[part], self.bound[part]
        one.found_by, one._lock = self.found_by[part], self._lock
        return one

    def copy(self) -> Self:
        """Return a copy, which no search changes any more."""
        kept = self._part()
        with self._lock:
            kept.choice, kept.exact_cost = self.choice.copy(), self.exact_cost.copy()
            kept.bound, kept.found_by = self.bound.copy(), self.found_by.copy()
        return kept

    def _part(self) -> Self:
        return type(self)(0, 0, self.whole)


def meets(cost: NDArray[Any], bound: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell where costs (count,) meet their lower bounds (count,); a bound of −inf is never met.

    Integers meet what rounds up to them, but for those above 2^53, of which a float64 proves nothing. Reals do up to
    rounding, in proportion, whatever the unit: costs may be far below 1.
    """
    low = np.where(np.isfinite(bound), bound, 0.0)
    if np.issubdtype(cost.dtype, np.integer):
        met = (cost <= rounded_up(low)) & (cost <= LARGEST_WHOLE)
    else:
        met = cost <= low + SAME * np.abs(low)
    return np.asarray(np.isfinite(bound) & met)


def rounded_up(bound: ArrayLike) -> NDArray[np.float64]:
    """Return lower bounds of whole numbers as whole numbers; what is hardly above one may be that one plus rounding."""
    low = np.asarray(bound, dtype=np.float64)
    return np.asarray(np.fmax(np.floor(low), np.ceil(low - _rounding(low))))


def contradicts(bound: NDArray[np.float64], cost: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell where lower bounds (count,) cannot be true, as they are above the costs (count,) of solutions."""
    if np.issubdtype(cost.dtype, np.integer):
        return np.asarray(np.ceil(bound - _rounding(bound)) > cost)
    return np.asarray(bound > cost + SAME * np.abs(cost))


def _rounding(bound: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(1e-6, SAME * np.abs(np.where(np.isfinite(bound), bound, 0.0)))


def searched(by: str) -> str:
    """Return what found a solution that search has improved after `by` made it."""
    return by if by.endswith("search") else f"{by} + search"


class Budget:
    """What a search may spend: seconds, or numbers of steps, where the same must come out again.

    Parameters
    ----------
    seconds : from now on; None where only steps count, so that the outcome depends on nothing but the seed.
    steps : kicks or exchanges of each search, where there are no seconds.
    searches : how many run side by side, from random numbers of their own.
    clock : what measures the seconds.

    Attributes
    ----------
    began, deadline : by the clock, since when they are spent and when they are over; infinite where there are none.
    """

    def __init__(
        self,
        seconds: float | None = None,
        steps: int = 0,
        searches: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.steps, self.searches, self.clock = steps, searches, clock
        self.began = clock()
        self.deadline = float("inf") if seconds is None else self.began + max(0.0, seconds)
        self._off = threading.Event()
        self._whole: Budget | None = None

    @property
    def timed(self) -> bool:
        """Whether seconds count, not steps."""
        return self.deadline != float("inf")

    @property
    def left(self) -> float:
        """The seconds that are left, at least 0; infinite where only steps count."""
        return max(0.0, self.deadline - self.clock())

    @property
    def seconds(self) -> float | None:
        """The seconds that are left; None where only steps count."""
        return self.left if self.timed else None

    @property
    def spent(self) -> float:
        """The seconds since it began, without pauses."""
        return self.clock() - self.began

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the seconds that are spent inside."""
        before = self.clock()
        try:
            yield
        finally:
            pause = self.clock() - before
            self.began, self.deadline = self.began + pause, self.deadline + pause

    @property
    def over(self) -> bool:
        """Whether the search has to end: the time is over, or it was called off."""
        return self.cancelled or self.clock() >= self.deadline

    @property
    def cancelled(self) -> bool:
        """Whether the search was called off."""
        return self._off.is_set() or (self._whole is not None and self._whole.cancelled)

    def cancel(self) -> None:
        """Call the search off, and all that has a share of this budget."""
        self._off.set()

    def share(self, part: float, searches: int | None = None) -> "Budget":
        """Return a part of what is left of the seconds, or of the steps; called off together with the whole."""
        steps, side_by_side = round(part * self.steps), self.searches if searches is None else searches
        share = Budget(part * self.left if self.timed else None, steps, side_by_side, self.clock)
        share.deadline, share._whole = min(share.deadline, self.deadline), self
        return share


class InstanceSearch(ABC):
    """A search for one instance, in parts that can be taken in turn; what it finds is offered to an incumbent.

    Parameters
    ----------
    matrix : (rows, columns) integers or reals.
    seed : of all random numbers.
    start : (rows,) a solution to begin with.
    incumbent : that of the instance alone (`Incumbent.at`); by default a new one.
    """

    def __init__(
        self,
        matrix: NDArray[Any],
        seed: int,
        start: NDArray[np.int64] | None = None,
        incumbent: Incumbent | None = None,
    ) -> None:
        self.matrix, self.seed, self.start = matrix, seed, start
        whole = bool(np.issubdtype(matrix.dtype, np.integer))
        self.incumbent = Incumbent(1, len(matrix), whole) if incumbent is None else incumbent
        self.constructed = False

    @abstractmethod
    def construct(self, budget: Budget) -> None:
        """Make a first solution, and a bound."""

    @abstractmethod
    def prove(self, budget: Budget, brief: bool = False) -> None:
        """Raise the bound, or look for a better solution among all that could be better.

        brief : only what takes little time even where nothing is compiled.
        """

    @abstractmethod
    def search(self, budget: Budget) -> None:
        """Improve the solution, from where it stopped the last time."""

    @abstractmethod
    def search_from(self, choice: NDArray[np.int64], found_by: str, budget: Budget) -> None:
        """Take a solution (rows,) that another method proposes, and search on from it for a while."""

    @abstractmethod
    def cost_of(self, choice: NDArray[np.int64]) -> Any:
        """Return what a solution (rows,) costs."""

    @property
    @abstractmethod
    def likely(self) -> bool:
        """Whether a proof is worth trying, and was not tried in vain yet."""

    @property
    def hopeful(self) -> bool:
        """Whether a proof deserves more time than others, as it will probably end."""
        return False

    @property
    def kind(self) -> type[np.int64] | type[np.float64]:
        """The numbers that it computes with."""
        return np.int64 if np.issubdtype(self.matrix.dtype, np.integer) else np.float64

    @property
    def choice(self) -> NDArray[np.int64]:
        """The best solution so far (rows,)."""
        return np.array(self.incumbent.choice[0])

    @property
    def cost(self) -> Any:
        """What it costs, exactly."""
        return self.incumbent.exact_cost[0].item()

    @property
    def bound(self) -> float:
        """No solution costs less."""
        return float(self.incumbent.bound[0])

    @property
    def solved(self) -> bool:
        """Whether there is a solution."""
        return bool(self.incumbent.solved[0])

    @property
    def proven(self) -> bool:
        """Whether there is none better."""
        return bool(self.incumbent.proven[0])

    @property
    def unproven(self) -> bool:
        """Whether it was constructed, and there may be a better solution."""
        return self.constructed and self.solved and not self.proven

    def offer(self, choice: NDArray[np.int64], found_by: str) -> None:
        """Keep a solution (rows,) if it is better."""
        self.incumbent.offer(choice, self.cost_of(choice), found_by)


def cores() -> int:
    """Return how many cores to use: as many as OMP_NUM_THREADS says, else all that this process may run on."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Search(Protocol):
    """What can be run in slices."""

    def run(self, steps: int) -> None:
        """Make `steps` more steps, or fewer if the goal is reached."""

    @property
    def done(self) -> bool:
        """Whether the goal is reached."""
        ...


def within(budget: Budget, work: Callable[[], T]) -> T | None:
    """Return what a call of native code returns that never looks at the clock; None if the time is over first.

    It goes on then in a thread of its own, and its result is lost.
    """
    if not budget.timed:
        return work()
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return result.result(budget.left)
    except TimeoutError:
        if result.done():
            raise  # its own
        return None


def run_all(searches: Sequence[Search], budget: Budget) -> None:
    """Run every search for the budget's steps or seconds, each in a thread of its own.

    Without seconds each makes its steps whatever the others do, so that the outcome depends on nothing but them; with
    seconds all end when one is done. Compiled searches hold no interpreter lock. Ctrl-C ends all of them.
    """
    together = budget.share(1.0)

    def run(search: Search) -> None:
        piece, before = 1, budget.clock()
        left = float("inf") if budget.timed else budget.steps
        while left > 0 and not search.done and not together.over:
            if budget.timed and any(other.done for other in searches):
                return
            piece = int(min(piece, left))
            search.run(piece)
            left, now = left - piece, budget.clock()
            # as many steps as fit into a slice of time, growing slowly: the first steps tell little
            piece = max(1, min(2 * piece, int(piece * SLICE / max(now - before, 1e-6))))
            before = now

    if len(searches) == 1:
        run(searches[0])
        return
    with ThreadPoolExecutor(len(searches)) as pool:
        try:
            list(pool.map(run, searches))
        except BaseException:
            together.cancel()
            raise
