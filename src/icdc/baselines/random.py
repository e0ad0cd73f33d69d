"""Feasible at random: the floor under every comparison."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernels import Noise
from ..models.file import pick_device
from ..problems.base import Problem
from ..problems.task import Task
from ..problems.tensors import to_tensors
from ..solving.solver import Abilities, Found, Request, Solver
from .support import Incumbents, Share, instance_keys, sample_noise

_CELLS = 1 << 22
"""Scores drawn at once."""


@dataclass(frozen=True)
class RandomSolver(Solver):
    """Let the problem's rule follow random scores; the best of the samples. Works for every problem."""

    name = "random"
    abilities = Abilities(samples=True, device=True)

    device: str = "cpu"

    def refusal(self, problem: Problem) -> str | None:
        return None

    def search(self, request: Request) -> Found:
        started = time.perf_counter()
        problem = request.problem
        instances = to_tensors(request.arrays, pick_device(self.device))
        rows, columns = request.shape
        content = torch.cat([instances[name].flatten(1).cpu() for name in problem.arrays], 1)
        keys = instance_keys(content.numpy(), request.seed).to(pick_device(self.device))
        mask = Task(problem, instances).mask(1)
        best, made = Incumbents(request), request.samples
        together = max(1, min(request.samples, _CELLS // (rows * columns)))  # samples of an instance
        size = max(1, _CELLS // (together * rows * columns))  # instances
        for begin in range(0, len(keys), size):
            part = slice(begin, min(begin + size, len(keys)))
            some = {name: array[part] for name, array in instances.items()}
            permitted = None if mask is None else mask[part]
            share, tried = Share.of(request, started, part.stop - begin, len(keys) - begin), 0
            while tried < request.samples and not (tried and (share.over or best.stopped)):
                upto = min(tried + together, request.samples)
                choice = self._drawn(problem, request.shape, sample_noise(keys[part], tried, upto), permitted)
                choice = choice.view(part.stop - begin, upto - tried, rows)
                best.take(part, choice, problem.cost(some, choice))
                tried = upto
            made = min(made, tried)
        return Found(best.choice, time.perf_counter() - started, samples=made)

    def _drawn(self, problem: Problem, shape: tuple[int, int], noise: Noise, mask: Tensor | None) -> Tensor:
        """Return a random choice (N, rows) for each of the N keys of the noise; masks are of the instances."""
        rows, columns = shape
        if mask is not None:
            mask = mask.repeat_interleave(len(noise.keys) // len(mask), 0)
        scores, first = noise.uniform(rows, columns), noise.integers(rows)
        return problem.rule.follow(scores, first, mask)
