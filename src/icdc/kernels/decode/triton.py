# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Decoding and the totals of columns on a GPU, one kernel each.

As torch operations a decode is a tensor of noise as large as the log-odds of all solutions and some ten small
operations for each decision. Here a program keeps a few solutions to itself, and draws their noise, the same function
of (key, draw, element) as in `random`, where it is added. A program that joins a tour from candidates keeps its paths
in registers and goes through the candidates in the order of their scores. All that it has to know of a step is one
sum over the cities, of numbers that are zero everywhere else: no thread waits for what another has stored.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ..improve.triton import _LANES, _NARROWEST, _at
from ..random.triton import _gumbel, _stream, signed

TOTALS_TILE = 64
"""Solutions of a program that adds up."""


@triton.jit
def _ranked(score):
    """Return integers in the order of the scores, zeros of both signs alike, all above those of `_barred`.

    A GPU finds the largest integer of 32 lanes in one instruction. Whatever a network says, NaN too, ranks above what
    may not be chosen: a decision is always feasible.
    """
    bits = (tl.maximum(score, -3.0e38) + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _barred(allowed, rank):
    return tl.where(allowed, rank, -0x80000000)


@triton.jit
def _best(rank, index, AXIS: constexpr):
    """Return the lowest index of the highest rank, as argmax does."""
    return tl.min(tl.where(rank == tl.max(rank, AXIS, keep_dims=True), index, 0x7FFFFFFF), AXIS)


@triton.jit(do_not_specialize=["mixed_draw"])
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


def follow_tours(
    log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, first: Tensor, decodes: int
) -> Tensor:
    """Return tours (N · decodes, n), row to next city, that take the best-scored unvisited city of each row.

    Solution p reads matrix p // decodes of log-odds (N, n, n) and begins at city `first[p]`; without keys there is
    no noise.
    """
    solutions, size = len(log_odds) * decodes, log_odds.shape[1]
    choice = torch.empty(solutions, size, dtype=torch.long, device=log_odds.device)
    if solutions:
        padded = triton.next_power_of_2(size)
        tile = max(1, 64 // padded)  # two columns a lane: while one waits, the other computes
        with torch.cuda.device_of(log_odds):
            _follow[(triton.cdiv(solutions, tile),)](
                log_odds.contiguous(), first if keys is None else keys.contiguous(), first.contiguous(), choice,
                signed(mixed_draw), temperature, solutions, decodes, size, NOISY=keys is not None, TILE=tile,
                PADDED=padded, num_warps=1 if padded <= 64 else padded // 64,
            )  # fmt: skip
    return choice


@triton.jit(do_not_specialize=["mixed_draw"])
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


def pick_columns(log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, decodes: int) -> Tensor:
    """Return the best-scored column of every row (N · decodes, rows), for log-odds (N, rows, columns)."""
    count, rows, columns = log_odds.shape
    choice = torch.empty(count * decodes, rows, dtype=torch.long, device=log_odds.device)
    if total := choice.numel():
        padded = triton.next_power_of_2(columns)
        tile = max(1, 1024 // padded)
        with torch.cuda.device_of(log_odds):
            _pick[(triton.cdiv(total, tile),)](
                log_odds.contiguous(), choice if keys is None else keys.contiguous(), choice, signed(mixed_draw),
                temperature, total, decodes, rows, columns, NOISY=keys is not None, TILE=tile, PADDED=padded,
            )  # fmt: skip
    return choice


@triton.jit(do_not_specialize=["mixed_draw"])
def _pick_by_loads(
    log_odds, times, turns, prices, keys, choice, mixed_draw, temperature, solutions, share, decodes, rows, columns,
    NOISY: constexpr, TILE: constexpr, PADDED: constexpr,
):  # fmt: skip
    solution = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    known = solution < solutions
    instance = solution // share
    column = tl.arange(0, PADDED)[None, :]
    inside = known[:, None] & (column < columns)
    log_odds += (solution // decodes * rows * columns)[:, None] + column
    times += (instance * rows * columns)[:, None] + column
    if NOISY:
        stream = _stream(tl.load(keys + solution, mask=known, other=0), mixed_draw)[:, None]
    load = tl.zeros((TILE, PADDED), tl.float32)
    for turn in range(rows):
        row = tl.load(turns + instance * rows + turn, mask=known, other=0).to(tl.int32)
        price = tl.load(prices + instance * rows + turn, mask=known, other=0.0)
        cell = row[:, None] * columns
        score = tl.load(log_odds + cell, mask=inside, other=0.0).to(tl.float32)
        if NOISY:
            score += temperature * _gumbel(stream, cell + column)
        arrived = load + tl.load(times + cell, mask=inside, other=0.0)
        best = _best(_barred(inside, _ranked(score - arrived * price[:, None])), column, 1)
        tl.store(choice + solution * rows + row, best.to(tl.int64), mask=known)
        load = tl.where(column == best[:, None], arrived, load)


def pick_by_loads(
    log_odds: Tensor, times: Tensor, turns: Tensor, prices: Tensor, keys: Tensor | None, mixed_draw: int,
    temperature: float, decodes: int,
) -> Tensor:  # fmt: skip
    """Return columns (N · decodes, rows) by log-odds (N, rows, columns) less the price of the loads they would make.

    Instances have times (batch, rows, columns) float32, and for each turn the row that decides and the price of a load,
    both (batch, rows).
    """
    count, rows, columns = log_odds.shape
    choice = torch.empty(count * decodes, rows, dtype=torch.long, device=log_odds.device)
    if choice.numel():
        padded = triton.next_power_of_2(columns)
        tile = max(1, 64 // padded)
        with torch.cuda.device_of(log_odds):
            _pick_by_loads[(triton.cdiv(len(choice), tile),)](
                log_odds.contiguous(), times.contiguous(), turns.contiguous(), prices.contiguous(),
                choice if keys is None else keys.contiguous(), choice, signed(mixed_draw), temperature, len(choice),
                len(choice) // len(times), decodes, rows, columns, NOISY=keys is not None, TILE=tile, PADDED=padded,
                num_warps=1 if padded <= 64 else min(8, padded // 64),
            )  # fmt: skip
    return choice


@triton.jit(do_not_specialize=["mixed_draw"])
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


def join_tours(log_odds: Tensor, keys: Tensor | None, mixed_draw: int, temperature: float, decodes: int) -> Tensor:
    """Return tours (N · decodes, n), row to next city, that take the best-scored pair still allowed each time."""
    solutions, size = len(log_odds) * decodes, log_odds.shape[1]
    choice = torch.empty(solutions, size, dtype=torch.long, device=log_odds.device)
    if solutions:
        padded = triton.next_power_of_2(size)
        with torch.cuda.device_of(log_odds):
            _join[(solutions,)](
                log_odds.contiguous(), choice if keys is None else keys.contiguous(), choice, signed(mixed_draw),
                temperature, decodes, size, NOISY=keys is not None, PADDED=padded, num_warps=8 if padded > 32 else 1,
            )  # fmt: skip
    return choice


@triton.jit
def _totals(matrix, choice, totals, solutions, samples, rows, columns, TILE: constexpr, PADDED: constexpr):
    solution = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    known = solution < solutions
    matrix += solution // samples * rows * columns
    choice += solution * rows
    column = tl.arange(0, PADDED)[None, :]
    total = tl.zeros((TILE, PADDED), totals.dtype.element_ty)
    for row in range(rows):
        taken = tl.load(choice + row, mask=known, other=-1)
        value = tl.load(matrix + row * columns + taken, mask=(taken >= 0) & (taken < columns), other=0)
        total += tl.where(taken[:, None] == column, value[:, None].to(total.dtype), 0)
    inside = known[:, None] & (column < columns)
    tl.store(totals + solution[:, None] * columns + column, total, mask=inside)


def column_totals(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return Σ of matrix[b, r, c] over the rows r with choice[b, k, r] = c, (batch, samples, columns).

    Rows are added in their order, so that the last bits of a sum are the same in every run. A choice of no column adds
    nothing.
    """
    (batch, samples, rows), columns = choice.shape, matrix.shape[2]
    kind = matrix.dtype if matrix.is_floating_point() else torch.int64  # sums of small integers need more room
    totals = matrix.new_empty(batch, samples, columns, dtype=kind)
    if totals.numel():
        with torch.cuda.device_of(matrix):
            _totals[(triton.cdiv(batch * samples, TOTALS_TILE),)](
                matrix.contiguous(), choice.contiguous(), totals, batch * samples, samples, rows, columns,
                TILE=TOTALS_TILE, PADDED=triton.next_power_of_2(columns),
            )  # fmt: skip
    return totals


@triton.jit
def _step(city, successor, entered, head, tail, i, j, first, last):
    """Let city j, the first of a path that ends in `last`, follow city i, the end of one that begins with `first`.

    With −1 for all four nothing happens.
    """
    successor = tl.where(city == i, j, successor)
    entered = tl.where(city == j, 1, entered)
    return successor, entered, tl.where(city == last, first, head), tl.where(city == first, last, tail)


@triton.jit(do_not_specialize=["samples", "size", "places"])
def _join_candidates(
    rows, columns, excesses, floors, found, samples, size, places,
    CITIES: constexpr,
):  # fmt: skip
    tour = tl.program_id(0).to(tl.int64)
    rows += tour * places
    columns += tour * places
    excesses += tour // samples * size * size
    floor = tl.load(floors + tour)
    city = tl.arange(0, CITIES)
    inside = city < size
    # a city that does not exist has left and was entered
    successor = tl.where(inside, -1, 0)
    entered = tl.where(inside, 0, 1)
    head, tail = city + 0, city + 0
    paths, place = size + 0, size * 0
    while (place < places) & (paths > 1):
        i, j = tl.load(rows + place), tl.load(columns + place)
        free = tl.where((successor < 0) & (head != j), CITIES * CITIES, 0)
        fresh = tl.where(entered == 0, CITIES * CITIES, 0)
        known = tl.sum(tl.where(city == i, head + free, 0) + tl.where(city == j, tail * CITIES + fresh, 0), 0)
        allowed = known >= 2 * CITIES * CITIES
        first, last = known % CITIES, known // CITIES % CITIES
        i, j = tl.where(allowed, i, -1), tl.where(allowed, j, -1)
        first, last = tl.where(allowed, first, -1), tl.where(allowed, last, -1)
        successor, entered, head, tail = _step(city, successor, entered, head, tail, i, j, first, last)
        paths = tl.where(allowed, paths - 1, paths)
        place += 1
    while paths > 1:
        best, best_end = tl.full([CITIES], float("-inf"), tl.float32), city * 0
        end = tl.min(tl.where(successor < 0, city, CITIES), 0)
        while end < CITIES:
            reached = (entered == 0) & (city != _at(city, head, end))
            value = floor - tl.load(excesses + end * size + city, mask=inside, other=0.0)
            better = reached & (value > best)
            best, best_end = tl.where(better, value, best), tl.where(better, end, best_end)
            end = tl.min(tl.where((successor < 0) & (city > end), city, CITIES), 0)
        # of equal steps the first, by the city they leave and then by the one they enter
        key = tl.min(tl.where(best == tl.max(best, 0), best_end * CITIES + city, 0x7FFFFFFF), 0)
        i, j = key // CITIES, key % CITIES
        first, last = _at(city, head, i), _at(city, tail, j)
        successor, entered, head, tail = _step(city, successor, entered, head, tail, i, j, first, last)
        paths -= 1
    successor = tl.where(successor < 0, head, successor)  # the last step closes the tour
    tl.store(found + tour * size + city, successor.to(tl.int64), mask=inside)


def join_candidates(scores: Tensor, index: Tensor, excess: Tensor, floor: Tensor) -> Tensor:
    """Do what `join_candidates` says; `floor` (N,) is below all scores (N, n, k) of a tour."""
    count, size, width = scores.shape
    order = scores.detach().flatten(1).sort(dim=1, descending=True, stable=True).indices
    columns = index.flatten(1).repeat_interleave(count // len(index), 0).gather(1, order)
    found = torch.empty(count, size, dtype=torch.int64, device=scores.device)
    padded = triton.next_power_of_2(size)
    with torch.cuda.device_of(scores):
        _join_candidates[(count,)](
            (order // width).int(), columns.int(), excess.float().contiguous(), floor.float().contiguous(), found,
            count // len(index), size, size * width, CITIES=padded, num_warps=max(1, padded // _LANES),
        )  # fmt: skip
    return found


@triton.jit(do_not_specialize=["samples", "size", "width"])
def _follow_candidates(
    scores, indices, excesses, floors, firsts, found, samples, size, width,
    CITIES: constexpr, EACH: constexpr,
):  # fmt: skip
    tour = tl.program_id(0).to(tl.int64)
    scores += tour * size * width
    indices += tour // samples * size * width
    excesses += tour // samples * size * size
    floor, first = tl.load(floors + tour), tl.load(firsts + tour).to(tl.int32)
    city, place = tl.arange(0, CITIES), tl.arange(0, EACH)
    inside = city < size
    unvisited = tl.where(inside & (city != first), 1, 0)
    successor = city * 0
    here, left = first + 0, size - 1
    while left > 0:
        there = place < width
        index = tl.load(indices + here * width + place, mask=there, other=0).to(tl.int32)
        score = tl.load(scores + here * width + place, mask=there, other=0.0)
        open_ones = there & (tl.gather(unvisited, index, 0) == 1)
        best = tl.max(tl.where(open_ones, score, float("-inf")), 0)
        following = tl.min(tl.where(open_ones & (score == best), index, CITIES), 0)
        if following == CITIES:  # all candidates have been visited
            rest = floor - tl.load(excesses + here * size + city, mask=inside, other=0.0)
            rest = tl.where(unvisited == 1, rest, float("-inf"))
            following = tl.min(tl.where((unvisited == 1) & (rest == tl.max(rest, 0)), city, CITIES), 0)
        successor = tl.where(city == here, following, successor)
        unvisited = tl.where(city == following, 0, unvisited)
        here, left = following, left - 1
    successor = tl.where(city == here, first, successor)
    tl.store(found + tour * size + city, successor.to(tl.int64), mask=inside)


def follow_candidates(scores: Tensor, index: Tensor, excess: Tensor, floor: Tensor, first: Tensor) -> Tensor:
    """Do what `follow_candidates` says; `floor` (N,) is below all scores (N, n, k) of a tour."""
    count, size, width = scores.shape
    found = torch.empty(count, size, dtype=torch.int64, device=scores.device)
    padded = max(_NARROWEST, triton.next_power_of_2(size)), max(_NARROWEST, triton.next_power_of_2(width))
    with torch.cuda.device_of(scores):
        _follow_candidates[(count,)](
            scores.detach().contiguous(), index.int().contiguous(), excess.float().contiguous(),
            floor.float().contiguous(), first.contiguous(), found, count // len(index), size, width,
            CITIES=padded[0], EACH=padded[1], num_warps=max(1, padded[0] // _LANES),
        )  # fmt: skip
    return found
