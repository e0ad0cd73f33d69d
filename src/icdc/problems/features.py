"""What a network sees of instances, and how large that is: all that a network ever knows about a problem."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .candidates import Candidates
from .tensors import one_hot


@dataclass(frozen=True)
class Features:
    """What the network sees of a batch of instances.

    relations : Tensor (batch, rows, columns, channels)
        Raw relations first (`FeatureSizes.raw_relations` of them), derived ones after.
    rows, columns : Tensor (batch, items, channels) or None
        Features of the items themselves, where the problem has any.
    candidates : the columns of each row that relations are of, (batch, rows, k, channels), where they are not of all.
    """

    relations: Tensor
    rows: Tensor | None = None
    columns: Tensor | None = None
    candidates: Candidates | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Return how many rows and columns there are."""
        rows, columns = self.relations.shape[1:3]
        return rows, columns if self.candidates is None else self.candidates.columns

    def marked(self, choice: Tensor) -> Tensor:
        """Return the solution matrices of choices (batch, rows) as the network sees them: of the shape of relations."""
        if self.candidates is None:
            return one_hot(choice, self.relations.shape[2])
        return self.candidates.mark(choice)

    def repeat(self, samples: int) -> Features:
        """Return the features with every instance `samples` times in a row."""
        if samples == 1:
            return self
        return Features(
            self.relations.repeat_interleave(samples, 0),
            None if self.rows is None else self.rows.repeat_interleave(samples, 0),
            None if self.columns is None else self.columns.repeat_interleave(samples, 0),
            None if self.candidates is None else self.candidates.repeat(samples),
        )
