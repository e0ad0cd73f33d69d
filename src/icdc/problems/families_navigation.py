"""Families of hidden travel times: which of times and features is drawn first, and how much of a time is traffic.

All numbers are whole, so that T_ij = ‖R_i − R_j‖²·S_ij + F_ij holds between them to the last digit, and small enough
that no time, nor the sum of two, leaves 32 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .families import Draw, Family
from .families_tours import closed

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise

SIDE = 500
"""Of the square that cities lie in; and one unit of slowness."""
TIME = SIDE**3
"""One unit of time: across the square's side with a slowness of one."""
UNITS = {"coordinates": float(SIDE), "slowness": float(SIDE), "traffic": float(TIME)}

_COARSE = TIME // 10**6
"""Times are drawn in millionths, as a random integer has 32 bits."""


def _features_first(most_traffic: float, least_slowness: float = 0.0, shortest: bool = False) -> Draw:
    """Draw features independently; times follow, and may be closed by shortest ways, which traffic then makes."""

    def draw(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
        import torch

        (cities,) = size
        own = torch.eye(cities, dtype=torch.bool, device=noise.keys.device)
        coordinates = noise.integers(SIDE, cities, 2)
        least = round(least_slowness * SIDE)
        slowness = (least + noise.integers(SIDE - least, cities, cities)).masked_fill(own, 0)
        traffic = noise.integers(round(most_traffic * 10**6), cities, cities).masked_fill(own, 0) * _COARSE
        if shortest:
            ways = _squared(coordinates) * slowness
            times = closed((ways + traffic).int()).long()
            traffic = (times - ways).masked_fill(own, 0)
        return {"coordinates": coordinates, "slowness": slowness, "traffic": traffic}

    return draw


def _squared(coordinates: Tensor) -> Tensor:
    """Return squared distances, (N, n, n) int64, of whole coordinates (N, n, 2)."""
    return (coordinates[:, :, None] - coordinates[:, None]).square().sum(3)


NAVIGATION_FAMILIES: dict[str, Family] = {
    "paper": Family("the paper's own: times first, a tmat matrix; traffic is what random features leave of them"),
    "features-first": Family(
        "features first, traffic from 0 to 1; times follow from them", _features_first(1.0), UNITS
    ),
    "light-traffic": Family("features first, traffic from 0 to .1", _features_first(0.1), UNITS),
    "slow-ways": Family(
        "features first, traffic from 0 to .4, slowness from .5 to 1", _features_first(0.4, 0.5), UNITS
    ),
    "shortest-ways": Family(
        "features first, times closed by shortest ways, traffic as they leave it",
        _features_first(0.4, 0.0, True),
        UNITS,
    ),
}
"""By name; features are uniform where nothing else is said."""
