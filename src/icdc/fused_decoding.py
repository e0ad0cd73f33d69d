# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Decoding as one GPU kernel: the noise is drawn where it is added, and no score ever reaches device memory.

Written as plain operations a decode is a tensor of noise as large as the log-odds of all solutions, and some ten
small operations for each decision. Here a program keeps a few solutions to itself. The noise of an element is the
same function of (key, draw, element) as in `icdc.noise`, so the solutions are those of the plain operations, except
where the rounding of a logarithm decides between two columns.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .fused_noise import _gumbel, _jit, _stream, available, signed

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:  # a build of torch without a GPU comes without triton
    triton, constexpr = None, int

WIDEST_TOUR, WIDEST_MATRIX, WIDEST_ROW = 256, 64, 1024
"""Cities of a tour that is followed and of one that is joined from all pairs, and columns of a row to pick from."""


Kernel = Callable[[Tensor, Tensor | None, int, float, Tensor, int], Tensor]
"""Choices from log-odds, keys, the draw's hashed number, temperature, first rows and `decodes`: see `follow_tours`."""


@_jit()
def _ranked(score):
    """Return integers in the order of the scores, zeros of both signs alike, all above those of `_barred`.

    A GPU finds the largest integer of 32 lanes in one instruction. Whatever a network says, NaN too, ranks above what
    may not be chosen: a decision is always feasible.
    """
    bits = (tl.maximum(score, -3.0e38) + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@_jit()
def _barred(allowed, rank):
    return tl.where(allowed, rank, -0x80000000)


@_jit()
def _best(rank, index, AXIS: constexpr):
    """Return the lowest index of the highest rank, as argmax does."""
    return tl.min(tl.where(rank == tl.max(rank, AXIS, keep_dims=True), index, 0x7FFFFFFF), AXIS)


@_jit(do_not_specialize=["mixed_draw"])
def _follow(
    log_odds, keys, first, choice, mixed_draw, temperature, solutions, decodes, size,
    NOISY: constexpr, TILE: constexpr, PADDED: constexpr,
):  # fmt: skip
    solution = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    known = solution < solutions
    column = tl.arange(0, PADDED)[None, :]
    inside = known[:, None] & (column < size)
    log_odds += (solution // decodes * size * size)[:, None] + column
    choice += solution * size
    start = tl.load(first + solution, mask=known, other=0).to(tl.int32)
    if NOISY:
        stream = _stream(tl.load(keys + solution, mask=known, other=0), mixed_draw)[:, None]
    free = inside & (column != start[:, None])
    current = start
    for _ in range(size - 1):
        cell = current[:, None] * size
        score = tl.load(log_odds + cell, mask=inside, other=0.0).to(tl.float32)
        if NOISY:
            score += temperature * _gumbel(stream, cell + column)
        step = _best(_barred(free, _ranked(score)), column, 1)
        tl.store(choice + current, step.to(tl.int64), mask=known)
        free = free & (column != step[:, None])
        current = step
    tl.store(choice + current, start.to(tl.int64), mask=known)


@torch.library.custom_op("icdc::follow_tours", mutates_args=())
def follow_tours(
    log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, first: Tensor, decodes: int
) -> Tensor:
    """Return tours (N · decodes, n), row to next city, that take the best-scored unvisited city of each row.

    Solution p reads matrix p // decodes of log-odds (N, n, n) and begins at city `first[p]`; without keys there is
    no noise.
    """
    choice: Tensor = _like_tours(log_odds, keys, mixed_draw, temperature, first, decodes)
    solutions, size = choice.shape
    if solutions:
        padded = triton.next_power_of_2(size)
        tile = max(1, 64 // padded)  # two columns a lane: while one waits, the other computes
        _follow[(triton.cdiv(solutions, tile),)](
            log_odds.contiguous(), first if keys is None else keys.contiguous(), first.contiguous(), choice,
            signed(mixed_draw), temperature, solutions, decodes, size, NOISY=keys is not None, TILE=tile,
            PADDED=padded, num_warps=1 if padded <= 64 else padded // 64,
        )  # fmt: skip
    return choice


@follow_tours.register_fake
def _like_tours(
    log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, first: Tensor, decodes: int
) -> Tensor:
    count, size, _ = log_odds.shape
    return torch.empty(count * decodes, size, dtype=torch.long, device=log_odds.device)


@_jit(do_not_specialize=["mixed_draw"])
def _pick(
    log_odds, keys, choice, mixed_draw, temperature, total, decodes, rows, columns,
    NOISY: constexpr, TILE: constexpr, PADDED: constexpr,
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    known = index < total
    solution, row = index // rows, (index % rows).to(tl.int32)
    column = tl.arange(0, PADDED)[None, :]
    inside = known[:, None] & (column < columns)
    cell = row[:, None] * columns + column
    matrix = (solution // decodes * rows * columns)[:, None]
    score = tl.load(log_odds + matrix + cell, mask=inside, other=0.0).to(tl.float32)
    if NOISY:
        stream = _stream(tl.load(keys + solution, mask=known, other=0), mixed_draw)[:, None]
        score += temperature * _gumbel(stream, cell)
    best = _best(_barred(inside, _ranked(score)), column, 1)
    tl.store(choice + index, best.to(tl.int64), mask=known)


@torch.library.custom_op("icdc::pick_columns", mutates_args=())
def pick_columns(log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, decodes: int) -> Tensor:
    """Return the best-scored column of every row (N · decodes, rows), for log-odds (N, rows, columns)."""
    choice: Tensor = _like_picks(log_odds, keys, mixed_draw, temperature, decodes)
    _, rows, columns = log_odds.shape
    total = choice.numel()
    if total:
        padded = triton.next_power_of_2(columns)
        tile = max(1, 1024 // padded)
        _pick[(triton.cdiv(total, tile),)](
            log_odds.contiguous(), choice if keys is None else keys.contiguous(), choice, signed(mixed_draw),
            temperature, total, decodes, rows, columns, NOISY=keys is not None, TILE=tile, PADDED=padded,
        )  # fmt: skip
    return choice


@pick_columns.register_fake
def _like_picks(log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, decodes: int) -> Tensor:
    count, rows, _ = log_odds.shape
    return torch.empty(count * decodes, rows, dtype=torch.long, device=log_odds.device)


@_jit(do_not_specialize=["mixed_draw"])
def _join(
    log_odds, keys, choice, mixed_draw, temperature, decodes, size,
    NOISY: constexpr, PADDED: constexpr,
):  # fmt: skip
    solution = tl.program_id(0).to(tl.int64)
    # one axis for all pairs: a lane keeps whole columns of the matrix in registers
    pair = tl.arange(0, PADDED * PADDED)
    row, column = pair // PADDED, pair % PADDED
    inside = (row < size) & (column < size)
    cell = row * size + column
    score = tl.load(log_odds + solution // decodes * size * size + cell, mask=inside, other=0.0).to(tl.float32)
    if NOISY:
        score += temperature * _gumbel(_stream(tl.load(keys + solution), mixed_draw), cell)
    rank = _barred(inside & (row != column), _ranked(score))
    choice += solution * size
    city = tl.arange(0, PADDED)
    head, tail = city, city  # first city of the path that ends in one, last of the path that starts in one
    start, end = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for _ in range(size - 1):
        best = _best(rank, pair, 0)
        i, j = best // PADDED, best % PADDED
        tl.store(choice + i, j.to(tl.int64))
        start, end = tl.sum(tl.where(city == i, head, 0)), tl.sum(tl.where(city == j, tail, 0))
        head, tail = tl.where(city == end, start, head), tl.where(city == start, end, tail)
        closing = end * PADDED + start  # this pair would close the tour too early
        rank = _barred((row != i) & (column != j) & (pair != closing), rank)
    # the last two paths that were joined are the whole tour
    tl.store(choice + end, start.to(tl.int64))


@torch.library.custom_op("icdc::join_tours", mutates_args=())
def join_tours(log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, decodes: int) -> Tensor:
    """Return tours (N · decodes, n), row to next city, that take the best-scored pair still allowed each time."""
    choice: Tensor = _like_picks(log_odds, keys, mixed_draw, temperature, decodes)
    solutions, size = choice.shape
    if solutions:
        padded = triton.next_power_of_2(size)
        _join[(solutions,)](
            log_odds.contiguous(), choice if keys is None else keys.contiguous(), choice, signed(mixed_draw),
            temperature, decodes, size, NOISY=keys is not None, PADDED=padded, num_warps=8 if padded > 32 else 1,
        )  # fmt: skip
    return choice


join_tours.register_fake(_like_picks)


def kernel_for_tours(log_odds: Tensor, by_confidence: bool) -> Kernel | None:
    """Return the kernel that makes tours from log-odds (N, n, n), where there is one for their size and device."""
    square = log_odds.shape[1] == log_odds.shape[2]
    if not square or not _takes(log_odds, WIDEST_MATRIX if by_confidence else WIDEST_TOUR):
        return None
    return _without_first(join_tours) if by_confidence else follow_tours


def kernel_for_columns(log_odds: Tensor) -> Kernel | None:
    """Return the kernel that picks a column for every row of log-odds (N, rows, columns), where there is one."""
    return _without_first(pick_columns) if _takes(log_odds, WIDEST_ROW) else None


def _takes(log_odds: Tensor, widest: int) -> bool:
    return log_odds.shape[2] <= widest and available(log_odds.device)


def _without_first(operation: Callable[..., Any]) -> Kernel:
    def kernel(
        log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, first: Tensor, decodes: int
    ) -> Tensor:
        choice: Tensor = operation(log_odds, keys, mixed_draw, temperature, decodes)
        return choice

    return kernel
