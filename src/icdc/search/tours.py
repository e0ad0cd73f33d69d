"""Search for short tours without a network: constructions, descents and iterated local search, on one CPU.

    start = construct(distances)
    terrain = survey(start.costs, start.prices)
    tour = iterate(terrain, improve(terrain, start.successor), seconds=1.0, seed=1)

`tour_bounds.subtour_prices` gives better prices, and with them a better terrain, where assignments are far from tours.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tour_moves import Queue, Tour, descend, kicks
from .tour_prices import Indices, Numbers, Prices, assignment, patched, with_barriers

DEPTH = 3
"""Exchanges in a row, of which only the last must gain."""
REACH = 30
"""Cities in each of the three segments that a kick moves, at most."""
SLACK = (0.5, 0.1, 0.0)
"""By how many average steps a tour may be longer than the best to be carried on; one after the other."""
SMALLEST = 8
"""Cities from which on kicks are made; a descent is all there is below."""
CHUNK = 300
"""Kicks between two looks at the clock, and with one slack."""


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


def improve(terrain: Terrain, successor: Indices, depth: int = DEPTH) -> Indices:
    """Return a tour (n,) no longer than `successor` that no exchange of segments within the terrain shortens.

    Exchanges: any two neighbouring segments change places, with two of the three new steps among `near`; where
    segments turn, a segment met backwards, its first new step among `near`.
    """
    tour = _walked(terrain, successor)
    while _descended(terrain, tour, depth) > terrain.tolerance:
        pass
    return _shorter(terrain.costs, tour.order, successor)


def iterate(
    terrain: Terrain,
    successor: Indices,
    *,
    seed: int,
    iterations: int | None = None,
    seconds: float | None = None,
    target: float | None = None,
    depth: int = DEPTH,
) -> Indices:
    """Iterated local search: kick, repair, keep what is not much worse; return the best tour (n,) met.

    It ends after `iterations` kicks, `seconds`, or with a tour of at most `target`, whichever is first; without
    `seconds` the same seed gives the same tour. No interpreter lock is held: threads with other seeds run beside.
    """
    if iterations is None and seconds is None:
        raise ValueError("iterate needs a number of iterations or of seconds")
    deadline = np.inf if seconds is None else time.perf_counter() + seconds
    tour = _walked(terrain, successor)
    _descended(terrain, tour, depth)
    best, standing, size = tour.order.copy(), np.zeros(2, tour.leave.dtype), len(successor)
    if size < SMALLEST:
        return _shorter(terrain.costs, best, successor)
    state = np.array([1 + seed % 2147483645])
    first = length(terrain.costs, _shorter(terrain.costs, best, successor))
    left, turn, kind = iterations, 0, tour.leave.dtype.type
    while (left is None or left > 0) and time.perf_counter() < deadline:
        if target is not None and first - standing[1] <= target:
            break
        count = CHUNK if left is None else min(CHUNK, left)
        slack = kind(SLACK[turn % len(SLACK)] * abs(float(first)) / size)
        reach = min(REACH, size // 4)
        kicks(tour, best, standing, state, count, reach, slack, depth, terrain.tolerance, terrain.turns)
        turn += 1
        left = None if left is None else left - count
    return _shorter(terrain.costs, best, successor)


def length(costs: Numbers, successor: Indices) -> Any:
    """Return what a tour (n,) costs, an integer for integers."""
    return costs[np.arange(len(costs)), successor].sum()


def _descended(terrain: Terrain, tour: Tour, depth: int) -> Any:
    """Look at every city until none gains; change the tour and return the gain."""
    size = len(tour.order)
    total = terrain.gains.dtype.type(0)
    if size < 4:  # two segments cannot change places
        return total
    queue = Queue(np.append(tour.order, 0), np.ones(size, np.int64), np.array([0, size]))
    journal = np.empty((1000, 6), np.int64)
    while queue.ends[0] != queue.ends[1]:
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


def _shorter(costs: Numbers, order: Indices, given: Indices) -> Indices:
    """Return the successors (n,) of a tour, or the given ones where that tour is not shorter."""
    found = np.empty_like(order)
    found[order] = np.roll(order, -1)
    return found if length(costs, found) < length(costs, given) else given.copy()
