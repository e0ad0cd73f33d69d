"""All of the classical search for one schedule, in parts that can be taken in turn: construct, prove, search on."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..jit import fast_here
from .effort import Effort
from .incumbent import Incumbent, searched
from .schedule_bound import knapsack_bound
from .schedule_mip import restricted_mip, settled_jobs
from .schedule_prices import Prices, price_below
from .schedule_tables import load_tables, read_schedule
from .schedule_tabu import Tabu
from .schedules import Choice, construct, follow, greedy, improve, iterate, makespan, numbers
from .side_by_side import run_all

CELLS = 2**22
"""Entries up to which tables over loads are filled."""
KNAPSACKS = 40_000_000
"""Entries of all knapsacks up to which their bound is tried where seconds are given; they are filled many times."""
FEWER_KNAPSACKS = 2_000_000
"""The same where none are given, and all of them are filled."""
PLAIN = 100
"""How many times longer a loop takes as it is written than compiled."""
COLUMNS = 5000
"""Pairs of job and machine up to which an integer program is tried."""
FIRST = 0.6
"""Share of the time of a construction for what comes before places on machines are priced."""
LEAST = 1e-9
"""By which part real makespans must fall to be called shorter."""
NODES = 60
"""Nodes of that program where no seconds are given."""
PROGRAMS = ((5, 1.0), (10, 1.0))
"""Integer programs to try, one after another: machines of each job in it, and the share of the jobs that may move."""
SCARCE_PROGRAMS = ((4, 0.5), (4, 0.7), (3, 1.0), *PROGRAMS)
"""The same where places are scarce: few machines will do, and most jobs are where the linear program puts them."""
MOST_PROGRAMS = 10
"""Programs of one try at a proof: each answer of those with few free jobs may be only a little better than the last."""
PART = 0.8
"""Share of the time for a program in which some jobs are not free."""


class ScheduleSearch:
    """The search for one short schedule.

    Parameters
    ----------
    durations : (jobs, machines) integers or reals.
    seed : of all random numbers.
    allowed : (jobs, machines) bool, the pairs that may be used; None for all.
    start : (jobs,) a schedule to begin with.

    Attributes
    ----------
    best : the best schedule so far with its bound; None before `construct`.
    """

    def __init__(
        self,
        durations: NDArray[Any],
        seed: int,
        allowed: NDArray[np.bool_] | None = None,
        start: Choice | None = None,
    ) -> None:
        self.durations, self.seed, self.allowed, self.start = numbers(durations, allowed), seed, allowed, start
        self.best: Incumbent | None = None
        self._searches: list[Tabu] = []
        self._first: Choice | None = None  # where searches begin, if not from the best schedule
        self._known: float = np.inf  # the best makespan when a search last began
        self._turn = 0
        self._filled = False  # whether the bound by knapsacks was tried
        self._priced = np.inf  # the makespan below which places on machines were last priced
        self._tried: tuple[float, int] | None = None  # the makespan and the number of the last integer program

    def construct(self, effort: Effort) -> None:
        """Round the linear program, go down to a local optimum, from the given start as well; price places.

        Where tables over loads are small, they are filled before anything is priced: that ends it.
        """
        until = effort.deadline
        if self._settled(until):
            return
        starts = construct(self.durations, self.allowed, seconds=effort.share(FIRST).seconds)
        self.prices: Prices = starts.prices
        self._ranked = starts.prices.given  # prices of time alone tell better which pairs are in good schedules
        self._take(starts.choices[0], "construction", starts.prices.bound)
        if self.start is not None:
            self._take(self.start, "start")
            seconds = None if effort.seconds is None else until - time.perf_counter()
            self._take(improve(self.durations, self.start, self.allowed, self.prices, seconds=seconds), "search")
        self._price_places(until)

    def prove(self, effort: Effort, brief: bool = False) -> None:
        """Raise the bound, or look for a better schedule among all that could be better.

        brief : only what takes little time even where nothing is compiled.
        """
        if self.best is None or self.proven:
            return
        until, timed = effort.deadline, effort.seconds is not None

        def left(share: float) -> float:
            return share * max(0.0, until - time.perf_counter()) if timed else np.inf

        self._fill_tables(time.perf_counter() + left(0.5))
        self._price_places(time.perf_counter() + left(0.5))
        # programs in which not all jobs are free take little time, and go before the next one in which they are
        for _ in range(MOST_PROGRAMS):
            if not self.likely or left(1.0) <= 0:
                break
            if self._programs[self._next_program][1] >= 1:
                self._fill_knapsacks(left, timed, brief)
            if self.likely and self._try_program(left, timed):
                break
        self._fill_knapsacks(left, timed, brief)

    def _fill_knapsacks(self, left: Callable[[float], float], timed: bool, brief: bool) -> None:
        """Raise the bound by knapsacks, once, where they are small."""
        if self.best is None or self.proven or self._filled or left(1.0) <= 0:
            return
        fast = not brief and (fast_here() or not timed)
        work = self.durations.size * float(self.best.cost) * (1 if fast else PLAIN)
        if work <= (KNAPSACKS if timed else FEWER_KNAPSACKS):
            self._filled = True
            seconds = left(0.3) if timed else None
            bound = knapsack_bound(self.durations, self.prices, int(self.best.cost), seconds=seconds)
            self._take(self.best.choice, "exact", bound)

    @property
    def likely(self) -> bool:
        """Whether an integer program is worth trying, and was not tried in vain yet.

        Not where durations are so alike that every machine could do with every job: such programs never end.
        """
        if self.best is None or self.proven:
            return False
        if len(self.durations) * PROGRAMS[0][0] > COLUMNS:
            return False
        return self._next_program < len(self._programs)

    @property
    def hopeful(self) -> bool:
        """Whether an integer program is likely to be done soon: where places are scarce, bounds are close."""
        return self._first is not None

    @property
    def _programs(self) -> tuple[tuple[int, float], ...]:
        return SCARCE_PROGRAMS if self.hopeful and self.prices.fraction is not None else PROGRAMS

    @property
    def _next_program(self) -> int:
        """The number of the integer program to try next: the first one again below every better makespan."""
        assert self.best is not None
        return 0 if self._tried is None or self.best.cost < self._tried[0] else self._tried[1] + 1

    def _try_program(self, left: Callable[[float], float], timed: bool) -> bool:
        """Try the next integer program; tell whether all jobs were free in it. `left`: seconds, of a share of them."""
        assert self.best is not None
        number, cost = self._next_program, float(self.best.cost)
        self._tried = (cost, number)
        width, free = self._programs[number]
        whole = free >= 1
        seconds, nodes = left(1.0 if whole else PART), None if timed else NODES
        ranked, settled = (self._ranked, None) if whole else (None, settled_jobs(self.prices, free))
        found = restricted_mip(self.durations, self.prices, self.best.choice, seconds, width, nodes, ranked, settled)
        choice = self.best.choice if found.choice is None else found.choice
        self._take(choice, "exact", float(found.makespan) if found.optimal else -np.inf)
        return whole

    def search(self, effort: Effort) -> None:
        """Make exchanges, from where it stopped the last time; one search goes on from the best schedule so far."""
        if self.best is None or self.proven:
            return
        cost, bound = self.best.cost, self.best.bound
        if len(self._searches) != effort.searches:
            first = self.best.choice if self._first is None else self._first
            self._searches, self._known = [self._tabu(first) for _ in range(effort.searches)], cost
        elif self._searches[0].best[0] > cost and cost < self._known:
            self._searches[0], self._known = self._tabu(self.best.choice), cost
        for search in self._searches:
            search.aim(bound)
        run_all(self._searches, *effort.limits)
        for search in self._searches:
            self._take(search.best_choice.copy(), "search")

    def take_up(self, choice: Choice, by: str, effort: Effort) -> None:
        """Take a schedule (jobs,) that somebody else proposes, and search on from it for a while."""
        if self.best is None or self.proven:
            return
        self._take(choice, by)
        steps, seconds = effort.limits
        begun = time.perf_counter()
        polished = improve(self.durations, choice, self.allowed, self.prices, seconds=seconds)
        found = iterate(
            self.durations, polished, self.allowed, prices=self.prices, bound=self.best.bound, iterations=steps,
            seconds=None if seconds is None else seconds - (time.perf_counter() - begun), seed=self.seed + 1,
        )  # fmt: skip
        self._take(found.choice, by if (found.choice == choice).all() else searched(by))

    @property
    def proven(self) -> bool:
        """Whether no schedule is shorter than the best."""
        return self.best is not None and self.best.proven

    def _price_places(self, deadline: float) -> None:
        """Begin again from prices that know how many jobs machines can hold, where these are too many in fractions."""
        best = self.best
        if best is None or best.proven or best.cost >= self._priced:
            return
        self._priced = float(best.cost)

        def left() -> float | None:
            return None if np.isinf(deadline) else max(0.0, deadline - time.perf_counter())

        limit = best.cost - 1 if np.issubdtype(self.durations.dtype, np.integer) else best.cost * (1 - LEAST)
        prices = price_below(self.durations, self.prices, limit, self.allowed, seconds=left())
        if prices is None:
            return
        starts = follow(self.durations, prices, self.allowed, seconds=left())
        self._take(starts.choices[0], "construction", prices.bound)
        # searches begin where the new prices lead to, even if that is a little longer than the best
        self.prices, self._first, self._searches = prices, starts.choices[0], []

    def _settled(self, deadline: float) -> bool:
        """Tell whether a schedule is best, by tables below the makespan of a plain greedy one."""
        if self.allowed is None:
            longest = np.argsort(-self.durations.min(1), kind="stable")
            self._take(greedy(self.durations, np.zeros(self.durations.shape), longest, 0.0), "construction")
            self._fill_tables(deadline)
        return self.proven

    @property
    def _table_limit(self) -> int | None:
        """The makespan in units of all durations, where tables of all combinations of loads below it are small."""
        best = self.best
        if best is None or self.allowed is not None or not np.issubdtype(self.durations.dtype, np.integer):
            return None
        jobs, machines = self.durations.shape
        limit = int(best.cost) // self._unit
        if limit < 1 or machines > 8 or jobs * float(limit) ** (machines - 1) > CELLS:
            return None
        return limit

    @property
    def _unit(self) -> int:
        return max(1, int(np.gcd.reduce(self.durations, axis=None)))

    def _fill_tables(self, deadline: float) -> None:
        """Try all combinations of loads, where they are few."""
        best, limit = self.best, self._table_limit
        if best is None or limit is None:
            return
        times = self.durations // self._unit
        tables = load_tables(times, limit, deadline)
        if tables is not None:
            choice = read_schedule(times, tables, limit)
            choice = best.choice if choice is None else choice
            self._take(choice, "exact", float(makespan(self.durations, choice)))

    def _tabu(self, start: Choice) -> Tabu:
        assert self.best is not None
        self._turn += 1
        given = np.ascontiguousarray(self.prices.scaled())
        return Tabu(self.durations, given, start, self.best.bound, self.seed * 1000 + self._turn)

    def _take(self, choice: Choice, by: str, bound: float = -np.inf) -> None:
        """Keep a schedule that is shorter, and a bound that is higher."""
        cost, best = makespan(self.durations, choice).item(), self.best
        bound = bound if best is None else max(bound, best.bound)
        if best is None or cost < best.cost:
            self.best = Incumbent(choice.astype(np.int64), cost, bound, by)
        elif bound > best.bound:
            self.best = Incumbent(best.choice, best.cost, bound, best.found_by)


def search(
    durations: NDArray[Any],
    seconds: float,
    seed: int,
    allowed: NDArray[np.bool_] | None = None,
    start: Choice | None = None,
) -> Incumbent:
    """Return a short schedule within about `seconds`.

    A tenth of the time goes to search, up to a third of the rest to proofs, and the rest to search.
    """
    deadline = time.perf_counter() + seconds
    whole = ScheduleSearch(durations, seed, allowed, start)
    for part, share in ((whole.construct, 0.5), (whole.search, 0.1), (whole.prove, 0.35), (whole.search, 1.0)):
        part(Effort(share * max(0.0, deadline - time.perf_counter())))
    assert whole.best is not None
    return whole.best
