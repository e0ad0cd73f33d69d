"""Reals as integers for solvers that take nothing else, with the error this makes stated."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class IntegerMatrix:
    """A matrix of integers that stands for a matrix of numbers.

    values : (rows, columns) int64, non-negative: round((matrix − offset of its row) · scale).
    scale : units of `values` per unit of the matrix.
    shift : what the offsets add up to over a whole solution, in units of the matrix.
    error : how far the cost of a whole solution may be off through rounding, in units of the matrix.
    """

    values: NDArray[np.int64]
    scale: float
    shift: float
    error: float

    def cost(self, value: float) -> float:
        """Return what a sum of `values` means in the units of the matrix."""
        return value / self.scale + self.shift

    def bound(self, value: float) -> float:
        """Return a lower bound in the units of the matrix from one on sums of `values`."""
        return value / self.scale + self.shift - self.error


def as_integers(
    matrix: NDArray[np.int64] | NDArray[np.float64], largest: int = 10**9, *, tour: bool = False
) -> IntegerMatrix:
    """Write a matrix (rows, columns) as integers of at most `largest`.

    Integers stay as they are if they fit. Reals with few decimals are scaled by a power of ten, all others so
    that the greatest becomes `largest`. For tours the smallest entry off the diagonal is taken off each row
    first, which every tour pays whatever it does, and the diagonal is set to zero.
    """
    rows = len(matrix)
    shift = matrix.dtype.type(0)
    if tour:
        diagonal = np.eye(rows, dtype=bool)
        least = np.where(diagonal, matrix.max(), matrix).min(1, keepdims=True)
        matrix = np.where(diagonal, 0, matrix - least)
        shift = least.sum()
    top = float(matrix.max(initial=0))
    if np.issubdtype(matrix.dtype, np.integer) and top <= largest:
        return IntegerMatrix(matrix.astype(np.int64), 1.0, float(shift), 0.0)
    scale = largest / top if top > 0 else 1.0
    for decimals in range(10):
        scaled = matrix * 10.0**decimals
        if float(scaled.max(initial=0)) > largest:
            break
        if np.abs(scaled - np.rint(scaled)).max(initial=0.0) < 1e-6:
            scale = 10.0**decimals
            break
    values = np.rint(matrix * scale)
    # what rounding to integers hides, and what sums of float64 in any order may add to it
    error = rows * float(np.abs(matrix - values / scale).max(initial=0.0) + 4 * np.finfo(np.float64).eps * top)
    return IntegerMatrix(values.astype(np.int64), scale, float(shift), error)
