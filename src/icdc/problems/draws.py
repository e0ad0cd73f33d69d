"""How the families of instances are drawn: functions of a size and of random integers, on every device alike.

They compute with integers and square roots alone, which every machine rounds alike; whatever needs another function
takes it from a table of integers.
"""

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import torch
from torch import Tensor

from ..kernels import Noise
from .base import Draw
from .tours_torch import squared_distances

NORMAL_STEPS = 4096
"""Equally likely values that stand for a normal distribution in `normal_table`."""

SIDE = 10**6
"""The side of the square that cities lie in, and the largest random distance."""
FORBIDDEN = 10**9
"""The distance that forbids a step: up to 1,000 cities no tour without it is as long."""
HUGE = 1_000_000
"""The processing time that forbids a pair: below 10,000 jobs no schedule without it is as long."""
DISTRICT = 500
"""Of navigation: the side of the square that cities lie in, and one unit of slowness."""
TIME = DISTRICT**3
"""Of navigation: one unit of time, across the square's side with a slowness of one."""

_SPEEDS = 1024
"""Different speeds of a machine."""
_GRID = 40
"""Stacks along each side of a crane's yard."""
_FAR = 10**9
"""Longer than any way through a network of roads, and small enough to be added to another in 32 bits."""
_SLOW = 3 * SIDE
"""A step of the slow way along all crossings."""
_CLOSED_TOGETHER = 2**18
"""Distances of the matrices that are closed together on a CPU: its cache holds them."""
_COARSE = TIME // 10**6
"""Times are drawn in millionths, as a random integer has 32 bits."""


# Distances.


def uniform_distances(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    (cities,) = size
    return _matrix(1 + noise.integers(SIDE - 1, cities, cities))


def noisy_plane(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    (cities,) = size
    return _matrix(_longer(_straight(noise.integers(SIDE, cities, 2)), 150_000, noise))


def one_way_plane(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    (cities,) = size
    distances = _straight(noise.integers(SIDE, cities, 2))
    upper = torch.ones(cities, cities, dtype=torch.bool, device=distances.device).triu(1)
    coin = (noise.integers(2, cities, cities) == 1) & upper
    against = coin | (~coin & upper).transpose(1, 2)
    return _matrix(torch.where(against, _longer(distances, 2_000_000, noise), distances))


def roads(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """Half the crossings of a sparse network: streets to the four nearest, a third of them one-way."""
    (cities,) = size
    crossings = max(2 * cities, 5)
    straight = _straight(noise.integers(SIDE, crossings, 2)) + 1
    index = torch.arange(crossings, device=straight.device)
    own = index[:, None] == index
    # ties by index, so that every device finds the same neighbours
    order = torch.where(own, 4 * SIDE, straight) * crossings + index
    near = torch.zeros_like(order, dtype=torch.bool).scatter_(2, order.topk(4, dim=2, largest=False).indices, True)
    both_ways = near & (noise.integers(3, crossings, crossings) != 0)
    streets = torch.where(near | both_ways.transpose(1, 2), straight, _FAR)
    # a slow way along all crossings keeps every one of them reachable
    slow = _around(crossings, noise)
    streets = torch.where(slow, streets.clamp_max(_SLOW), streets).masked_fill_(own, 0)
    return _matrix(closed(streets.int())[:, :cities, :cities])


def crane(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """From a delivery to the next pick-up, both axes moving at once."""
    (cities,) = size
    pick, place = noise.integers(_GRID, cities, 2), noise.integers(_GRID, cities, 2)
    return _matrix((place[:, :, None] - pick[:, None]).abs().amax(3))


def clustered(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    (cities,) = size
    groups = max(2, cities // 25)
    centres = noise.integers(SIDE, groups, 2)
    home = centres.gather(1, noise.integers(groups, cities)[..., None].expand(-1, -1, 2))
    spread = looked_up(_spread_table(), noise.integers(NORMAL_STEPS, cities, 2))
    return _matrix(_longer(_straight(home + spread), 150_000, noise))


def forbidden_steps(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """Random distances closed by shortest ways, of which 3 in 10 are forbidden, but none of a hidden tour."""
    (cities,) = size
    random = noise.integers(SIDE, cities, cities)
    own = torch.eye(cities, dtype=torch.bool, device=random.device)
    ways = closed(random.masked_fill(own, 0).int()).long()
    return _matrix(torch.where(_around(cities, noise) | (noise.integers(10, cities, cities) >= 3), ways, FORBIDDEN))


def _around(cities: int, noise: Noise) -> Tensor:
    """Return the steps of one random tour through all cities, (N, n, n) bool."""
    number = noise.integers(2**30, cities)
    # ties by index, so that every device finds the same order
    order = (number * cities + torch.arange(cities, device=number.device)).argsort(1)
    after = torch.zeros_like(order).scatter_(1, order, order.roll(-1, 1))
    steps = torch.zeros(*order.shape, cities, dtype=torch.bool, device=number.device)
    return steps.scatter_(2, after[..., None], True)


def closed(distances: Tensor) -> Tensor:
    """Return the lengths of shortest ways, int32 (N, n, n), for lengths of single steps of at most 10⁹."""
    cities = distances.shape[1]
    together = _CLOSED_TOGETHER // cities**2 if distances.device.type == "cpu" else len(distances)
    parts = []
    for part in distances.split(max(1, together)):
        part = part.clone()
        detour = torch.empty_like(part)
        for k in range(cities):
            torch.add(part[:, :, k : k + 1], part[:, k : k + 1, :], out=detour)
            torch.minimum(part, detour, out=part)
        parts.append(part)
    return torch.cat(parts)


def _straight(places: Tensor) -> Tensor:
    """Return distances (N, n, n) in a plane, rounded, of places (N, n, 2) with whole coordinates."""
    across = places[:, :, None] - places[:, None]
    # squares below 2⁵³ are exact in float64, and its square root is rounded alike everywhere
    return across.square().sum(3).double().sqrt().round().long()


def _longer(distances: Tensor, most: int, noise: Noise) -> Tensor:
    """Return distances (N, n, n), each longer by up to `most` millionths at random."""
    return distances * (10**6 + noise.integers(most + 1, *distances.shape[1:])) // 10**6


def _matrix(distances: Tensor) -> dict[str, Tensor]:
    cities = distances.shape[1]
    return {"distances": distances.masked_fill(torch.eye(cities, dtype=torch.bool, device=distances.device), 0)}


@cache
def _spread_table() -> tuple[int, ...]:
    return tuple(map(round, normal_table(0.03 * SIDE)))


# Processing times.


def _uniform_times(high: int) -> Draw:
    def draw(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
        return {"durations": 1 + noise.integers(high, *size)}

    return draw


def job_correlated(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """A base of every job plus noise: machines nearly alike, the hardest to balance."""
    jobs, machines = size
    return {"durations": 2 + noise.integers(100, jobs, 1) + noise.integers(20, jobs, machines)}


def machine_correlated(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """A base of every machine plus noise: jobs nearly alike, most of the work on the fast machines."""
    jobs, machines = size
    return {"durations": 2 + noise.integers(100, 1, machines) + noise.integers(20, jobs, machines)}


def speeds(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """The work of a job over the speed of a machine, each pair disturbed."""
    jobs, machines = size
    work, speed = 100 + noise.integers(901, jobs, 1), looked_up(_speed_table(), noise.integers(_SPEEDS, 1, machines))
    disturbed = work * (800 + noise.integers(401, jobs, machines))
    return {"durations": ((2 * disturbed + speed) // (2 * speed)).clamp_min(1)}


def heavy_tailed(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    return {"durations": looked_up(_log_normal_table(), noise.integers(NORMAL_STEPS, *size))}


def forbidden_pairs(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """Each job has one machine for sure, and every other one with a chance of a third."""
    jobs, machines = size
    durations = 1 + noise.integers(100, jobs, machines)
    own = noise.integers(machines, jobs, 1) == torch.arange(machines, device=durations.device)
    return {"durations": torch.where(own | (noise.integers(3, jobs, machines) == 0), durations, HUGE)}


@cache
def _speed_table() -> tuple[int, ...]:
    """Speeds from 1 to e², in thousandths."""
    return rounded_exponentials([2.0 * (step + 0.5) / _SPEEDS for step in range(_SPEEDS)], 1000.0)


@cache
def _log_normal_table() -> tuple[int, ...]:
    return tuple(max(1, value) for value in rounded_exponentials(normal_table(1.2), 20.0))


uniform_100, uniform_1000 = _uniform_times(100), _uniform_times(1000)


# Navigation. All numbers are whole, so that T_ij = ‖R_i − R_j‖²·S_ij + F_ij holds between them to the last digit, and
# small enough that no time, nor the sum of two, leaves 32 bits.


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


# Tables.


def normal_table(scale: float) -> tuple[float, ...]:
    """Return `NORMAL_STEPS` equally likely values of a normal distribution with mean zero."""
    normal = NormalDist(0.0, scale)
    return tuple(normal.inv_cdf((step + 0.5) / NORMAL_STEPS) for step in range(NORMAL_STEPS))


def looked_up(table: tuple[int, ...], index: Tensor) -> Tensor:
    """Return the entries of a table of integers, (shape of `index`) int64."""
    return _on_device(table, index.device)[index]


@cache
def _on_device(table: tuple[int, ...], device: torch.device) -> Tensor:
    """Return a table as a tensor; kept, since a captured graph cannot copy it from the host."""
    return torch.tensor(table, dtype=torch.int64, device=device)


def rounded_exponentials(values: Sequence[float], factor: float) -> tuple[int, ...]:
    """Return factor · exp(value) of every value as integers, the same wherever logarithms are right to 1e-9."""
    return tuple(round(factor * math.exp(value)) for value in values)
