"""What problems share that put jobs into a sequence: one machine with setups, the flow shop in which no job waits.

They are tours. The jobs are cities, and one city more stands for the idle shop: from there the first job is begun, and
there the last one leads. A choice (jobs + 1,) gives every job the next one, and the idle shop, its last entry, the
first. What a step costs is by how much it moves the end, so that the length of the tour is the makespan.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, visible
from . import present
from .base import Arrays, InTorch, Size
from .instance import Instance
from .present import Bar, counted
from .tours import TourProblem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


in_torch = partial(InTorch, "icdc.problems.tours_torch")


class Sequencing(TourProblem):
    """What problems share that put jobs into a sequence; the cost is the makespan."""

    size_names: ClassVar[tuple[str, ...]] = ("jobs",)
    objective = "makespan"
    row_words = column_words = ("job", "jobs")
    structure: ClassVar[str | None] = "tour"
    restated = True

    features = in_torch("sequence_features")

    @abstractmethod
    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return by how much the end moves if the column's job follows the row's, (count, jobs + 1, jobs + 1)."""

    @abstractmethod
    def bars(self, instance: Instance, choice: NDArray[np.int64]) -> list[Bar]:
        """Return what happens when, in the order of the sequence."""

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0] + 1, size[0] + 1

    def named(self, size: Size) -> tuple[int, int]:
        return size[0], size[0]

    def density(self, size: Size) -> float:
        return 1.0 / (size[0] + 1)

    def solution(self, choice: NDArray[np.int64]) -> list[int]:
        """Return the jobs in the order in which they are done."""
        idle = len(choice) - 1
        order: list[int] = []
        job = int(choice[idle])
        while job != idle and len(order) <= idle:
            order.append(job)
            job = int(choice[job])
        return order

    def choice(self, solution: list[int]) -> NDArray[np.int64]:
        try:
            return super().choice([*solution, len(solution)])
        except InputError as error:
            reason = str(error)
            if reason.startswith("a tour"):
                reason = "a sequence must name every job from 0 to n-1 exactly once"
            raise InputError(reason) from None

    def solution_header(self) -> tuple[str, str]:
        return "position", "job"

    def describe_pair(self, instance: Instance, pair: tuple[int, int]) -> str:
        """Name a succession: "job 'b' after job 'a'"; the idle shop, which comes before and after all, is no job."""
        idle = instance.size[0]
        row, column = pair
        if row == idle:
            return f"{instance.row_text(column)} first"
        if column == idle:
            return f"{instance.row_text(row)} last"
        return f"{instance.row_text(column)} after {instance.row_text(row)}"

    def describe_size(self, size: Size) -> str:
        return f"sequence of {counted(size[0], self.row_words)}"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        return present.sequence_lines(instance, self.solution(choice), self.in_words(instance, choice))

    @abstractmethod
    def in_words(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Say of each job of the sequence when it is done."""

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        return present.draw_bars(instance, self.bars(instance, choice), self.machine_labels(instance), bound)

    @abstractmethod
    def machine_labels(self, instance: Instance) -> list[str]:
        """Return what the machines are called."""


def named_item(names: tuple[str, ...] | None, item: Any, word: str) -> str:
    return f"{word} {int(item) + 1}" if names is None else f"{word} '{visible(names[int(item)])}'"
