"""One search that has an answer at once, proves it where it can, and improves it while it may.

1. Construct and improve: assignments or linear programs, rounded, and local search.
2. Prove, where that is likely: tables, branch and bound, cutting planes, integer programs on the few best columns.
3. Then classical search and the network in turn. The network noises the best solutions known and denoises them; local
   search repairs what it proposes. With a time limit, the shares of time follow what has brought improvements
   (`shares`); without one, everything is counted instead of timed, so that a seed repeats itself: first all that the
   classical search alone would do, then the network. So it is never worse than its classical part.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from ..jit import plain, settle
from ..search.run import Budget, Incumbent, cores
from ..search.structures import compile_ahead, structure_of
from .beside import Loading, aside
from .request import Improvement, Request
from .results import Found
from .shares import Shares
from .verify import lower_bounds

if TYPE_CHECKING:
    from .chain import Chain
    from .diffusion import DiffusionSolver

WAIT, LONGEST_WAIT = 0.5, 1.0
"""Share of the time, and seconds, that the search waits at most for what is compiled already to be loaded."""
TINY, FEW = 1600, 8
"""Elements of a matrix, and instances, up to which a proof comes before any compiled search is loaded."""
STEPS = 20_000
"""Kicks, or exchanges, of each search where there is no time limit; a seventh of them before the first proof."""
SEARCHES = 2
"""Searches side by side where there is no time limit, whatever the number of cores: answers depend on it."""
PROPOSED_STEPS = 3_000
"""Kicks, or exchanges, from each proposal of the network there."""
PROPOSALS = 2
"""Turns of the network where there is no time limit; more if more rounds of refinement are asked for."""
OURS = "icdc."
"""Bounds that come with a structure are worked out anyway, and better; those of problems from elsewhere are not."""
CONSTRUCT, BRIEF = 0.7, 0.12
"""Parts of the time of an instance that its construction, and then a brief proof, may take at most."""
AHEAD, MOST_AHEAD = 30.0, 0.5
"""Fair shares of the time that a tiny instance of a batch may take, and the part of all that is left, at most."""
PROPOSE, REPAIR = 0.7, 0.3
"""Parts of a turn of the network for its proposals, and for the search that goes on from them."""
FIRST_SHARES = {"search": 0.6, "network": 0.25, "exact": 0.15}
SLOT, SHORTEST_SLOT, LONGEST_SLOT = 0.04, 0.03, 2.0
"""A turn in parts of the time limit, and its limits in seconds."""
PROOF, HOPEFUL = 4.0, 16.0
"""Turns that a try at a proof lasts, and one that will probably end: integer programs begin from nothing every time."""
MOST_PROOF, MOST_HOPEFUL = 0.5, 0.75
"""Parts of the time left that they last at most."""


class AnytimeSearch:
    """One search for all instances of a request whose problem promises a structure.

    Parameters
    ----------
    request : what is asked.
    network : makes the network's part, when it is needed; None for the classical part alone.
    """

    def __init__(self, request: Request, network: "Callable[[], DiffusionSolver] | None") -> None:
        self.request, self.make_network = request, network
        self.began = time.perf_counter()
        matrices = request.problem.cost_matrix(request.arrays)
        assert matrices is not None  # a problem that declares its structure has one
        assert request.problem.structure is not None
        self.matrices = matrices
        starts = [None] * request.count if request.start is None else list(request.start)
        self.structure, seed = structure_of(request.problem.structure), request.seed
        whole = bool(np.issubdtype(matrices.dtype, np.integer))
        self.incumbent = Incumbent(request.count, request.shape[0], whole)
        if request.bound is not None:
            self.incumbent.raise_bound(request.bound)
        if not type(request.problem).lower_bound.__module__.startswith(OURS):
            self.incumbent.raise_bound(lower_bounds(request.problem, request.arrays))
        self.searches = [
            self.structure.search(one, seed, start, self.incumbent.at(place))
            for place, (one, start) in enumerate(zip(matrices, starts, strict=True))
        ]
        self.chain: Chain | None = None
        self.model: str | None = None
        self.stopped = False

    @property
    def until(self) -> float:
        """When the time is over, by `time.perf_counter`; never without a limit."""
        limit = self.request.time_limit
        return np.inf if limit is None else self.began + limit

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self.until - time.perf_counter())

    def run(self) -> Found:
        """Search until everything is proven, the time is over, the steps are made, or somebody says stop."""
        interrupted = False
        try:
            self._begin()
            if self.request.time_limit is None:
                self._counted()
            else:
                self._timed()
        except KeyboardInterrupt:
            if not self.incumbent.solved.any():
                raise
            interrupted = True
        seconds = time.perf_counter() - self.began
        samples = None
        # without a network there are no samples, without a limit turns are counted, and whole
        if self.make_network is not None and (interrupted or self.request.time_limit is not None):
            samples = 0 if self.chain is None else self.chain.samples
        best = self.incumbent.copy()  # a proof that was left behind may still offer to it
        return Found(
            best.choice, seconds, best.bound, best.proven, self.model, interrupted, list(best.found_by), samples
        )

    def _begin(self) -> None:
        """Make a first answer for every instance, and prove the tiny ones at once."""
        timed, count = self.request.time_limit is not None, self.request.count
        tiny = self.matrices[0].size <= TINY
        # a few tiny ones are done before numba is imported; what is done is the same either way
        plainly = tiny and count <= FEW and "numba" not in sys.modules
        if not plainly and timed:
            compile_ahead(self.structure, self.searches[0], min(LONGEST_WAIT, WAIT * self.left))
        elif not plainly:
            settle()
        with plain() if plainly else nullcontext():
            self._each("construct", range(count), CONSTRUCT)
            if tiny:
                self._each("prove", self.incumbent.open(), BRIEF)
        if plainly and timed and self.incumbent.open():
            compile_ahead(self.structure, self.searches[0])

    def _each(self, part: str, places: Sequence[int], share: float) -> None:
        """Let the searches of some instances do a part, each within a share of the time that is left for it.

        Most tiny instances need less than their share and are done then, so that others may have more than theirs. What
        there is no time for gets the answer that its rule gives at once.
        """
        timed = self.request.time_limit is not None
        ahead = AHEAD if self.matrices[0].size <= TINY else 1.0
        for done, place in enumerate(places):
            if (timed and self.left <= 0) or self.stopped:
                self._answer_without_search([place for place in places[done:] if not self.incumbent.solved[place]])
                return
            seconds = share * min(ahead / (len(places) - done), max(MOST_AHEAD, 1 / (len(places) - done))) * self.left
            self._do(place, part, Budget(seconds if timed else None), brief=part == "prove")

    def _answer_without_search(self, places: list[int]) -> None:
        """Take the choices that the rule of the problem gives at once."""
        if places:
            costs = self.matrices[places]
            choice = self.structure.first_choice(costs)
            self.incumbent.offer(choice, self.structure.judge(costs, choice)[1], "construction", places)

    def _counted(self) -> None:
        """Do what can be counted: all of the classical search, then turns of the network, each searched on from."""
        for part, steps in (("search", STEPS // 7), ("prove", 0), ("search", STEPS), ("prove", 0)):
            for place in self.incumbent.open():
                if self.stopped:
                    return
                self._do(place, part, Budget(None, steps, SEARCHES))
        if self.make_network is None or not self.incumbent.open() or self.stopped:
            return
        network = self.make_network()
        for _ in range(max(PROPOSALS, 1 + network.refine)):
            if self.incumbent.open() and not self.stopped:
                self._propose(network, Budget(None, PROPOSED_STEPS))
        for place in self.incumbent.open():
            if not self.stopped:
                self._do(place, "prove", Budget(None, 0, SEARCHES))

    def _timed(self) -> None:
        """Take turns until the time is over."""
        limit = self.request.time_limit or 0.0
        shares = Shares(FIRST_SHARES)
        network = Loading(self.make_network, self.request) if self.make_network is not None else None
        slot = min(LONGEST_SLOT, max(SHORTEST_SLOT, SLOT * limit))
        while self.left > 0 and not self.stopped and (open_places := self.incumbent.open()):
            ready = ["search"]
            if any(self.searches[place].likely for place in open_places):
                ready.append("exact")
            if network is not None and network.ready(self.left):
                ready.append("network")
            way, before, began = shares.next(ready), self.incumbent.cost, time.perf_counter()
            if way == "network":
                assert network is not None
                self._propose(network.solver(), Budget(min(slot, self.left)))
            elif way == "exact":
                places = [place for place in open_places if self.searches[place].likely]
                hopeful = sum(self.searches[place].hopeful for place in places)
                self._in_time(places, "prove", proof_seconds(hopeful, len(places) - hopeful, slot, self.left))
            else:
                self._in_time(open_places, "search", min(slot, self.left))
            with np.errstate(invalid="ignore"):
                gain = np.nansum((before - self.incumbent.cost) / np.maximum(np.abs(before), 1e-300))
            shares.report(way, time.perf_counter() - began, float(gain), ready)

    def _in_time(self, places: list[int], part: str, seconds: float) -> None:
        """Give some instances equal shares of some seconds, one after the other."""
        until = min(self.until, time.perf_counter() + seconds)
        for done, place in enumerate(places):
            left = until - time.perf_counter()
            if left <= 0 or self.stopped:
                return
            self._do(place, part, Budget(left / (len(places) - done), searches=cores()))

    def _do(self, place: int, part: str, budget: Budget, brief: bool = False) -> None:
        """Let the search of an instance do a part, and report what it found."""
        search, before = self.searches[place], self.incumbent.exact_cost[place]
        work: Callable[[Budget], None] = getattr(search, part)
        if brief:
            search.prove(budget, brief=True)
        elif part == "prove":
            aside(lambda: work(budget), self.until)
        else:
            work(budget)
        self._report(place, before)

    def _propose(self, network: "DiffusionSolver", budget: Budget) -> None:
        """Let the network propose solutions of the open instances, and search on from each."""
        best, places = self.incumbent, np.array(self.incumbent.open())
        if self.chain is None or not 2 * len(places) > len(self.chain.places):
            from .chain import Chain

            self.chain = Chain(network, self.request, places, self.chain)
            self.model = self.chain.model.name
        mine = self.chain.places
        seconds = budget.seconds
        choice, cost = self.chain.turn(
            best.choice[mine], best.cost[mine], best.bound[mine], None if seconds is None else PROPOSE * seconds
        )
        still = [(place, one) for place, one, value in zip(mine, choice, cost, strict=True) if np.isfinite(value)]
        for place, proposal in still:
            before, share = best.exact_cost[place], REPAIR / len(still)
            repair = Budget(None if seconds is None else share * seconds, round(share * budget.steps))
            self.searches[place].search_from(proposal, self.chain.found_by, repair)
            self._report(place, before)

    def _report(self, place: int, before: float) -> None:
        """Tell the callback if the solution of an instance is better than `before`."""
        best = self.incumbent
        if best.exact_cost[place] < before:
            seconds = time.perf_counter() - self.began
            improvement = Improvement(seconds, best.cost, best.choice.copy(), best.bound.copy(), list(best.found_by))
            self.stopped |= self.request.tell(improvement) and bool(best.solved.all())


def proof_seconds(hopeful: int, others: int, slot: float, left: float) -> float:
    """Return how long tries at proofs last: of instances whose proofs will probably end, and of others.

    slot, left : seconds of a turn, and of all that is left.
    """
    turns = HOPEFUL * hopeful + PROOF * others
    most = MOST_PROOF if others else MOST_HOPEFUL
    return min(turns * slot, most * left)
