"""Feasible at random: the floor under every comparison."""

import time
from dataclasses import dataclass

import torch

from ..noise import Noise
from ..problem import Arrays, Problem, to_tensors
from ..solver import Results
from .common import best_of, instance_keys, results

_CELLS = 1 << 22
"""Scores drawn at once."""


@dataclass(frozen=True)
class RandomSolver:
    """Let the problem's rule follow random scores; the best of the samples. Works for every problem."""

    name = "random"

    device: str = "cpu"

    def supports(self, problem: Problem) -> bool:
        return True

    def solve(
        self, problem: Problem, arrays: Arrays, *, samples: int = 1, seed: int = 0, time_limit: float | None = None
    ) -> Results:
        started = time.perf_counter()
        instances = to_tensors(arrays, self.device)
        rows, columns = problem.shape(problem.size(arrays))
        content = torch.cat([instances[name].flatten(1).cpu() for name in problem.arrays], 1)
        keys = instance_keys(content.numpy(), seed).to(self.device)
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
            found.append(best_of(choice, problem.cost(part, choice)))
        return results(problem, arrays, torch.cat(found).cpu().numpy(), time.perf_counter() - started)
