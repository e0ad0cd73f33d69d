"""What a method does with instances of one size: steps on tensors that stay where they are."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from .checkpoint import Means
from .graphs import Step
from .sources import Source


class SizeSteps(ABC):
    """The steps of a method for instances of one size, on tensors that stay where they are.

    Parameters
    ----------
    source : where instances come from.
    count : how many there are at a time.
    metrics : the names of what steps report.
    """

    def __init__(self, source: Source, count: int, metrics: Sequence[str], device: torch.device) -> None:
        self.source, self.count, self.metrics = source, count, Means(metrics, device)
        drawn = source.draw(count)
        self.instances = {name: values.clone() for name, values in drawn.instances.items()}
        self.solutions = drawn.solutions

    @abstractmethod
    def recordable(self) -> list[Step]:
        """Return the steps that the run takes and that need nothing of the host, in their order."""

    def draw(self) -> None:
        """Replace the instances by new ones."""
        drawn = self.source.draw(self.count)
        for name, values in drawn.instances.items():
            self.instances[name].copy_(values)
        if self.solutions is not None and drawn.solutions is not None:
            self.solutions.copy_(drawn.solutions)

    def kept(self) -> dict[str, Tensor]:
        """Return the tensors that a resumed run needs again."""
        return {}

    def tensors(self) -> list[Tensor]:
        """Return every tensor that the steps change."""
        solutions = [] if self.solutions is None else [self.solutions]
        return [*self.instances.values(), *solutions, *self.kept().values(), *self.metrics.tensors()]
