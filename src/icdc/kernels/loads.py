"""Columns chosen row by row with an eye on the loads so far.

Rows decide longest first: by the time they take at least, of equals by the mean. A decision's score is the row's
log-odds less the load that the column would have with it, in units of what a row takes at least, on average over this
one and those still to come. So one more row on a column weighs as much as a difference of one in log-odds: rows that
are as good in many places spread over them, one that takes long somewhere is kept from there, and the
shorter those left are, the more loads count. A score depends on nothing but earlier decisions, and the softmax of a
row's scores is an exact distribution.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .choosing import triton_runs_on
from .random import GumbelNoise
from .solutions import NEVER, WIDEST_ROW, hashed, noisy_scores, spread_over

_LEAST = 1e-3
"""The smallest unit, in mean times: rows that take no time anywhere do not make loads infinitely dear."""


class _Turns(NamedTuple):
    """When rows decide, and what they see.

    times : (batch, rows, columns) float32, of mean one.
    row : (batch, rows), the row of each turn.
    price : (batch, rows) float32, of a load at each turn.
    """

    times: Tensor
    row: Tensor
    price: Tensor


def pick_by_loads(
    log_odds: Tensor, times: Tensor, noise: GumbelNoise | None = None, decodes: int = 1, mask: Tensor | None = None
) -> Tensor:
    """Choose a column for every row, longest first, by its log-odds less the price of the loads it would make.

    Parameters
    ----------
    log_odds : (N, rows, columns), for the same number of matrices of every instance, instance by instance.
    times : (batch, rows, columns), what a row adds to the load of a column.
    noise, decodes : as for the other ways of choosing.
    mask : (N, rows, columns) bool, True where permitted, or one for as many matrices in a row as there are to each.

    Returns
    -------
    Tensor (N · decodes, rows) int64.
    """
    turns = _turns(times)
    if mask is not None:
        log_odds = log_odds.masked_fill(~spread_over(mask, len(log_odds)), NEVER)
    if log_odds.shape[2] <= WIDEST_ROW and triton_runs_on(log_odds.device):
        from . import triton_sampling

        return triton_sampling.pick_by_loads(log_odds.detach(), *turns, *hashed(noise), decodes)
    scores = noisy_scores(log_odds, noise, decodes)
    count = len(scores)
    spread, row, price = (part.repeat_interleave(count // len(times), 0) for part in turns)
    whole_row = row[:, :, None].expand_as(scores)
    scores, spread = scores.gather(1, whole_row), spread.gather(1, whole_row)  # in the order of turns
    load, chosen = torch.zeros_like(spread[:, 0]), []
    for turn in range(scores.shape[1]):
        arrived = load + spread[:, turn]
        column = (scores[:, turn] - arrived * price[:, turn, None]).argmax(1, keepdim=True)
        load = load.scatter(1, column, arrived.gather(1, column))
        chosen.append(column)
    return torch.zeros_like(row).scatter(1, row, torch.cat(chosen, 1))


def load_prices(times: Tensor, choice: Tensor) -> Tensor:
    """Return what `pick_by_loads` took off every log-odds on its way to choices (N, rows): (N, rows, columns) float32.

    For the same number of choices of every instance, instance by instance.
    """
    spread, row_of, price = (part.repeat_interleave(len(choice) // len(times), 0) for part in _turns(times))
    rows = row_of[:, :, None].expand_as(spread)
    taken = torch.zeros_like(spread).scatter(2, choice[:, :, None], 1.0) * spread
    in_turn = taken.gather(1, rows)
    arrived = in_turn.cumsum(1) - in_turn + spread.gather(1, rows)
    return torch.zeros_like(spread).scatter(1, rows, arrived * price[:, :, None])


def _turns(times: Tensor) -> _Turns:
    exact = times.double()
    scaled = (exact / exact.mean((1, 2), keepdim=True).clamp_min(1e-300)).float()
    least, mean = scaled.amin(2), scaled.mean(2)
    row = mean.argsort(dim=1, descending=True, stable=True)
    row = row.gather(1, least.gather(1, row).argsort(dim=1, descending=True, stable=True))
    to_come = least.gather(1, row).flip(1).cumsum(1).flip(1)
    unit = to_come / torch.arange(row.shape[1], 0, -1, device=times.device)
    return _Turns(scaled, row, 1.0 / unit.clamp_min(_LEAST))
