"""Numbers that come from outside, from files and from Python alike: checked, and in the types that sums are made in.

Every refusal names the entry and what is wrong with it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

LARGEST_INTEGER = 2**53
"""Integers up to here have exact sums and comparisons in int64 and in float64 alike."""

LARGEST_SUM = 2**62
"""Sums of integers up to here are exact in int64; instances in which a solution may cost more are refused."""

LARGEST_REAL = 1e30
"""Reals up to here can be added and squared in the network's float32 arithmetic after scaling."""


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
    if array.dtype == object and all(type(value) is int for value in array.flat):
        raise InputError(f"{what} has a value that is too large")  # more than any integer type of NumPy holds
    if not is_numeric(array):
        raise InputError(f"{what} must hold numbers, got {array.dtype}")
    _reject(~np.isfinite(array), f"{what} has a value that is not finite")
    _reject(too_large(array), f"{what} has a value that is too large")
    if np.issubdtype(array.dtype, np.integer) and highest_sums(array).max() > LARGEST_SUM:
        raise InputError(f"{what} has integers that are too large to be added exactly; use a larger unit, or decimals")
    return as_stored(array)


def reject_negative(array: NDArray[Any], what: str) -> None:
    """Raise InputError naming the first negative entry of a batch of matrices."""
    negative = array < 0
    if negative.any():
        _reject(negative, f"{what} has the negative value {array[negative][0]}")


def is_numeric(array: NDArray[Any]) -> bool:
    """Tell whether an array holds integers or reals; truth values, complex numbers and times are neither."""
    return array.dtype.kind in "iuf"


def too_large(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which numbers are beyond what can be computed with exactly (integers) or safely (reals)."""
    if np.issubdtype(array.dtype, np.integer):
        return np.asarray((array > LARGEST_INTEGER) | (array < -LARGEST_INTEGER))
    with np.errstate(over="ignore"):
        limit = array.dtype.type(LARGEST_REAL)  # infinite in half precision, where nothing is too large
    return np.asarray(np.isfinite(array) & (np.abs(array) > limit))


def highest_sums(matrices: NDArray[Any]) -> NDArray[np.float64]:
    """Return what a solution of each matrix (count, rows, columns) costs at most, (count,): one entry of each row."""
    return np.asarray(np.abs(matrices.astype(np.float64)).max(2).sum(1))


def as_stored(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as instances keep them: integers as they are (uint64 as int64), reals as float64."""
    if np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64) if array.dtype == np.uint64 else array
    return array.astype(np.float64, copy=False)


def _reject(wrong: NDArray[np.bool_], sentence: str) -> None:
    """Raise InputError with the place of the first wrong entry of a batch of matrices, if there is one."""
    if wrong.any():
        _, row, column = np.argwhere(wrong)[0]
        raise InputError(f"{sentence} at row {row + 1}, column {column + 1}")


def without_infinity(array: NDArray[Any], nan_too: bool = False) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return numbers with 0 in place of infinity, which marks what is forbidden, and where it was.

    Whole numbers that are reals only for the sake of infinity become integers again.

    nan_too : whether NaN marks the same.
    """
    if array.dtype.kind != "f":
        return array, np.zeros(array.shape, dtype=bool)
    infinite = np.isposinf(array) | (np.isnan(array) & nan_too)
    if not infinite.any():
        return array, infinite
    rest = np.where(infinite, 0.0, array)
    whole = np.isfinite(rest).all() and (rest == np.rint(rest)).all() and np.abs(rest).max() <= LARGEST_INTEGER
    return rest.astype(np.int64) if whole else rest, infinite


def exact_numbers(array: Any) -> NDArray[Any]:
    """Return stored numbers in the types that sums are made in: integers as int64, reals as float64."""
    array = np.asarray(array)
    kind = np.int64 if np.issubdtype(array.dtype, np.integer) else np.float64
    return np.ascontiguousarray(array, dtype=kind)


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
