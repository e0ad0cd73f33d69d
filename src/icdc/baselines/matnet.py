"""Solving with a MatNet: encode with random one-hot vectors, decode, keep the best.

Random numbers depend on the seed, the instance's own content and the number of the sample, so an answer does not
depend on what else is in the batch or on the size of a chunk, and more samples are never worse.
"""

import time
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self, get_args

import numpy as np
import torch
from torch import Tensor

from ..diffusion.sampler import best_of
from ..errors import UsageError
from ..kernels import Noise, fold, root_key
from ..models.base import pick_device
from ..models.catalogue import default_for, reason_without_model
from ..models.matnet.config import Decoding
from ..models.matnet.model import MatNet, load_matnet
from ..problems.base import Arrays, Problem, Size
from ..problems.registry import problem_path
from ..problems.task import Task
from ..problems.tensors import to_tensors
from ..solving.fingerprints import fingerprints
from ..solving.solver import Abilities, Found, Request, Solver

CPU_CHUNK_BYTES = 16 * 2**20
GPU_CHUNK_BYTES = 2**30
"""Hidden scores of the encoder that are in memory together, as float32."""


@dataclass
class MatNetSolver(Solver):
    """Solves instances with a trained MatNet.

    Parameters
    ----------
    model : a model, the name of a shipped one, a file's path, or None to pick the shipped one that knows the
        nearest size.
    decoding : every sample encodes an instance with new one-hot vectors. "multistart" then decodes greedily once from
        every city, or, where there are no cities, once with every column for the first decision; "greedy" decodes
        once; "sample" draws once from the network's own distribution, first cities in turn.
    device : "auto", "cpu" or "cuda".
    chunk : encodings that run together; None for as many as suit the device.
    """

    name: ClassVar[str] = "matnet"
    abilities: ClassVar[Abilities] = Abilities(samples=True, device=True)

    model: MatNet | str | None = None
    decoding: str = "multistart"
    device: str = "auto"
    chunk: int | None = None

    def __post_init__(self) -> None:
        if self.decoding not in get_args(Decoding):
            raise UsageError(f"unknown decoding '{self.decoding}'; choose {', '.join(get_args(Decoding))}")
        if self.chunk is not None and self.chunk < 1:
            raise UsageError(f"a chunk needs at least one encoding, got {self.chunk}")

    def refusal(self, problem: Problem) -> str | None:
        if isinstance(self.model, MatNet):
            if type(self.model.problem) is type(problem):
                return None
            return f"the model '{self.model.name}' is for {self.model.problem.name}, not for {problem.name}"
        return reason_without_model(problem, MatNet.kind, self.model)

    def prepared(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        self._refuse(problem)
        return replace(self, model=self._model_for(problem, size, device))

    @property
    def model_name(self) -> str | None:
        return self.model.name if isinstance(self.model, MatNet) else self.model

    def search(self, request: Request) -> Found:
        """Take samples; every instance gets one, whatever the time limit."""
        model = self._model_for(request.problem, request.size)
        began = time.perf_counter()
        count, samples, (rows, columns) = request.count, request.samples, request.shape
        together = self.chunk or self._default_chunk(model, rows * columns)
        best = np.full((count, rows), -1, dtype=np.int64)
        best_cost = np.full(count, np.inf)
        each = min(samples, together)  # samples of an instance that run together
        width = max(1, together // each)
        interrupted = False
        try:
            with torch.inference_mode():
                for begin, at in product(range(0, samples, each), range(0, count, width)):
                    late = request.time_limit is not None and time.perf_counter() - began > request.time_limit
                    if begin and late:
                        break
                    numbers, chunk = range(begin, min(begin + each, samples)), slice(at, at + width)
                    part = {name: array[chunk] for name, array in request.arrays.items()}
                    choice, cost = self._run(model, part, numbers, request.seed)
                    better = cost < best_cost[chunk]
                    best[chunk] = np.where(better[:, None], choice, best[chunk])
                    best_cost[chunk] = np.where(better, cost, best_cost[chunk])
        except KeyboardInterrupt:
            if not np.isfinite(best_cost).any():
                raise
            interrupted = True
        return Found(best, time.perf_counter() - began, model=model.name, interrupted=interrupted)

    def _run(
        self, model: MatNet, arrays: Arrays, numbers: range, seed: int
    ) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
        """Take the samples of these numbers; return the best choice (B, rows) and its cost (B,)."""
        device, problem = model.device, model.problem
        task = Task(problem, to_tensors(arrays, device), only_feasible=True)
        keys = fold(root_key(seed, device), torch.from_numpy(fingerprints(arrays)).to(device))
        number = torch.arange(numbers.start, numbers.stop, device=device)
        noise = Noise(fold(keys[:, None], number[None]).flatten())
        encoding = model.encode(problem.features(task.instances).repeat(len(number)), noise)
        first = (number % task.rows).repeat(task.batch)[:, None]
        opening: Tensor | None = None
        if self.decoding == "greedy":
            first = torch.zeros_like(first)
        elif self.decoding == "multistart":
            starts = torch.arange(task.columns, device=device).expand(len(first), -1)
            if problem.feature_sizes.same_items:
                first = starts
            else:
                first, opening = torch.zeros_like(starts), starts
        sampling = noise.spawn(1) if self.decoding == "sample" else None
        rollouts = model.roll_out(task, encoding, first, noise=sampling, opening=opening)
        choice = rollouts.choice.view(task.batch, -1, task.rows)
        chosen, cost = best_of(choice, task.cost(choice.flatten(0, 1)))
        return chosen.cpu().numpy(), cost.double().cpu().numpy()

    def _default_chunk(self, model: MatNet, pairs: int) -> int:
        """Return how many encodings suit the device."""
        limit = GPU_CHUNK_BYTES if model.device.type == "cuda" else CPU_CHUNK_BYTES
        return max(1, limit // (4 * model.config.heads * model.config.mixer_width * pairs))

    def _model_for(self, problem: Problem, size: Size, device: str | None = None) -> MatNet:
        """Return the model for a size, loading it where that is still to be done."""
        wanted = pick_device(device or self.device)
        if isinstance(self.model, MatNet):
            return self.model if self.model.device.type == wanted.type else self.model.to(wanted)
        name = self.model or default_for(problem_path(problem), size, MatNet.kind)
        return load_matnet(name, str(wanted), problem)
