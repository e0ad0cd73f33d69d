"""The navigation problem (NP): a tour whose travel times are hidden behind features.

Cities have coordinates R; pairs of cities have a slowness S (time per squared distance) and a traffic term F.
The travel time T_ij = ‖R_i − R_j‖²·S_ij + F_ij scores solutions and is never shown to the network.
The distributions are reconstructed from the figures the paper prints, not taken from its text: T is a tmat
matrix, R and S are uniform, and F is what is left.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from .arrays import checked_matrix
from .base import Arrays, Family, FeatureSizes, InTorch, Size
from .tours import TourProblem, random_tmat

in_torch = partial(InTorch, "icdc.problems.navigation_torch")

_UNITS = {"coordinates": 500.0, "slowness": 500.0, "traffic": 500.0**3}

FAMILIES: dict[str, Family] = {
    "paper": Family("the paper's own: times first, a tmat matrix; traffic is what random features leave of them"),
    "features-first": Family(
        "features first, traffic from 0 to 1; times follow from them", in_torch("features_first"), _UNITS
    ),
    "light-traffic": Family("features first, traffic from 0 to .1", in_torch("light_traffic"), _UNITS),
    "slow-ways": Family("features first, traffic from 0 to .4, slowness from .5 to 1", in_torch("slow_ways"), _UNITS),
    "shortest-ways": Family(
        "features first, times closed by shortest ways, traffic as they leave it",
        in_torch("shortest_ways"),
        _UNITS,
    ),
}
"""By name; features are uniform where nothing else is said."""


class Navigation(TourProblem):
    """Instances: `coordinates` (count, n, 2), `slowness` (count, n, n) and `traffic` (count, n, n)."""

    name = "navigation"
    arrays = ("coordinates", "slowness", "traffic")
    entries = "travel times"
    feature_sizes = FeatureSizes(relations=7, raw_relations=2, rows=2, columns=2, same_items=True)
    families = FAMILIES

    sample_on_device = in_torch("sample_on_device")
    travel = in_torch("travel")
    features = in_torch("features")

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        cities = size[0]
        times = random_tmat(count, cities, rng) / 1e6
        coordinates = rng.integers(0, 10**6, size=(count, cities, 2)) / 1e6
        slowness = rng.integers(0, 10**6, size=(count, cities, cities)) / 1e6
        slowness[:, np.arange(cities), np.arange(cities)] = 0.0
        squared = np.square(coordinates[:, :, None] - coordinates[:, None]).sum(-1)
        return {"coordinates": coordinates, "slowness": slowness, "traffic": times - squared * slowness}

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
