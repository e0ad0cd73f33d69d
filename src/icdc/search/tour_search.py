"""The search for one short tour, without a network: construction, local search, proofs.

search = TourSearch(distances, seed=0)
budget = Budget(seconds=1.0)
search.construct(budget)
search.prove(budget.share(0.5))
search.search(budget)
search.choice, search.cost, search.bound
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import fast_here
from .run import Budget, Incumbent, InstanceSearch, run_all, searched
from .tour_bounds import Indices, Numbers, Prices, Relaxation, assignment, prove, subtour_relaxation, with_barrier
from .tour_branching import branch, cycles_of, length, patched
from .tour_moves import Queue, Tour, descend, kicks, push

DEPTH = 3
"""Exchanges in a row, of which only the last must gain."""
REACH = 30
"""Cities in each of the three segments that a kick moves, at most."""
SLACK = (0.5, 0.1, 0.0)
"""By how many average steps a tour may be longer than the best to be kept; one after the other."""
SMALLEST = 8
"""Cities from which on kicks are made; a descent is all there is below."""
PATIENCE = 60
"""Kicks for every city without a shorter tour after which the search goes on from a tour further away."""
PERTURBED = 8
"""One kick for so many cities then leads there, whatever it costs."""
CHUNK = 300
"""Kicks with one slack."""
CITIES = 50
"""Cities looked at, or exchanges made, between two looks at the clock where nothing is compiled."""
ASSIGNMENT, JOINING = 0.5, 0.5
"""Shares of the time of a construction for the cheapest assignment, and of what is left then for joining its cycles."""
SAMPLED = 1000
"""Cities whose steps say whether distances there and back go together."""
LOOKS = 4
"""Times as long as choosing neighbours that the subtour relaxation takes at least."""
PRIME = 7919
"""Distance between the seeds of searches side by side."""

USEFUL_STEPS = 6
"""A proof is tried where no more steps a city than this could be part of a shorter tour."""
BRANCHES = 60
"""Openings of branch and bound before the subtour relaxation is worth more."""
LARGEST_BRANCHED = 150
"""Cities up to which branch and bound is tried at all: beyond, an opening costs too much."""
TINY = 40
"""Cities up to which branch and bound comes before any descent."""
ROUNDS = 40
"""Linear programs of the subtour relaxation where no seconds are given."""
NODES = 50
"""Nodes of an integer program where no seconds are given, and the number of such programs."""
MOST_STEPS = 1000
"""Steps of an integer program up to which it is tried where no seconds are given."""


class Start(NamedTuple):
    """A first tour (n,) with its costs (n, n) and the prices it came from."""

    costs: Numbers
    successor: Indices
    prices: Prices


def construct(distances: NDArray[Any], budget: Budget) -> Start:
    """Join the cycles of the cheapest assignment, or go to the nearest city each time where time is short."""
    costs = with_barrier(distances)
    successor, prices = assignment(costs, budget.share(ASSIGNMENT))
    tours = []
    if successor is not None:
        joining = budget.share(JOINING)
        tours.append(patched(prices.excess, successor, joining))
        if not joining.over:
            return Start(costs, tours[0], prices)
    tours.append(nearest_neighbours(costs[None])[0])
    return Start(costs, min(tours, key=lambda tour: float(length(costs, tour))), prices)


def nearest_neighbours(costs: Numbers) -> Indices:
    """Return the tours from city 0 that go to the nearest city left, by successors (count, n); costs (count, n, n)."""
    count, cities = costs.shape[:2]
    every, here = np.arange(count), np.zeros(count, dtype=np.int64)
    left = np.ones((count, cities), dtype=bool)
    successor = np.zeros((count, cities), dtype=np.int64)
    for _ in range(cities - 1):
        left[every, here] = False
        nearest = np.where(left, costs[every, here].astype(np.float64), np.inf).argmin(1)
        # where all that is left is infinitely far, any city that is left will do
        nearest = np.where(left[every, nearest], nearest, left.argmax(1))
        successor[every, here] = nearest
        here = nearest
    return np.asarray(successor)


@dataclass(frozen=True)
class Neighbourhood:
    """Which steps the local search tries.

    costs : (n, n) with a barrier. gains : the same less prices, which differs by a constant for every tour.
    near : (n, k) the successors to try, cheapest by `gains` first.
    reversals : whether segments are reversed, too.
    tolerance : gains up to this are rounding errors.
    """

    costs: Numbers
    gains: Numbers
    near: Indices
    reversals: bool
    tolerance: Any


def neighbourhood(costs: Numbers, prices: Prices, width: int = 10, reversals: bool | None = None) -> Neighbourhood:
    """Choose the `width` successors of least excess for each city, and whether segments are worth reversing.

    They are where distances there and back go together (correlation above 0.3) unless `reversals` says.
    """
    size = len(costs)
    gains = np.ascontiguousarray(costs - prices.leaving[:, None] - prices.entering)
    width = min(width, size - 1)
    near = np.argpartition(prices.excess, width - 1, axis=1)[:, :width]
    ranked = np.argsort(np.take_along_axis(gains, near, 1), axis=1, kind="stable")
    near = np.ascontiguousarray(np.take_along_axis(near, ranked, 1), dtype=np.int64)
    usable = costs < costs[0, 0]  # the diagonal is a barrier
    if reversals is None:
        rows = slice(None, None, -(-size // SAMPLED))
        there = costs[rows][usable[rows]].astype(np.float64)
        back = costs.T[rows][usable[rows]].astype(np.float64)
        spread = float(((there - there.mean()) ** 2).mean())
        reversals = spread > 0 and float(((there - there.mean()) * (back - there.mean())).mean()) > 0.3 * spread
    whole = np.issubdtype(costs.dtype, np.integer)
    tolerance = costs.dtype.type(0 if whole else 1e-11 * float(np.abs(costs[usable]).max()))
    return Neighbourhood(costs, gains, near, bool(reversals), tolerance)


def improve(area: Neighbourhood, successor: Indices, budget: Budget, depth: int = DEPTH) -> Indices:
    """Return a tour (n,) no longer than `successor` that no exchange of segments in the neighbourhood shortens.

    Or the best reached within the budget's seconds.

    Exchanges: any two neighbouring segments change places, with two of the three new steps among `near`; where segments
    are reversed, one with its first new step among `near`.
    """
    tour = _tour(area, successor)
    while _descend_all(area, tour, depth, budget) > area.tolerance and not budget.over:
        pass
    return _shorter(area.costs, tour.order, successor)


def iterate(
    area: Neighbourhood, successor: Indices, budget: Budget, *, seed: int, target: float | None = None
) -> Indices:
    """Iterated local search: kick, descend, keep what is not much worse; return the best tour (n,).

    It ends with the budget, or with a tour of at most `target`; without seconds the same seed gives the same tour. The
    budget's searches run side by side, each with a seed of its own.
    """
    searches = [
        IteratedSearch(area, successor, seed + PRIME * number, budget, target) for number in range(budget.searches)
    ]
    run_all(searches, budget)
    tours = [_shorter(area.costs, search.best, successor) for search in searches]
    return min(tours, key=lambda tour: float(length(area.costs, tour)))


class IteratedSearch:
    """An iterated local search that can be stopped and continued, on one thread.

    It stays near the best tour until progress stalls, then perturbs it and measures progress from the perturbed tour.

    target : the length at which it is done.
    best : (n,) the cities of the best tour so far, in visiting order.
    shortest : its length.
    """

    def __init__(
        self,
        area: Neighbourhood,
        successor: Indices,
        seed: int,
        budget: Budget,
        target: float | None = None,
        depth: int = DEPTH,
    ) -> None:
        self.area, self.depth, self.target = area, depth, target
        self.tour = _tour(area, successor)
        gain = _descend_all(area, self.tour, depth, budget)
        self.best, self.nearby = self.tour.order.copy(), self.tour.order.copy()
        self.first = length(area.costs, successor) - gain
        self.shortest = float(self.first)
        self.gained = np.zeros(2, self.tour.leave.dtype)
        self.state = np.array([1 + seed % 2147483645])
        # kicks, how many had been made at the last gain, and how much was gained by then
        self.made, self.last, self.last_gained = 0, 0, self.gained[1].copy()

    @property
    def done(self) -> bool:
        """Whether the tour is as short as the target, or too small to be kicked."""
        short = self.target is not None and self.shortest <= self.target
        return short or len(self.best) < SMALLEST

    def run(self, steps: int) -> None:
        """Make `steps` more kicks, or fewer if the tour is short enough."""
        size, kind = len(self.best), self.tour.leave.dtype.type
        while steps > 0 and not self.done:
            count = min(steps, CHUNK - self.made % CHUNK)
            slack = kind(SLACK[self.made // CHUNK % len(SLACK)] * abs(float(self.first)) / size)
            self._kick(count, slack)
            self.made += count
            steps -= count
            if (now := float(self.first - self.gained[1])) < self.shortest:
                self.shortest = now
                self.best[:] = self.nearby
            if self.made % CHUNK:
                continue  # whether it goes on nearby must not depend on where it was stopped and continued
            if self.gained[1] > self.last_gained:
                self.last_gained, self.last = self.gained[1].copy(), self.made
            elif self.made - self.last >= PATIENCE * size:
                self._perturb()

    def _kick(self, count: int, slack: Any) -> None:
        kicks(
            self.tour, self.nearby, self.gained, self.state, count, min(REACH, len(self.best) // 4), slack,
            self.depth, self.area.tolerance, self.area.reversals,
        )  # fmt: skip

    def _perturb(self) -> None:
        """Begin again near the best tour."""
        best = tour_of(self.best)
        self.tour = _tour(self.area, best)
        self.gained[:] = 0
        enough = self.tour.leave.dtype.type(4 * abs(float(self.first)) + 1)
        self._kick(max(1, len(self.best) // PERTURBED), enough)
        self.first = self.tour.leave.dtype.type(length(self.area.costs, best)) - self.gained[0]
        self.nearby[:] = self.tour.order
        self.gained[:] = 0
        self.last, self.last_gained = self.made, self.gained[1].copy()


def _descend_all(area: Neighbourhood, tour: Tour, depth: int, budget: Budget) -> Any:
    """Look at every city until none gains, or until the time is over; change the tour and return the gain."""
    size = len(tour.order)
    total = area.gains.dtype.type(0)
    if size < 4:  # two segments cannot change places
        return total
    cities = tour.order.copy()
    queue = Queue(np.empty(size + 1, np.int64), np.zeros(size, np.int64), np.zeros(2, np.int64))
    together = fast_here() or not budget.timed
    piece, journal = (size, np.empty((1000, 6), np.int64)) if together else (CITIES, np.empty((CITIES, 6), np.int64))
    for begin in range(0, size, piece):
        for city in cities[begin : begin + piece].tolist():
            push.plain(queue, city)
        while queue.ends[0] != queue.ends[1] and not budget.over:
            gain, _ = descend(tour, queue, journal, 0, depth, area.tolerance, area.reversals)
            total += gain
    return total


def _tour(area: Neighbourhood, successor: Indices) -> Tour:
    """Return a tour (n,) as the inner loops keep it."""
    order = np.array(next(cycles_of(successor)))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    leave = np.ascontiguousarray(area.gains[np.arange(len(order)), successor])
    return Tour(area.gains, area.near, order, position, leave)


def tour_of(order: Indices) -> Indices:
    """Return the successors (n,) of cities in visiting order (n,)."""
    successor = np.empty_like(order)
    successor[order] = np.roll(order, -1)
    return successor


def _shorter(costs: Numbers, order: Indices, before: Indices) -> Indices:
    """Return the successors (n,) of a tour, or those before where that tour is not shorter."""
    after = tour_of(order)
    return after if length(costs, after) < length(costs, before) else before.copy()


class TourSearch(InstanceSearch):
    """The search for one short tour.

    Parameters
    ----------
    distances : (n, n) integers or reals; the diagonal is ignored.
    seed, start, incumbent : as in `InstanceSearch`; a start is the successors of a tour.
    """

    def __init__(
        self, distances: NDArray[Any], seed: int, start: Indices | None = None, incumbent: Incumbent | None = None
    ) -> None:
        super().__init__(distances, seed, start, incumbent)
        self.relaxation: Relaxation | None = None
        self._searches: list[IteratedSearch] = []
        self._attempted = np.inf  # the length at which a proof was last tried
        self._slow = 0.0  # the seconds that choosing neighbours takes
        self._declined = False  # whether there was too little time for the subtour relaxation

    def construct(self, budget: Budget) -> None:
        """Join the cycles of the cheapest assignment, and descend to a local optimum, from the start as well."""
        first = construct(self.matrix, budget)
        began = budget.clock()
        self.costs, self.prices = first.costs, first.prices
        self.offer(first.successor, "construction")
        self.incumbent.raise_bound(first.prices.bound)
        if self.start is not None:
            self.offer(self.start, "start")
        if not self.proven and len(self.costs) <= TINY:
            branch(self.matrix, self.incumbent, BRANCHES, budget)
        if self.proven or budget.over:
            return
        self.area = neighbourhood(self.costs, first.prices)
        self._slow = budget.clock() - began
        self.constructed = True
        for tour, by in ((first.successor, "construction"), (self.start, "search")):
            if tour is not None:
                self.offer(improve(self.area, tour, budget), by)

    def prove(self, budget: Budget, brief: bool = False) -> None:
        """Raise the bound, shorten the tour and, where few enough steps are left, prove it.

        brief : only what takes little time even where nothing is compiled, which here is all of it.
        """
        if not self.unproven:
            return
        if self.relaxation is None:
            if TINY < len(self.costs) <= LARGEST_BRANCHED:
                branch(self.matrix, self.incumbent, BRANCHES, budget.share(0.3))
                if self.proven:
                    return
            if budget.timed and budget.left < LOOKS * self._slow:
                self._declined = True
                return
            rounds = np.inf if budget.timed else ROUNDS
            self.relaxation = subtour_relaxation(self.costs, self.prices, self.choice, budget.share(0.7), rounds=rounds)
            self.incumbent.raise_bound(self.relaxation.prices.bound)
            self.area = neighbourhood(self.costs, self.relaxation.prices)
            self._searches = []
        if not self.proven and self.likely and (budget.timed or self._useful_steps() <= MOST_STEPS):
            self._attempted = float(self.cost)
            nodes = None if budget.timed else NODES
            tour, proven = prove(self.costs, self.choice, self.relaxation, budget, nodes)
            self.offer(tour, "exact")
            if proven:
                self.incumbent.raise_bound(float(length(self.costs, tour)))

    @property
    def likely(self) -> bool:
        """Whether few steps could be part of a shorter tour, and a proof was not tried in vain yet."""
        if not self.unproven:
            return False
        if self.relaxation is None:
            return not self._declined
        return self.cost < self._attempted and self._useful_steps() <= USEFUL_STEPS * len(self.costs)

    def search(self, budget: Budget) -> None:
        """Kick and descend, from where it stopped the last time; one search goes on from the best tour so far."""
        if not self.unproven:
            return
        if len(self._searches) != budget.searches:
            self._searches = [self._iterated(number, budget) for number in range(budget.searches)]
        elif self._searches[0].shortest > float(self.cost):
            self._searches[0] = self._iterated(self._searches[0].made, budget)
        for search in self._searches:
            search.target = self.bound
        run_all(self._searches, budget)
        for search in self._searches:
            self.offer(tour_of(search.best), "search")

    def search_from(self, choice: Indices, found_by: str, budget: Budget) -> None:
        """Take a tour (n,) that another method proposes, and search on from it for a while."""
        if not self.unproven:
            return
        self.offer(choice, found_by)
        better = iterate(self.area, choice, budget, seed=self.seed + 1, target=self.bound)
        self.offer(better, found_by if (better == choice).all() else searched(found_by))

    def cost_of(self, choice: Indices) -> Any:
        """Return the length of a tour (n,)."""
        return length(self.matrix, choice)

    def _useful_steps(self) -> int:
        """Return how many steps could be part of a shorter tour."""
        assert self.relaxation is not None
        prices = self.relaxation.prices
        return int(np.count_nonzero(prices.excess <= float(self.cost) - prices.bound))

    def _iterated(self, number: int, budget: Budget) -> IteratedSearch:
        return IteratedSearch(self.area, self.choice, self.seed + PRIME * number, budget)
