"""What a network sees of schedules and tours: times and steps on the scale of what good solutions really use.

A job among fifty machines runs on one of its fastest, a step of a tour is among a city's shortest: divided by the mean
of the whole matrix all of them are zero. So everything here is measured against dual prices (`kernels.schedule_prices`
and `kernels.tour_prices`): what a choice gives away beyond the best priced one of its row, in units of what a row costs
in a balanced solution. Forbidden pairs are infinitely far from being chosen, and so at the limits of all channels.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from .. import kernels
from .candidates import Candidates, best_candidates
from .tensors import neutral, permitted_mean, permitted_pairs

SCHEDULE_CHANNELS = 8
TOUR_CHANNELS = 8
PRICE_ROUNDS = 60
"""Rounds of annealing prices: more change the order of a row's columns hardly any more."""
LARGEST = 6.0
"""Where excesses and logarithms end: further away nothing is ever chosen."""
FARTHEST = 1e3
"""Where excesses end before a logarithm is taken, and where candidates are chosen."""

_TINY = 1e-30


def schedule_channels(durations: Tensor) -> Tensor:
    """Describe pairs of jobs and machines, (batch, jobs, machines, 8), from durations (batch, jobs, machines).

    In this order: the logarithm of the time, in units u of a job's mean time in a balanced schedule; the time itself,
    up to a limit; the share of the lower bound of the makespan that it fills; what the pair gives away beyond the best
    priced machine of its job, in u, as it is and as a logarithm; the log-weights of the machine where jobs choose by
    what they give away, softly and less softly; and the logarithm of the machine's price. None depends on
    the unit of time.
    """
    return torch.stack(list(_schedule_planes(durations)[1]), -1).float()


def schedule_candidates(durations: Tensor, count: int) -> tuple[Tensor, Candidates]:
    """Describe only the `count` machines of each job that give away least, (batch, jobs, count, 8), and return both."""
    return _of_candidates(*_schedule_planes(durations), count)


def _schedule_planes(durations: Tensor) -> tuple[Tensor, Iterator[Tensor]]:
    """Return what pairs give away, and the channels one by one: all (batch, jobs, machines), float64."""
    permitted = permitted_pairs(durations)
    prices, bound = kernels.schedule_prices(durations.double(), permitted, PRICE_ROUNDS)
    times = durations.double().masked_fill(~permitted, torch.inf)
    jobs, machines = times.shape[1:]
    bound = bound[:, None, None].clamp_min(_TINY)
    unit = bound * machines / jobs
    prices = prices[:, None] * machines  # one on average
    priced = times * prices.clamp_min(_TINY)  # so that what is forbidden stays so at any price
    excess = (priced - priced.amin(2, keepdim=True)) / unit

    def planes() -> Iterator[Tensor]:
        yield _log(times / unit)
        yield (times / unit).clamp_max(LARGEST) - 1.0
        yield (times / bound).clamp_max(2.0)
        yield excess.clamp_max(LARGEST)
        yield excess.clamp_max(FARTHEST).mul(10.0).log1p() / 2.0
        yield (-excess / 0.3).log_softmax(2).clamp_min(-12.0) / 4.0
        yield (-excess / 0.03).log_softmax(2).clamp_min(-12.0) / 4.0
        yield _log(prices).expand_as(times)

    return excess, planes()


def tour_channels(distances: Tensor) -> Tensor:
    """Describe steps, (batch, n, n, 8), from distances (batch, n, n), whose diagonal is ignored; it gets zeros.

    In this order: the excess e of a step beyond the prices of leaving and entering, in units of a mean excess of the
    few best steps of a city, as it is and as a logarithm; both for the step back; log-Sinkhorn of −e at two
    temperatures; and the logarithms of its rank among the steps out of its city, and into its city. None depends on the
    unit of length, nor, where no step is forbidden, on constants added to all steps out of a city or into a city: every
    tour pays those alike.
    """
    if distances.shape[1] < 3:  # there is nothing to choose
        return distances.new_zeros(*distances.shape, TOUR_CHANNELS, dtype=torch.float32)
    return torch.stack(list(_tour_planes(distances)[1]), -1).float()


def tour_candidates(distances: Tensor, count: int) -> tuple[Tensor, Candidates]:
    """Describe only the `count` steps out of each city with the least excess, (batch, n, count, 8), and return both.

    For three cities and more.
    """
    return _of_candidates(*_tour_planes(distances), count)


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


def _of_candidates(excess: Tensor, planes: Iterator[Tensor], count: int) -> tuple[Tensor, Candidates]:
    """Return the channels of the best candidates, (batch, rows, count, channels): never all channels of all pairs."""
    candidates = best_candidates(excess.clamp_max(FARTHEST).float(), count)
    return torch.stack([candidates.of(plane).float() for plane in planes], -1), candidates


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


def log_sinkhorn(cost: Tensor, rounds: int = 12) -> Tensor:
    """Scale exp(−cost) towards a doubly stochastic matrix; return its logarithm, shape of `cost`."""
    log = -cost
    for _ in range(rounds):
        log = log - log.logsumexp(-1, keepdim=True)
        log = log - log.logsumexp(-2, keepdim=True)
    return log


def _rank(values: Tensor, axis: int) -> Tensor:
    """Return how many entries along an axis are smaller, as reals; equal ones have the same rank."""
    ordered = values.sort(axis).values.movedim(axis, -1).contiguous()
    # in units of a good step's excess; rounding must not rank what is equal
    below = torch.searchsorted(ordered, values.movedim(axis, -1).contiguous() - 1e-6)
    return below.movedim(-1, axis).double()


def _log(positive: Tensor) -> Tensor:
    """Return the logarithm of positive numbers, within limits."""
    return positive.clamp_min(_TINY).log().clamp(-LARGEST, LARGEST)
