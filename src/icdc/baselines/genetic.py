"""A genetic algorithm over job-to-machine vectors, all instances and individuals at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..noise import Noise
from .population import PopulationSearch, makespans
from .scheduling import shortest_job_first

_MOVED_JOBS = 3.0
"""Jobs that a mutation moves on average; with fewer the population settles too early."""


@dataclass(frozen=True)
class GeneticAlgorithm(PopulationSearch):
    """The paper's setting: 25 chromosomes, one of them SJF's, the best always kept, 1,000 iterations.

    Every iteration replaces all but the best by children. A child has two parents, each the better of two
    drawn at random, and takes a job's machine from the second with probability `crossover`; with
    probability `mutation` it then has some jobs moved to random machines. The paper gives the two rates,
    not what is done at them.
    """

    name = "ga"

    mutation: float = 0.3
    crossover: float = 0.3

    def search(self, durations: Tensor, noise: Noise, rounds: Iterator[int]) -> Tensor:
        _, jobs, machines = durations.shape
        population = noise.integers(machines, self.individuals, jobs)
        population[:, 0] = shortest_job_first(durations)
        cost = makespans(durations, population)
        for _ in rounds:
            children = self._children(population, cost, machines, noise)
            best = cost.argmin(1, keepdim=True)
            population = torch.cat([_individuals(population, best), children], 1)
            cost = torch.cat([cost.gather(1, best), makespans(durations, children)], 1)
        return _individuals(population, cost.argmin(1, keepdim=True)).squeeze(1)

    def _children(self, population: Tensor, cost: Tensor, machines: int, noise: Noise) -> Tensor:
        """Return (batch, individuals − 1, jobs) children of a population (batch, individuals, jobs)."""
        children, jobs = self.individuals - 1, population.shape[2]
        rivals = noise.integers(self.individuals, 2 * children, 2)
        fitter = cost[:, None].expand(-1, 2 * children, -1).gather(2, rivals).argmin(2, keepdim=True)
        first, second = _individuals(population, rivals.gather(2, fitter).squeeze(2)).chunk(2, 1)
        child = torch.where(noise.uniform(children, jobs) < self.crossover, second, first)
        mutant = noise.uniform(children, 1) < self.mutation
        moved = mutant & (noise.uniform(children, jobs) < _MOVED_JOBS / jobs)
        return torch.where(moved, noise.integers(machines, children, jobs), child)


def _individuals(population: Tensor, index: Tensor) -> Tensor:
    """Return the individuals (batch, k, jobs) at index (batch, k)."""
    return population.gather(1, index[:, :, None].expand(-1, -1, population.shape[2]))
