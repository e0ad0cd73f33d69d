"""What all problems share whose solution is one tour through n items."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..kernels import Noise
from .bounds import assignment_bound
from .contract import Arrays, Instances, Problem, Size, integers_of, picked, to_tensors
from .instance import Instance
from .rules import HamiltonianCycle
from .text import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class TourProblem(Problem):
    """Rows and columns are the same cities; row i chooses the city that follows i."""

    size_names = ("cities",)
    rule = HamiltonianCycle()
    objective = "length"
    row_words = column_words = ("city", "cities")
    entries = "distances"
    solution_is_tour = True
    structure = "tour"

    @abstractmethod
    def travel(self, instances: Instances) -> Tensor:
        """Return what each step costs, (batch, n, n); used to score, never shown to the network."""

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return what each step costs, (count, n, n)."""
        return self.travel(to_tensors(arrays)).numpy()

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return the assignment bound, (count,)."""
        return assignment_bound(self.cost_matrix(arrays))

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0], size[0]

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return picked(self.travel(instances), choice).sum(-1)

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        size = choice.shape[-1]
        inside = ((choice >= 0) & (choice < size)).all(-1)
        successor = choice.clamp(0, size - 1)
        # walk n steps from city 0: a tour sees every city once and comes home
        city = torch.zeros_like(successor[..., :1])
        visits = torch.zeros_like(successor)
        for _ in range(size):
            city = successor.gather(-1, city)
            visits = visits.scatter_add(-1, city, torch.ones_like(city))
        return inside & (visits == 1).all(-1)

    def density(self, size: Size) -> float:
        return 1.0 / size[0]

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
        """Return the tour in visiting order, back to where it begins."""
        tour = self.solution(choice)
        return wrapped("  ", " → ".join(instance.row_labels([*tour, tour[0]])))

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> "Figure":
        """Draw the tour on its map, beside the matrix in the order of the tour."""
        from matplotlib.figure import Figure

        from ..plots import plot_heatmap, plot_tour

        figure = Figure(figsize=(12.0, 5.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        matrix, names, tour = self.cost_matrix(instance.batch())[0], instance.rows, self.solution(choice)
        plot_tour(tour, coordinates=instance.coordinates, distances=matrix, names=names, ax=left)
        plot_heatmap(matrix, choice, rows=names, columns=names, order=tour, ignore_diagonal=True, ax=right)
        right.set_title(f"cost of every step, {self.row_words[1]} in the order of the tour")
        return figure


def random_tmat(count: int, cities: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw "tmat" matrices: integers uniform on [0, 10⁶), closed under d_ij ≤ d_ik + d_kj, zero diagonal."""
    distances = rng.integers(0, 10**6, size=(count, cities, cities), dtype=np.int64)
    diagonal = np.arange(cities)
    distances[:, diagonal, diagonal] = 0
    for k in range(cities):
        np.minimum(distances, distances[:, :, k : k + 1] + distances[:, k : k + 1, :], out=distances)
    return distances.astype(np.int32)


def random_tmat_on_device(cities: int, noise: Noise) -> Tensor:
    """Draw the same distribution as `random_tmat` on the device, in units of 10⁶; float32 (N, n, n)."""
    distances = noise.integers(10**6, cities, cities)
    distances = distances.masked_fill(torch.eye(cities, dtype=torch.bool, device=distances.device), 0)
    for k in range(cities):
        distances = torch.minimum(distances, distances[:, :, k : k + 1] + distances[:, k : k + 1, :])
    return distances.float() / 1e6
