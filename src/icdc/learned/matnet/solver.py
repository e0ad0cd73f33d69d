"""Solving with a MatNet: encode with random one-hot vectors, decode, keep the best.

Random numbers depend on the seed, the instance's own content and the number of the sample, so an answer does not
depend on what else is in the batch or on the size of a chunk, and more samples are never worse.
"""

import time
from itertools import product
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from ...errors import InfeasibleError, UsageError
from ...model import available, card_of, default_for, pick_device
from ...noise import Noise, fold, root_key
from ...problem import Arrays, Problem, to_tensors
from ...problems import is_named, problem_path
from ...sampling import Task, best_of
from ...solver import Results
from ...solving.search import fingerprints
from .config import Decoding
from .model import MatNet, load_matnet

CPU_CHUNK_BYTES = 16 * 2**20
GPU_CHUNK_BYTES = 2**30
"""Hidden scores of the encoder that are in memory together, as float32."""


class MatNetSolver:
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

    name = "matnet"

    def __init__(
        self,
        model: MatNet | str | None = None,
        *,
        decoding: str = "multistart",
        device: str = "auto",
        chunk: int | None = None,
    ) -> None:
        if decoding not in get_args(Decoding):
            raise UsageError(f"unknown decoding '{decoding}'; choose {', '.join(get_args(Decoding))}")
        if chunk is not None and chunk < 1:
            raise UsageError(f"a chunk needs at least one encoding, got {chunk}")
        self.model, self.decoding, self.device, self.chunk = model, decoding, device, chunk

    def supports(self, problem: Problem) -> bool:
        """Tell whether the model, or some shipped one, is for this problem."""
        if isinstance(self.model, MatNet):
            return type(self.model.problem) is type(problem)
        cards = [card_of(name) for name in ([self.model] if self.model is not None else available())]
        return any(card["kind"] == MatNet.kind and is_named(problem, str(card["problem"])) for card in cards)

    def solve(
        self, problem: Problem, arrays: Arrays, *, samples: int = 1, seed: int = 0, time_limit: float | None = None
    ) -> Results:
        """Answer every instance; see `Solver.solve`. Every instance gets one sample, whatever the time limit."""
        if samples < 1:
            raise UsageError(f"at least one sample is needed, got {samples}")
        model = self._model_for(problem, arrays)
        began = time.perf_counter()
        count = len(next(iter(arrays.values())))
        rows, columns = problem.shape(problem.size(arrays))
        together = self.chunk or self._default_chunk(model, rows * columns)
        best = np.zeros((count, rows), dtype=np.int64)
        best_cost = np.full(count, np.inf)
        each = min(samples, together)  # samples of an instance that run together
        width = max(1, together // each)
        interrupted = False
        try:
            with torch.inference_mode():
                for begin, at in product(range(0, samples, each), range(0, count, width)):
                    if begin and time_limit is not None and time.perf_counter() - began > time_limit:
                        break
                    numbers, chunk = range(begin, min(begin + each, samples)), slice(at, at + width)
                    choice, cost = self._run(model, {k: a[chunk] for k, a in arrays.items()}, numbers, seed)
                    better = cost < best_cost[chunk]
                    best[chunk] = np.where(better[:, None], choice, best[chunk])
                    best_cost[chunk] = np.where(better, cost, best_cost[chunk])
        except KeyboardInterrupt:
            if not np.isfinite(best_cost).all():
                raise
            interrupted = True
        exact, found = to_tensors(arrays), torch.from_numpy(best)[:, None]
        if not bool(problem.feasible(exact, found).all()):
            raise InfeasibleError("an answer failed the problem's own feasibility test")
        cost = problem.cost(exact, found)[:, 0].double().numpy()
        unknown, unproven = np.full(count, -np.inf), np.zeros(count, dtype=bool)
        extra = {"model": model.name, "interrupted": interrupted}
        return Results(best, cost, unknown, unproven, time.perf_counter() - began, extra)

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

    def _model_for(self, problem: Problem, arrays: Arrays) -> MatNet:
        """Return the model, loading it on first use."""
        if isinstance(self.model, MatNet):
            model = self.model
        else:
            name = self.model or default_for(problem_path(problem), problem.size(arrays), MatNet.kind)
            model = load_matnet(name, self.device, problem)
            if self.model is not None:
                self.model = model
        if type(model.problem) is not type(problem):
            raise UsageError(f"the model '{model.name}' is for {model.problem.name}, not for {problem.name}")
        device = pick_device(self.device)
        return model if model.device.type == device.type else model.to(device)
