"""Navigation as tensors: hidden travel times, what a network sees instead, and the families of instances.

Families draw whole numbers, so that T_ij = ‖R_i − R_j‖²·S_ij + F_ij holds between them to the last digit, and so small
that no time, nor the sum of two, leaves 32 bits.
"""

import torch
from torch import Tensor

from ..kernels import Noise
from .base import Draw, Instances, Problem, Size
from .features import Features
from .tours_torch import closed, random_tmat_on_device

DISTRICT = 500
"""The side of the square that cities lie in, and one unit of slowness."""
TIME = DISTRICT**3
"""One unit of time, across the square's side with a slowness of one."""
_COARSE = TIME // 10**6
"""Times are drawn in millionths, as a random integer has 32 bits."""


def sample_on_device(problem: Problem, size: Size, noise: Noise) -> dict[str, Tensor]:
    cities = size[0]
    times = random_tmat_on_device(cities, noise)
    coordinates = noise.uniform(cities, 2)
    diagonal = torch.eye(cities, dtype=torch.bool, device=times.device)
    slowness = noise.uniform(cities, cities).masked_fill(diagonal, 0.0)
    traffic = times - squared_distances(coordinates) * slowness
    return {"coordinates": coordinates, "slowness": slowness, "traffic": traffic}


def travel(problem: Problem, instances: Instances) -> Tensor:
    return squared_distances(instances["coordinates"]) * instances["slowness"] + instances["traffic"]


def features(problem: Problem, instances: Instances) -> Features:
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


# Families.


def _features_first(most_traffic: float, least_slowness: float = 0.0, shortest: bool = False) -> Draw:
    """Draw features independently; times follow, and may be closed by shortest ways, which traffic then makes."""

    def draw(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
        (cities,) = size
        own = torch.eye(cities, dtype=torch.bool, device=noise.keys.device)
        coordinates = noise.integers(DISTRICT, cities, 2)
        least = round(least_slowness * DISTRICT)
        slowness = (least + noise.integers(DISTRICT - least, cities, cities)).masked_fill(own, 0)
        traffic = noise.integers(round(most_traffic * 10**6), cities, cities).masked_fill(own, 0) * _COARSE
        if shortest:
            ways = squared_distances(coordinates) * slowness
            times = closed((ways + traffic).int()).long()
            traffic = (times - ways).masked_fill(own, 0)
        return {"coordinates": coordinates, "slowness": slowness, "traffic": traffic}

    return draw


features_first = _features_first(1.0)
light_traffic = _features_first(0.1)
slow_ways = _features_first(0.4, 0.5)
shortest_ways = _features_first(0.4, 0.0, True)
