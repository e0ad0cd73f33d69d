"""Matrices of distances as tensors: what a network sees of them, and the families they are drawn from."""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from .. import kernels
from ..kernels import Noise
from .base import Instances, Problem, Size
from .families import NORMAL_STEPS, looked_up, normal_table
from .features import FARTHEST, LARGEST, PRICE_ROUNDS, Features, channels_of_candidates
from .tensors import neutral, permitted_mean, permitted_pairs
from .tours_torch import closed, distance_features, random_tmat_on_device, steps_of

_TINY = 1e-30

SIDE = 10**6
"""The side of the square that cities lie in, and the largest random distance."""
FORBIDDEN = 10**9
"""The distance that forbids a step: up to 1,000 cities no tour without it is as long."""
_GRID = 40
"""Stacks along each side of a crane's yard."""
_FAR = 10**9
"""Longer than any way through a network of roads, and small enough to be added to another in 32 bits."""
_SLOW = 3 * SIDE
"""A step of the slow way along all crossings."""


def sample_on_device(problem: Problem, size: Size, noise: Noise) -> dict[str, Tensor]:
    return {"distances": random_tmat_on_device(size[0], noise)}


def travel(problem: Problem, instances: Instances) -> Tensor:
    return instances["distances"]


def permitted(problem: Problem, instances: Instances) -> Tensor | None:
    """Return the steps that are in some tour worth having; see `permitted_pairs`."""
    return (
        permitted_pairs(steps_of(problem, instances), tour=True)
        if problem.structure == "tour"
        else problem.mask(instances)
    )


def features(problem: Problem, instances: Instances) -> Features:
    return distance_features(instances["distances"])


def priced_features(problem: Problem, instances: Instances, candidates: int = 0) -> Features:
    """What steps cost beyond the prices of an assignment; see `tour_channels`."""
    if not candidates:
        return Features(tour_channels(instances["distances"]))
    relations, chosen = channels_of_candidates(*_tour_planes(instances["distances"]), candidates)
    return Features(relations, candidates=chosen)


def tour_channels(distances: Tensor) -> Tensor:
    """Describe steps, (batch, n, n, 8), from distances (batch, n, n), whose diagonal is ignored; it gets zeros.

    In this order: the excess e of a step beyond the prices of leaving and entering, in units of a mean excess of the
    few best steps of a city, as it is and as a logarithm; both for the step back; log-Sinkhorn of −e at two
    temperatures; and the logarithms of its rank among the steps out of its city, and into its city. None depends on the
    unit of length, nor, where no step is forbidden, on constants added to all steps out of a city or into a city: every
    tour pays those alike.
    """
    if distances.shape[1] < 3:  # there is nothing to choose
        return distances.new_zeros(*distances.shape, 8, dtype=torch.float32)
    return torch.stack(list(_tour_planes(distances)[1]), -1).float()


def _tour_planes(distances: Tensor) -> tuple[Tensor, Iterator[Tensor]]:
    """Return the excess of steps, infinite on the diagonal, and the channels one by one: all (batch, n, n), float64."""
    diagonal = torch.eye(distances.shape[1], dtype=torch.bool, device=distances.device)
    permitted = permitted_pairs(distances, tour=True)
    steps = _without_additive_part(neutral(distances, permitted).double(), diagonal)
    prices = kernels.tour_prices(steps, permitted, PRICE_ROUNDS)
    excess = (steps - prices.leaving[:, :, None] - prices.entering[:, None]).clamp_min(0.0)
    excess = excess.masked_fill(~permitted, torch.inf)
    excess = (excess / _unit_of(excess, diagonal)).masked_fill(diagonal, torch.inf)

    def planes() -> Iterator[Tensor]:
        flat = excess.clamp_max(LARGEST), excess.clamp_max(FARTHEST).mul(4.0).log1p() / 2.0
        yield from flat
        yield from (plane.transpose(1, 2) for plane in flat)
        for heat in (1.0, 0.25):
            yield _balanced(excess.clamp_max(FARTHEST) / heat).clamp_min(-12.0) / 4.0
        for axis in (2, 1):
            yield _rank(excess, axis).log1p() / 2.0

    return excess, (plane.masked_fill(diagonal, 0.0) for plane in planes())


def _without_additive_part(steps: Tensor, diagonal: Tensor) -> Tensor:
    """Return steps less the constants of rows and columns that fit them best (least squares off the diagonal)."""
    size = steps.shape[1]
    steps = steps.masked_fill(diagonal, 0.0)
    out, into = steps.sum(2, keepdim=True), steps.sum(1, keepdim=True)
    half = out.sum(1, keepdim=True) / (2 * (size - 1))  # both kinds of constants add up to this
    own_out, own_into = out - half, into.transpose(1, 2) - half
    by_row = ((size - 1) * own_out + own_into) / (size * (size - 2))
    by_column = ((size - 1) * own_into + own_out) / (size * (size - 2))
    return (steps - by_row - by_column.transpose(1, 2)).masked_fill(diagonal, 0.0)


def _unit_of(excess: Tensor, diagonal: Tensor) -> Tensor:
    """Return the mean excess of the few best steps out of cities, (batch, 1, 1); where all tie, of all steps."""
    size = excess.shape[1]
    near = excess.masked_fill(diagonal, torch.inf).topk(min(5, size - 1), 2, largest=False).values
    near = permitted_mean(near, near.isfinite(), (1, 2))[:, 0, 0]
    mean = excess.masked_fill(diagonal | excess.isinf(), 0.0).sum((1, 2)) / (size * (size - 1))
    return torch.maximum(near, 0.01 * mean).clamp_min(_TINY)[:, None, None]


def _balanced(cost: Tensor, rounds: int = 12) -> Tensor:
    """Return what `log_sinkhorn` does, by one exponential and products with vectors.

    Rows and columns need an entry near zero each, as what steps give away has: none of their sums vanishes.
    """
    weight = (-cost).exp()
    by_column = torch.ones_like(weight[:, :1])
    by_row = torch.ones_like(weight[:, :, :1])
    for _ in range(rounds):
        by_row = (weight @ by_column.transpose(1, 2)).clamp_min(_TINY).reciprocal()
        by_column = (by_row.transpose(1, 2) @ weight).clamp_min(_TINY).reciprocal()
    return by_row.log() + by_column.log() - cost


def _rank(values: Tensor, axis: int) -> Tensor:
    """Return how many entries along an axis are smaller, as reals; equal ones have the same rank."""
    ordered = values.sort(axis).values.movedim(axis, -1).contiguous()
    # in units of a good step's excess; rounding must not rank what is equal
    below = torch.searchsorted(ordered, values.movedim(axis, -1).contiguous() - 1e-6)
    return below.movedim(-1, axis).double()


# Families.


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
