"""Search for short tours without a network: constructions, descents and iterated local search, on one CPU.

    start = construct(distances)
    terrain = survey(start.costs, start.prices)
    tour = iterate(terrain, improve(terrain, start.successor), Budget(seconds=1.0), seed=1)

`tour_bounds.subtour_prices` gives better prices, and with them a better terrain, where assignments are far from tours.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..jit import fast_here
from .run import Budget, run_all
from .tour_moves import Queue, Tour, descend, kicks, wake
from .tour_prices import Indices, Numbers, Prices, assignment, patched, with_barriers

DEPTH = 3
"""Exchanges in a row, of which only the last must gain."""
REACH = 30
"""Cities in each of the three segments that a kick moves, at most."""
SLACK = (0.5, 0.1, 0.0)
"""By how many average steps a tour may be longer than the best to be carried on; one after the other."""
SMALLEST = 8
"""Cities from which on kicks are made; a descent is all there is below."""
PATIENCE = 60
"""Kicks for every city without a shorter tour after which the search goes on from a tour further away."""
SHAKEN = 8
"""One kick for so many cities then leads there, whatever it costs."""
CHUNK = 300
"""Kicks with one slack."""
CITIES = 50
"""Cities looked at, or exchanges made, between two looks at the clock where nothing is compiled."""


@dataclass(frozen=True)
class Start:
    """A first tour with the prices it came from.

    costs : (n, n) int64 or float64; forbidden steps cost `barrier`.
    successor : (n,) one tour; it takes a forbidden step only where joining cycles found no other way.
    proven : whether the tour is as short as the bound.
    """

    costs: Numbers
    barrier: Any
    successor: Indices
    prices: Prices

    @property
    def proven(self) -> bool:
        """Whether no tour is shorter."""
        return bool(length(self.costs, self.successor) <= self.prices.bound)


def construct(distances: NDArray[Any], allowed: NDArray[np.bool_] | None = None) -> Start | None:
    """Join the cycles of the cheapest assignment; None if forbidden steps leave no assignment, and so no tour."""
    costs, barrier = with_barriers(distances, allowed)
    found = assignment(costs, barrier)
    if found is None:
        return None
    successor, prices = found
    return Start(costs, barrier, patched(prices.excess, successor), prices)


@dataclass(frozen=True)
class Terrain:
    """What the search looks at.

    costs : (n, n) with barriers. gains : the same less prices, which differs by a constant for every tour.
    near : (n, k) the successors to try, cheapest by `gains` first.
    turns : whether segments are tried backwards, too.
    tolerance : gains up to this are rounding errors.
    """

    costs: Numbers
    gains: Numbers
    near: Indices
    turns: bool
    tolerance: Any


def survey(costs: Numbers, prices: Prices, width: int = 10, turns: bool | None = None) -> Terrain:
    """Choose the `width` successors of least excess for each city, and whether segments are worth turning.

    They are where distances there and back go together (correlation above 0.3) unless `turns` says.
    """
    size = len(costs)
    gains = np.ascontiguousarray(costs - prices.leaving[:, None] - prices.entering)
    width = min(width, size - 1)
    near = np.argpartition(prices.excess, width - 1, axis=1)[:, :width]
    ranked = np.argsort(np.take_along_axis(gains, near, 1), axis=1, kind="stable")
    near = np.ascontiguousarray(np.take_along_axis(near, ranked, 1), dtype=np.int64)
    usable = costs < costs[0, 0]  # the diagonal is a barrier
    if turns is None:
        both = usable & usable.T
        there = costs[both].astype(np.float64)
        back = costs.T[both].astype(np.float64)
        spread = float(((there - there.mean()) ** 2).mean()) if there.size else 0.0
        turns = spread > 0 and float(((there - there.mean()) * (back - there.mean())).mean()) > 0.3 * spread
    whole = np.issubdtype(costs.dtype, np.integer)
    tolerance = costs.dtype.type(0 if whole else 1e-11 * float(np.abs(costs[usable]).max()))
    return Terrain(costs, gains, near, bool(turns), tolerance)


def improve(terrain: Terrain, successor: Indices, depth: int = DEPTH, *, seconds: float | None = None) -> Indices:
    """Return a tour (n,) no longer than `successor` that no exchange of segments within the terrain shortens.

    Or the best reached within `seconds`.

    Exchanges: any two neighbouring segments change places, with two of the three new steps among `near`; where
    segments turn, a segment met backwards, its first new step among `near`.
    """
    deadline = np.inf if seconds is None else time.perf_counter() + seconds
    tour = _walked(terrain, successor)
    while _descended(terrain, tour, depth, deadline) > terrain.tolerance and time.perf_counter() < deadline:
        pass
    return _shorter(terrain.costs, tour.order, successor)


def iterate(
    terrain: Terrain,
    successor: Indices,
    budget: Budget,
    *,
    seed: int,
    target: float | None = None,
    depth: int = DEPTH,
) -> Indices:
    """Iterated local search: kick, repair, keep what is not much worse; return the best tour (n,) met.

    It ends with the budget, or with a tour of at most `target`; without seconds the same seed gives the same tour. The
    budget's searches run side by side, each with a seed of its own.
    """
    searches = [
        Kicks(terrain, successor, seed + 7919 * number, target, depth, budget.deadline)
        for number in range(budget.searches)
    ]
    run_all(searches, budget)
    tours = [_shorter(terrain.costs, search.best, successor) for search in searches]
    return min(tours, key=lambda tour: float(length(terrain.costs, tour)))


class Kicks:
    """An iterated local search that can be stopped and continued, on one thread.

    It stays near the best tour until nothing shorter has come for a while; then it is shaken off that tour, and what it
    finds from there is measured against where that began, until again nothing comes.

    best : (n,) the cities of the best tour met, in visiting order.
    shortest : its length.
    """

    def __init__(
        self, terrain: Terrain, successor: Indices, seed: int, target: float | None, depth: int, until: float
    ) -> None:
        self.terrain, self.depth, self.target = terrain, depth, target
        self.tour = _walked(terrain, successor)
        gained = _descended(terrain, self.tour, depth, until)
        self.best, self.nearby = self.tour.order.copy(), self.tour.order.copy()
        self.first = length(terrain.costs, successor) - gained
        self.shortest = float(self.first)
        self.standing = np.zeros(2, self.tour.leave.dtype)
        self.state = np.array([1 + seed % 2147483645])
        # kicks, how many had been made at the last gain, and how much was gained by then
        self.made, self.last, self.gained = 0, 0, self.standing[1].copy()

    @property
    def done(self) -> bool:
        """Whether the tour is as short as it is meant to be, or too small to be kicked."""
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
            if (now := float(self.first - self.standing[1])) < self.shortest:
                self.shortest = now
                self.best[:] = self.nearby
            if self.made % CHUNK:
                continue  # whether it goes on nearby must not depend on where it was stopped and continued
            if self.standing[1] > self.gained:
                self.gained, self.last = self.standing[1].copy(), self.made
            elif self.made - self.last >= PATIENCE * size:
                self._shake()

    def _kick(self, count: int, slack: Any) -> None:
        kicks(
            self.tour, self.nearby, self.standing, self.state, count, min(REACH, len(self.best) // 4), slack,
            self.depth, self.terrain.tolerance, self.terrain.turns,
        )  # fmt: skip

    def _shake(self) -> None:
        """Begin again near the best tour."""
        found = tour_of(self.best)
        self.tour = _walked(self.terrain, found)
        self.standing[:] = 0
        enough = self.tour.leave.dtype.type(4 * abs(float(self.first)) + 1)
        self._kick(max(1, len(self.best) // SHAKEN), enough)
        self.first = self.tour.leave.dtype.type(length(self.terrain.costs, found)) - self.standing[0]
        self.nearby[:] = self.tour.order
        self.standing[:] = 0
        self.last, self.gained = self.made, self.standing[1].copy()


def length(costs: Numbers, successor: Indices) -> Any:
    """Return what a tour (n,) costs, an integer for integers."""
    return costs[np.arange(len(costs)), successor].sum()


def _descended(terrain: Terrain, tour: Tour, depth: int, deadline: float = np.inf) -> Any:
    """Look at every city until none gains, or until the deadline; change the tour and return the gain."""
    size = len(tour.order)
    total = terrain.gains.dtype.type(0)
    if size < 4:  # two segments cannot change places
        return total
    waiting = tour.order.copy()
    queue = Queue(np.empty(size + 1, np.int64), np.zeros(size, np.int64), np.zeros(2, np.int64))
    at_once = fast_here() or deadline == np.inf
    piece, journal = (size, np.empty((1000, 6), np.int64)) if at_once else (CITIES, np.empty((CITIES, 6), np.int64))
    for begin in range(0, size, piece):
        for city in waiting[begin : begin + piece].tolist():
            wake.plain(queue, city)
        while queue.ends[0] != queue.ends[1] and time.perf_counter() < deadline:
            gained, _ = descend(tour, queue, journal, 0, depth, terrain.tolerance, terrain.turns)
            total += gained
    return total


def _walked(terrain: Terrain, successor: Indices) -> Tour:
    """Return a tour (n,) as the inner loops keep it."""
    following, order = successor.tolist(), [0]
    while len(order) < len(following):
        order.append(following[order[-1]])
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    leave = np.ascontiguousarray(terrain.gains[np.arange(len(order)), successor])
    return Tour(terrain.gains, terrain.near, np.array(order), position, leave)


def tour_of(order: Indices) -> Indices:
    """Return the successors (n,) of cities in visiting order (n,)."""
    successor = np.empty_like(order)
    successor[order] = np.roll(order, -1)
    return successor


def _shorter(costs: Numbers, order: Indices, given: Indices) -> Indices:
    """Return the successors (n,) of a tour, or the given ones where that tour is not shorter."""
    found = tour_of(order)
    return found if length(costs, found) < length(costs, given) else given.copy()
