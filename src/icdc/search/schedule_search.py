"""The search for one short schedule, without a network: construction, local search, proofs.

    search = ScheduleSearch(durations, seed=0)
    budget = Budget(seconds=1.0)
    search.construct(budget)
    search.prove(budget.share(0.5))
    search.search(budget)
    search.choice, search.cost, search.bound

Durations that are decimals, such as 1.25, are searched and proven in whole numbers of their last digit: tables,
knapsacks and integer programs prove makespans of whole durations only. Numbers from a file rarely have more than a few
digits, so that nothing is lost when they are counted in hundredths.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import fast_here
from .run import Budget, Incumbent, InstanceSearch, run_all, searched
from .schedule_bounds import Prices, knapsack_bound, price, price_below
from .schedule_exact import load_tables, makespan, read_schedule, restricted_mip, settled_jobs
from .schedule_moves import Choice, Durations, TabuSearch, descend, greedy, schedule_of

NEAR = 8
"""Machines a job may go to in a chain: those at which it gives away least."""
CHANGES = 20
"""Changes of a descent for every job, at most."""
CELLS = 2**22
"""Entries up to which tables over loads are filled."""
KNAPSACKS = 40_000_000
"""Entries of all knapsacks up to which their bound is tried where seconds are given; they are filled many times."""
FEWER_KNAPSACKS = 2_000_000
"""The same where none are given, and all of them are filled."""
UNCOMPILED = 100
"""How many times longer a loop takes where it is not compiled."""
COLUMNS = 5000
"""Pairs of job and machine up to which an integer program is tried."""
FIRST = 0.6
"""Share of the time of a construction for what comes before places on machines are priced."""
LEAST = 5e-10
"""By which part real makespans must fall to be called shorter: less than bounds may be away from what meets them."""
NODES = 60
"""Nodes of that program where no seconds are given."""
PROGRAMS = ((5, 1.0), (10, 1.0))
"""Integer programs to try, one after another: machines of each job in it, and the share of the jobs that may move."""
SCARCE_PROGRAMS = ((4, 0.5), (4, 0.7), (3, 1.0), *PROGRAMS)
"""The same where places are scarce: few machines will do, and most jobs are where the linear program puts them."""
MOST_PROGRAMS = 10
"""Programs of one try at a proof: each solution of those with few free jobs may be only a little better."""
PART = 0.8
"""Share of the time for a program in which some jobs are not free."""

MOST_DIGITS = 15
"""Digits behind the point that are looked for."""
LARGEST = 2.0**43
"""What all whole durations of a machine stay below: reals that are no decimals are hardly ever so near to one then."""
ROUNDING = 2.0**-50
"""How far, as a part of it, a number may be from its decimal: a few operations such as 3 × 0.1 are rounded by less."""


def numbers(durations: NDArray[Any]) -> Durations:
    """Return durations as int64 or float64."""
    whole = np.issubdtype(durations.dtype, np.integer) or durations.dtype == np.bool_
    return np.ascontiguousarray(durations, dtype=np.int64 if whole else np.float64)


class Start(NamedTuple):
    """A schedule (jobs,) at a local optimum, and the prices that led to it."""

    choice: Choice
    prices: Prices


def construct(durations: Durations, budget: Budget) -> Start:
    """Return a good schedule and the prices behind it; without a linear program there are still prices."""
    prices = price(durations, budget)
    return follow(durations, prices, budget)


def follow(durations: Durations, prices: Prices, budget: Budget) -> Start:
    """Return the best schedule that prices lead to: fractions rounded, and a priced greedy, longest first."""
    scaled = prices.scaled()
    longest = np.argsort(-durations.min(1), kind="stable")
    # where many pairs give away nothing, fractions tell which; the most promising first: time may not do for both
    rounded = scaled.argmin(1) if prices.fraction is None else prices.fraction.argmax(1)
    choices = np.stack([rounded, greedy(durations, scaled, longest, prices.bound)])
    improved = improve(durations, choices, prices, budget)
    return Start(improved[makespan(durations, improved).argmin()], prices)


def improve(durations: Durations, choice: Choice, prices: Prices, budget: Budget) -> Choice:
    """Return choices (..., jobs) no worse than before, at a local optimum, or after the time or CHANGES for each job.

    At a local optimum no machine with the largest load can be relieved such that all machines touched end below the
    makespan, by

    1. moving one of its jobs;
    2. exchanging it for a job of another machine;
    3. moving it to a machine from which a job goes on to a third, from which a job may come back. The first two jobs
       try only the NEAR machines of least reduced cost. With a time limit and nothing compiled this is left out.
    """
    jobs, machines = durations.shape
    if choice.shape[-1:] != (jobs,) or (choice.size and not 0 <= choice.min() <= choice.max() < machines):
        raise ValueError(f"a choice needs a machine from 0 to {machines - 1} for each of {jobs} jobs")
    width = NEAR if fast_here() or not budget.timed else 0  # looking for one chain could take seconds
    near = np.ascontiguousarray(np.argsort(prices.reduced, axis=1, kind="stable")[:, :width])
    # with a limit one change at a time: without a compiler a single one may take a tenth of a second
    limit, slices = (1, CHANGES * jobs) if budget.timed else (CHANGES * jobs, 1)
    improved = choice.astype(np.int64).reshape(-1, jobs)
    for row in improved:
        before, row_before = makespan(durations, row), row.copy()
        schedule = schedule_of(durations, row)
        for _ in range(slices):
            if budget.over or not descend(schedule, near, limit):
                break
        if makespan(durations, row) > before:  # sums of reals kept up by additions may drift
            row[:] = row_before
    return improved.reshape(choice.shape)


def iterate(durations: Durations, choice: Choice, prices: Prices, budget: Budget, bound: float, seed: int) -> Choice:
    """Search on from a choice (jobs,) until the budget is spent or the bound is met; return the best one."""
    scaled = np.ascontiguousarray(prices.scaled())
    searches = [
        TabuSearch(durations, scaled, choice, bound, seed * 1000 + index) for index in range(max(1, budget.searches))
    ]
    run_all(searches, budget)
    best = min(searches, key=lambda search: search.best[0]).best_choice.copy()
    # sums of reals kept up by additions may drift
    return best if makespan(durations, best) <= makespan(durations, choice) else choice.astype(np.int64)


class ScheduleSearch(InstanceSearch):
    """The search for one short schedule.

    Parameters
    ----------
    durations : (jobs, machines) integers or reals.
    seed, start, incumbent : as in `InstanceSearch`.
    """

    def __init__(
        self, durations: NDArray[Any], seed: int, start: Choice | None = None, incumbent: Incumbent | None = None
    ) -> None:
        super().__init__(numbers(durations), seed, start, incumbent)
        self._searches: list[TabuSearch] = []
        self._first: Choice | None = None  # where searches begin, if not from the best schedule
        self._began: float = np.inf  # the best makespan when a search last began
        self._turn = 0
        self._filled = False  # whether the bound by knapsacks was tried
        self._priced = np.inf  # the makespan below which places on machines were last priced
        self._attempted: tuple[float, int] | None = None  # the makespan and the number of the last integer program

    def construct(self, budget: Budget) -> None:
        """Round the linear program, descend to a local optimum, from the start as well; price places.

        Where tables over loads are small, they are filled before anything is priced: that ends it.
        """
        longest = np.argsort(-self.matrix.min(1), kind="stable")
        self.offer(greedy(self.matrix, np.zeros(self.matrix.shape), longest, 0.0), "construction")
        self._fill_tables(budget)
        if self.proven:
            return
        first = construct(self.matrix, budget.share(FIRST))
        self.prices = first.prices
        self._ranked = first.prices.reduced  # prices of time alone tell better which pairs are in good schedules
        self.offer(first.choice, "construction")
        self.incumbent.raise_bound(first.prices.bound)
        if self.start is not None:
            self.offer(self.start, "start")
            self.offer(improve(self.matrix, self.start, self.prices, budget), "search")
        self.constructed = True
        self._price_places(budget)

    def prove(self, budget: Budget, brief: bool = False) -> None:
        """Raise the bound, or look for a better schedule among all that could be better.

        brief : only what takes little time even where nothing is compiled.
        """
        if not self.unproven:
            return
        self._fill_tables(budget.share(0.5))
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
        work = self.matrix.size * float(self.cost) * (1 if fast else UNCOMPILED)
        if work <= (KNAPSACKS if budget.timed else FEWER_KNAPSACKS):
            self._filled = True
            bound = knapsack_bound(self.matrix, self.prices, int(self.cost), budget.share(0.3))
            self.incumbent.raise_bound(bound)

    @property
    def likely(self) -> bool:
        """Whether an integer program is worth trying, and was not tried in vain yet.

        Not where durations are so alike that every machine could do with every job: such programs never end.
        """
        if not self.unproven or len(self.matrix) * PROGRAMS[0][0] > COLUMNS:
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
        return 0 if self._attempted is None or self.cost < self._attempted[0] else self._attempted[1] + 1

    def _try_program(self, budget: Budget) -> bool:
        """Try the next integer program; tell whether all jobs were free in it."""
        number = self._next_program
        self._attempted = (float(self.cost), number)
        width, free = self._programs[number]
        whole = free >= 1
        part, nodes = budget.share(1.0 if whole else PART), None if budget.timed else NODES
        ranked, settled = (self._ranked, None) if whole else (None, settled_jobs(self.prices, free))
        better = restricted_mip(self.matrix, self.prices, self.choice, part, width, nodes, ranked, settled)
        if better.choice is not None:
            self.offer(better.choice, "exact")
        if better.optimal:
            self.incumbent.raise_bound(float(better.makespan))
        return whole

    def search(self, budget: Budget) -> None:
        """Make exchanges, from where it stopped the last time; one search goes on from the best schedule so far."""
        if not self.unproven:
            return
        cost = self.cost
        if len(self._searches) != budget.searches:
            first = self.choice if self._first is None else self._first
            self._searches, self._began = [self._tabu(first) for _ in range(budget.searches)], cost
        elif self._searches[0].best[0] > cost and cost < self._began:
            self._searches[0], self._began = self._tabu(self.choice), cost
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
        improved = improve(self.matrix, choice, self.prices, budget)
        better = iterate(self.matrix, improved, self.prices, budget, self.bound, self.seed + 1)
        self.offer(better, found_by if (better == choice).all() else searched(found_by))

    def cost_of(self, choice: Choice) -> Any:
        """Return the makespan of a schedule (jobs,)."""
        return makespan(self.matrix, choice)

    def _price_places(self, budget: Budget) -> None:
        """Begin again from prices that know how many jobs machines can hold, where these are too many in fractions."""
        if not self.unproven or self.cost >= self._priced:
            return
        self._priced = float(self.cost)
        limit = self.cost - 1 if self.incumbent.whole else self.cost * (1 - LEAST)
        prices = price_below(self.matrix, self.prices, limit, budget)
        if prices is None:
            return
        first = follow(self.matrix, prices, budget)
        self.offer(first.choice, "construction")
        self.incumbent.raise_bound(prices.bound)
        # searches begin where the new prices lead to, even if that is a little longer than the best
        self.prices, self._first, self._searches = prices, first.choice, []

    def _fill_tables(self, budget: Budget) -> None:
        """Try all combinations of loads, in units of all durations, where tables of those below the best are small."""
        if not self.incumbent.whole:
            return
        jobs, machines = self.matrix.shape
        unit = max(1, int(np.gcd.reduce(self.matrix, axis=None)))
        limit = int(self.cost) // unit
        if limit < 1 or machines > 8 or jobs * float(limit) ** (machines - 1) > CELLS:
            return
        times = self.matrix // unit
        tables = load_tables(times, limit, budget)
        if tables is not None:
            choice = read_schedule(times, tables, limit)
            if choice is not None:
                self.offer(choice, "exact")
            self.incumbent.raise_bound(float(self.cost))

    def _tabu(self, start: Choice) -> TabuSearch:
        self._turn += 1
        scaled = np.ascontiguousarray(self.prices.scaled())
        return TabuSearch(self.matrix, scaled, start, self.bound, self.seed * 1000 + self._turn)


def whole_units(durations: NDArray[Any]) -> tuple[NDArray[np.int64], float] | None:
    """Return real durations (jobs, machines) as whole numbers, and how many of them make 1; None if they are others."""
    if np.issubdtype(durations.dtype, np.integer):
        return None
    longest = float(durations.max(initial=0.0)) * len(durations)
    for digits in range(MOST_DIGITS + 1):
        scale = 10.0**digits
        if not longest * scale < LARGEST:
            return None
        whole = np.rint(durations * scale)
        if (np.abs(whole / scale - durations) <= ROUNDING * durations).all():
            return whole.astype(np.int64), scale
    return None


class DecimalScheduleSearch(InstanceSearch):
    """The search for one short schedule in whole units; its incumbent counts in the units of the durations.

    Parameters
    ----------
    durations : (jobs, machines) reals.
    units, scale : the same as whole numbers, and how many of them make 1 (`whole_units`).
    seed, start, incumbent : as in `InstanceSearch`.
    """

    def __init__(
        self,
        durations: NDArray[Any],
        units: NDArray[np.int64],
        scale: float,
        seed: int,
        start: Choice | None = None,
        incumbent: Incumbent | None = None,
    ) -> None:
        super().__init__(np.asarray(durations, dtype=np.float64), seed, start, incumbent)
        self.inner, self.scale = ScheduleSearch(units, seed, start), scale

    @property
    def kind(self) -> type[np.int64]:
        return np.int64

    @property
    def likely(self) -> bool:
        return self.inner.likely

    @property
    def hopeful(self) -> bool:
        return self.inner.hopeful

    def construct(self, budget: Budget) -> None:
        self.inner.construct(budget)
        self._offer_inner()

    def prove(self, budget: Budget, brief: bool = False) -> None:
        self.inner.prove(budget, brief)
        self._offer_inner()

    def search(self, budget: Budget) -> None:
        self.inner.search(budget)
        self._offer_inner()

    def search_from(self, choice: Choice, found_by: str, budget: Budget) -> None:
        self.inner.search_from(choice, found_by, budget)
        self._offer_inner()

    def cost_of(self, choice: Choice) -> Any:
        return makespan(self.matrix, choice)

    def _offer_inner(self) -> None:
        """Offer the best schedule in whole units; its bound less what rounding, adding and dividing may have added."""
        if self.inner.solved:
            self.offer(self.inner.choice, str(self.inner.incumbent.found_by[0]))
        bound = self.inner.bound / self.scale
        if np.isfinite(bound):
            bound -= bound * (2 * ROUNDING + len(self.matrix) * 2.0**-53)
        self.incumbent.raise_bound(bound)
