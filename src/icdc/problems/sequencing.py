"""What problems share that put jobs into a sequence: one machine with setups, the flow shop in which no job waits.

They are tours. The jobs are cities, and one city more stands for the idle shop: from there the first job is begun, and
there the last one leads. A choice (jobs + 1,) gives every job the next one, and the idle shop, its last entry, the
first. What a step costs is by how much it moves the end, so that the length of the tour is the makespan.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, visible
from ..later import torch
from .atsp import Atsp
from .base import Arrays, Instance, Instances, Size, Structure
from .features import Features
from .text import counted
from .tours import TourProblem

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

_FEW = 60
"""Jobs up to which an answer has a line for each."""


class Sequencing(TourProblem):
    """What problems share that put jobs into a sequence; the cost is the makespan."""

    size_names: ClassVar[tuple[str, ...]] = ("jobs",)
    objective = "makespan"
    row_words = column_words = ("job", "jobs")
    structure: ClassVar[Structure | None] = "tour"
    restated = True

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

    def features(self, instances: Instances) -> Features:
        """Those of the tour; see `Atsp.features`."""
        return Atsp().features({"distances": self.travel(instances)})

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
        """Return a line for each job, in the order in which they are done."""
        order = self.solution(choice)
        names = instance.row_labels(order)
        width = max(map(len, names))
        words = self.in_words(instance, choice)
        lines = [f"  {name:<{width}}  {said}" for name, said in zip(names, words, strict=True)]
        if len(lines) > _FEW:
            lines = [*lines[: _FEW // 2], f"  … {len(lines) - _FEW} more …", *lines[-_FEW // 2 :]]
        return lines

    @abstractmethod
    def in_words(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Say of each job of the sequence when it is done."""

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        """Draw a Gantt chart, with the bound where it is one on the makespan."""
        from matplotlib.figure import Figure

        from ..plots import plot_bars

        machines = self.machine_labels(instance)
        figure = Figure(figsize=(11.0, 1.4 + 0.55 * len(machines)), layout="constrained")
        bound = None if instance.weighs_changes else bound
        plot_bars(self.bars(instance, choice), machines=machines, bound=bound, ax=figure.subplots())
        return figure

    @abstractmethod
    def machine_labels(self, instance: Instance) -> list[str]:
        """Return what the machines are called."""


Bar = tuple[int, int | float, int | float, str, bool]
"""One thing that happens: machine, begin, end, name, and whether it is work (True) or a setup (False)."""


def with_idle(between: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Return steps (batch, jobs, jobs) with one row of beginnings and one column of ends (batch, jobs) more."""
    steps = torch.cat([torch.cat([between, end[:, :, None]], 2), torch.nn.functional.pad(begin, (0, 1))[:, None]], 1)
    return steps.masked_fill(torch.eye(steps.shape[1], dtype=torch.bool, device=steps.device), 0)


def named_item(names: tuple[str, ...] | None, item: Any, word: str) -> str:
    return f"{word} {int(item) + 1}" if names is None else f"{word} '{visible(names[int(item)])}'"
