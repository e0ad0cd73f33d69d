"""Prices of columns and rows for whole batches of instances, and the lower bounds they prove, on any device.

Exact duals of one instance come from a linear program (`icdc.search`). Here all instances of a batch are priced at once
by a fixed number of tensor operations: prices are annealed, from soft decisions of the rows to nearly hard ones. They
are never quite the best, but the bound that follows from any prices is proven: it is computed from them by weak
duality, and lowered by all possible rounding.
"""

from typing import NamedTuple

import torch
from torch import Tensor

_EPSILON = torch.finfo(torch.float64).eps
_TINY = 1e-300


class SchedulePrices(NamedTuple):
    """Prices of columns (batch, columns), not negative, that sum to one, and lower bounds of the makespan (batch,).

    Both are float64. λ_c t_rc less the least of its row is the excess of row r on column c.
    """

    prices: Tensor
    bound: Tensor


class TourPrices(NamedTuple):
    """Prices of leaving and of entering a city, (batch, n), and lower bounds of a tour's length (batch,); all float64.

    No permitted step costs less than both of its prices, up to rounding: their sum is what every tour pays at least.
    """

    leaving: Tensor
    entering: Tensor
    bound: Tensor


def schedule_prices(times: Tensor, allowed: Tensor | None = None, rounds: int = 100) -> SchedulePrices:
    """Price the columns so that rows which choose by price and time, softly, load all of them nearly alike.

    For any prices λ ≥ 0 that sum to one, no makespan is below Σ_r min_c λ_c t_rc: the largest load is no less than
    their weighted mean. Prices of crowded columns rise and the others fall, by steps that shrink while rows decide
    ever harder; those with the best bound are kept.

    Parameters
    ----------
    times : (batch, rows, columns), not negative.
    allowed : (batch, rows, columns) bool, True where permitted; every row needs a permitted column.
    rounds : of raising and lowering prices.

    Returns
    -------
    SchedulePrices, whose bounds are whole where times are: rounded up.
    """
    exact = times.double()
    finite = exact if allowed is None else exact.masked_fill(~allowed, 0.0)
    barred = exact if allowed is None else exact.masked_fill(~allowed, float("inf"))
    scale = finite.amax((1, 2), keepdim=True).clamp_min(_TINY)
    finite, scaled = finite / scale, barred / scale
    columns = times.shape[2]
    prices = torch.full_like(finite[:, :1], 1.0 / columns)
    best, best_value = prices, _priced_least(scaled, prices).sum(1, keepdim=True)
    for turn in range(rounds):
        priced = _priced(scaled, prices)
        least = priced.amin(2, keepdim=True)
        unit = least.mean(1, keepdim=True).clamp_min(_TINY)
        cold = 0.5 * (0.01 / 0.5) ** (turn / max(1, rounds - 1))
        share = ((least - priced) / (cold * unit)).softmax(2)
        load = (share * finite).sum(1, keepdim=True)
        ratio = (load / load.mean(2, keepdim=True).clamp_min(_TINY)).clamp(0.4, 2.5)
        prices = prices * ratio ** (0.5 * 0.05 ** (turn / max(1, rounds - 1)))
        prices = prices / prices.sum(2, keepdim=True)
        value = _priced_least(scaled, prices).sum(1, keepdim=True)
        better = value > best_value
        best, best_value = torch.where(better, prices, best), torch.where(better, value, best_value)
    value = _priced_least(barred, best).sum((1, 2))
    value = value - 4 * (times.shape[1] + columns) * _EPSILON * value
    value = value if times.is_floating_point() else _rounded_up(value)
    # a row is never split; beyond 2⁵³ float64 may have rounded its time up
    shortest = barred.amin(2).amax(1)
    shortest = torch.where(shortest < 2**53, shortest, shortest * (1 - _EPSILON))
    return SchedulePrices(best[:, 0], torch.maximum(value, shortest))


def tour_prices(distances: Tensor, allowed: Tensor | None = None, rounds: int = 100) -> TourPrices:
    """Compute prices of leaving and entering by softened Sinkhorn iterations; their sum is a lower bound.

    Every city has one successor and one predecessor, so a tour pays all prices, and what its steps cost beyond them;
    if no step costs less than its prices, their sum is a lower bound, at best the cheapest assignment. Leaving and
    entering take turns to let each city be chosen once (Sinkhorn's iteration, in logarithms), while choices get ever
    harder; at last prices are lowered to what no step undercuts, and raised again where they can be.

    Parameters
    ----------
    distances : (batch, n, n); the diagonal is ignored.
    allowed : (batch, n, n) bool, True where a step is permitted.
    rounds : of both turns.

    Returns
    -------
    TourPrices, whose bounds are whole where distances are: rounded up.
    """
    size = distances.shape[1]
    if size < 2:  # the only step is the one in place
        zero = torch.zeros_like(distances[:, 0], dtype=torch.float64)
        return TourPrices(distances[:, 0].double(), zero, distances[:, 0, 0].double())
    eye = torch.eye(size, dtype=torch.bool, device=distances.device)
    exact = distances.double()
    banned = eye if allowed is None else eye | ~allowed
    largest = exact.masked_fill(banned, 0.0).abs().amax((1, 2), keepdim=True)
    costs = torch.where(banned, 2 * size * largest + 1, exact)
    # nearly all of a tour's steps are among the cheapest of a city: their spread is the scale of the prices
    unit = torch.maximum(_spread(torch.minimum(costs, largest)), 1e-6 * largest)
    unit = torch.where(largest > 0, unit, torch.ones_like(unit))
    leaving, entering = torch.zeros_like(costs[:, :, :1]), torch.zeros_like(costs[:, :1])
    chance = torch.empty_like(costs)
    for turn in range(rounds):
        soft = unit * (2.0 * (0.002 / 2.0) ** (turn / max(1, rounds - 1)))
        if turn == 0:  # a city may be so far away that all of its exponentials vanish: sums of logarithms do not
            leaving = -soft * ((entering - costs) / soft).logsumexp(2, keepdim=True)
            entering = -soft * ((leaving - costs) / soft).logsumexp(1, keepdim=True)
            continue
        # one exponential serves both turns: none exceeds one, as those of a column had the sum one just before
        torch.sub(leaving + entering, costs, out=chance)
        chance.div_(soft).exp_()
        left = chance.sum(2, keepdim=True).clamp_min(_TINY)
        leaving = leaving - soft * left.log()
        entering = entering - soft * (left.reciprocal().transpose(1, 2) @ chance).clamp_min(_TINY).log()
    leaving = (costs - entering).amin(2, keepdim=True)
    entering = (costs - leaving).amin(1, keepdim=True)
    leaving = (costs - entering).amin(2, keepdim=True)
    value = leaving.sum((1, 2)) + entering.sum((1, 2))
    most = largest[:, 0, 0] + leaving.abs().amax((1, 2)) + entering.abs().amax((1, 2))
    value = value - 4 * _EPSILON * size * (size + 2) * most
    bound = value if distances.is_floating_point() else _rounded_up(value)
    return TourPrices(leaving[:, :, 0], entering[:, 0], bound)


def _spread(costs: Tensor) -> Tensor:
    """Return by how much the few cheapest steps out of a city, and into one, differ on average, (batch, 1, 1)."""
    spread = []
    for axis in (1, 2):
        least = costs.topk(min(4, costs.shape[1]), axis, largest=False).values
        spread.append((least.amax(axis) - least.amin(axis)).mean(1))
    return ((spread[0] + spread[1]) / 2)[:, None, None]


def _priced(times: Tensor, prices: Tensor) -> Tensor:
    """Return times at their prices; a forbidden pair stays out of reach whatever the price."""
    return times * prices.clamp_min(_TINY)


def _priced_least(times: Tensor, prices: Tensor) -> Tensor:
    return _priced(times, prices).amin(2, keepdim=True)


def _rounded_up(value: Tensor) -> Tensor:
    """Round bounds of whole costs up; just above a whole number may be that number plus rounding."""
    return (value - 1e-9 * value.abs().clamp_min(1.0)).ceil()
