"""Instances as arrays and solutions as choices: their types, and what is done with them again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..later import kernels, torch

if TYPE_CHECKING:
    from torch import Tensor

Arrays = dict[str, NDArray[Any]]
Instances: TypeAlias = "Mapping[str, Tensor]"
Size = tuple[int, ...]


def to_tensors(arrays: Mapping[str, Any], device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Move stored arrays to a device: integers as int64 and reals as float64, so that costs stay exact."""
    return {name: torch.from_numpy(exact_numbers(array)).to(device) for name, array in arrays.items()}


def exact_numbers(array: Any) -> NDArray[Any]:
    """Return stored numbers in the types that sums are made in: integers as int64, reals as float64."""
    array = np.asarray(array)
    kind = np.int64 if np.issubdtype(array.dtype, np.integer) else np.float64
    return np.ascontiguousarray(array, dtype=kind)


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


def integers_of(solution: Sequence[int]) -> NDArray[np.int64]:
    """Return a list of integers as an array (items,); anything else is an InputError, never rounded."""
    try:
        items = np.asarray(solution)
    except (ValueError, OverflowError):
        items = np.empty(0)
    if items.ndim != 1 or not items.size:
        raise InputError("a solution must be a list of integers")
    if not np.issubdtype(items.dtype, np.integer):
        place = next((i for i, item in enumerate(solution) if not isinstance(item, int | np.integer)), 0)
        raise InputError(f"entry {place + 1} of the solution is {solution[place]!r}, not an integer")
    return items.astype(np.int64)
