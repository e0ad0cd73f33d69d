"""One instance with its problem, where it came from, and what its items are called."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .contract import Arrays, Problem

Names = tuple[str, ...]


@dataclass(frozen=True)
class Instance:
    """One checked instance.

    name : where it came from: the file, with the instance's number in brackets where the file has several.
    problem : what it is an instance of.
    arrays : the problem's arrays, without a batch axis.
    rows, columns : names of the items, where the file gave any.
    coordinates : (n, 2) float64, where the file gave any; used to draw.
    """

    name: str
    problem: Problem
    arrays: Arrays
    rows: Names | None = None
    columns: Names | None = None
    coordinates: NDArray[np.float64] | None = None

    def batch(self) -> Arrays:
        """Return the arrays with a leading axis of one."""
        return {name: array[None] for name, array in self.arrays.items()}

    @property
    def integral(self) -> bool:
        """Whether every array holds integers, so that costs are exact."""
        return all(np.issubdtype(array.dtype, np.integer) for array in self.arrays.values())

    def row_labels(self, items: Iterable[int]) -> list[str]:
        """Return rows by name where they have names, by number from 0 where not."""
        return _labels(items, self.rows)

    def column_labels(self, items: Iterable[int]) -> list[str]:
        """Return columns by name where they have names, by number from 0 where not."""
        return _labels(items, self.columns)


def _labels(items: Iterable[int], names: Names | None) -> list[str]:
    return [str(item) if names is None else names[item] for item in items]
