"""All of the classical search for one tour, in parts that can be taken in turn: construct, prove, search on."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .effort import Effort
from .incumbent import Incumbent, searched
from .side_by_side import run_all
from .tour_bounds import Relaxation, prove, subtour_prices
from .tour_branching import branch
from .tour_prices import Indices
from .tours import DEPTH, Kicks, Terrain, construct, improve, iterate, length, survey, tour_of

STEPS = 6
"""A proof is tried where no more steps a city than this could be part of a shorter tour."""
BRANCHES = 60
"""Openings of branch and bound before the subtour relaxation is worth more."""
BRANCHED = 150
"""Cities up to which branch and bound is tried at all: beyond, an opening costs too much."""
ROUNDS = 40
"""Linear programs of the subtour relaxation where no seconds are given."""
NODES = 50
"""Nodes of an integer program where no seconds are given, and the number of such programs."""
FEWER_STEPS = 1000
"""Steps of an integer program up to which it is tried where no seconds are given."""
TINY = 40
"""Cities up to which branch and bound comes before any descent."""


class TourSearch:
    """The search for one short tour.

    Parameters
    ----------
    distances : (n, n) integers or reals; the diagonal is ignored.
    seed : of all random numbers.
    allowed : (n, n) bool, the steps that may be taken; None for all.
    start : (n,) successors of a tour to begin with.

    Attributes
    ----------
    best : the best tour so far with its bound; None before `construct`, and after it where forbidden steps leave no
        tour that could be found.
    """

    def __init__(
        self,
        distances: NDArray[Any],
        seed: int,
        allowed: NDArray[np.bool_] | None = None,
        start: Indices | None = None,
    ) -> None:
        self.distances, self.seed, self.allowed, self.start = distances, seed, allowed, start
        self.best: Incumbent | None = None
        self.relaxation: Relaxation | None = None
        self._searches: list[Kicks] = []
        self._tried = np.inf  # the length at which a proof was last tried

    def construct(self, effort: Effort) -> None:
        """Join the cycles of the cheapest assignment, go down to a local optimum, from the given start as well."""
        until = effort.deadline
        first = construct(self.distances, self.allowed)
        if first is None:
            return
        self.costs, self.barrier = first.costs, first.barrier
        self.prices = first.prices
        self._take(first.successor, "construction", first.prices.bound)
        if self.start is not None:
            self._take(self.start, "start")
        if not self.proven and len(self.costs) <= TINY:
            self._branch(until)
        if self.proven:
            return
        self.terrain: Terrain = survey(self.costs, first.prices)
        for tour, by in ((first.successor, "construction"), (self.start, "search")):
            if tour is not None:
                seconds = None if effort.seconds is None else until - time.perf_counter()
                self._take(improve(self.terrain, tour, seconds=seconds), by)

    def prove(self, effort: Effort, brief: bool = False) -> None:
        """Raise the bound, shorten the tour and, where few enough steps are left, prove it.

        brief : only what takes little time even where nothing is compiled, which here is all of it.
        """
        if self.best is None or self.proven:
            return
        until, timed = effort.deadline, effort.seconds is not None

        def left(share: float) -> float:
            return share * max(0.0, until - time.perf_counter()) if timed else np.inf

        if self.relaxation is None:
            if TINY < len(self.costs) <= BRANCHED and self._branch(time.perf_counter() + left(0.3)):
                return
            self.relaxation = subtour_prices(
                self.costs, self.prices, self.best.choice, left(0.7), rounds=np.inf if timed else ROUNDS
            )
            self._take(self.best.choice, "exact", self.relaxation.prices.bound)
            self.terrain = survey(self.costs, self.relaxation.prices)
            self._searches = []
        if not self.proven and self.likely and (timed or self._useful() <= FEWER_STEPS):
            self._tried = float(self.best.cost)
            tour, proven = prove(
                self.costs, self.best.choice, self.relaxation, left(1.0), nodes=None if timed else NODES
            )
            self._take(tour, "exact", float(length(self.costs, tour)) if proven else -np.inf)

    hopeful = False
    """Whether a proof deserves more time than others."""

    @property
    def likely(self) -> bool:
        """Whether a proof is likely, and was not tried in vain yet: few steps could be part of a shorter tour."""
        if self.best is None or self.proven:
            return False
        if self.relaxation is None:
            return True
        if self.best.cost >= self._tried:
            return False
        return self._useful() <= STEPS * len(self.costs)

    def search(self, effort: Effort) -> None:
        """Kick and repair, from where it stopped the last time; one search goes on from the best tour so far."""
        if self.best is None or self.proven:
            return
        begun = time.perf_counter()
        cost, until = float(self.best.cost), effort.deadline
        if len(self._searches) != effort.searches:
            self._searches = [self._kicks(number, until) for number in range(effort.searches)]
        elif self._searches[0].shortest > cost:
            self._searches[0] = self._kicks(self._searches[0].made, until)
        for search in self._searches:
            search.target = self.best.bound
        steps, seconds = effort.limits
        run_all(self._searches, steps, None if seconds is None else seconds - (time.perf_counter() - begun))
        for search in self._searches:
            self._take(tour_of(search.best), "search")

    def take_up(self, tour: Indices, by: str, effort: Effort) -> None:
        """Take a tour (n,) that somebody else proposes, and search on from it for a while."""
        if self.best is None or self.proven:
            return
        self._take(tour, by)
        steps, seconds = effort.limits
        found = iterate(
            self.terrain, tour, seed=self.seed + 1, iterations=steps, seconds=seconds, target=self.best.bound
        )
        self._take(found, by if (found == tour).all() else searched(by))

    @property
    def proven(self) -> bool:
        """Whether no tour is shorter than the best."""
        return self.best is not None and self.best.proven

    def _useful(self) -> int:
        """Return how many steps could be part of a shorter tour."""
        assert self.best is not None
        assert self.relaxation is not None
        prices = self.relaxation.prices
        return int(np.count_nonzero(prices.excess <= float(self.best.cost) - prices.bound))

    def _branch(self, deadline: float) -> bool:
        """Try branch and bound where every step is allowed; tell whether it was a proof."""
        if self.best is None or self.allowed is not None:
            return False
        found = branch(self.distances, self.best.choice, BRANCHES, deadline)
        self._take(found.choice, "exact", found.bound)
        return found.proven

    def _kicks(self, number: int, until: float) -> Kicks:
        assert self.best is not None
        return Kicks(self.terrain, self.best.choice, self.seed + 7919 * number, None, DEPTH, until)

    def _take(self, tour: Indices, by: str, bound: float = -np.inf) -> None:
        """Keep a tour that is shorter, and a bound that is higher."""
        if (self.costs[np.arange(len(tour)), tour] >= self.barrier).any():  # a forbidden step
            return
        cost, best = length(self.costs, tour).item(), self.best
        bound = bound if best is None else max(bound, best.bound)
        if best is None or cost < best.cost:
            self.best = Incumbent(tour, cost, bound, by)
        elif bound > best.bound:
            self.best = Incumbent(best.choice, best.cost, bound, best.found_by)


def search(
    distances: NDArray[Any], seconds: float, seed: int, allowed: NDArray[np.bool_] | None = None
) -> Incumbent | None:
    """Return a short tour within about `seconds`; None if forbidden steps leave no tour that could be found.

    A tenth of the time goes to kicks at assignment prices, up to half of the rest to proofs, and the rest to kicks.
    """
    deadline = time.perf_counter() + seconds
    whole = TourSearch(distances, seed, allowed)
    for part, share in ((whole.construct, 0.5), (whole.search, 0.1), (whole.prove, 0.5), (whole.search, 1.0)):
        part(Effort(share * max(0.0, deadline - time.perf_counter())))
    return whole.best
