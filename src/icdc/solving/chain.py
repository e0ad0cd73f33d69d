"""The network's part of a search: proposals for the instances that are still open, made from what is known so far."""

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..jit import fast_here, in_background
from ..problems.decoding import Order, decode, fixed_noise, random_choice
from ..problems.features import best_candidates
from ..problems.tensors import to_tensors
from .diffusion_search import DiffusionSearch, Part, found_by
from .fitting import default_chunk
from .request import Request

if TYPE_CHECKING:
    from .diffusion import DiffusionSolver


IMPROVE_ROUNDS: dict[str | None, int] = {"makespan": 40, "tour": 20}
"""Changes by local search to the best decode of every pass, unless somebody says otherwise."""
TRIAL = 8
"""Items of each kind in the tiny instance that all of it is compiled with."""


def improves_fast(device: torch.device) -> bool:
    """Tell whether local search inside a chain is fast on a device: by kernels on a GPU, else compiled."""
    return device.type == "cuda" or fast_here()


def compile_chain(request: Request) -> threading.Thread:
    """Have what a chain does besides the network's passes compiled for a CPU: decoding, merging, local search.

    Searches go on meanwhile. Return the thread that does it.
    """
    problem, structure = request.problem, request.problem.structure
    rng, size = np.random.default_rng(0), tuple(min(count, TRIAL) for count in request.size)
    arrays = {name: array.astype(request.arrays[name].dtype) for name, array in problem.sample(1, size, rng).items()}
    instances = to_tensors(arrays)
    kinds = tuple(str(tensor.dtype) for tensor in instances.values())
    orders: tuple[Order, ...] = ("rule", "confidence")

    def work() -> None:
        # decodes of no knowledge, over all columns and along candidates, are what the others begin with
        trial = random_choice(problem.rule, problem.shape(size), fixed_noise(1, 2, torch.device("cpu")), None)
        rows, columns = problem.shape(size)
        some = best_candidates(torch.ones(1, rows, columns), columns)
        for order in orders:
            decode(problem.rule, torch.zeros(1, rows, columns), order=order, candidates=some)
        problem.merge(instances, trial[None, :1], trial[None, None, 1:])
        problem.improve(instances, trial[None], 2)

    return in_background(("chain", structure, kinds), work)


class Chain:
    """Trajectories of a diffusion model for some instances, turn after turn.

    A turn noises the best solutions known and denoises them. On a GPU, where they cost little, the first turn runs
    whole trajectories from noise, on any device every fourth turn of those with a time limit does.

    Parameters
    ----------
    solver : the model, and how its trajectories run.
    request : all instances.
    places : (open,) which of them are still open.
    before : the chain that ran for more of them, whose turns are counted on.
    """

    def __init__(
        self, solver: "DiffusionSolver", request: Request, places: NDArray[np.int64], before: "Chain | None" = None
    ) -> None:
        model = solver.model_for(request.problem, request.size)
        options = solver.options_for(model, request.size, request.samples)
        if solver.sampling is None and "improve_rounds" not in solver.changes and improves_fast(model.device):
            # whole trajectories begin with noise: the search beside this chain has begun with its starts already
            rounds = IMPROVE_ROUNDS.get(request.problem.structure, 0)
            usual: dict[str, Any] = {"improve_rounds": rounds, "begin": "noise"}
            changes = {k: v for k, v in (usual | model.improvement(request.size)).items() if k not in solver.changes}
            options = replace(solver.options_for(model, request.size, request.samples, with_search=True), **changes)
        arrays = {name: array[places] for name, array in request.arrays.items()}
        mine = Request(request.problem, arrays, request.samples, request.seed)
        chunk = solver.chunk or default_chunk(model, request.shape, options.decodes)
        self.places, self.model, self.found_by = places, model, found_by(options)
        self._search = DiffusionSearch(mine, model, options, solver.refine, solver.refine_steps, chunk)
        self._parts: list[Part] = []
        self.samples: int = 0 if before is None else before.samples
        """The most trajectories that an instance got in one turn; a limit may leave fewer than were asked for."""
        self._turns: int = before._turns if before is not None else 0 if model.device.type == "cuda" else 1

    def turn(
        self, choice: NDArray[np.int64], cost: NDArray[np.float64], bound: NDArray[np.float64], seconds: float | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the best solution that this turn proposes for each instance, and its cost; infinite where it has none.

        choice, cost, bound : (open, rows) and (open,) what is known about them.
        seconds : how long the turn may take; without it every instance gets all its samples.
        """
        search = self._search
        search.choice, search.cost, search.bound = choice.copy(), cost.copy(), bound
        search.proposal_cost = np.full(len(cost), np.inf)
        until = None if seconds is None else time.perf_counter() + seconds
        with torch.inference_mode():
            for number, (span, spans_left) in enumerate(search.spans()):
                if number == len(self._parts):
                    self._parts.append(search.encoded(span))
                    self._parts[-1].turns = self._turns
                now = time.perf_counter()
                if until is not None and number and now >= until:
                    break
                made = search.turn(self._parts[number], None if until is None else now + (until - now) / spans_left)
                self.samples = max(self.samples, made)
        self._turns += 1
        return search.proposal.copy(), search.proposal_cost.copy()
