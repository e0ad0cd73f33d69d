"""All of the classical search for one tour, in parts that can be taken in turn: construct, prove, search on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .run import Budget, Incumbent, InstanceSearch, run_all, searched
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


class TourSearch(InstanceSearch):
    """The search for one short tour; where forbidden steps leave none that could be found, it has no solution.

    Parameters
    ----------
    distances : (n, n) integers or reals; the diagonal is ignored.
    allowed : (n, n) bool, the steps that may be taken; None for all.
    seed, start, incumbent : as in `InstanceSearch`; a start is the successors of a tour.
    """

    def __init__(
        self,
        distances: NDArray[Any],
        seed: int,
        allowed: NDArray[np.bool_] | None = None,
        start: Indices | None = None,
        incumbent: Incumbent | None = None,
    ) -> None:
        super().__init__(distances, seed, start, incumbent)
        self.allowed = allowed
        self.relaxation: Relaxation | None = None
        self._searches: list[Kicks] = []
        self._tried = np.inf  # the length at which a proof was last tried

    def construct(self, budget: Budget) -> None:
        """Join the cycles of the cheapest assignment, go down to a local optimum, from the given start as well."""
        first = construct(self.matrix, self.allowed)
        if first is None:
            return
        self.costs, self.barrier = first.costs, first.barrier
        self.prices = first.prices
        self.offer(first.successor, "construction")
        self.incumbent.raise_bound(first.prices.bound)
        if self.start is not None:
            self.offer(self.start, "start")
        if not self.proven and len(self.costs) <= TINY:
            self._branch(budget)
        self.constructed = True
        if self.proven:
            return
        self.terrain: Terrain = survey(self.costs, first.prices)
        for tour, by in ((first.successor, "construction"), (self.start, "search")):
            if tour is not None:
                self.offer(improve(self.terrain, tour, seconds=budget.seconds), by)

    def prove(self, budget: Budget, brief: bool = False) -> None:
        """Raise the bound, shorten the tour and, where few enough steps are left, prove it.

        brief : only what takes little time even where nothing is compiled, which here is all of it.
        """
        if not self.unproven:
            return
        if self.relaxation is None:
            if TINY < len(self.costs) <= BRANCHED and self._branch(budget.share(0.3)):
                return
            self.relaxation = subtour_prices(
                self.costs, self.prices, self.choice, budget.share(0.7).left, rounds=np.inf if budget.timed else ROUNDS
            )
            self.incumbent.raise_bound(self.relaxation.prices.bound)
            self.terrain = survey(self.costs, self.relaxation.prices)
            self._searches = []
        if not self.proven and self.likely and (budget.timed or self._useful() <= FEWER_STEPS):
            self._tried = float(self.cost)
            nodes = None if budget.timed else NODES
            tour, proven = prove(self.costs, self.choice, self.relaxation, budget.left, nodes)
            self.offer(tour, "exact")
            if proven:
                self.incumbent.raise_bound(float(length(self.costs, tour)))

    @property
    def likely(self) -> bool:
        """Whether a proof is likely, and was not tried in vain yet: few steps could be part of a shorter tour."""
        if not self.unproven:
            return False
        if self.relaxation is None:
            return True
        if self.cost >= self._tried:
            return False
        return self._useful() <= STEPS * len(self.costs)

    def search(self, budget: Budget) -> None:
        """Kick and repair, from where it stopped the last time; one search goes on from the best tour so far."""
        if not self.unproven:
            return
        cost, until = float(self.cost), budget.deadline
        if len(self._searches) != budget.searches:
            self._searches = [self._kicks(number, until) for number in range(budget.searches)]
        elif self._searches[0].shortest > cost:
            self._searches[0] = self._kicks(self._searches[0].made, until)
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
        found = iterate(self.terrain, choice, budget, seed=self.seed + 1, target=self.bound)
        self.offer(found, found_by if (found == choice).all() else searched(found_by))

    def cost_of(self, choice: Indices) -> Any:
        """Return the length of a tour (n,); infinite where it takes a forbidden step."""
        if self.allowed is not None and not self.allowed[np.arange(len(choice)), choice].all():
            return np.inf
        return length(self.matrix, choice)

    def _useful(self) -> int:
        """Return how many steps could be part of a shorter tour."""
        assert self.relaxation is not None
        prices = self.relaxation.prices
        return int(np.count_nonzero(prices.excess <= float(self.cost) - prices.bound))

    def _branch(self, budget: Budget) -> bool:
        """Try branch and bound where every step is allowed; tell whether it was a proof."""
        if self.allowed is not None:
            return False
        branch(self.matrix, self.incumbent, BRANCHES, budget)
        return self.proven

    def _kicks(self, number: int, until: float) -> Kicks:
        return Kicks(self.terrain, self.choice, self.seed + 7919 * number, None, DEPTH, until)
