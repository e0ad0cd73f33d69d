"""Instances as tensors and solutions as choices: what is done with them again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..later import kernels, torch
from .arrays import exact_numbers

if TYPE_CHECKING:
    from torch import Tensor


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
