"""The learned solver: encode once, run trajectories, refine, keep the best of everything decoded on the way.

Random numbers of a trajectory depend on the seed, the instance's own content and the trajectory's number, so an
answer does not depend on what else is in the batch, on the size of a chunk, or on the device count.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InfeasibleError, InputError, UsageError
from ..model import Model, default_for, load, pick_device
from ..noise import Noise, fold, root_key
from ..problem import Arrays, Problem, to_tensors
from ..problems import is_named, problem_path
from ..sampling import Predict, SamplingOptions, Step, Task, generate, refine
from ..solver import Results

CPU_CHUNK_BYTES = 4 * 2**20
"""Edge states of a chunk on a CPU: beyond the cache, inference waits for memory."""
GPU_CHUNK_BYTES = 2**30

REFINE_LEVELS = (0.7, 0.5, 0.85)
"""Noise levels that rounds of refinement take in turn, in units of T."""
RESTART_EVERY = 4
"""While time is left, every so many rounds the search starts new trajectories instead of refining."""


@dataclass(frozen=True)
class Improvement:
    """What a callback is told: seconds since the start, and the best cost and choice of every instance so far."""

    seconds: float
    cost: NDArray[np.float64]
    choice: NDArray[np.int64]


SolveCallback = Callable[[Improvement], bool | None]


class DiffusionSolver:
    """Solves instances with a trained model.

    Parameters
    ----------
    model : a model, the name of a shipped one, a file's path, or None to pick the shipped one that knows the
        nearest size.
    steps, reverse, order, temperature, decodes, keep : see `SamplingOptions`.
    refine : rounds of refinement after sampling; with a time limit there are as many as fit.
    refine_steps : network passes of a refinement.
    device : "auto", "cpu" or "cuda".
    chunk : trajectories that run together; None for as many as suit the device.
    """

    name = "icdc"

    def __init__(
        self,
        model: Model | str | None = None,
        *,
        steps: int = 20,
        reverse: str = "fresh",
        order: str = "confidence",
        temperature: float = 0.5,
        decodes: int = 1,
        keep: str = "chain",
        refine: int = 0,
        refine_steps: int = 3,
        device: str = "auto",
        chunk: int | None = None,
    ) -> None:
        # the values are checked by SamplingOptions itself
        self.options = SamplingOptions(steps, reverse, order, temperature, decodes, keep)  # type: ignore[arg-type]
        if refine < 0 or refine_steps < 1:
            raise UsageError("refine must not be negative, and a refinement needs at least one step")
        if chunk is not None and chunk < 1:
            raise UsageError(f"a chunk needs at least one trajectory, got {chunk}")
        self.model, self.refine, self.refine_steps = model, refine, refine_steps
        self.device, self.chunk = device, chunk
        self.trace: Callable[[Step], bool | None] | None = None
        """Set to a function to see every reverse step of the first trajectories, for example to animate them."""

    def supports(self, problem: Problem) -> bool:
        """Tell whether the model, or some shipped one, is for this problem."""
        from ..model import available, card_of

        if isinstance(self.model, Model):
            return type(self.model.problem) is type(problem)
        names = [self.model] if self.model is not None else available()
        return any(is_named(problem, str(card_of(name)["problem"])) for name in names)

    def solve(
        self,
        problem: Problem,
        arrays: Arrays,
        *,
        samples: int = 1,
        seed: int = 0,
        time_limit: float | None = None,
        start: NDArray[np.int64] | None = None,
        callback: SolveCallback | None = None,
    ) -> Results:
        """Answer every instance; see `Solver.solve`.

        Parameters
        ----------
        start : (count, rows), solutions to begin from; the answers are never worse.
        callback : told of every improvement; returning True ends the search once every instance has an answer.
        """
        if samples < 1:
            raise UsageError(f"at least one sample is needed, got {samples}")
        model = self._model_for(problem, arrays)
        search = _Search(self, model, problem, arrays, samples, seed, callback)
        began = time.perf_counter()
        interrupted = search.run(time_limit, start)
        return search.results(time.perf_counter() - began, interrupted)

    def _model_for(self, problem: Problem, arrays: Arrays) -> Model:
        """Return the model, loading it on first use."""
        if isinstance(self.model, Model):
            model = self.model
        else:
            name = self.model or default_for(problem_path(problem), problem.size(arrays))
            model = load(name, self.device, problem)
            if self.model is not None:
                self.model = model
        if type(model.problem) is not type(problem):
            raise UsageError(f"the model '{model.name}' is for {model.problem.name}, not for {problem.name}")
        device = pick_device(self.device)
        return model if model.device.type == device.type else model.to(device)


@dataclass
class _Search:
    """One call of `solve`: the incumbents of all instances, and the loop that improves them."""

    solver: DiffusionSolver
    model: Model
    problem: Problem
    arrays: Arrays
    samples: int
    seed: int
    callback: SolveCallback | None
    stopped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.count = len(next(iter(self.arrays.values())))
        size = self.problem.size(self.arrays)
        rows, columns = self.problem.shape(size)
        self.choice = np.zeros((self.count, rows), dtype=np.int64)
        self.cost = np.full(self.count, np.inf)
        self.bound = np.full(self.count, -np.inf)
        self.limit = self.solver.chunk or default_chunk(self.model, rows * columns)
        self.began = time.perf_counter()

    def run(self, time_limit: float | None, start: NDArray[np.int64] | None) -> bool:
        """Work through all instances; return whether the user interrupted it."""
        if start is not None:
            self._begin_from(start)
        if time_limit is not None:  # a bound is worth its time only where meeting it saves some
            bound = self.problem.lower_bound(self.arrays)
            self.bound = self.bound if bound is None else bound
        try:
            with torch.inference_mode():
                for chunk, chunks_left in self._chunks():
                    deadline = None
                    if time_limit is not None:
                        now = time.perf_counter()
                        deadline = now + (self.began + time_limit - now) / chunks_left
                    self._solve_chunk(chunk, deadline)
                    if self.stopped and np.isfinite(self.cost).all():
                        break
        except KeyboardInterrupt:
            if not np.isfinite(self.cost).all():
                raise
            return True
        return False

    def results(self, seconds: float, interrupted: bool) -> Results:
        """Check every answer by the problem's own test, recompute its cost exactly, and hand it over."""
        missing = np.flatnonzero(~np.isfinite(self.cost))
        if len(missing):
            raise InfeasibleError(f"no feasible solution was found for instance {missing[0]}")
        exact = to_tensors(self.arrays)
        choice = torch.from_numpy(self.choice)[:, None]
        if not bool(self.problem.feasible(exact, choice).all()):
            raise InfeasibleError("an answer failed the problem's own feasibility test")
        cost = self.problem.cost(exact, choice)[:, 0].double().numpy()
        proven = meets(cost, self.bound)
        extra = {"model": self.model.name, "interrupted": interrupted}
        return Results(self.choice, cost, self.bound, proven, seconds, extra)

    def _begin_from(self, start: NDArray[np.int64]) -> None:
        if start.shape != self.choice.shape:
            raise InputError(f"the start has shape {start.shape}, these instances need {self.choice.shape}")
        exact, choice = to_tensors(self.arrays), torch.from_numpy(np.ascontiguousarray(start))[:, None]
        if not bool(self.problem.feasible(exact, choice).all()):
            raise InputError("the start is not a feasible solution")
        self.choice, self.cost = start.copy(), self.problem.cost(exact, choice)[:, 0].double().numpy()

    def _chunks(self) -> Iterator[tuple[slice, int]]:
        """Yield ranges of instances that fit together, with how many ranges are left."""
        together = max(1, self.limit // self.samples)
        begins = range(0, self.count, together)
        for index, begin in enumerate(begins):
            yield slice(begin, min(begin + together, self.count)), len(begins) - index

    def _solve_chunk(self, chunk: slice, deadline: float | None) -> None:
        """Sample, then refine; with a deadline, go on until it, or until every bound is met."""
        device = self.model.device
        part = {name: array[chunk] for name, array in self.arrays.items()}
        task = Task(self.problem, to_tensors(part, device), only_feasible=True)
        keys = fold(root_key(self.seed, device), torch.from_numpy(fingerprints(part)).to(device))
        predict = self.model.predictor(task, Noise(fold(keys, 0)))
        self._sample(chunk, task, predict, fold(keys, 1), deadline)
        rounds = 0
        while not self.stopped and (rounds < self.solver.refine if deadline is None else True):
            if deadline is not None and (time.perf_counter() >= deadline or self._proven(chunk)):
                break
            rounds += 1
            key = fold(keys, 1 + rounds)
            if deadline is not None and rounds % RESTART_EVERY == 0:
                self._sample(chunk, task, predict, key, deadline)
            else:
                self._refine(chunk, task, predict, key, REFINE_LEVELS[(rounds - 1) % len(REFINE_LEVELS)])

    def _sample(self, chunk: slice, task: Task, predict: Predict, keys: Tensor, deadline: float | None) -> None:
        """Run `samples` trajectories for every instance, as many at a time as fit."""
        for noise in self._trajectories(task, keys):
            made = generate(
                predict, task, self.model.diffusion, noise, self.solver.options, callback=self._watch(deadline, chunk)
            )
            self._take(chunk, *made.best())
            if self.stopped or (deadline is not None and time.perf_counter() >= deadline):
                break

    def _refine(self, chunk: slice, task: Task, predict: Predict, keys: Tensor, level: float) -> None:
        """Noise the incumbents of this moment again and denoise them, `samples` times each."""
        device = self.model.device
        choice = torch.from_numpy(self.choice[chunk]).to(device)
        cost = torch.from_numpy(self.cost[chunk]).to(device)
        for noise in self._trajectories(task, keys):
            steps = self.solver.refine_steps
            made = refine(
                predict, task, self.model.diffusion, noise, self.solver.options, choice, cost,
                level=level, steps=steps,
            )  # fmt: skip
            self._take(chunk, *made)
            if self.stopped:
                break

    def _trajectories(self, task: Task, keys: Tensor) -> Iterator[Noise]:
        """Yield the noise of `samples` trajectories for every instance, numbered, in groups that fit."""
        together = max(1, self.limit // task.batch)
        for begin in range(0, self.samples, together):
            number = torch.arange(begin, min(begin + together, self.samples), device=keys.device)
            yield Noise(fold(keys[:, None], number[None, :]).flatten())

    def _watch(self, deadline: float | None, chunk: slice) -> Callable[[Step], bool | None]:
        """Return a callback of the reverse process that stops it at the deadline once there is an answer."""

        def watch(step: Step) -> bool | None:
            stop = self.solver.trace(step) if self.solver.trace is not None else None
            late = deadline is not None and step.choice is not None and time.perf_counter() >= deadline
            return bool(stop) or late

        return watch

    def _take(self, chunk: slice, choice: Tensor, cost: Tensor) -> None:
        """Keep what is better than the incumbents, and tell the callback."""
        new_cost, new_choice = cost.double().cpu().numpy(), choice.cpu().numpy()
        better = new_cost < self.cost[chunk]
        self.cost[chunk] = np.where(better, new_cost, self.cost[chunk])
        self.choice[chunk] = np.where(better[:, None], new_choice, self.choice[chunk])
        if self.callback is not None and better.any():
            seconds = time.perf_counter() - self.began
            self.stopped |= bool(self.callback(Improvement(seconds, self.cost.copy(), self.choice.copy())))

    def _proven(self, chunk: slice) -> bool:
        return bool(meets(self.cost[chunk], self.bound[chunk]).all())


def meets(cost: NDArray[np.float64], bound: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell where a cost meets its lower bound, up to rounding; a bound of −inf is never met."""
    known = np.where(np.isfinite(bound), bound, 0.0)
    return np.asarray(np.isfinite(bound) & (cost <= known + 1e-9 * np.maximum(1.0, np.abs(known))))


def default_chunk(model: Model, elements: int) -> int:
    """Return how many trajectories of matrices with so many elements run together."""
    network = model.config.network
    width = network.edge_width if network.denoiser == "edge" else network.width
    on_gpu = model.device.type == "cuda"
    state = elements * width * (2 if on_gpu else 4)
    return max(1, (GPU_CHUNK_BYTES if on_gpu else CPU_CHUNK_BYTES) // state)


def fingerprints(arrays: Arrays) -> NDArray[np.int64]:
    """Return a number for every instance that depends on its values alone, (count,)."""
    plain = [np.ascontiguousarray(arrays[name], dtype=np.float64) for name in sorted(arrays)]
    prints = []
    for index in range(len(plain[0])):
        digest = hashlib.blake2b(digest_size=4)
        for array in plain:
            digest.update(array[index].tobytes())
        prints.append(int.from_bytes(digest.digest(), "little"))
    return np.array(prints, dtype=np.int64)
