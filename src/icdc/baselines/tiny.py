"""Tours so small that the search methods do not take them."""

import numpy as np
from numpy.typing import NDArray

LARGEST = 3


def tiny_tour(matrix: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the optimal successors (n,) for two or three cities: there are at most two tours."""
    size = len(matrix)
    if size > LARGEST:
        raise ValueError(f"{size} cities are too many to try all tours")
    forth = np.roll(np.arange(size), -1)
    back = np.roll(np.arange(size), 1)
    cities = np.arange(size)
    return forth if matrix[cities, forth].sum() <= matrix[cities, back].sum() else back


def successors(tour: list[int]) -> NDArray[np.int64]:
    """Return the successors (n,) of cities in visiting order."""
    order = np.asarray(tour, dtype=np.int64)
    successor = np.empty_like(order)
    successor[order] = np.roll(order, -1)
    return successor
