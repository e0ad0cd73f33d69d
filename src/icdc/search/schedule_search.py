"""All of the classical search for one schedule, in parts that can be taken in turn: construct, prove, search on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..jit import fast_here
from .run import Budget, Incumbent, InstanceSearch, run_all, searched
from .schedule_bound import knapsack_bound
from .schedule_mip import restricted_mip, settled_jobs
from .schedule_prices import Prices, price_below
from .schedule_tables import load_tables, read_schedule
from .schedule_tabu import Tabu
from .schedules import Choice, construct, follow, greedy, improve, iterate, makespan, numbers

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


class ScheduleSearch(InstanceSearch):
    """The search for one short schedule.

    Parameters
    ----------
    durations : (jobs, machines) integers or reals.
    allowed : (jobs, machines) bool, the pairs that may be used; None for all.
    seed, start, incumbent : as in `InstanceSearch`.
    """

    def __init__(
        self,
        durations: NDArray[Any],
        seed: int,
        allowed: NDArray[np.bool_] | None = None,
        start: Choice | None = None,
        incumbent: Incumbent | None = None,
    ) -> None:
        super().__init__(numbers(durations, allowed), seed, start, incumbent)
        self.durations, self.allowed = self.matrix, allowed
        self._searches: list[Tabu] = []
        self._first: Choice | None = None  # where searches begin, if not from the best schedule
        self._known: float = np.inf  # the best makespan when a search last began
        self._turn = 0
        self._filled = False  # whether the bound by knapsacks was tried
        self._priced = np.inf  # the makespan below which places on machines were last priced
        self._tried: tuple[float, int] | None = None  # the makespan and the number of the last integer program

    def construct(self, budget: Budget) -> None:
        """Round the linear program, go down to a local optimum, from the given start as well; price places.

        Where tables over loads are small, they are filled before anything is priced: that ends it.
        """
        if self._settled(budget.deadline):
            return
        starts = construct(self.durations, self.allowed, seconds=budget.share(FIRST).seconds)
        self.prices: Prices = starts.prices
        self._ranked = starts.prices.given  # prices of time alone tell better which pairs are in good schedules
        self.offer(starts.choices[0], "construction")
        self.incumbent.raise_bound(starts.prices.bound)
        if self.start is not None:
            self.offer(self.start, "start")
            improved = improve(self.durations, self.start, self.allowed, self.prices, seconds=budget.seconds)
            self.offer(improved, "search")
        self.constructed = True
        self._price_places(budget)

    def prove(self, budget: Budget, brief: bool = False) -> None:
        """Raise the bound, or look for a better schedule among all that could be better.

        brief : only what takes little time even where nothing is compiled.
        """
        if not self.unproven:
            return
        self._fill_tables(budget.share(0.5).deadline)
        self._price_places(budget.share(0.5))
        # programs in which not all jobs are free take little time, and go before the next one in which they are
        for _ in range(MOST_PROGRAMS):
            if not self.likely or budget.over:
                break
            if self._programs[self._next_program][1] >= 1:
                self._fill_knapsacks(budget, brief)
            if self.likely and self._try_program(budget):
                break
        self._fill_knapsacks(budget, brief)

    def _fill_knapsacks(self, budget: Budget, brief: bool) -> None:
        """Raise the bound by knapsacks, once, where they are small."""
        if not self.unproven or self._filled or budget.over:
            return
        fast = not brief and (fast_here() or not budget.timed)
        work = self.durations.size * float(self.cost) * (1 if fast else PLAIN)
        if work <= (KNAPSACKS if budget.timed else FEWER_KNAPSACKS):
            self._filled = True
            bound = knapsack_bound(self.durations, self.prices, int(self.cost), seconds=budget.share(0.3).seconds)
            self.incumbent.raise_bound(bound)

    @property
    def likely(self) -> bool:
        """Whether an integer program is worth trying, and was not tried in vain yet.

        Not where durations are so alike that every machine could do with every job: such programs never end.
        """
        if not self.unproven:
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
        return 0 if self._tried is None or self.cost < self._tried[0] else self._tried[1] + 1

    def _try_program(self, budget: Budget) -> bool:
        """Try the next integer program; tell whether all jobs were free in it."""
        number, before = self._next_program, self.choice
        self._tried = (float(self.cost), number)
        width, free = self._programs[number]
        whole = free >= 1
        seconds, nodes = budget.share(1.0 if whole else PART).left, None if budget.timed else NODES
        ranked, settled = (self._ranked, None) if whole else (None, settled_jobs(self.prices, free))
        found = restricted_mip(self.durations, self.prices, before, seconds, width, nodes, ranked, settled)
        if found.choice is not None:
            self.offer(found.choice, "exact")
        if found.optimal:
            self.incumbent.raise_bound(float(found.makespan))
        return whole

    def search(self, budget: Budget) -> None:
        """Make exchanges, from where it stopped the last time; one search goes on from the best schedule so far."""
        if not self.unproven:
            return
        cost = self.cost
        if len(self._searches) != budget.searches:
            first = self.choice if self._first is None else self._first
            self._searches, self._known = [self._tabu(first) for _ in range(budget.searches)], cost
        elif self._searches[0].best[0] > cost and cost < self._known:
            self._searches[0], self._known = self._tabu(self.choice), cost
        for search in self._searches:
            search.aim(self.bound)
        run_all(self._searches, budget)
        for search in self._searches:
            self.offer(search.best_choice, "search")

    def search_from(self, choice: Choice, found_by: str, budget: Budget) -> None:
        """Take a schedule (jobs,) that another method proposes, and search on from it for a while."""
        if not self.unproven:
            return
        self.offer(choice, found_by)
        polished = improve(self.durations, choice, self.allowed, self.prices, seconds=budget.seconds)
        found = iterate(
            self.durations, polished, budget, self.allowed, prices=self.prices, bound=self.bound, seed=self.seed + 1
        )
        self.offer(found, found_by if (found == choice).all() else searched(found_by))

    def cost_of(self, choice: Choice) -> Any:
        """Return the makespan of a schedule (jobs,)."""
        return makespan(self.durations, choice)

    def _price_places(self, budget: Budget) -> None:
        """Begin again from prices that know how many jobs machines can hold, where these are too many in fractions."""
        if not self.unproven or self.cost >= self._priced:
            return
        self._priced = float(self.cost)
        limit = self.cost - 1 if self.incumbent.whole else self.cost * (1 - LEAST)
        prices = price_below(self.durations, self.prices, limit, self.allowed, seconds=budget.seconds)
        if prices is None:
            return
        starts = follow(self.durations, prices, self.allowed, seconds=budget.seconds)
        self.offer(starts.choices[0], "construction")
        self.incumbent.raise_bound(prices.bound)
        # searches begin where the new prices lead to, even if that is a little longer than the best
        self.prices, self._first, self._searches = prices, starts.choices[0], []

    def _settled(self, deadline: float) -> bool:
        """Tell whether a schedule is best, by tables below the makespan of a plain greedy one."""
        if self.allowed is None:
            longest = np.argsort(-self.durations.min(1), kind="stable")
            self.offer(greedy(self.durations, np.zeros(self.durations.shape), longest, 0.0), "construction")
            self._fill_tables(deadline)
        return self.proven

    @property
    def _table_limit(self) -> int | None:
        """The makespan in units of all durations, where tables of all combinations of loads below it are small."""
        if not self.solved or self.allowed is not None or not self.incumbent.whole:
            return None
        jobs, machines = self.durations.shape
        limit = int(self.cost) // self._unit
        if limit < 1 or machines > 8 or jobs * float(limit) ** (machines - 1) > CELLS:
            return None
        return limit

    @property
    def _unit(self) -> int:
        return max(1, int(np.gcd.reduce(self.durations, axis=None)))

    def _fill_tables(self, deadline: float) -> None:
        """Try all combinations of loads, where they are few."""
        limit = self._table_limit
        if limit is None:
            return
        times = self.durations // self._unit
        tables = load_tables(times, limit, deadline)
        if tables is not None:
            choice = read_schedule(times, tables, limit)
            if choice is not None:
                self.offer(choice, "exact")
            self.incumbent.raise_bound(float(self.cost))

    def _tabu(self, start: Choice) -> Tabu:
        self._turn += 1
        given = np.ascontiguousarray(self.prices.scaled())
        return Tabu(self.durations, given, start, self.bound, self.seed * 1000 + self._turn)
