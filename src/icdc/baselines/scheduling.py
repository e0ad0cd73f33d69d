"""Greedy rules for unrelated machines, all instances at once."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import UsageError
from ..problem import Arrays, Problem, to_tensors
from ..solver import Results
from .common import is_scheduling, results


def shortest_job_first(durations: Tensor) -> Tensor:
    """Give the machine that is free first its shortest waiting job, until none waits; choice (batch, jobs).

    Of several machines free at the same moment, the one with the lowest number goes first.
    durations : (batch, jobs, machines).
    """
    batch, jobs, machines = durations.shape
    times = durations.double()
    load = times.new_zeros(batch, machines)
    waiting = torch.ones(batch, jobs, dtype=torch.bool, device=times.device)
    choice = torch.zeros(batch, jobs, dtype=torch.long, device=times.device)
    for _ in range(jobs):
        machine = load.argmin(1, keepdim=True)
        there = times.gather(2, machine[:, None].expand(-1, jobs, 1)).squeeze(2)
        job = there.masked_fill(~waiting, torch.inf).argmin(1, keepdim=True)
        load = load.scatter_add(1, machine, there.gather(1, job))
        waiting = waiting.scatter(1, job, False)
        choice = choice.scatter(1, job, machine)
    return choice


def earliest_completion(durations: Tensor, order: Tensor) -> Tensor:
    """Take jobs in `order` (batch, jobs), each to where it finishes first; choice (batch, jobs)."""
    batch, jobs, machines = durations.shape
    times = durations.double()
    load = times.new_zeros(batch, machines)
    choice = torch.zeros(batch, jobs, dtype=torch.long, device=times.device)
    for turn in range(jobs):
        job = order[:, turn : turn + 1]
        completion = load + times.gather(1, job[:, :, None].expand(-1, 1, machines)).squeeze(1)
        machine = completion.argmin(1, keepdim=True)
        load = load.scatter(1, machine, completion.gather(1, machine))
        choice = choice.scatter(1, job, machine)
    return choice


def longest_first_order(durations: Tensor) -> Tensor:
    """Return the jobs (batch, jobs) by falling shortest time: what is long everywhere goes first."""
    return durations.amin(2).argsort(dim=1, descending=True, stable=True)


@dataclass(frozen=True)
class GreedySchedule(ABC):
    """A rule that answers every instance at once and needs no random numbers."""

    name: ClassVar[str]
    takes_samples: ClassVar[bool] = False

    device: str = "cpu"

    @abstractmethod
    def schedule(self, durations: Tensor) -> Tensor:
        """Return a choice (batch, jobs) for durations (batch, jobs, machines)."""

    def supports(self, problem: Problem) -> bool:
        return is_scheduling(problem)

    def solve(
        self, problem: Problem, arrays: Arrays, *, samples: int = 1, seed: int = 0, time_limit: float | None = None
    ) -> Results:
        if not self.supports(problem):
            raise UsageError(f"the solver '{self.name}' schedules jobs, it cannot answer '{problem.name}'")
        started = time.perf_counter()
        choice = self.schedule(to_tensors(arrays, self.device)["durations"]).cpu().numpy()
        return results(problem, arrays, choice, time.perf_counter() - started)


@dataclass(frozen=True)
class ShortestJobFirst(GreedySchedule):
    """The paper's SJF: at every moment a free machine starts its shortest waiting job."""

    name = "sjf"

    def schedule(self, durations: Tensor) -> Tensor:
        return shortest_job_first(durations)


@dataclass(frozen=True)
class EarliestCompletion(GreedySchedule):
    """List scheduling: jobs as they come, each to the machine that would finish it first."""

    name = "ect"

    def schedule(self, durations: Tensor) -> Tensor:
        batch, jobs, _ = durations.shape
        return earliest_completion(durations, torch.arange(jobs, device=durations.device).expand(batch, jobs))


@dataclass(frozen=True)
class LongestFirst(GreedySchedule):
    """List scheduling with the jobs that are long on every machine first."""

    name = "lpt"

    def schedule(self, durations: Tensor) -> Tensor:
        return earliest_completion(durations, longest_first_order(durations))
