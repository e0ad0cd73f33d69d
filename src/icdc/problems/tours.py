"""What all problems share whose solution is one tour through n items."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from . import present
from .arrays import integers_of
from .base import Arrays, Instances, InTorch, Problem, Size
from .bounds import assignment_bound
from .instance import Instance

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor


in_torch = partial(InTorch, "icdc.problems.tours_torch")


class TourProblem(Problem):
    """Rows and columns are the same cities; row i chooses the city that follows i."""

    size_names: ClassVar[tuple[str, ...]] = ("cities",)
    rule = InTorch("icdc.problems.rules", "HamiltonianCycle")
    objective = "length"
    row_words = column_words = ("city", "cities")
    entries = "distances"
    solution_is_tour = True
    structure: ClassVar[str | None] = "tour"

    cost = in_torch("cost")
    feasible = in_torch("feasible")
    violation = in_torch("violation")
    random_cost = in_torch("random_cost")
    construct = in_torch("construct")
    cost_matrix = in_torch("cost_matrix")

    @abstractmethod
    def travel(self, instances: Instances) -> Tensor:
        """Return what each step costs, (batch, n, n); used to score, never shown to the network.

        Search uses it, too: it is hidden from the network and not from a solver.
        """

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return the assignment bound, (count,)."""
        return assignment_bound(self.cost_matrix(arrays))

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0], size[0]

    def density(self, size: Size) -> float:
        return 1.0 / size[0]

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
        return present.tour_lines(instance, choice)

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        return present.draw_tour(instance, choice)


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
