"""The asymmetric travelling salesman problem: the shortest tour through a matrix of distances."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .arrays import checked_matrix, exact_numbers, reject_negative
from .base import Arrays, FeatureSizes, InTorch, Size
from .families import TOUR_FAMILIES
from .tours import TourProblem, random_tmat


class Atsp(TourProblem):
    """Instances: `distances` (count, n, n), from row to column; the diagonal is ignored."""

    name = "atsp"
    arrays = ("distances",)
    feature_sizes = FeatureSizes(relations=6, raw_relations=1, same_items=True)
    priced_sizes = FeatureSizes(relations=8, raw_relations=1, same_items=True)
    families = TOUR_FAMILIES
    structure = "tour"

    sample_on_device = InTorch("icdc.problems.tours_torch:sample_distances")
    travel = InTorch("icdc.problems.tours_torch:distances")
    permitted = InTorch("icdc.problems.tours_torch:permitted_steps")
    features = InTorch("icdc.problems.tours_torch:distance_features")
    priced_features = InTorch("icdc.problems.tours_torch:priced_features")

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        return {"distances": random_tmat(count, size[0], rng)}

    def size(self, arrays: Mapping[str, Any]) -> Size:
        return (int(arrays["distances"].shape[1]),)

    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        distances = checked_matrix(arrays["distances"], "the distance matrix")
        _, rows, columns = distances.shape
        if rows != columns:
            raise InputError(f"the distance matrix must be square, got {rows} rows and {columns} columns")
        if rows < 2:
            raise InputError("a tour needs at least 2 cities, got 1")
        distances = distances.copy()
        distances[:, np.arange(rows), np.arange(rows)] = 0
        reject_negative(distances, "the distance matrix")
        return {"distances": distances}

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return the distances, (count, n, n), unless a subclass travels otherwise."""
        return exact_numbers(arrays["distances"]) if type(self).travel is Atsp.travel else super().cost_matrix(arrays)

    @classmethod
    def recognises(cls, shape: tuple[int, ...], same_items: bool) -> bool:
        """A matrix from items to the same items, or one that is square."""
        return same_items or (len(shape) == 2 and shape[0] == shape[1])
