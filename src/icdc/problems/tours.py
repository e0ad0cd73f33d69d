"""What all problems share whose solution is one tour through n items."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..later import kernels, torch
from .arrays import integers_of
from .base import Arrays, Instance, Instances, Problem, Size, Structure
from .bounds import assignment_bound
from .decoding import Starts, decode_around
from .rules import HamiltonianCycle
from .tensors import picked, to_tensors
from .text import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from ..kernels import Noise


_VARIETY = 0.3
"""Temperature of starting tours after the first, in units of what a city's second best step gives away."""


class TourProblem(Problem):
    """Rows and columns are the same cities; row i chooses the city that follows i."""

    size_names: ClassVar[tuple[str, ...]] = ("cities",)
    rule = HamiltonianCycle()
    objective = "length"
    row_words = column_words = ("city", "cities")
    entries = "distances"
    solution_is_tour = True
    structure: ClassVar[Structure | None] = "tour"

    @abstractmethod
    def travel(self, instances: Instances) -> Tensor:
        """Return what each step costs, (batch, n, n); used to score, never shown to the network."""

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return what each step costs, (count, n, n)."""
        return self.travel(to_tensors(arrays)).numpy()

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return the assignment bound, (count,)."""
        return assignment_bound(self.cost_matrix(arrays))

    def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
        """Move segments of tours elsewhere; see `Problem.improve`.

        By `travel`, which is hidden from the network and not from a solver: `cost` scores every decoded solution with
        it, and classical solvers are given it. What search adds to a network is told apart where results are.
        """
        if self.structure != "tour":  # a subclass with another cost, or with tours that it refuses
            return super().improve(instances, choice, rounds)
        return kernels.improve_tours(self.travel(instances), choice, rounds)

    def merge(self, instances: Instances, choice: Tensor, others: Tensor) -> Tensor:
        """Take over parts of other tours that are shorter, by `travel`; see `Problem.merge`."""
        if self.structure != "tour":
            return super().merge(instances, choice, others)
        return kernels.merge_tours(self.travel(instances), choice, others)

    def construct(self, instances: Instances, count: int = 1) -> Starts:
        """Join the steps that cost least beyond the prices of leaving and entering cities, and improve the tours."""
        if self.structure != "tour":
            return super().construct(instances, count)
        travel = self.travel(instances)
        cities = travel.shape[1]
        prices = kernels.tour_prices(travel)
        diagonal = torch.eye(cities, dtype=torch.bool, device=travel.device)
        excess = (travel - prices.leaving[:, :, None] - prices.entering[:, None]).masked_fill(diagonal, torch.inf)
        unit = excess.topk(min(2, cities - 1), largest=False).values.amax(2).mean(1)[:, None, None]
        choice = decode_around(self.rule, -excess, unit, count, "confidence", _VARIETY)
        choice = self.improve(instances, choice, rounds=cities)
        return Starts(choice, prices.leaving, prices.entering, prices.bound)

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0], size[0]

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return picked(self.travel(instances), choice).sum(-1)

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        size = choice.shape[-1]
        inside = ((choice >= 0) & (choice < size)).all(-1)
        successor = choice.clamp(0, size - 1)
        # every city is entered once, so that there are only cycles; and all of them are one if city 0 is the smallest
        # that any city meets on its way, over 1, 2, 4, … steps
        entered = torch.zeros_like(successor).scatter_add(-1, successor, torch.ones_like(successor))
        met = torch.arange(size, device=choice.device).expand_as(successor)
        for _ in range(size.bit_length()):
            met = torch.minimum(met, met.gather(-1, successor))
            successor = successor.gather(-1, successor)
        return inside & (entered == 1).all(-1) & (met == 0).all(-1)

    def density(self, size: Size) -> float:
        return 1.0 / size[0]

    def random_cost(self, instances: Instances) -> tuple[Tensor, Tensor] | None:
        return random_tour_cost(self.travel(instances)) if self.structure == "tour" else None

    def violation(self, x: Tensor) -> Tensor:
        """C_ATSP: squared excess of every row sum and every column sum over one."""
        return (x.sum(2) - 1).square().sum(1) + (x.sum(1) - 1).square().sum(1)

    def solution(self, choice: NDArray[np.int64]) -> list[int]:
        """Return the cities in visiting order, beginning with city 0."""
        tour, city = [0], int(choice[0])
        while city != 0 and len(tour) <= len(choice):
            tour.append(city)
            city = int(choice[city])
        return tour

    def choice(self, solution: list[int]) -> NDArray[np.int64]:
        tour = integers_of(solution)
        if sorted(tour.tolist()) != list(range(len(tour))):
            raise InputError("a tour must name every city from 0 to n-1 exactly once")
        successor = np.empty_like(tour)
        successor[tour] = np.roll(tour, -1)
        return successor

    def describe_size(self, size: Size) -> str:
        return f"tour of {size[0]} {self.row_words[1]}"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Return the tour in visiting order, back to where it begins unless it is open."""
        tour = instance.solution(choice)
        back = [] if _is_open(instance) else [tour[0]]
        return wrapped("  ", " → ".join(instance.row_labels([*tour, *back])))

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        """Draw the tour on its map, beside the matrix in the order of the tour."""
        from matplotlib.figure import Figure

        from ..plots import plot_heatmap, plot_tour

        figure = Figure(figsize=(12.0, 5.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        matrix, names, tour = self.cost_matrix(instance.batch())[0], instance.rows, instance.solution(choice)
        if instance.forbidden is not None:  # left blank in the matrix, far apart on the map
            matrix = np.where(instance.forbidden, np.nan, matrix)
        near = np.where(np.isnan(matrix), np.nanmax(matrix), matrix)
        closed = not _is_open(instance)
        plot_tour(tour, coordinates=instance.coordinates, distances=near, names=names, closed=closed, ax=left)
        steps = np.where(choice == np.arange(len(choice)), -1, choice)  # the end of a path has no successor
        plot_heatmap(matrix, steps, rows=names, columns=names, order=tour, ignore_diagonal=True, ax=right)
        right.set_title(f"cost of every step, {self.row_words[1]} in the order of the tour")
        return figure


def _is_open(instance: Instance) -> bool:
    return instance.conditions is not None and instance.conditions.open


def random_tmat(count: int, cities: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw "tmat" matrices: integers uniform on [0, 10⁶), closed under d_ij ≤ d_ik + d_kj, zero diagonal."""
    distances = rng.integers(0, 10**6, size=(count, cities, cities), dtype=np.int64).astype(np.int32)
    diagonal = np.arange(cities)
    distances[:, diagonal, diagonal] = 0
    together = max(1, 2**18 // cities**2)  # as many at once as stay in the cache
    for begin in range(0, count, together):
        part = distances[begin : begin + together]
        detour = np.empty_like(part)
        for k in range(cities):
            np.add(part[:, :, k : k + 1], part[:, k : k + 1, :], out=detour)
            np.minimum(part, detour, out=part)
    return distances


def random_tmat_on_device(cities: int, noise: Noise) -> Tensor:
    """Draw the same distribution as `random_tmat` on the device, in units of 10⁶; float32 (N, n, n)."""
    distances = noise.integers(10**6, cities, cities)
    distances = distances.masked_fill(torch.eye(cities, dtype=torch.bool, device=distances.device), 0)
    for k in range(cities):
        distances = torch.minimum(distances, distances[:, :, k : k + 1] + distances[:, k : k + 1, :])
    return distances.float() / 1e6


def random_tour_cost(travel: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of the length of uniformly random tours through (batch, n, n), (batch,) each.

    Of the (n − 1)! tours (n − 2)! use a given arc, and (n − 3)! two given arcs, unless both leave or both enter the
    same city or lead there and back, which no tour does.
    """
    size = travel.shape[-1]
    diagonal = torch.eye(size, dtype=torch.bool, device=travel.device)
    arcs = travel.double().masked_fill(diagonal, 0.0)
    average = arcs.sum((1, 2), keepdim=True) / max(1, size * (size - 1))
    # centred, so that no difference of large squares is taken
    arcs = (arcs - average).masked_fill(diagonal, 0.0)
    squares = arcs.square().sum((1, 2))
    pairs = arcs.sum((1, 2)).square() - arcs.sum(1).square().sum(1) - arcs.sum(2).square().sum(1)
    pairs = pairs + squares - (arcs * arcs.transpose(1, 2)).sum((1, 2))
    mean = average.flatten() * size
    if size < 3:  # there is but one tour
        return mean, torch.zeros_like(mean)
    variance = squares / (size - 1) + pairs / ((size - 1) * (size - 2))
    return mean, variance.clamp_min(0.0).sqrt()
