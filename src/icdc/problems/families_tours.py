"""Families of asymmetric distances: random, in a plane, along roads, with ties, in clusters."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .families import NORMAL_STEPS, Family, looked_up, normal_table

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise

SIDE = 10**6
"""The side of the square that cities lie in, and the largest random distance."""

_GRID = 40
"""Stacks along each side of a crane's yard."""
_FAR = 10**9
"""Longer than any way through a network of roads, and small enough to be added to another in 32 bits."""
FORBIDDEN = 10**9
"""The distance that forbids a step: up to 1,000 cities no tour without it is as long."""
_SLOW = 3 * SIDE
"""A step of the slow way along all crossings."""
_CLOSED_TOGETHER = 2**18
"""Distances of the matrices that are closed together on a CPU: its cache holds them."""


def _uniform(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    (cities,) = size
    return _matrix(1 + noise.integers(SIDE - 1, cities, cities))


def _noisy_plane(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    (cities,) = size
    return _matrix(_longer(_straight(noise.integers(SIDE, cities, 2)), 150_000, noise))


def _one_way_plane(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    import torch

    (cities,) = size
    distances = _straight(noise.integers(SIDE, cities, 2))
    upper = torch.ones(cities, cities, dtype=torch.bool, device=distances.device).triu(1)
    coin = (noise.integers(2, cities, cities) == 1) & upper
    against = coin | (~coin & upper).transpose(1, 2)
    return _matrix(torch.where(against, _longer(distances, 2_000_000, noise), distances))


def _roads(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """Half the crossings of a sparse network: streets to the four nearest, a third of them one-way."""
    import torch

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


def _crane(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """From a delivery to the next pick-up, both axes moving at once."""
    (cities,) = size
    pick, place = noise.integers(_GRID, cities, 2), noise.integers(_GRID, cities, 2)
    return _matrix((place[:, :, None] - pick[:, None]).abs().amax(3))


def _clustered(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    (cities,) = size
    groups = max(2, cities // 25)
    centres = noise.integers(SIDE, groups, 2)
    home = centres.gather(1, noise.integers(groups, cities)[..., None].expand(-1, -1, 2))
    spread = looked_up(_spread_table(), noise.integers(NORMAL_STEPS, cities, 2))
    return _matrix(_longer(_straight(home + spread), 150_000, noise))


def _forbidden(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """Random distances closed by shortest ways, of which 3 in 10 are forbidden, but none of a hidden tour."""
    import torch

    (cities,) = size
    random = noise.integers(SIDE, cities, cities)
    own = torch.eye(cities, dtype=torch.bool, device=random.device)
    ways = closed(random.masked_fill(own, 0).int()).long()
    return _matrix(torch.where(_around(cities, noise) | (noise.integers(10, cities, cities) >= 3), ways, FORBIDDEN))


def _around(cities: int, noise: Noise) -> Tensor:
    """Return the steps of one random tour through all cities, (N, n, n) bool."""
    import torch

    number = noise.integers(2**30, cities)
    # ties by index, so that every device finds the same order
    order = (number * cities + torch.arange(cities, device=number.device)).argsort(1)
    after = torch.zeros_like(order).scatter_(1, order, order.roll(-1, 1))
    steps = torch.zeros(*order.shape, cities, dtype=torch.bool, device=number.device)
    return steps.scatter_(2, after[..., None], True)


def closed(distances: Tensor) -> Tensor:
    """Return the lengths of shortest ways, int32 (N, n, n), for lengths of single steps of at most 10⁹."""
    import torch

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
    import torch

    cities = distances.shape[1]
    return {"distances": distances.masked_fill(torch.eye(cities, dtype=torch.bool, device=distances.device), 0)}


@cache
def _spread_table() -> tuple[int, ...]:
    return tuple(map(round, normal_table(0.03 * SIDE)))


TOUR_FAMILIES: dict[str, Family] = {
    "tmat": Family("the paper's own: random distances closed by shortest ways"),
    "uniform": Family("random distances from 1 to 999,999; a detour may be shorter", _uniform, SIDE),
    "noisy-plane": Family("a square, every direction up to 15 % longer: nearly symmetric", _noisy_plane, SIDE),
    "one-way-plane": Family("a square, one direction of each pair up to three times as long", _one_way_plane, SIDE),
    "roads": Family("shortest ways along a sparse network of streets, a third one-way", _roads, SIDE),
    "crane": Family("from a delivery to the next pick-up on a grid of 40 × 40: many ties", _crane, _GRID),
    "clustered": Family("a few clusters in a square, every direction up to 15 % longer", _clustered, SIDE),
    "forbidden": Family(
        f"as tmat, but 3 of 10 steps are forbidden, by {FORBIDDEN:,}; there always is a tour", _forbidden, SIDE, True
    ),
}
"""By name."""
