"""The default solver: classical search, exact methods and a network together, where they can help.

It has an answer at once, proves it where it can, and improves it while it may.

1. Construct and improve: assignments or linear programs, rounded, and local search.
2. Prove, where that is likely: tables, branch and bound, cutting planes, integer programs on the few best columns.
3. Then classical search and the network in turn. The network noises the best solutions so far and denoises them; local
   search repairs what it proposes. With a time limit, the shares of time follow what has brought improvements
   (`Shares`); without one, everything is counted instead of timed, so that a seed repeats itself: first all that the
   classical search alone would do, then the network. So it is never worse than its classical part.

A problem without a `structure` is left to the network alone. Without a model, or where instances are so large that a
network cannot help in time, there is the classical part alone, and torch is not even imported.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..jit import BACKGROUND, plain, settle
from ..machine import may_have_gpu
from ..problems.base import Arrays, Problem, Size
from ..search.run import Budget, cores
from ..search.structures import compile_ahead, structure_of
from .answer import lower_bounds
from .solver import Abilities, Request, Solver

if TYPE_CHECKING:
    from .network import Chain, DiffusionSolver

CPU_PAIRS, GPU_PAIRS = 40_000, 400_000
"""Elements of a matrix up to which a network can help in reasonable time, on a CPU and on a GPU."""
LARGEST_BATCH = 256
TOGETHER_PAIRS = 2_000_000
"""Instances solved in one call, and elements of all their matrices, at most."""
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
IMPORTING, QUICK = 3.0, 0.2
"""Seconds that must be left for a network to be worth loading where torch is not imported yet, and where it is."""
FADE = 0.8
"""What a turn still counts when the same method has had another one."""
LEAST = 0.05
"""The share that every method keeps, so that one that was unlucky, or is good only later, is not forgotten."""


class AnytimeSolver(Solver):
    """Solves instances by classical search, exact methods and a network together.

    Parameters
    ----------
    model : a model, the name of a shipped one, a file's path, or None for the shipped one that knows the nearest size.
    options : those of the network alone (`DiffusionSolver`), such as steps=10 or device="cpu".
    """

    name: ClassVar[str] = "icdc"
    abilities: ClassVar[Abilities] = Abilities(samples=True, device=True, bound=True, trace=True)
    default_samples: ClassVar[int] = 8
    quick_options: ClassVar[Mapping[str, Any]] = {"device": str}

    def __init__(self, model: Any = None, **options: Any) -> None:
        self.model, self.network_options = model, options
        self.device = options.get("device", "auto")
        if options.keys() - self.quick_options.keys():
            self.network()  # refuses values that make no sense now, not with the first instance

    def network(self) -> "DiffusionSolver":
        """Return the network's part as a solver of its own; this imports torch."""
        from .network import DiffusionSolver

        return DiffusionSolver(self.model, **self.network_options)

    def refusal(self, problem: Problem) -> str | None:
        if self.model is None and problem.structure is not None:
            return None
        return self.network().refusal(problem)

    def search(self, request: Request) -> None:
        if request.problem.structure is None or self.network_options.get("trace") is not None:
            if request.bound is None:
                request.bound = lower_bounds(request.problem, request.arrays)
                request.result.raise_bound(request.bound)
            self.network().search(request)
        else:
            network = self.network if self.network_helps(request.problem, request.shape) else None
            AnytimeSearch(request, network).run()

    def network_helps(self, problem: Problem, shape: tuple[int, int]) -> bool:
        """Tell whether there is a model for a problem, and time to run it on matrices of a shape."""
        pairs = shape[0] * shape[1]
        if pairs > GPU_PAIRS:
            return False
        if self.model is None:
            from ..models.catalogue import reason_without_model

            if reason_without_model(problem, "diffusion", None) is not None:
                return False
        if pairs <= CPU_PAIRS:
            return True
        if self.device == "cpu" or not may_have_gpu():
            return False  # known without importing torch
        from ..models.file import pick_device

        return pick_device(self.device).type == "cuda"

    def prepare(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        self._refuse(problem)
        if problem.structure is not None:
            if (wanted := device or self.device) not in ("auto", "cpu"):
                from ..models.file import pick_device

                pick_device(wanted)  # one that is not there is said now, though it may never be needed
            return self  # weights are read when they are needed
        return type(self)(self.network().prepare(problem, size, device).model, **self.network_options)

    def batch_size(self, problem: Problem, size: Size, samples: int, device: str | None = None) -> int:
        if problem.structure is None:
            return self.network().batch_size(problem, size, samples, device)
        rows, columns = problem.shape(size)
        return max(1, min(LARGEST_BATCH, TOGETHER_PAIRS // (rows * columns)))

    def unfamiliar(self, problem: Problem, arrays: Arrays) -> list[str | None]:
        """Say what is new to the model, where everything depends on it; classical search knows all instances."""
        if problem.structure is not None:
            return [None] * len(next(iter(arrays.values())))
        return self.network().unfamiliar(problem, arrays)

    @property
    def model_name(self) -> str | None:
        """The name of the model it was given; which one it chose, and whether it used any, stands in answers."""
        name = getattr(self.model, "name", self.model)
        return None if name is None else str(name)

    @classmethod
    def options(cls) -> dict[str, Any]:
        from .network import DiffusionSolver

        return DiffusionSolver.options()


class AnytimeSearch:
    """One search for all instances of a request whose problem promises a structure.

    Parameters
    ----------
    request : takes the solutions.
    network : makes the network's part, when it is needed; None for the classical part alone.
    """

    def __init__(self, request: Request, network: "Callable[[], DiffusionSolver] | None") -> None:
        assert request.costs is not None  # a problem that declares its structure has a matrix
        assert request.problem.structure is not None
        self.request, self.make_network = request, network
        self.best, self.budget, self.timed = request.result, request.budget, request.budget.timed
        self.structure, matrices = structure_of(request.problem.structure), request.costs
        starts = [None] * request.count if request.start is None else list(request.start)
        self.searches = [
            self.structure.search(matrix, request.seed, start, self.best.at(place))
            for place, (matrix, start) in enumerate(zip(matrices, starts, strict=True))
        ]
        self.tiny = matrices[0].size <= TINY
        if not type(request.problem).lower_bound.__module__.startswith(OURS):
            self.best.raise_bound(lower_bounds(request.problem, request.arrays))
        self.chain: Chain | None = None

    def run(self) -> None:
        """Search until everything is proven, the time is over, the effort is spent, or a callback ends it."""
        interrupted = True
        try:
            self._begin()
            if self.timed:
                self._take_turns()
            else:
                self._count()
            interrupted = False
        finally:
            # without a network there are no samples, without a limit turns are counted, and whole
            if self.make_network is not None and (interrupted or self.timed):
                self.best.samples = 0 if self.chain is None else self.chain.samples

    def _begin(self) -> None:
        """Make a first answer for every instance, and prove the tiny ones at once."""
        # a few tiny ones are done before numba is imported; what is done is the same either way
        plainly = self.tiny and self.request.count <= FEW and "numba" not in sys.modules
        if not plainly and self.timed:
            compile_ahead(self.structure, self.searches[0], min(LONGEST_WAIT, WAIT * self.budget.left))
        elif not plainly:
            settle()
        with plain() if plainly else nullcontext():
            self._each("construct", range(self.request.count), CONSTRUCT)
            if self.tiny:
                self._each("prove", self.best.open(), BRIEF)
        if plainly and self.timed and self.best.open():
            compile_ahead(self.structure, self.searches[0])

    def _each(self, part: str, places: Sequence[int], share: float) -> None:
        """Let the searches of some instances do a part, each within a share of the time that is left for it.

        Tiny instances rarely use up their share, so each may take more than it. Instances without time left get the
        answer that their rule gives at once.
        """
        ahead = AHEAD if self.tiny else 1.0
        for done, place in enumerate(places):
            left = len(places) - done
            if self.budget.over or self.request.stopped():
                self.request.answer_at_once()
                return
            seconds = share * min(ahead / left, max(MOST_AHEAD, 1 / left)) * self.budget.left if self.timed else None
            self._do(place, part, Budget(seconds), brief=part == "prove")

    def _count(self) -> None:
        """Do what can be counted: all of the classical search, then turns of the network, each searched on from."""
        for part, steps in (("search", STEPS // 7), ("prove", 0), ("search", STEPS), ("prove", 0)):
            self._all(part, Budget(None, steps, SEARCHES))
        if self.make_network is None or not self.best.open() or self.request.stopped():
            return
        network = self.make_network()
        for _ in range(max(PROPOSALS, 1 + network.refine)):
            if self.best.open() and not self.request.stopped():
                self._propose(network, Budget(None, PROPOSED_STEPS))
        self._all("prove", Budget(None, 0, SEARCHES))

    def _all(self, part: str, budget: Budget) -> None:
        """Let the searches of all open instances do a part."""
        for place in self.best.open():
            if not self.request.stopped():
                self._do(place, part, budget)

    def _take_turns(self) -> None:
        """Let methods take turns until the time is over."""
        shares = Shares(FIRST_SHARES)
        network = None if self.make_network is None else Loading(self.make_network, self.request)
        slot = min(LONGEST_SLOT, max(SHORTEST_SLOT, SLOT * (self.request.time_limit or 0.0)))
        while not (self.budget.over or self.request.stopped()) and (places := self.best.open()):
            likely = [place for place in places if self.searches[place].likely]
            ready = ["search", *(["exact"] if likely else [])]
            if network is not None and network.ready(self.budget.left):
                ready.append("network")
            method, before, began = shares.next(ready), self.best.cost, time.perf_counter()
            if method == "network":
                assert network is not None
                self._propose(network.solver(), Budget(min(slot, self.budget.left)))
            elif method == "exact":
                hopeful = sum(self.searches[place].hopeful for place in likely)
                seconds = proof_seconds(hopeful, len(likely) - hopeful, slot, self.budget.left)
                self._in_time(likely, "prove", seconds)
            else:
                self._in_time(places, "search", min(slot, self.budget.left))
            with np.errstate(invalid="ignore"):
                gain = np.nansum((before - self.best.cost) / np.maximum(np.abs(before), 1e-300))
            shares.report(method, time.perf_counter() - began, float(gain), ready)

    def _in_time(self, places: list[int], part: str, seconds: float) -> None:
        """Give some instances equal shares of some seconds, one after the other."""
        until = min(self.budget.deadline, time.perf_counter() + seconds)
        for done, place in enumerate(places):
            left = until - time.perf_counter()
            if left <= 0 or self.request.stopped():
                return
            self._do(place, part, Budget(left / (len(places) - done), searches=cores()))

    def _do(self, place: int, part: str, budget: Budget, brief: bool = False) -> None:
        """Let the search of an instance do a part, and report what it found."""
        search, before = self.searches[place], self.best.exact_cost[place]
        work: Callable[[Budget], None] = getattr(search, part)
        if brief:
            search.prove(budget, brief=True)
        elif part == "prove":
            in_thread(lambda: work(budget), self.budget.deadline)
        else:
            work(budget)
        self._report(place, before)

    def _propose(self, network: "DiffusionSolver", budget: Budget) -> None:
        """Let the network propose solutions of the open instances, and search on from each."""
        places = np.array(self.best.open())
        if self.chain is None or not 2 * len(places) > len(self.chain.places):
            from .network import Chain

            self.chain = Chain(network, self.request, places, self.chain)
            self.best.model = self.chain.model.name
        seconds = budget.seconds
        proposed = self.chain.turn(self.best, budget.share(PROPOSE))
        made = np.flatnonzero(proposed.solved)
        for number in made:
            place, share = self.chain.places[number], REPAIR / len(made)
            before = self.best.exact_cost[place]
            repair = Budget(None if seconds is None else share * seconds, round(share * budget.steps))
            self.searches[place].search_from(proposed.choice[number], proposed.found_by[number], repair)
            self._report(place, before)

    def _report(self, place: int, before: float) -> None:
        """Tell the callback if the solution of an instance is better than `before`."""
        if self.best.exact_cost[place] < before:
            self.request.report()


def proof_seconds(hopeful: int, others: int, slot: float, left: float) -> float:
    """Return how long tries at proofs last: of instances whose proofs will probably end, and of others.

    slot, left : seconds of a turn, and of all that is left.
    """
    turns = HOPEFUL * hopeful + PROOF * others
    most = MOST_PROOF if others else MOST_HOPEFUL
    return min(turns * slot, most * left)


class Shares:
    """Shares of time among methods: what has brought improvements gets more of it.

    Every method has a rate, what it improved per second, recent turns counting more; its share of the time is its part
    of all rates, and at least `LEAST`. During a turn every method that is ready is credited with its share of the time,
    and the one that had the turn is charged all of it; the one with the most credit has the next turn. Before anything
    is known, shares are the given ones. Nothing is random.

    Parameters
    ----------
    first : the shares to begin with, by name.
    """

    def __init__(self, first: dict[str, float]) -> None:
        self.first = first
        self.credit = dict.fromkeys(first, 0.0)
        self._gains = dict.fromkeys(first, 0.0)
        self._spent = dict.fromkeys(first, 0.0)

    def next(self, ready: list[str]) -> str:
        """Return the method that has the next turn, among those that are ready."""
        shares = self.shares(ready)
        return max(ready, key=lambda name: (self.credit[name], shares[name]))

    def shares(self, ready: list[str]) -> dict[str, float]:
        """Return the part of the time that each of some methods is to have."""
        rates = {name: self._gains[name] / self._spent[name] if self._spent[name] else 0.0 for name in ready}
        total = sum(rates.values())
        if total <= 0:
            rates = {name: self.first[name] for name in ready}
            total = sum(rates.values())
        free = 1.0 - LEAST * len(ready)
        return {name: LEAST + free * rate / total for name, rate in rates.items()}

    def report(self, name: str, seconds: float, gain: float, ready: list[str]) -> None:
        """Count a turn of some seconds, in which costs fell by a fraction, of one of the methods that were ready."""
        for other, share in self.shares(ready).items():
            self.credit[other] += share * seconds
        self.credit[name] -= seconds
        self._gains[name] = FADE * self._gains[name] + gain
        self._spent[name] = FADE * self._spent[name] + seconds


def in_thread(work: Callable[[], None], until: float) -> None:
    """Run what cannot be interrupted, such as an integer program, in a thread, so that Ctrl-C works at once.

    It is not waited for longer than `until` (by `time.perf_counter`): integer programs may be seconds late. The thread
    then still goes on to its own end, and what it finds is lost.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised again in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, name=f"{BACKGROUND}proof")
    thread.start()
    while thread.is_alive() and time.perf_counter() < until:
        thread.join(min(0.1, max(0.001, until - time.perf_counter())))
    for error in errors:
        raise error


class Loading:
    """The network's part, loaded in a thread of its own while the search goes on."""

    def __init__(self, make: "Callable[[], DiffusionSolver]", request: Request) -> None:
        self._make, self._request = make, request
        self._thread: threading.Thread | None = None
        self._loaded: DiffusionSolver | None = None
        self._error: Exception | None = None

    def ready(self, left: float) -> bool:
        """Tell whether the network can have a turn; begin to load it if enough time is left."""
        if self._error is not None:
            raise self._error
        if self._thread is None and left > (QUICK if "torch" in sys.modules else IMPORTING):
            self._thread = threading.Thread(target=self._load, name=f"{BACKGROUND}network")
            self._thread.start()
        return self._loaded is not None and left > QUICK

    def solver(self) -> "DiffusionSolver":
        """Return it, once it is ready."""
        assert self._loaded is not None
        return self._loaded

    def _load(self) -> None:
        try:
            solver = self._make()
            model = solver.model_for(self._request.problem, self._request.size)
            if model.device.type == "cpu":
                from .network import compile_chain

                compile_chain(self._request).join()
            self._loaded = solver
        except Exception as error:  # raised in the main thread
            self._error = error
