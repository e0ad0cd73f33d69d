"""Which pairs a matrix permits: one number that is larger than any solution without it stands for "forbidden".

Costs and bounds need nothing more (`forbidden` puts such numbers in), but whoever measures a matrix, or chooses from it
step by step, must not take them for numbers. So the mask is read off the matrix itself, here and nowhere else: whatever
carries a matrix carries its mask, through files, batches, memories and devices.

Leaving these pairs out never loses an optimum: a solution that uses one costs more than every solution that uses none.
On tours there may be none of those; then masks are wishes, and whoever has no other way out takes a forbidden step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..later import torch

if TYPE_CHECKING:
    from torch import Tensor

FAR = 1.25
"""What a forbidden pair looks like to a network, in largest permitted entries: bad, but not out of scale."""


def permitted_pairs(matrices: Tensor, tour: bool = False) -> Tensor:
    """Return which pairs are permitted, (batch, rows, columns) bool; no value is read on the host.

    All are, where no number can only mean "forbidden": the largest must be more than a solution costs that does without
    it, at most, and leave every row (and on tours every column) another one.

    Parameters
    ----------
    matrices : (batch, rows, columns), what pairs cost.
    tour : whether the diagonal does not count; it is always permitted.
    """
    costs = matrices.double()
    ignored = torch.zeros_like(costs[0], dtype=torch.bool)
    if tour:
        ignored = torch.eye(costs.shape[1], dtype=torch.bool, device=costs.device)
        costs = costs.masked_fill(ignored, 0.0)
    largest = costs.amax((1, 2), keepdim=True)
    usable = (costs < largest) & ~ignored
    dearest = costs.masked_fill(~usable, 0.0).amax(2).sum(1)[:, None, None]
    means_forbidden = (largest > dearest * (1 + 1e-12)) & (costs.amin((1, 2), keepdim=True) >= 0)
    means_forbidden &= usable.any(2).all(1)[:, None, None]
    if tour:
        means_forbidden &= usable.any(1).all(1)[:, None, None]
    return usable | ignored | ~means_forbidden


def permitted_in(matrices: NDArray[Any], tour: bool = False) -> NDArray[np.bool_]:
    """Return the same for arrays (count, rows, columns), without torch."""
    costs = matrices.astype(np.float64)
    ignored = np.zeros(costs.shape[1:], dtype=bool)
    if tour:
        np.fill_diagonal(ignored, True)
        costs = np.where(ignored, 0.0, costs)
    largest = costs.max((1, 2), keepdims=True)
    usable = (costs < largest) & ~ignored
    dearest = np.where(usable, costs, 0.0).max(2).sum(1)[:, None, None]
    means_forbidden = (largest > dearest * (1 + 1e-12)) & (costs.min((1, 2), keepdims=True) >= 0)
    means_forbidden &= usable.any(2).all(1)[:, None, None]
    if tour:
        means_forbidden &= usable.any(1).all(1)[:, None, None]
    return np.asarray(usable | ignored | ~means_forbidden)


def neutral(matrices: Tensor, permitted: Tensor) -> Tensor:
    """Return matrices (batch, rows, columns) whose forbidden entries are somewhat above all others.

    Whole numbers become float64. For what measures and scales: stand-ins are larger than all else together.
    """
    largest = matrices.masked_fill(~permitted, 0).amax((1, 2), keepdim=True)
    far = FAR * largest.double()
    return torch.where(permitted, matrices, far.to(matrices.dtype if matrices.is_floating_point() else torch.float64))


def permitted_mean(matrices: Tensor, permitted: Tensor, dim: int | tuple[int, int]) -> Tensor:
    """Return the mean of the permitted entries along some axes, which stay; they are never none at all."""
    count = permitted.sum(dim, keepdim=True).clamp_min(1)
    return matrices.masked_fill(~permitted, 0.0).sum(dim, keepdim=True) / count
