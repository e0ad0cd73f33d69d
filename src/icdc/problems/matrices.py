"""Checks of matrices that come from outside; every refusal names the entry and what is wrong with it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError


def checked_matrix(matrix: Any, what: str) -> NDArray[Any]:
    """Return a batch of finite numeric matrices (count, rows, columns), or say what is wrong with it."""
    try:
        array = np.asarray(matrix)
    except ValueError:
        raise InputError(f"{what} must be a matrix, got rows of different lengths") from None
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise InputError(f"{what} must be a matrix, got an array with {array.ndim} axes")
    if array.size == 0:
        raise InputError(f"{what} is empty")
    if array.dtype == bool or not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise InputError(f"{what} must hold numbers, got {array.dtype}")
    if not np.issubdtype(array.dtype, np.integer):
        broken = np.argwhere(~np.isfinite(array))
        if len(broken):
            _, row, column = broken[0]
            raise InputError(f"{what} has a value that is not finite at row {row + 1}, column {column + 1}")
    return array


def reject_negative(array: NDArray[Any], what: str) -> None:
    """Raise InputError naming the first negative entry of a batch of matrices."""
    negative = np.argwhere(array < 0)
    if len(negative):
        index, row, column = negative[0]
        value = array[index, row, column]
        raise InputError(f"{what} has the negative value {value} at row {row + 1}, column {column + 1}")
