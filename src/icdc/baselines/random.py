"""Feasible at random: the floor under every comparison."""

import time
from dataclasses import dataclass

import torch

from ..diffusion.sampler import best_of
from ..kernels import Noise
from ..problems.contract import Problem, to_tensors
from ..solving.solver import Abilities, Found, Request, Solver
from .support import instance_keys

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
        problem, samples = request.problem, request.samples
        instances = to_tensors(request.arrays, self.device)
        rows, columns = request.shape
        content = torch.cat([instances[name].flatten(1).cpu() for name in problem.arrays], 1)
        keys = instance_keys(content.numpy(), request.seed).to(self.device)
        mask = problem.mask(instances)
        found = []
        size = max(1, _CELLS // (samples * rows * columns))
        for begin in range(0, len(keys), size):
            noise = Noise(keys[begin : begin + size]).spawn(samples)
            part = {name: array[begin : begin + size] for name, array in instances.items()}
            count = len(noise.keys)
            permitted = None if mask is None else mask[begin : begin + size].repeat_interleave(samples, 0)
            scores, first = noise.uniform(rows, columns), noise.integers(rows)
            choice = problem.rule.follow(scores, first, permitted).view(count // samples, samples, rows)
            found.append(best_of(choice, problem.cost(part, choice))[0])
        return Found(torch.cat(found).cpu().numpy(), time.perf_counter() - started)
