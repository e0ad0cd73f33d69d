"""Quick answers for all instances at once: at random, by greedy rules, and by populations of schedules."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..diffusion.sampler import best_of
from ..errors import UsageError
from ..kernels import Noise
from ..models.file import pick_device
from ..problems.base import Problem
from ..problems.rules import HamiltonianCycle
from ..problems.task import Task
from ..problems.tensors import permitted_pairs, to_tensors
from ..search.run import Budget
from ..solving.solver import Abilities, Request, Solver
from .support import ClassicalSolver, cost_matrices, instance_keys, offer_best, parts, sample_noise

_CELLS = 1 << 22
"""Numbers worked on at once, so that all start cities of many instances stay within the cache and memory."""
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


def nearest_neighbour_tours(costs: Tensor, first: Tensor) -> Tensor:
    """Go from each start city to the nearest city not yet visited; successors (batch, starts, n).

    costs : (batch, n, n); first : (batch, starts) the cities to start from.
    """
    batch, size, _ = costs.shape
    starts = first.shape[1]
    # ranks instead of costs: what the rule keeps for pairs that may not be chosen is below every rank
    nearness = -costs.argsort(dim=2, stable=True).argsort(dim=2, stable=True).float()
    spread = nearness[:, None].expand(-1, starts, -1, -1).reshape(batch * starts, size, size)
    return HamiltonianCycle().follow(spread, first.reshape(-1)).view(batch, starts, size)


def insertion_tours(costs: Tensor, first: Tensor, *, furthest: bool) -> Tensor:
    """Insert the city nearest to the tour, or furthest from it, where that is cheapest.

    Return successors (batch, starts, n). The distance between a city and the tour is the least step
    from a city on the tour to it.
    costs : (batch, n, n); first : (batch, starts) the cities to start from.
    """
    batch, size, _ = costs.shape
    starts = first.shape[1]
    count = batch * starts
    instance = torch.arange(batch, device=costs.device).repeat_interleave(starts)
    first = first.reshape(-1, 1)
    real = costs.double()
    here = real[instance]  # (count, n, n): a copy per start, so that one gather reads a row of each
    reverse = real.transpose(1, 2)[instance]
    successor = torch.zeros(count, size, dtype=torch.long, device=costs.device).scatter(1, first, first)
    on_tour = torch.zeros(count, size, dtype=torch.bool, device=costs.device).scatter(1, first, True)
    leaving = here.new_zeros(count, size)  # cost of the step that each city on the tour takes
    distance = _row(here, first)
    for step in range(size - 1):
        if furthest:
            city = distance.masked_fill(on_tour, -torch.inf).argmax(1, keepdim=True)
        else:
            city = distance.masked_fill(on_tour, torch.inf).argmin(1, keepdim=True)
        outward = _row(here, city)
        inward = _row(reverse, city)  # inward[i]: the step from i to the city
        detour = inward + outward.gather(1, successor) - leaving
        before = detour.masked_fill(~on_tour, torch.inf).argmin(1, keepdim=True) if step else first
        after = successor.gather(1, before)
        successor = successor.scatter(1, city, after).scatter(1, before, city)
        leaving = leaving.scatter(1, city, outward.gather(1, after)).scatter(1, before, inward.gather(1, before))
        on_tour = on_tour.scatter(1, city, True)
        distance = torch.minimum(distance, outward)
    return successor.view(batch, starts, size)


def _row(matrices: Tensor, index: Tensor) -> Tensor:
    """Return row index (count, 1) of each matrix (count, n, n); (count, n)."""
    return matrices.gather(1, index[:, :, None].expand(-1, 1, matrices.shape[2])).squeeze(1)


@dataclass(frozen=True)
class TourConstruction(ClassicalSolver):
    """Build a tour from one start city per sample (0, 1, …), or from all of them, and keep the best."""

    abilities = Abilities(samples=True, device=True)
    structures = ("tour",)

    all_starts: bool = False
    device: str = "cpu"

    @abstractmethod
    def tours(self, costs: Tensor, first: Tensor) -> Tensor:
        """Return successors (batch, starts, n) for costs (batch, n, n) and start cities (batch, starts)."""

    def search(self, request: Request) -> None:
        costs = torch.from_numpy(cost_matrices(request)).to(pick_device(self.device))
        size = costs.shape[1]
        starts = size if self.all_starts else min(request.samples, size)
        first = torch.arange(starts, device=costs.device)
        chunks = []
        for part in costs.split(max(1, _CELLS // (starts * size * size))):
            tours = self.tours(part, first.expand(len(part), -1))
            spread = part[:, None].expand(-1, starts, -1, -1)
            length = spread.gather(3, tours[..., None]).squeeze(3).sum(2)
            chunks.append(best_of(tours, length)[0])
        request.offer(torch.cat(chunks).cpu().numpy())


@dataclass(frozen=True)
class NearestNeighbour(TourConstruction):
    """Always on to the nearest city not yet visited."""

    name = "nn"

    def tours(self, costs: Tensor, first: Tensor) -> Tensor:
        return nearest_neighbour_tours(costs, first)


@dataclass(frozen=True)
class NearestInsertion(TourConstruction):
    """Insert the city nearest to the tour so far where it costs least."""

    name = "ni"

    def tours(self, costs: Tensor, first: Tensor) -> Tensor:
        return insertion_tours(costs, first, furthest=False)


@dataclass(frozen=True)
class FurthestInsertion(TourConstruction):
    """Insert the city furthest from the tour so far where it costs least."""

    name = "fi"

    def tours(self, costs: Tensor, first: Tensor) -> Tensor:
        return insertion_tours(costs, first, furthest=True)


def shortest_job_first(durations: Tensor) -> Tensor:
    """Give the machine that is free first its shortest waiting job, until none waits; choice (batch, jobs).

    Of several machines free at the same moment, the one with the lowest number goes first. One that no waiting job may
    go to is left out.
    durations : (batch, jobs, machines).
    """
    batch, jobs, machines = durations.shape
    permitted = permitted_pairs(durations)
    times = durations.double().masked_fill(~permitted, torch.inf)
    candidates = permitted.sum(1)  # the jobs that wait and may go to each machine
    load = times.new_zeros(batch, machines)
    waiting = torch.ones(batch, jobs, dtype=torch.bool, device=times.device)
    choice = torch.zeros(batch, jobs, dtype=torch.long, device=times.device)
    for _ in range(jobs):
        machine = load.masked_fill(candidates == 0, torch.inf).argmin(1, keepdim=True)
        there = times.gather(2, machine[:, None].expand(-1, jobs, 1)).squeeze(2)
        job = there.masked_fill(~waiting, torch.inf).argmin(1, keepdim=True)
        load = load.scatter_add(1, machine, there.gather(1, job))
        waiting = waiting.scatter(1, job, False)
        candidates = candidates - permitted.gather(1, job[:, :, None].expand(-1, 1, machines)).squeeze(1).long()
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
class GreedySchedule(ClassicalSolver):
    """A rule that answers every instance at once and needs no random numbers."""

    abilities = Abilities(device=True)
    structures = ("makespan",)

    device: str = "cpu"

    @abstractmethod
    def schedule(self, durations: Tensor) -> Tensor:
        """Return a choice (batch, jobs) for durations (batch, jobs, machines)."""

    def search(self, request: Request) -> None:
        durations = torch.from_numpy(cost_matrices(request)).to(pick_device(self.device))
        request.offer(self.schedule(durations).cpu().numpy())


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


@dataclass(frozen=True)
class RandomSolver(Solver):
    """Let the problem's rule follow random scores; the best of the samples. Works for every problem."""

    name = "random"
    abilities = Abilities(samples=True, device=True)

    device: str = "cpu"

    def refusal(self, problem: Problem) -> str | None:
        return None

    def search(self, request: Request) -> None:
        problem, (rows, columns) = request.problem, request.shape
        instances = to_tensors(request.arrays, pick_device(self.device))
        content = torch.cat([instances[name].flatten(1).cpu() for name in problem.arrays], 1)
        keys = instance_keys(content.numpy(), request.seed).to(pick_device(self.device))
        masks = Task(problem, instances).mask(1)
        for part, samples, _ in parts(request, rows * columns, _CELLS):
            noise = sample_noise(keys[part], samples)
            scores, first = noise.uniform(rows, columns), noise.integers(rows)
            mask = None if masks is None else masks[part].repeat_interleave(len(samples), 0)
            choice = problem.rule.follow(scores, first, mask).view(-1, len(samples), rows)
            some = {name: array[part] for name, array in instances.items()}
            offer_best(request, part, choice, problem.cost(some, choice))


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
    lowest, index = own_cost.amin(1), own_cost.argmin(1)  # the first of equals; that of `min` is not defined
    return own[torch.arange(len(own), device=own.device), index].argmax(2), lowest
