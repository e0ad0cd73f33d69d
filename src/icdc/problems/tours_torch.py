"""Tours as tensors: cost, feasibility, what a network sees of them, and tours to begin with.

`tours` is what they are without torch.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import kernels
from ..kernels import Noise
from .base import Arrays, Instances, Problem
from .decoding import Starts, decode_around
from .features import Features
from .local_search import construct as draw_and_improve
from .tensors import neutral, permitted_mean, permitted_pairs, picked, to_tensors

_CLOSED_TOGETHER = 2**18
"""Distances of the matrices that are closed together on a CPU: its cache holds them."""
_VARIETY = 0.3
"""Temperature of starting tours after the first, in units of what a city's second best step gives away."""


def steps_of(problem: Problem, instances: Instances) -> Tensor:
    """Return what each step costs, (batch, n, n)."""
    steps = problem.travel(instances)
    assert steps is not None  # every problem whose solutions are tours says it
    return steps


def cost_matrix(problem: Problem, arrays: Arrays) -> NDArray[Any]:
    """Return what each step costs, (count, n, n)."""
    matrices: NDArray[Any] = steps_of(problem, to_tensors(arrays)).numpy()
    return matrices


def cost(problem: Problem, instances: Instances, choice: Tensor) -> Tensor:
    return picked(steps_of(problem, instances), choice).sum(-1)


def feasible(problem: Problem, instances: Instances, choice: Tensor) -> Tensor:
    size = choice.shape[-1]
    inside = ((choice >= 0) & (choice < size)).all(-1)
    successor = choice.clamp(0, size - 1)
    # every city is entered once, so that there are only cycles; and all of them are one if city 0 is the smallest
    # that any city meets on its way, over 1, 2, 4, … steps
    entered = torch.zeros_like(successor).scatter_add(-1, successor, torch.ones_like(successor))
    met = torch.arange(size, device=choice.device).expand_as(successor)
    for _ in range(size.bit_length()):
        met = torch.minimum(met, met.gather(-1, successor))
        successor = successor.gather(-1, successor)
    return inside & (entered == 1).all(-1) & (met == 0).all(-1)


def violation(problem: Problem, x: Tensor) -> Tensor:
    """C_ATSP: squared excess of every row sum and every column sum over one."""
    return (x.sum(2) - 1).square().sum(1) + (x.sum(1) - 1).square().sum(1)


def construct(problem: Problem, instances: Instances, count: int = 1) -> Starts:
    """Join the steps that cost least beyond the prices of leaving and entering cities, and improve the tours."""
    if problem.structure != "tour":
        return draw_and_improve(problem, instances, count)
    travel = steps_of(problem, instances)
    cities = travel.shape[1]
    prices = kernels.tour_prices(travel)
    diagonal = torch.eye(cities, dtype=torch.bool, device=travel.device)
    excess = (travel - prices.leaving[:, :, None] - prices.entering[:, None]).masked_fill(diagonal, torch.inf)
    unit = excess.topk(min(2, cities - 1), largest=False).values.amax(2).mean(1)[:, None, None]
    choice = decode_around(problem.rule, -excess, unit, count, "confidence", _VARIETY)
    choice = problem.improve(instances, choice, rounds=cities)
    return Starts(choice, prices.leaving, prices.entering, prices.bound)


def random_cost(problem: Problem, instances: Instances) -> tuple[Tensor, Tensor] | None:
    return random_tour_cost(steps_of(problem, instances)) if problem.structure == "tour" else None


def random_tour_cost(travel: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of the length of uniformly random tours through (batch, n, n), (batch,) each.

    Of the (n − 1)! tours (n − 2)! use a given arc, and (n − 3)! two given arcs, unless both leave or both enter the
    same city or lead there and back, which no tour does.
    """
    size = travel.shape[-1]
    diagonal = torch.eye(size, dtype=torch.bool, device=travel.device)
    arcs = travel.double().masked_fill(diagonal, 0.0)
    average = arcs.sum((1, 2), keepdim=True) / max(1, size * (size - 1))
    # centred, so that no difference of large squares is taken
    arcs = (arcs - average).masked_fill(diagonal, 0.0)
    squares = arcs.square().sum((1, 2))
    pairs = arcs.sum((1, 2)).square() - arcs.sum(1).square().sum(1) - arcs.sum(2).square().sum(1)
    pairs = pairs + squares - (arcs * arcs.transpose(1, 2)).sum((1, 2))
    mean = average.flatten() * size
    if size < 3:  # there is but one tour
        return mean, torch.zeros_like(mean)
    variance = squares / (size - 1) + pairs / ((size - 1) * (size - 2))
    return mean, variance.clamp_min(0.0).sqrt()


def random_tmat_on_device(cities: int, noise: Noise) -> Tensor:
    """Draw the same distribution as `random_tmat` on the device, in units of 10⁶; float32 (N, n, n)."""
    distances = noise.integers(10**6, cities, cities)
    distances = distances.masked_fill(torch.eye(cities, dtype=torch.bool, device=distances.device), 0)
    return closed(distances).float() / 1e6


def closed(distances: Tensor) -> Tensor:
    """Return the lengths of shortest ways, (N, n, n), for lengths of single steps (in 32 bits of at most 10⁹)."""
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


def distance_features(distances: Tensor) -> Features:
    """D, Dᵀ, D above its row's and its column's minimum, and log-Sinkhorn of −D at two temperatures.

    Forbidden steps look somewhat longer than all others, and to log-Sinkhorn like staying in place.
    """
    permitted = permitted_pairs(distances, tour=True)
    distances = neutral(distances, permitted).float()
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


def log_sinkhorn(cost: Tensor, rounds: int = 12) -> Tensor:
    """Scale exp(−cost) towards a doubly stochastic matrix; return its logarithm, shape of `cost`."""
    log = -cost
    for _ in range(rounds):
        log = log - log.logsumexp(-1, keepdim=True)
        log = log - log.logsumexp(-2, keepdim=True)
    return log


# Sequences of jobs.


def sequence_features(problem: Problem, instances: Instances) -> Features:
    """Return the features of the equivalent tour."""
    return distance_features(steps_of(problem, instances))


def flow_shop_travel(problem: Problem, instances: Instances) -> Tensor:
    """Compute `cost_matrix` with tensors, on their device."""
    durations = instances["durations"]
    ended = durations.cumsum(2)
    before = ended - durations
    later = ended[:, :, None, 0] - before[:, None, :, 0]
    for machine in range(1, durations.shape[2]):
        later = torch.maximum(later, ended[:, :, None, machine] - before[:, None, :, machine])
    return with_idle(later, torch.zeros_like(ended[:, :, -1]), ended[:, :, -1])


def setups_travel(problem: Problem, instances: Instances) -> Tensor:
    """Compute `cost_matrix` with tensors, on their device."""
    setups, durations, initial = (instances[name] for name in problem.arrays)
    return with_idle(setups + durations[:, None], initial + durations, torch.zeros_like(durations))


def with_idle(between: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Return steps (batch, jobs, jobs) with one row of beginnings and one column of ends (batch, jobs) more."""
    steps = torch.cat([torch.cat([between, end[:, :, None]], 2), torch.nn.functional.pad(begin, (0, 1))[:, None]], 1)
    return steps.masked_fill(torch.eye(steps.shape[1], dtype=torch.bool, device=steps.device), 0)
