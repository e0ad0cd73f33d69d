# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Local search on a GPU: one program for each schedule or tour, which ends when nothing is left to improve.

A program keeps its solution in registers and reads times and distances through the cache. What is looked up at an index
that changes is the sum of a vector that is zero elsewhere: no thread waits for what another has stored. A loop over
candidates keeps the best change for every machine, job or city by itself, and is followed by one reduction. Schedules
come out as those of the plain operations, tours as those of the compiled loops.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from .schedule_descent import TOLERANCE

_LANES = 256
"""Numbers of a vector for each warp."""


@triton.jit
def _at(index, vector, where):
    """Return one number of a vector."""
    return tl.sum(tl.where(index == where, vector, 0), 0)


@triton.jit
def _never(like, REAL: constexpr):
    """Return a vector of numbers that no schedule reaches, of the shape of `like`."""
    if REAL:
        never = tl.full(like.shape, float("inf"), tl.float64)
    else:
        never = tl.full(like.shape, 4611686018427387904, tl.int64)
    return never


@triton.jit(do_not_specialize=["samples", "rows", "columns", "rounds"])
def _improve_schedules(
    times, choices, owns, loads, factor, found, samples, rows, columns, rounds,
    REAL: constexpr, ROWS: constexpr, COLUMNS: constexpr,
):  # fmt: skip
    schedule = tl.program_id(0).to(tl.int64)
    times += schedule // samples * rows * columns
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    in_rows, in_columns = row < rows, column < columns
    choice = tl.load(choices + schedule * rows + row, mask=in_rows, other=0).to(tl.int32)
    own = tl.load(owns + schedule * rows + row, mask=in_rows, other=0)
    load = tl.load(loads + schedule * columns + column, mask=in_columns, other=0)
    load = tl.where(in_columns, load, -_never(column, REAL))
    here = tl.load(loads + schedule * columns + choice, mask=in_rows, other=0)  # the load of each row's machine
    done = rounds * 0
    while done < rounds:
        top = tl.max(load, 0)
        limit = top
        if REAL:
            limit = top * tl.load(factor)
        full = in_columns & (load >= limit)
        rest = here - own
        machine = tl.min(tl.where(full, column, COLUMNS), 0)
        move_value, swap_value = _never(column, REAL), _never(row, REAL)
        move_row, swap_row = column * 0, row * 0
        move, swap = tl.min(move_value, 0), tl.min(swap_value, 0)
        while machine < COLUMNS:
            move_value, swap_value = _never(column, REAL), _never(row, REAL)
            move_row, swap_row = column * 0, row * 0
            on = in_rows & (choice == machine)
            back = tl.load(times + row * columns + machine, mask=in_rows, other=0)
            i = tl.min(tl.where(on, row, ROWS), 0)
            while i < ROWS:
                left = top - _at(row, own, i)
                direct = tl.load(times + i * columns + column, mask=in_columns, other=0)
                value = tl.maximum(load + direct, left)
                better = in_columns & (column != machine) & (value < move_value)
                move_value, move_row = tl.where(better, value, move_value), tl.where(better, i, move_row)
                arriving = tl.load(times + i * columns + choice, mask=in_rows, other=0)
                value = tl.maximum(left + back, rest + arriving)
                better = in_rows & (choice != machine) & (value < swap_value)
                swap_value, swap_row = tl.where(better, value, swap_value), tl.where(better, i, swap_row)
                i = tl.min(tl.where(on & (row > i), row, ROWS), 0)
            move, swap = tl.min(move_value, 0), tl.min(swap_value, 0)
            following = tl.min(tl.where(full & (column > machine), column, COLUMNS), 0)
            # (a second name for the machine would not be carried out of the loop: triton takes it for the same value)
            machine = tl.where(tl.minimum(move, swap) < limit, COLUMNS, following)
        moves, improved = move <= swap, tl.minimum(move, swap) < limit
        by_move = tl.min(tl.where(move_value == move, move_row * COLUMNS + column, 0x7FFFFFFF), 0)
        by_swap = tl.min(tl.where(swap_value == swap, swap_row * ROWS + row, 0x7FFFFFFF), 0)
        one, other = tl.where(moves, by_move // COLUMNS, by_swap // ROWS), by_swap % ROWS
        source = _at(row, choice, one)
        goal = tl.where(moves, by_move % COLUMNS, _at(row, choice, other))
        arriving = tl.load(times + one * columns + goal, mask=improved, other=0)
        back = tl.load(times + other * columns + source, mask=improved, other=0)
        back, leaving = tl.where(moves, top * 0, back), tl.where(moves, top * 0, _at(row, own, other))
        source_load = _at(column, load, source) - _at(row, own, one) + back
        goal_load = _at(column, load, goal) - leaving + arriving
        # where nothing improves, no row and no machine is meant
        one, other = tl.where(improved, one, -1), tl.where(improved & (move > swap), other, -1)
        source, goal = tl.where(improved, source, -1), tl.where(improved, goal, -1)
        load = tl.where(column == source, source_load, tl.where(column == goal, goal_load, load))
        choice = tl.where(row == one, goal, tl.where(row == other, source, choice))
        own = tl.where(row == one, arriving, tl.where(row == other, back, own))
        here = tl.where(choice == source, source_load, tl.where(choice == goal, goal_load, here))
        done = tl.where(improved, done + 1, rounds)
    tl.store(found + schedule * rows + row, choice.to(tl.int64), mask=in_rows)


def improve_schedules(target: Tensor, choice: Tensor, own: Tensor, load: Tensor, rounds: int) -> Tensor:
    """Improve choices (batch, samples, rows) with their times, and loads (batch, samples, columns); return choices.

    `target` (batch, rows, columns) int64 or float64 is what a row takes where it may go, and out of reach elsewhere.
    """
    (batch, samples, rows), columns = choice.shape, target.shape[2]
    found = torch.empty(batch, samples, rows, dtype=torch.int64, device=choice.device)
    # a number given to a kernel is narrow; one in memory is not
    factor = torch.full((1,), 1 - TOLERANCE, dtype=torch.float64, device=choice.device)
    padded = triton.next_power_of_2(rows), triton.next_power_of_2(columns)
    with torch.cuda.device_of(choice):
        _improve_schedules[(batch * samples,)](
            target.contiguous(), choice.contiguous(), own.contiguous(), load.contiguous(), factor, found, samples,
            rows, columns, min(rounds, 2**31 - 1), REAL=target.is_floating_point(), ROWS=padded[0], COLUMNS=padded[1],
            num_warps=max(1, padded[0] // _LANES),
        )  # fmt: skip
    return found


@triton.jit(do_not_specialize=["samples", "size", "rounds"])
def _improve_tours(
    distances, successors, steps, leasts, found, samples, size, rounds,
    CITIES: constexpr,
):  # fmt: skip
    tour = tl.program_id(0).to(tl.int64)
    distances += tour // samples * size * size
    successors += tour * size
    city = tl.arange(0, CITIES)
    inside = city < size
    successor = tl.load(successors + city, mask=inside, other=0).to(tl.int32)
    step = tl.load(steps + tour * size + city, mask=inside, other=0)
    least = tl.load(leasts + tour)
    place, predecessor = city * 0, city * 0
    a = size * 0
    for turn in range(size):
        following = tl.load(successors + a).to(tl.int32)
        place = tl.where(city == a, turn, place)
        predecessor = tl.where(city == following, a, predecessor)
        a = following
    idle, done = size * 0, rounds * 0
    while (idle < size) & (done < rounds):
        head = _at(city, successor, a)
        place = place - _at(city, place, a) - 1  # counted from the city after a, which itself is the last
        place = tl.where(place < 0, place + size, place)
        gain = _at(city, step, a) - tl.load(distances + a * size + city, mask=inside, other=0)
        closing = tl.load(distances + city * size + head, mask=inside, other=0) - step
        # of the three cities of a change that gains, one can begin with a shorter step
        worthwhile = inside & (gain > least) & (city != head) & (city != a)
        best, best_into = step * 0 - least, city * 0 - 1
        into = tl.min(tl.where(worthwhile, city, CITIES), 0)
        while into < CITIES:
            b, first = _at(city, predecessor, into), _at(city, place, into)
            saved = _at(city, gain, into) + _at(city, step, b)
            change = tl.load(distances + b * size + successor, mask=inside, other=0) + closing - saved
            better = inside & (place >= first) & (place < size - 1) & (change < best)
            best, best_into = tl.where(better, change, best), tl.where(better, into, best_into)
            into = tl.min(tl.where(worthwhile & (city > into), city, CITIES), 0)
        known = best_into >= 0
        improved = tl.max(best_into, 0) >= 0
        # cities without a change of their own keep −least, which is above every change
        lowest = tl.min(best, 0)
        key = tl.min(tl.where(known & (best == lowest), best_into * CITIES + place, 0x7FFFFFFF), 0)
        key = tl.where(improved, key, 0)
        into, last = key // CITIES, key % CITIES
        b, first = _at(city, predecessor, into), _at(city, place, into)
        c = tl.sum(tl.where(inside & (place == last), city, 0), 0)
        after = _at(city, successor, c)
        first, last = tl.where(improved, first, 0), tl.where(improved, last, -1)
        to_into, to_head = tl.load(distances + a * size + into), tl.load(distances + c * size + head)
        to_after = tl.load(distances + b * size + after)
        # where nothing improves, no place and no city is meant
        place = tl.where(place < first, place + last + 1 - first, tl.where(place <= last, place - first, place))
        from_a, from_b, from_c = tl.where(improved, a, -1), tl.where(improved, b, -1), tl.where(improved, c, -1)
        successor = tl.where(city == from_a, into, successor)
        successor = tl.where(city == from_b, after, tl.where(city == from_c, head, successor))
        step = tl.where(city == from_a, to_into, step)
        step = tl.where(city == from_b, to_after, tl.where(city == from_c, to_head, step))
        to_a, to_b, to_c = tl.where(improved, into, -1), tl.where(improved, after, -1), tl.where(improved, head, -1)
        predecessor = tl.where(city == to_a, a, predecessor)
        predecessor = tl.where(city == to_b, b, tl.where(city == to_c, c, predecessor))
        a = tl.where(improved, into, head)
        idle, done = tl.where(improved, 0, idle + 1), tl.where(improved, done + 1, done)
    tl.store(found + tour * size + city, successor.to(tl.int64), mask=inside)


def improve_tours(target: Tensor, successor: Tensor, step: Tensor, least: Tensor, rounds: int) -> Tensor:
    """Improve tours (batch, samples, n) with what their steps cost; return successors.

    `target` (batch, n, n) int64 or float64 is what a permitted step costs, and out of reach elsewhere; a change gains
    more than `least` (batch, samples).
    """
    batch, samples, size = successor.shape
    found = torch.empty(batch, samples, size, dtype=torch.int64, device=successor.device)
    padded = triton.next_power_of_2(size)
    with torch.cuda.device_of(successor):
        _improve_tours[(batch * samples,)](
            target.contiguous(), successor.contiguous(), step.contiguous(), least.contiguous(), found, samples, size,
            min(rounds, 2**31 - 1), CITIES=padded, num_warps=max(1, padded // _LANES),
        )  # fmt: skip
    return found
