"""Tours built city by city: nearest neighbour and insertion, for all instances and start cities at once."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import UsageError
from ..problem import Arrays, Problem
from ..rules import HamiltonianCycle
from ..solver import Results
from .common import best_of, cost_matrices, is_tour, results

_CELLS = 1 << 22
"""Numbers worked on at once, so that all start cities of many instances stay within the cache and memory."""


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
class TourConstruction(ABC):
    """Build a tour from one start city per sample (0, 1, …), or from all of them, and keep the best."""

    name: ClassVar[str]

    all_starts: bool = False
    device: str = "cpu"

    @abstractmethod
    def tours(self, costs: Tensor, first: Tensor) -> Tensor:
        """Return successors (batch, starts, n) for costs (batch, n, n) and start cities (batch, starts)."""

    def supports(self, problem: Problem) -> bool:
        return is_tour(problem)

    def solve(
        self, problem: Problem, arrays: Arrays, *, samples: int = 1, seed: int = 0, time_limit: float | None = None
    ) -> Results:
        if not self.supports(problem):
            raise UsageError(f"the solver '{self.name}' builds tours, it cannot answer '{problem.name}'")
        started = time.perf_counter()
        costs = torch.from_numpy(cost_matrices(problem, arrays)).to(self.device)
        size = costs.shape[1]
        starts = size if self.all_starts else min(samples, size)
        first = torch.arange(starts, device=costs.device)
        chunks = []
        for part in costs.split(max(1, _CELLS // (starts * size * size))):
            tours = self.tours(part, first.expand(len(part), -1))
            spread = part[:, None].expand(-1, starts, -1, -1)
            length = spread.gather(3, tours[..., None]).squeeze(3).sum(2)
            chunks.append(best_of(tours, length))
        choice = torch.cat(chunks).cpu().numpy()
        return results(problem, arrays, choice, time.perf_counter() - started)


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
