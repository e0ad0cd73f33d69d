"""Populations of schedules for many instances at once: a genetic algorithm and particle swarm optimisation."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..errors import UsageError
from ..kernels import Noise
from ..models.file import pick_device
from ..search.run import Budget
from ..solving.solver import Abilities, Request
from .heuristics import shortest_job_first
from .support import ClassicalSolver, cost_matrices, instance_keys, offer_best, parts, sample_noise

_GENES_IN_CACHE, _GENES_ON_DEVICE = 1 << 17, 1 << 22
"""Genes worked on at once: few enough to stay in a processor's cache, many enough to keep a GPU busy."""
_MOVED_JOBS = 3.0
"""Jobs that a mutation moves on average; with fewer the population settles too early."""
_FIRST_SPEED = 10.0
"""Width of the interval of first velocities, ten times that of positions: a slow swarm settles too early."""
_REPORT_EVERY = 0.25
"""Seconds after which the best so far is reported again."""

Best = Callable[[], tuple[Tensor, Tensor]]
"""Returns the best schedules so far and their makespans; called only where they are needed."""


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
class PopulationSearch(ClassicalSolver):
    """Improve a population of schedules for some iterations; every sample is an independent population.

    An instance's result depends on the seed and on itself, not on what else is in the batch, unless a time
    limit cuts the iterations short.
    """

    abilities = Abilities(samples=True, device=True)
    structures = ("makespan",)

    iterations: int = 1000
    individuals: int = 25
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.individuals < 2 or self.iterations < 0:
            raise UsageError(f"the solver '{self.name}' needs at least 2 individuals and no negative iterations")

    @abstractmethod
    def evolve(self, durations: Tensor, noise: Noise) -> Iterator[Best]:
        """Search schedules for durations (batch, jobs, machines), float64.

        Yields what returns the best schedule so far, (batch, jobs), and its makespan (batch,): at first that of the
        first population, then after every step of the search, which never ends by itself.
        """

    def search(self, request: Request) -> None:
        durations = torch.from_numpy(cost_matrices(request)).to(pick_device(self.device)).double()
        keys = instance_keys(durations.cpu().numpy(), request.seed).to(durations.device)
        genes = _GENES_IN_CACHE if durations.device.type == "cpu" else _GENES_ON_DEVICE
        for part, samples, budget in parts(request, self.individuals * durations.shape[1], genes):
            self._evolve(request, part, durations[part], sample_noise(keys[part], samples), budget)

    def _evolve(self, request: Request, part: slice, durations: Tensor, noise: Noise, budget: Budget) -> None:
        """Evolve a population for each key of the noise; keep the best of each instance, every now and then."""
        samples = len(noise.keys) // len(durations)
        reported = time.perf_counter()
        steps = self.evolve(durations.repeat_interleave(samples, 0), noise)
        for step, best in enumerate(steps):  # pragma: no branch
            last = step == self.iterations or budget.over or request.stopped(part)
            if step == 0 or last or time.perf_counter() - reported > _REPORT_EVERY:
                choice, cost = best()
                choice, cost = choice.view(len(durations), samples, -1), cost.view(len(durations), samples)
                offer_best(request, part, choice, cost)
                reported = time.perf_counter()
            if last:
                return


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

    def evolve(self, durations: Tensor, noise: Noise) -> Iterator[Best]:
        _, jobs, machines = durations.shape
        population = noise.integers(machines, self.individuals, jobs)
        population[:, 0] = shortest_job_first(durations)
        cost = makespans(durations, population)
        while True:
            yield partial(_fittest, population, cost)
            children = self._children(population, cost, machines, noise)
            best = cost.argmin(1, keepdim=True)
            population = torch.cat([_individuals(population, best), children], 1)
            cost = torch.cat([cost.gather(1, best), makespans(durations, children)], 1)

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


def _fittest(population: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best individual (batch, jobs) and its cost (batch,)."""
    lowest, index = cost.min(1, keepdim=True)
    return _individuals(population, index).squeeze(1), lowest.squeeze(1)


def _individuals(population: Tensor, index: Tensor) -> Tensor:
    """Return the individuals (batch, k, jobs) at index (batch, k)."""
    return population.gather(1, index[:, :, None].expand(-1, -1, population.shape[2]))


@dataclass(frozen=True)
class ParticleSwarm(PopulationSearch):
    """The paper's setting: 25 particles, one of them SJF's, inertia 0.7, pulls 1.5 and 1.5, 1,000 iterations.

    A particle is a score for every pair of job and machine; each job goes to the machine it scores highest.
    Every iteration pulls a particle towards the best it has seen itself and the best any has seen, each
    pull times a random number per pair. How a particle stands for a schedule is our choice, the paper does
    not say.
    """

    name = "pso"

    inertia: float = 0.7
    cognitive: float = 1.5
    social: float = 1.5

    def evolve(self, durations: Tensor, noise: Noise) -> Iterator[Best]:
        batch, jobs, machines = durations.shape
        shape = (self.individuals, jobs, machines)
        position = noise.uniform(*shape)
        start = shortest_job_first(durations)
        position[:, 0] = torch.zeros_like(position[:, 0]).scatter(2, start[:, :, None], 1.0)
        velocity = (noise.uniform(*shape) - 0.5) * _FIRST_SPEED
        own, own_cost = position, makespans(durations, position.argmax(3))
        item = torch.arange(batch, device=durations.device)
        while True:
            yield partial(_best_seen, own, own_cost)
            common = own[item, own_cost.argmin(1)][:, None]
            bits = noise.bits(*shape)  # drawing is what costs most here: two coarse numbers from one draw
            to_own = (bits >> 16).float() * (self.cognitive / 65536) * (own - position)
            to_common = (bits & 0xFFFF).float() * (self.social / 65536) * (common - position)
            velocity = self.inertia * velocity + to_own + to_common
            position = position + velocity
            cost = makespans(durations, position.argmax(3))
            # only what is really better: a swarm that follows ties loses its variety within a few rounds
            better = cost < own_cost
            own_cost = torch.where(better, cost, own_cost)
            own = torch.where(better[:, :, None, None], position, own)


def _best_seen(own: Tensor, own_cost: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best schedule (batch, jobs) of what particles have seen, (batch, n, jobs, machines), and its cost."""
    lowest, index = own_cost.min(1)
    return own[torch.arange(len(own), device=own.device), index].argmax(2), lowest
