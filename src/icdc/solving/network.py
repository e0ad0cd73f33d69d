"""The network as a solver: a diffusion model, chosen for the instances, and how its trajectories run.

`DiffusionSolver` is the network alone; `Chain` is its part of the default solver's search.
"""

import threading
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray

from ..diffusion.sampler import SamplingOptions
from ..errors import UsageError
from ..jit import fast_here, in_background
from ..models.catalogue import default_for, reason_without_model
from ..models.diffusion import Model, shared
from ..models.file import pick_device
from ..problems import problem_path
from ..problems.base import Arrays, Problem, Size
from ..problems.decoding import Order, decode, fixed_noise, random_choice
from ..problems.features import best_candidates
from ..problems.rules import HamiltonianCycle
from ..problems.tensors import to_tensors
from ..search.run import Budget, Incumbent
from .solver import Abilities, Request, Solver
from .trajectories import DiffusionSearch, Part, Trace

LARGEST_BATCH = 256
"""Instances solved in one call, at most, however small they are."""
LARGE = 300**2
"""Entries of a matrix from which on a pass over it on a CPU may take seconds."""
IMPROVE_BEST = 64
"""Decodes of every pass that local search improves where it is asked for: many good ones end in different optima."""
IMPROVE_ROUNDS = {"makespan": 40, "tour": 20}
"""Changes by local search to the best decode of every pass, by default."""
TRIAL = 8
"""Items of each kind in the tiny instance that all of it is compiled with."""
CPU_CHUNK_BYTES = 4 * 2**20
"""Edge states that run together on one core, as float32: with many more, inference waits for memory."""
GPU_CHUNK_BYTES = 2**30
CPU_DECODES_BYTES = 8 * 2**20
"""Scores that are decoded together on one core, as float32."""
GPU_DECODES_BYTES = 2**31
"""Choices that are decoded together on a GPU, as int64: its kernels keep the scores to themselves."""

TRIAL_ENTRIES = 100**2
"""Entries of the matrix by which the time of a larger one is foreseen."""


@dataclass(init=False)
class DiffusionSolver(Solver):
    """Solves instances with a trained diffusion model.

    Parameters
    ----------
    model : a model, the name of a shipped one, a file's path, or None for the shipped one that knows the nearest size.
    sampling : how trajectories run, to the last detail; None leaves it to the model's card, which knows what was best
        on validation data for a number of samples.
    refine : rounds of refinement after sampling; with a time limit there are as many as fit.
    refine_steps : network passes of a refinement.
    device : "auto", "cpu" or "cuda".
    chunk : trajectories that run together; None for as many as suit the device.
    trace : sees every reverse step of the first trajectories, for example to animate them.
    changes : fields of `SamplingOptions` to change, such as steps=10, whatever the card advises.
    """

    name: ClassVar[str] = "network"
    abilities: ClassVar[Abilities] = Abilities(samples=True, device=True, trace=True)
    default_samples: ClassVar[int] = 32

    model: Model | str | None
    sampling: SamplingOptions | None
    refine: int
    refine_steps: int
    device: str
    chunk: int | None
    trace: Trace | None

    def __init__(
        self,
        model: Model | str | None = None,
        *,
        sampling: SamplingOptions | None = None,
        refine: int = 0,
        refine_steps: int = 3,
        device: str = "auto",
        chunk: int | None = None,
        trace: Trace | None = None,
        **changes: Any,
    ) -> None:
        self.model, self.sampling, self.changes = model, sampling, changes
        self.refine, self.refine_steps = refine, refine_steps
        self.device, self.chunk, self.trace = device, chunk, trace
        replace(sampling or SamplingOptions(), **changes)  # refuses values that make no sense
        if refine < 0 or refine_steps < 1:
            raise UsageError("refine must not be negative, and a refinement needs at least one step")
        if chunk is not None and chunk < 1:
            raise UsageError(f"a chunk needs at least one trajectory, got {chunk}")

    def refusal(self, problem: Problem) -> str | None:
        if isinstance(self.model, Model):
            if type(self.model.problem) is type(problem):
                return None
            return f"the model '{self.model.name}' is for {self.model.problem.name}, not for {problem.name}"
        return reason_without_model(problem, Model.kind, self.model)

    def search(self, request: Request) -> None:
        model = self.model_for(request.problem, request.size)
        options = self.options_for(model, request.size, request.samples)
        chunk = self.chunk or default_chunk(model, request.shape, options.decodes)
        request.result.model = model.name
        if request.time_limit is not None:
            self._refuse_what_takes_longer(request, model, options, request.time_limit)
            if model.device.type == "cpu" and request.problem.structure is not None:
                compile_chain(request)  # in the background: plain operations do the same meanwhile
        request.start_clock()
        DiffusionSearch(request, model, options, self.refine, self.refine_steps, chunk, self.trace).run()

    def _refuse_what_takes_longer(self, request: Request, model: Model, options: SamplingOptions, limit: float) -> None:
        """Say beforehand where a single pass of the network over a large matrix does not fit into the time limit."""
        rows, columns = request.shape
        if model.device.type != "cpu" or rows * columns < LARGE:
            return
        seconds = seconds_of_a_pass(request, model, options)
        if seconds > limit + 1:
            raise UsageError(
                f"the solver '{self.name}' needs {seconds:.2g} s and more for one pass over a matrix of {rows} × "
                f"{columns} here, and has {limit:.2g} s; give it more time, or try 'icdc'"
            )

    def prepare(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        if self.model is not None:
            self._refuse(problem)
        return self.with_model(self.model_for(problem, size, device))

    def batch_size(self, problem: Problem, size: Size, samples: int, device: str | None = None) -> int:
        model = self.model_for(problem, size)
        chunk = default_chunk(model, problem.shape(size), self.options_for(model, size, samples).decodes, device)
        return min(LARGEST_BATCH, max(1, chunk // samples))

    def unfamiliar(self, problem: Problem, arrays: Arrays) -> list[str | None]:
        size = problem.size(arrays)
        model = self.model_for(problem, size)
        return model.unfamiliar(arrays, with_search=self.options_for(model, size, 1).improve_rounds > 0)

    def options_for(self, model: Model, size: Size, samples: int, with_search: bool = False) -> SamplingOptions:
        """Return how trajectories run: as asked for, else as the model's card advises for a number of samples.

        with_search : there will be local search inside the chain, although it was not asked for.
        """
        if self.sampling is not None:
            return replace(self.sampling, **self.changes)
        changes: dict[str, Any] = {"improve_best": IMPROVE_BEST, **self.changes}
        with_search = with_search or changes.get("improve_rounds", 0) > 0
        keeps_best = changes.get("keep") != "last"
        merging = keeps_best and changes.get("merge") != 0
        advised = model.sampling_options(size, samples, with_search, merging)
        if not keeps_best and advised.reverse == "best":
            advised = replace(advised, reverse="fresh")  # that advice is for keeping the best
        return replace(advised, **changes)

    def model_for(self, problem: Problem, size: Size, device: str | None = None) -> Model:
        """Return the model for instances of a size, on its device or another; weights are read only once."""
        wanted = pick_device(device or self.device)
        if isinstance(self.model, Model):
            return self.model if self.model.device.type == wanted.type else self.model.to(wanted)
        return shared(self.model or default_for(problem_path(problem), size), wanted, problem)

    @property
    def model_name(self) -> str | None:
        return self.model.name if isinstance(self.model, Model) else self.model

    @classmethod
    def options(cls) -> dict[str, Any]:
        own, sampling = get_type_hints(cls), get_type_hints(SamplingOptions)
        other = {
            name: own[name] for name in ("model", "refine", "refine_steps", "device", "chunk", "sampling", "trace")
        }
        return {**other, **{option.name: sampling[option.name] for option in fields(SamplingOptions)}}

    def with_model(self, model: Model) -> Self:
        """Return this solver with another model."""
        other = copy(self)
        other.model = model
        return other


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
    """Trajectories of a diffusion model for some instances, turn after turn, as one part of a search.

    A turn noises the best solutions so far and denoises them. On a GPU, where they cost little, the first turn runs
    whole trajectories from noise, on any device every fourth turn of those with a time limit does.

    Parameters
    ----------
    solver : the model, and how its trajectories run.
    request : all instances.
    places : (open,) which of them are still open.
    before : the chain that ran for more of them, whose turns are counted on.

    Attributes
    ----------
    samples : the most trajectories that an instance got in one turn; a limit may leave fewer than were asked for.
    """

    def __init__(
        self, solver: DiffusionSolver, request: Request, places: NDArray[np.int64], before: "Chain | None" = None
    ) -> None:
        model = solver.model_for(request.problem, request.size)
        options = solver.options_for(model, request.size, request.samples)
        if solver.sampling is None and "improve_rounds" not in solver.changes and improves_fast(model.device):
            # whole trajectories begin with noise: the search beside this chain has begun with its starts already
            rounds = IMPROVE_ROUNDS.get(request.problem.structure or "", 0)
            usual: dict[str, Any] = {"improve_rounds": rounds, "begin": "noise"}
            changes = {k: v for k, v in (usual | model.improvement(request.size)).items() if k not in solver.changes}
            options = replace(solver.options_for(model, request.size, request.samples, with_search=True), **changes)
        mine = Request(request.problem, request.part(places), request.samples, request.seed)
        chunk = solver.chunk or default_chunk(model, request.shape, options.decodes)
        self.places, self.model = places, model
        self._search = DiffusionSearch(mine, model, options, solver.refine, solver.refine_steps, chunk)
        self._parts: list[Part] = []
        self.samples: int = 0 if before is None else before.samples
        self._turns: int = before._turns if before is not None else 0 if model.device.type == "cuda" else 1

    def turn(self, best: Incumbent, budget: Budget) -> Incumbent:
        """Return the best solution that this turn proposes for each of its instances, however good others are.

        best : the best solutions of all instances of the request so far; those of its own are noised.
        budget : what the turn may take; without a limit of time every instance gets all its samples.
        """
        search = self._search
        search.request.result.take(best, self.places)
        search.proposed = Incumbent(len(self.places), search.request.shape[0], best.whole)
        with torch.inference_mode():
            for number, (span, spans_left) in enumerate(search.spans()):
                if number == len(self._parts):
                    self._parts.append(search.encoded(span))
                    self._parts[-1].turns = self._turns
                if number and budget.over:
                    break
                made = search.turn(self._parts[number], budget.share(1 / spans_left))
                self.samples = max(self.samples, made)
        self._turns += 1
        return search.proposed


def default_chunk(model: Model, shape: tuple[int, int], decodes: int = 1, device: str | None = None) -> int:
    """Return how many trajectories run together on a kind of device (its own).

    For matrices of a shape, so many solutions decoded from each; both take memory.
    """
    network, (rows, columns) = model.config.network, shape
    width = network.edge_width if network.denoiser == "edge" else network.width
    kept = columns
    if model.priced and (candidates := network.candidates_of(rows, columns)):
        # every edge has the key and the value of its column beside it, and is sorted in every decode
        kept, width = candidates, width + 2 * network.width
    if (device or model.device.type) == "cuda":
        each = 8 if kept == columns else 8 * columns  # scores of candidates are spread over all columns
        if kept < columns and isinstance(model.problem.rule, HamiltonianCycle):
            each = 32 * kept  # unless tours are made along candidates: scores, sorted, and what they are scores of
        state, decoded = rows * kept * width * 2, rows * decodes * each
        return max(1, min(GPU_CHUNK_BYTES // state, GPU_DECODES_BYTES // decoded))
    state, decoded = rows * kept * width * 4, rows * columns * decodes * 4
    return max(1, min(CPU_CHUNK_BYTES // state, CPU_DECODES_BYTES // decoded))


def seconds_of_a_pass(request: Request, model: Model, options: SamplingOptions) -> float:
    """Return how long a step of one trajectory takes at least, by one of a smaller instance drawn at random."""
    problem, (rows, columns) = request.problem, request.shape
    part = (TRIAL_ENTRIES / (rows * columns)) ** 0.5
    least = 2
    if model.candidates_of(request.size):  # the smaller one is to be looked at like it, at few columns of each row
        least = model.config.network.dense_up_to + 1
    size = tuple(min(count, max(least, int(count * part))) for count in request.size)
    trial = Request(problem, problem.sample(1, size, np.random.default_rng(0)))
    single = replace(options, steps=1, decodes=1, improve_rounds=0, merge=0)
    seconds = []
    for _ in range(2):  # the first may wait for a compiler, whose time does not grow with the matrix
        trial.start_clock()
        DiffusionSearch(trial, model, single, 0, 1, 1).run()
        seconds.append(trial.seconds)
    return min(seconds) * _entries(model, request) / _entries(model, trial)


def _entries(model: Model, request: Request) -> int:
    """Return how many pairs the network looks at."""
    rows, columns = request.shape
    return rows * (model.candidates_of(request.size) or columns)
