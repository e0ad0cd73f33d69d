"""Instances as tensors and solutions as choices: what is done with them again and again."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .. import kernels
from .arrays import exact_numbers

FAR = 1.25
"""What a forbidden pair looks like to a network, in largest permitted entries: bad, but not out of scale."""


def to_tensors(arrays: Mapping[str, Any], device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Move stored arrays to a device: integers as int64 and reals as float64, so that costs stay exact."""
    return {name: torch.from_numpy(exact_numbers(array)).to(device) for name, array in arrays.items()}


def picked(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return matrix[b, r, choice[b, k, r]], (batch, samples, rows), for matrix (batch, rows, columns)."""
    return kernels.picked(matrix, choice)


def totals_by_column(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return what the rows that chose a column add up to there, for each column: (batch, samples, columns).

    From matrix (batch, rows, columns) and choices (batch, samples, rows): the loads of machines, for example.
    """
    return kernels.column_totals(matrix, choice)


def one_hot(choice: Tensor, columns: int) -> Tensor:
    """Return the solution matrix (…, rows, columns), float32, of choices (…, rows)."""
    zeros = torch.zeros(*choice.shape, columns, device=choice.device)
    return zeros.scatter(-1, choice[..., None], 1.0)


def permitted_pairs(matrices: Tensor, tour: bool = False) -> Tensor:
    """Return which pairs a matrix permits, (batch, rows, columns) bool; `forbidden.permitted_in` says how it shows.

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
