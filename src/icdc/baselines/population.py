"""What the metaheuristics share: populations of schedules for many instances at once."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import UsageError
from ..noise import Noise
from ..problem import Arrays, Problem, to_tensors
from ..solver import Results
from .common import best_of, instance_keys, is_scheduling, results

_GENES_IN_CACHE, _GENES_ON_DEVICE = 1 << 17, 1 << 22
"""Genes worked on at once: few enough to stay in a processor's cache, many enough to keep a GPU busy."""


def makespans(durations: Tensor, choice: Tensor) -> Tensor:
    """Return makespans (batch, individuals) of choices (batch, individuals, jobs).

    durations : (batch, jobs, machines).
    """
    batch, jobs, machines = durations.shape
    individuals = choice.shape[1]
    cell = choice + torch.arange(jobs, device=choice.device) * machines
    times = durations.flatten(1)[:, None].expand(-1, individuals, -1).gather(2, cell)
    return times.new_zeros(batch, individuals, machines).scatter_add(2, choice, times).amax(2)


@dataclass(frozen=True)
class PopulationSearch(ABC):
    """Improve a population of schedules for some iterations; every sample is an independent population.

    An instance's result depends on the seed and on itself, not on what else is in the batch, unless a time
    limit cuts the iterations short.
    """

    name: ClassVar[str]

    iterations: int = 1000
    individuals: int = 25
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.individuals < 2 or self.iterations < 0:
            raise UsageError(f"the solver '{self.name}' needs at least 2 individuals and no negative iterations")

    @abstractmethod
    def search(self, durations: Tensor, noise: Noise, rounds: Iterator[int]) -> Tensor:
        """Return the best schedule found, (batch, jobs), for durations (batch, jobs, machines), float64.

        One step of the search for every item of `rounds`, which ends early when the time does.
        """

    def supports(self, problem: Problem) -> bool:
        return is_scheduling(problem)

    def solve(
        self, problem: Problem, arrays: Arrays, *, samples: int = 1, seed: int = 0, time_limit: float | None = None
    ) -> Results:
        if not self.supports(problem):
            raise UsageError(f"the solver '{self.name}' schedules jobs, it cannot answer '{problem.name}'")
        started = time.perf_counter()
        durations = to_tensors(arrays, self.device)["durations"].double()
        keys = instance_keys(arrays["durations"], seed).to(self.device)
        count, jobs, _ = durations.shape
        genes = _GENES_IN_CACHE if durations.device.type == "cpu" else _GENES_ON_DEVICE
        size = max(1, genes // (samples * self.individuals * jobs))
        found = []
        for begin in range(0, count, size):
            part = durations[begin : begin + size]
            deadline = None
            if time_limit is not None:
                now = time.perf_counter()
                deadline = now + (started + time_limit - now) * len(part) / (count - begin)
            noise = Noise(keys[begin : begin + size]).spawn(samples)
            choice = self.search(part.repeat_interleave(samples, 0), noise, _rounds(self.iterations, deadline))
            choice = choice.view(len(part), samples, jobs)
            found.append(best_of(choice, makespans(part, choice)))
        return results(problem, arrays, torch.cat(found).cpu().numpy(), time.perf_counter() - started)


def _rounds(iterations: int, deadline: float | None) -> Iterator[int]:
    for iteration in range(iterations):
        if deadline is not None and time.perf_counter() >= deadline:
            return
        yield iteration
