"""The asymmetric travelling salesman problem: the shortest tour through a matrix of distances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..later import torch
from .arrays import checked_matrix, exact_numbers, reject_negative
from .base import Arrays, FeatureSizes, Instances, Size
from .families_tours import TOUR_FAMILIES
from .features import Features
from .permitted import neutral, permitted_mean, permitted_pairs
from .priced import TOUR_CHANNELS, log_sinkhorn, tour_candidates, tour_channels
from .tours import TourProblem, random_tmat, random_tmat_on_device

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise


class Atsp(TourProblem):
    """Instances: `distances` (count, n, n), from row to column; the diagonal is ignored."""

    name = "atsp"
    arrays = ("distances",)
    feature_sizes = FeatureSizes(relations=6, raw_relations=1, same_items=True)
    priced_sizes = FeatureSizes(relations=TOUR_CHANNELS, raw_relations=1, same_items=True)
    families = TOUR_FAMILIES
    structure = "tour"

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        return {"distances": random_tmat(count, size[0], rng)}

    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor]:
        return {"distances": random_tmat_on_device(size[0], noise)}

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

    def travel(self, instances: Instances) -> Tensor:
        return instances["distances"]

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return the distances, (count, n, n), unless a subclass travels otherwise."""
        return exact_numbers(arrays["distances"]) if type(self).travel is Atsp.travel else super().cost_matrix(arrays)

    def permitted(self, instances: Instances) -> Tensor | None:
        """Return the steps that are in some tour worth having; see `permitted_pairs`."""
        return permitted_pairs(self.travel(instances), tour=True) if self.structure == "tour" else self.mask(instances)

    @classmethod
    def recognises(cls, shape: tuple[int, ...], same_items: bool) -> bool:
        """A matrix from items to the same items, or one that is square."""
        return same_items or (len(shape) == 2 and shape[0] == shape[1])

    def features(self, instances: Instances) -> Features:
        """D, Dᵀ, D above its row's and its column's minimum, and log-Sinkhorn of −D at two temperatures.

        Forbidden steps look somewhat longer than all others, and to log-Sinkhorn like staying in place.
        """
        permitted = permitted_pairs(instances["distances"], tour=True)
        distances = neutral(instances["distances"], permitted).float()
        diagonal = torch.eye(distances.shape[1], dtype=torch.bool, device=distances.device)
        permitted = permitted & ~diagonal
        mean = permitted_mean(distances, permitted, (1, 2))
        scaled = distances / mean.clamp_min(torch.finfo(torch.float32).tiny)
        off_diagonal = scaled.masked_fill(diagonal, torch.inf)
        chosen = scaled.masked_fill(~permitted, 20.0)
        channels = [
            scaled,
            scaled.transpose(1, 2),
            scaled - off_diagonal.amin(2, keepdim=True),
            scaled - off_diagonal.amin(1, keepdim=True),
            log_sinkhorn(chosen / 0.1).clamp_min(-12.0) / 4.0,
            log_sinkhorn(chosen / 0.03).clamp_min(-24.0) / 8.0,
        ]
        return Features(torch.stack([c.masked_fill(diagonal, 0.0) for c in channels], -1))

    def priced_features(self, instances: Instances, candidates: int = 0) -> Features:
        """What steps cost beyond the prices of an assignment; see `tour_channels`."""
        if not candidates:
            return Features(tour_channels(instances["distances"]))
        relations, chosen = tour_candidates(instances["distances"], candidates)
        return Features(relations, candidates=chosen)
