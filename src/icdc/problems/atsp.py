"""The asymmetric travelling salesman problem: the shortest tour through a matrix of distances."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .arrays import checked_matrix, exact_numbers, reject_negative
from .base import Arrays, Family, FeatureSizes, InTorch, Size
from .tours import TourProblem, random_tmat

in_torch = partial(InTorch, "icdc.problems.atsp_torch")

FAMILIES: dict[str, Family] = {
    "tmat": Family("the paper's own: random distances closed by shortest ways"),
    "uniform": Family(
        "random distances from 1 to 999,999; a detour may be shorter", in_torch("uniform_distances"), 10**6
    ),
    "noisy-plane": Family(
        "a square, every direction up to 15 % longer: nearly symmetric", in_torch("noisy_plane"), 10**6
    ),
    "one-way-plane": Family(
        "a square, one direction of each pair up to three times as long", in_torch("one_way_plane"), 10**6
    ),
    "roads": Family("shortest ways along a sparse network of streets, a third one-way", in_torch("roads"), 10**6),
    "crane": Family("from a delivery to the next pick-up on a grid of 40 × 40: many ties", in_torch("crane"), 40),
    "clustered": Family("a few clusters in a square, every direction up to 15 % longer", in_torch("clustered"), 10**6),
    "forbidden": Family(
        "as tmat, but 3 of 10 steps are forbidden, by 1,000,000,000; there always is a tour",
        in_torch("forbidden_steps"),
        10**6,
        True,
    ),
}
"""By name."""


class Atsp(TourProblem):
    """Instances: `distances` (count, n, n), from row to column; the diagonal is ignored."""

    name = "atsp"
    arrays = ("distances",)
    feature_sizes = FeatureSizes(relations=6, raw_relations=1, same_items=True)
    priced_sizes = FeatureSizes(relations=8, raw_relations=1, same_items=True)
    families = FAMILIES
    structure = "tour"

    sample_on_device = in_torch("sample_on_device")
    travel = in_torch("travel")
    permitted = in_torch("permitted")
    features = in_torch("features")
    priced_features = in_torch("priced_features")

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
