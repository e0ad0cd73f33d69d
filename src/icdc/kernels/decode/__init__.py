"""From log-odds to solutions, and what the rows of solutions add up to.

A solution is a choice (rows,) of one column for each row. All ways of choosing decode every matrix of log-odds
(N, rows, columns) `decodes` times in a row, (N · decodes, rows). With noise, log-odds and `temperature` times Gumbel
noise are compared, so that choices are samples instead of the best ones; Triton kernels draw it where they add it, and
no score ever reaches device memory. Their solutions are those of the torch operations, except where the rounding of a
logarithm decides between two columns.

Rows that choose by loads decide longest first (by least time, ties by mean time):

    score = log-odds − load of the column after the choice,

the load in units of the mean least time of this and the remaining rows. So one more row on a column weighs about as
much as one in log-odds, and loads count the more, the shorter the remaining rows are. A score depends only on earlier
decisions, and the softmax of a row's scores is an exact distribution.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import dispatch
from ..random import GumbelNoise, gumbel, mix_integer
from . import numba

NEVER = -1e9
"""Score of a pair that may not be chosen; finite, so that softmax and argmax stay defined everywhere."""

BARRED = 1e4
"""By how much the score of a pair falls that is chosen only where nothing else is left: below all noise, above `NEVER`,
and little enough for the order among such pairs to stay what it was."""

_LEAST = 1e-3
"""The smallest unit of loads, in mean times: it bounds prices where rows take no time anywhere."""


class _Turns(NamedTuple):
    """When rows decide, and what they see.

    times : (batch, rows, columns) float32, of mean one.
    row : (batch, rows), the row of each turn.
    price : (batch, rows) float32, of a load at each turn.
    """

    times: Tensor
    row: Tensor
    price: Tensor


def pick_columns(log_odds: Tensor, noise: GumbelNoise | None = None, decodes: int = 1) -> Tensor:
    """Choose the best-scored column of every row by itself."""
    if dispatch.scores_fit(log_odds, dispatch.WIDEST_ROW):
        return _by_kernel("pick_columns", log_odds.detach(), *_hashed(noise), decodes)
    return noisy_scores(log_odds, noise, decodes).argmax(-1)


def pick_by_loads(
    log_odds: Tensor, times: Tensor, noise: GumbelNoise | None = None, decodes: int = 1, mask: Tensor | None = None
) -> Tensor:
    """Choose a column for every row, longest first, by its log-odds less the price of the loads it would make.

    Parameters
    ----------
    log_odds : (N, rows, columns), for the same number of matrices of every instance, instance by instance.
    times : (batch, rows, columns), what a row adds to the load of a column.
    noise, decodes : as for the other ways of choosing.
    mask : (N, rows, columns) bool, True where permitted, or one mask per instance, shared by its consecutive matrices.

    Returns
    -------
    Tensor (N · decodes, rows) int64.
    """
    turns = _turns(times)
    if mask is not None:
        log_odds = log_odds.masked_fill(~spread_over(mask, len(log_odds)), NEVER)
    if dispatch.loads_fit(log_odds):
        return _by_kernel("pick_by_loads", log_odds.detach(), *turns, *_hashed(noise), decodes)
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


def follow_tours(log_odds: Tensor, first: Tensor, noise: GumbelNoise | None = None, decodes: int = 1) -> Tensor:
    """Choose tours, as the successor of each city, that go on to the best-scored city not yet visited.

    From log-odds (N, n, n); solution p begins in city `first[p]`, (N · decodes,).
    """
    if dispatch.scores_fit(log_odds, dispatch.WIDEST_TOUR):
        return _by_kernel("follow_tours", log_odds.detach(), *_hashed(noise), first, decodes)
    scores = noisy_scores(log_odds, noise, decodes)
    if dispatch.loops_are_ready_on(scores.device):
        return numba.follow_tours(scores, first)
    current = first[:, None]
    unvisited = torch.ones_like(scores[:, 0], dtype=torch.bool).scatter(1, current, False)
    choice = torch.zeros_like(scores[:, 0], dtype=torch.long)
    for _ in range(scores.shape[1] - 1):
        row = scores.gather(1, current[:, :, None].expand(-1, 1, scores.shape[2])).squeeze(1)
        step = row.masked_fill(~unvisited, NEVER).argmax(-1, keepdim=True)
        choice = choice.scatter(1, current, step)
        unvisited = unvisited.scatter(1, step, False)
        current = step
    return choice.scatter(1, current, first[:, None])


def join_tours(log_odds: Tensor, noise: GumbelNoise | None = None, decodes: int = 1) -> Tensor:
    """Choose tours, as the successor of each city, from the best-scored pair of all that can still be part of one.

    From log-odds (N, n, n). Paths are kept by their ends, and join until they are one.
    """
    if dispatch.scores_fit(log_odds, dispatch.WIDEST_MATRIX):
        return _by_kernel("join_tours", log_odds.detach(), *_hashed(noise), decodes)
    scores = noisy_scores(log_odds, noise, decodes)
    count, size, _ = scores.shape
    if size > 1:
        scores = scores.masked_fill(torch.eye(size, dtype=torch.bool, device=scores.device), NEVER)
    flat = scores.reshape(count, size * size).clone()
    grid = flat.view(count, size, size)
    head = torch.arange(size, device=scores.device).expand(count, size).clone()
    tail = head.clone()
    choice = torch.zeros_like(head)
    for _ in range(size - 1):
        pair = flat.argmax(1, keepdim=True)
        i, j = pair // size, pair % size
        choice.scatter_(1, i, j)
        start, end = head.gather(1, i), tail.gather(1, j)
        grid.scatter_(1, i[:, :, None].expand(-1, 1, size), NEVER)
        grid.scatter_(2, j[:, :, None].expand(-1, size, 1), NEVER)
        flat.scatter_(1, end * size + start, NEVER)  # this pair would close the tour too early
        head.scatter_(1, end, start)
        tail.scatter_(1, start, end)
    entered = (choice * 0).scatter(1, choice, 1)
    first = entered.argmin(1, keepdim=True) if size > 1 else torch.zeros_like(choice)
    return choice.scatter(1, tail.gather(1, first), first)


def follow_candidates(scores: Tensor, index: Tensor, excess: Tensor, first: Tensor) -> Tensor:
    """Choose tours like `follow_tours`, going on to the best-scored candidate not yet visited; else by excess.

    Parameters
    ----------
    scores : (N, n, k), of k candidates of each city, instance-major.
    index : (batch, n, k) int64, the candidates, ascending; a city among its own is never gone on to.
    excess : (batch, n, n), what steps give away, for cities all of whose candidates have been visited.
    first : (N,), the city in which each tour begins.
    """
    if dispatch.candidates_fit(scores):
        return _by_kernel("follow_candidates", scores, index, excess, least_score(scores), first)
    if dispatch.loops_are_ready_on(scores.device) and scores.dtype == torch.float32:
        return numba.follow_candidates(scores, index, excess, least_score(scores), first)
    return follow_tours(spread_scores(scores, index, excess), first)


def join_candidates(scores: Tensor, index: Tensor, excess: Tensor) -> Tensor:
    """Choose tours like `join_tours`, from candidates as long as one of them can be part of a tour, then by excess.

    Parameters
    ----------
    scores : (N, n, k), of k candidates of each city, instance-major.
    index : (batch, n, k) int64, the candidates, ascending.
    excess : (batch, n, n), what steps give away, for those that join the paths which candidates have left.
    """
    if dispatch.candidates_fit(scores):
        return _by_kernel("join_candidates", scores, index, excess, least_score(scores))
    if dispatch.loops_run_on(scores.device) and scores.dtype == torch.float32:
        return numba.join_candidates(scores, index, excess, least_score(scores))
    return join_tours(spread_scores(scores, index, excess))


def spread_scores(scores: Tensor, index: Tensor, excess: Tensor) -> Tensor:
    """Return scores of all pairs (N, rows, columns): those of candidates, and below all of them the rest by excess.

    From scores (N, rows, k) of the candidates `index` (batch, rows, k), and excess (batch, rows, columns).
    """
    own = scores.view(len(index), -1, *index.shape[1:])
    rest = least_score(scores).view(*own.shape[:2], 1, 1) - excess.to(scores.dtype)[:, None]
    return rest.scatter(3, index[:, None].expand_as(own), own).flatten(0, 1)


def least_score(scores: Tensor) -> Tensor:
    """Return a number below all scores (N, rows, k) of each solution, (N,)."""
    return scores.amin((1, 2)) - 1


def barred(scores: Tensor, mask: Tensor) -> Tensor:
    """Return scores (N, rows, columns) in which pairs outside the mask (batch, rows, columns) rank last.

    One mask may serve several consecutive matrices.
    """
    return torch.where(spread_over(mask, len(scores)), scores, scores - BARRED)


def spread_over(mask: Tensor, count: int) -> Tensor:
    """Return masks (count, rows, columns): each of the given ones (batch, rows, columns) repeated equally often."""
    return mask if len(mask) == count else mask.repeat_interleave(count // len(mask), 0)


def picked(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return matrix[b, r, choice[b, k, r]], (batch, samples, rows), for matrix (batch, rows, columns)."""
    spread = matrix[:, None].expand(-1, choice.shape[1], -1, -1)
    return spread.gather(3, choice[..., None]).squeeze(3)


def column_totals(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return Σ of matrix[b, r, c] over the rows r with choice[b, k, r] = c, (batch, samples, columns).

    From a matrix (batch, rows, columns) and choices (batch, samples, rows). Integers are added up as int64. A Triton
    kernel adds rows in their order, so that the last bits of a sum are the same in every run.
    """
    if dispatch.totals_fit(matrix):
        return _by_kernel("column_totals", matrix, choice)
    taken = picked(matrix, choice)
    taken = taken if taken.is_floating_point() else taken.long()
    return taken.new_zeros(*choice.shape[:2], matrix.shape[2]).scatter_add(2, choice, taken)


def noisy_scores(log_odds: Tensor, noise: GumbelNoise | None, decodes: int) -> Tensor:
    """Return log-odds plus noise, the scores that decoding compares; at least float32."""
    scores = log_odds if log_odds.dtype == torch.float64 else log_odds.float()
    if decodes != 1:
        scores = scores.repeat_interleave(decodes, 0)
    if noise is None:
        return scores
    # the noise is scaled, not the log-odds: a tiny temperature must not push them below `NEVER`
    drawn = gumbel(noise.keys, noise.draw, log_odds.shape[1:].numel()).view(-1, *log_odds.shape[1:])
    return scores + noise.temperature * drawn


def _turns(times: Tensor) -> _Turns:
    exact = times.double()
    scaled = (exact / exact.mean((1, 2), keepdim=True).clamp_min(1e-300)).float()
    least, mean = scaled.amin(2), scaled.mean(2)
    row = mean.argsort(dim=1, descending=True, stable=True)
    row = row.gather(1, least.gather(1, row).argsort(dim=1, descending=True, stable=True))
    to_come = least.gather(1, row).flip(1).cumsum(1).flip(1)
    unit = to_come / torch.arange(row.shape[1], 0, -1, device=times.device)
    return _Turns(scaled, row, 1.0 / unit.clamp_min(_LEAST))


def _by_kernel(name: str, *arguments: Any) -> Tensor:
    choice: Tensor = getattr(dispatch.triton_kernels("decode.triton"), name)(*arguments)
    return choice


def _hashed(noise: GumbelNoise | None) -> tuple[Any, int, float]:
    """Return keys, the hashed number of the draw and the temperature, as kernels take them."""
    return (None, 0, 0.0) if noise is None else (noise.keys, mix_integer(noise.draw + 1), noise.temperature)
