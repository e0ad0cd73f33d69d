"""From log-odds to solutions, and what the rows of solutions add up to.

A solution is a choice (rows,) of one column for each row. All three ways of choosing decode every matrix of log-odds
(N, rows, columns) `decodes` times in a row, (N · decodes, rows). With noise, log-odds and `temperature` times Gumbel
noise are compared, so that choices are samples instead of the best ones; Triton kernels draw it where they add it, and
no score ever reaches device memory. Their solutions are those of the plain operations, except where the rounding of a
logarithm decides between two columns.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .choosing import compiled_runs_fast_on, compiled_runs_on, triton_runs_on
from .random import GumbelNoise, gumbel, mix_integer

NEVER = -1e9
"""Score of a pair that may not be chosen; finite, so that softmax and argmax stay defined everywhere."""

BARRED = 1e4
"""By how much the score of a pair falls that is chosen only where nothing else is left: below all noise, above `NEVER`,
and little enough for the order among such pairs to stay what it was."""

# what still fits a program's registers: columns of a row to pick from, cities of a tour that is followed and of one
# that is joined from all pairs, and columns to add up
WIDEST_ROW, WIDEST_TOUR, WIDEST_MATRIX, WIDEST_TOTALS = 1024, 256, 64, 64
LONGEST_JOINED = 4096
"""Cities of a tour that is joined from candidates, or followed along them: its paths are in registers."""


def pick_columns(log_odds: Tensor, noise: GumbelNoise | None = None, decodes: int = 1) -> Tensor:
    """Choose the best-scored column of every row by itself."""
    if _fits(log_odds, WIDEST_ROW):
        from . import triton_sampling

        return triton_sampling.pick_columns(log_odds.detach(), *hashed(noise), decodes)
    return noisy_scores(log_odds, noise, decodes).argmax(-1)


def follow_tours(log_odds: Tensor, first: Tensor, noise: GumbelNoise | None = None, decodes: int = 1) -> Tensor:
    """Choose tours, as the successor of each city, that go on to the best-scored city not yet visited.

    From log-odds (N, n, n); solution p begins in city `first[p]`, (N · decodes,).
    """
    if _is_square(log_odds) and _fits(log_odds, WIDEST_TOUR):
        from . import triton_sampling

        return triton_sampling.follow_tours(log_odds.detach(), *hashed(noise), first, decodes)
    scores = noisy_scores(log_odds, noise, decodes)
    if _is_square(log_odds) and compiled_runs_fast_on(log_odds.device):
        from . import compiled_joining

        return compiled_joining.follow_tours(scores, first)
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
    if _is_square(log_odds) and _fits(log_odds, WIDEST_MATRIX):
        from . import triton_sampling

        return triton_sampling.join_tours(log_odds.detach(), *hashed(noise), decodes)
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
    if compiled_runs_fast_on(scores.device) and scores.dtype == torch.float32:
        from . import compiled_joining

        return compiled_joining.follow_candidates(scores, index, excess, first)
    if scores.dtype == torch.float32 and scores.shape[1] <= LONGEST_JOINED and triton_runs_on(scores.device):
        from . import triton_joining

        return triton_joining.follow_candidates(scores, index, excess, least_score(scores), first)
    return follow_tours(spread_scores(scores, index, excess), first)


def join_candidates(scores: Tensor, index: Tensor, excess: Tensor) -> Tensor:
    """Choose tours like `join_tours`, from candidates as long as one of them can be part of a tour, then by excess.

    Parameters
    ----------
    scores : (N, n, k), of k candidates of each city, instance-major.
    index : (batch, n, k) int64, the candidates, ascending.
    excess : (batch, n, n), what steps give away, for those that join the paths which candidates have left.
    """
    if compiled_runs_on(scores.device) and scores.dtype == torch.float32:
        from . import compiled_joining

        return compiled_joining.join_candidates(scores, index, excess)
    if scores.dtype == torch.float32 and scores.shape[1] <= LONGEST_JOINED and triton_runs_on(scores.device):
        from . import triton_joining

        return triton_joining.join_candidates(scores, index, excess, least_score(scores))
    return join_tours(spread_scores(scores, index, excess))


def spread_scores(scores: Tensor, index: Tensor, excess: Tensor) -> Tensor:
    """Return scores of all pairs (N, rows, columns): those of candidates, and below all of them the rest by excess.

    From scores (N, rows, k) of the candidates `index` (batch, rows, k), and excess (batch, rows, columns).
    """
    own = scores.view(len(index), -1, *index.shape[1:])
    rest = least_score(scores).view(*own.shape[:2], 1, 1) - excess.to(scores.dtype)[:, None]
    return rest.scatter(3, index[:, None].expand_as(own), own).flatten(0, 1)


def least_score(scores: Tensor) -> Tensor:
    """Return what is below all scores (N, rows, k) of a solution, (N,)."""
    return scores.amin((1, 2)) - 1


def barred(scores: Tensor, mask: Tensor) -> Tensor:
    """Return scores (N, rows, columns) of which those outside the mask (batch, rows, columns) come last.

    A mask stands for as many matrices in a row as there are to each.
    """
    return torch.where(spread_over(mask, len(scores)), scores, scores - BARRED)


def spread_over(mask: Tensor, count: int) -> Tensor:
    """Return masks (count, rows, columns), each of those (batch, rows, columns) as often in a row as it takes."""
    return mask if len(mask) == count else mask.repeat_interleave(count // len(mask), 0)


def picked(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return matrix[b, r, choice[b, k, r]], (batch, samples, rows), for matrix (batch, rows, columns)."""
    spread = matrix[:, None].expand(-1, choice.shape[1], -1, -1)
    return spread.gather(3, choice[..., None]).squeeze(3)


def no_worse(found: Tensor, given: Tensor, cost: Callable[[Tensor], Tensor]) -> Tensor:
    """Return solutions found (batch, samples, rows), or those given instead, where a search of reals made them dearer.

    A search adds up changes in an order of its own; `cost`, (batch, samples), adds up as its caller will.
    """
    return torch.where((cost(found) <= cost(given))[..., None], found, given)


def column_totals(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return Σ of matrix[b, r, c] over the rows r with choice[b, k, r] = c, (batch, samples, columns).

    From a matrix (batch, rows, columns) and choices (batch, samples, rows). Integers are added up as int64. A Triton
    kernel adds rows in their order, so that the last bits of a sum are the same in every run.
    """
    if matrix.shape[2] <= WIDEST_TOTALS and triton_runs_on(matrix.device):
        from . import triton_sampling

        return triton_sampling.column_totals(matrix, choice)
    taken = matrix[:, None].expand(-1, choice.shape[1], -1, -1).gather(3, choice[..., None]).squeeze(3)
    taken = taken if taken.is_floating_point() else taken.long()
    return taken.new_zeros(*choice.shape[:2], matrix.shape[2]).scatter_add(2, choice, taken)


def noisy_scores(log_odds: Tensor, noise: GumbelNoise | None, decodes: int) -> Tensor:
    """Return what is compared: log-odds of every solution, and its noise; in float32 at least."""
    scores = log_odds if log_odds.dtype == torch.float64 else log_odds.float()
    if decodes != 1:
        scores = scores.repeat_interleave(decodes, 0)
    if noise is None:
        return scores
    # the noise is scaled, not the log-odds: a tiny temperature must not push them below `NEVER`
    drawn = gumbel(noise.keys, noise.draw, log_odds.shape[1:].numel()).view(-1, *log_odds.shape[1:])
    return scores + noise.temperature * drawn


def hashed(noise: GumbelNoise | None) -> tuple[Any, int, float]:
    """Return keys, the hashed number of the draw and the temperature, as kernels take them."""
    return (None, 0, 0.0) if noise is None else (noise.keys, mix_integer(noise.draw + 1), noise.temperature)


def _is_square(log_odds: Tensor) -> bool:
    return log_odds.shape[1] == log_odds.shape[2]


def _fits(log_odds: Tensor, widest: int) -> bool:
    return log_odds.shape[2] <= widest and log_odds.dtype != torch.float64 and triton_runs_on(log_odds.device)
