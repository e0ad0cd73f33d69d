"""The navigation problem (NP): a tour whose travel times are hidden behind features.

Cities have coordinates R; pairs of cities have a slowness S (time per squared distance) and a traffic term F.
The travel time T_ij = ‖R_i − R_j‖²·S_ij + F_ij scores solutions and is never shown to the network.
The distributions are reconstructed from the figures the paper prints, not taken from its text: T is a tmat
matrix, R and S are uniform, and F is what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..later import torch
from .arrays import checked_matrix
from .base import Arrays, FeatureSizes, Instances, Size
from .families_navigation import NAVIGATION_FAMILIES
from .features import Features
from .tours import TourProblem, random_tmat, random_tmat_on_device

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise


class Navigation(TourProblem):
    """Instances: `coordinates` (count, n, 2), `slowness` (count, n, n) and `traffic` (count, n, n)."""

    name = "navigation"
    arrays = ("coordinates", "slowness", "traffic")
    entries = "travel times"
    feature_sizes = FeatureSizes(relations=7, raw_relations=2, rows=2, columns=2, same_items=True)
    families = NAVIGATION_FAMILIES

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        cities = size[0]
        times = random_tmat(count, cities, rng) / 1e6
        coordinates = rng.integers(0, 10**6, size=(count, cities, 2)) / 1e6
        slowness = rng.integers(0, 10**6, size=(count, cities, cities)) / 1e6
        slowness[:, np.arange(cities), np.arange(cities)] = 0.0
        squared = np.square(coordinates[:, :, None] - coordinates[:, None]).sum(-1)
        return {"coordinates": coordinates, "slowness": slowness, "traffic": times - squared * slowness}

    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor]:
        cities = size[0]
        times = random_tmat_on_device(cities, noise)
        coordinates = noise.uniform(cities, 2)
        diagonal = torch.eye(cities, dtype=torch.bool, device=times.device)
        slowness = noise.uniform(cities, cities).masked_fill(diagonal, 0.0)
        traffic = times - squared_distances(coordinates) * slowness
        return {"coordinates": coordinates, "slowness": slowness, "traffic": traffic}

    def size(self, arrays: Mapping[str, Any]) -> Size:
        return (int(arrays["coordinates"].shape[1]),)

    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        checked = {name: checked_matrix(arrays[name], f"the array '{name}'") for name in self.arrays}
        cities = checked["coordinates"].shape[1]
        if cities < 2:
            raise InputError("a tour needs at least 2 cities, got 1")
        if checked["coordinates"].shape[2] != 2:
            raise InputError("the array 'coordinates' must have two columns, x and y")
        for name in ("slowness", "traffic"):
            if checked[name].shape[1:] != (cities, cities):
                shape = " × ".join(map(str, checked[name].shape[1:]))
                raise InputError(f"the array '{name}' must be {cities} × {cities} for {cities} cities, got {shape}")
        if len({len(array) for array in checked.values()}) > 1:
            raise InputError("the arrays hold different numbers of instances")
        return checked

    def travel(self, instances: Instances) -> Tensor:
        return squared_distances(instances["coordinates"]) * instances["slowness"] + instances["traffic"]

    def features(self, instances: Instances) -> Features:
        """S and F (raw), their transposes, F above its row's and column's minimum, and squared distances.

        One unit of length and one of time are taken out of everything, so that T = ‖R_i − R_j‖²·S_ij + F_ij
        still holds between the features up to a factor; no element combines R, S and F.
        """
        # in double precision until the units are out: squares and products of them need not fit single precision
        slowness, traffic = instances["slowness"].double(), instances["traffic"].double()
        coordinates = instances["coordinates"].double()
        coordinates = coordinates - coordinates.mean(1, keepdim=True)
        size = coordinates.shape[1]
        diagonal = torch.eye(size, dtype=torch.bool, device=coordinates.device)

        def mean(matrix: Tensor) -> Tensor:
            return matrix.masked_fill(diagonal, 0.0).sum((1, 2), keepdim=True) / (size * (size - 1))

        tiny = torch.finfo(torch.float32).tiny
        area = mean(squared_distances(coordinates)).clamp_min(tiny)  # the unit of length, squared
        coordinates = coordinates / area.sqrt()
        time = ((mean(slowness.abs()) * area + mean(traffic.abs())) / 2).clamp_min(tiny)
        slowness, traffic = slowness * area / time, traffic / time
        off_diagonal = traffic.masked_fill(diagonal, torch.inf)
        channels = [
            slowness,
            traffic,
            slowness.transpose(1, 2),
            traffic.transpose(1, 2),
            traffic - off_diagonal.amin(2, keepdim=True),
            traffic - off_diagonal.amin(1, keepdim=True),
            squared_distances(coordinates),
        ]
        relations = torch.stack([c.masked_fill(diagonal, 0.0) for c in channels], -1).float()
        items = coordinates.float()
        return Features(relations, rows=items, columns=items)


def squared_distances(coordinates: Tensor) -> Tensor:
    """Return ‖R_i − R_j‖², (batch, n, n), from coordinates (batch, n, 2)."""
    return (coordinates[:, :, None] - coordinates[:, None]).square().sum(-1)
