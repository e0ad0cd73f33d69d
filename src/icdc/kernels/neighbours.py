"""Which pairs of rows and columns have an edge, where not all of them do, seen from both sides."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .choosing import network_kernels_run_on


@dataclass(frozen=True)
class Neighbours:
    """The k columns that each row of B instances has an edge to; N = B · K matrices have K of each instance's edges.

    index : the columns (B, R, k), int64.
    columns : how many columns there are.
    order : for each instance its edges, numbered through its rows, in the order of their columns (B, R · k), int32.
    starts : where the edges of each column begin in `order`, and where all end (B, C + 1), int32. Both are there where
        kernels ask for them.
    """

    index: Tensor
    columns: int
    order: Tensor | None = None
    starts: Tensor | None = None

    def of_all(self, count: int) -> Tensor:
        """Return the columns (N, R, k) for `count` = N matrices, K of each instance, instance-major."""
        samples = count // len(self.index)
        return self.index if samples == 1 else self.index.repeat_interleave(samples, 0)


def neighbours(index: Tensor, columns: int) -> Neighbours:
    """Return what rows with edges to the columns `index` (B, R, k) are to each other, ready for the device."""
    if not network_kernels_run_on(index.device):
        return Neighbours(index, columns)
    column, order = index.flatten(1).sort(dim=1, stable=True)
    bounds = torch.arange(columns + 1, device=index.device).expand(len(index), -1).contiguous()
    return Neighbours(index, columns, order.int(), torch.searchsorted(column, bounds).int())
