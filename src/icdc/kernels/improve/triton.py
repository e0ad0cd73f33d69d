# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Local search on a GPU: one program for each schedule or tour, which ends when nothing is left to improve.

A program keeps its solution in registers and reads times and distances through the cache. What is looked up at an index
that changes is the sum of a vector that is zero elsewhere: no thread waits for what another has stored. A loop over
candidates keeps the best change for every machine, job or city by itself, and is followed by one reduction. Schedules
and tours come out as those of the loops on a CPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from . import LOAD_TOLERANCE

_LANES = 256
"""Numbers of a vector for each warp."""
_NARROWEST = 32
"""Numbers of the shortest vector to gather from: one for each lane of a warp; fewer would be kept several times."""


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


@triton.jit
def _take_places(
    times, givens, row, in_rows, choice, rest, away, back_time, back, i, machine, limit, columns, value, taker,
    PASSES: constexpr,
):  # fmt: skip
    """Let row i of a machine take the place of every other row, and keep for each of these who does it best.

    `back` is what more it gives away that the other one goes where it then goes, `back_time` (unless it `PASSES` on to
    a third machine) what it takes on the machine that i leaves.
    """
    arriving = tl.load(times + i * columns + choice, mask=in_rows, other=0)
    price = (tl.load(givens + i * columns + choice, mask=in_rows, other=0) - _at(row, away, i)) + back
    better = in_rows & (choice != machine) & (rest + arriving < limit) & (price < value)
    if not PASSES:
        better &= _at(row, rest, i) + back_time < limit
    return tl.where(better, price, value), tl.where(better, i, taker)


@triton.jit
def _first_relieved(
    times, givens, row, column, in_rows, in_columns, choice, load, rest, away, onward, limit, columns, none,
    PASSES: constexpr, ROWS: constexpr, COLUMNS: constexpr,
):  # fmt: skip
    """Return the best changes of the first fullest machine that has one, or of none.

    For every column the row that moves there, and for every row the one that takes its place, with what more each gives
    away; with `PASSES` no moves, and rows that make place pass on.
    """
    full = in_columns & (load >= limit)
    # a name that is set before a loop and in it keeps its type
    move_value, pair_value = _never(column, True), _never(row, True)
    mover, taker = column * 0, row * 0
    machine = tl.where(none, COLUMNS, tl.min(tl.where(full, column, COLUMNS), 0))
    while machine < COLUMNS:
        move_value, pair_value = _never(column, True), _never(row, True)
        mover, taker = column * 0, row * 0
        on = in_rows & (choice == machine) & (rest < limit)
        back_time = tl.load(times + row * columns + machine, mask=in_rows, other=0)
        back = onward
        if not PASSES:
            back = tl.load(givens + row * columns + machine, mask=in_rows, other=0) - away
        i = tl.min(tl.where(on, row, ROWS), 0)
        while i < ROWS:
            if not PASSES:
                direct = tl.load(times + i * columns + column, mask=in_columns, other=0)
                price = tl.load(givens + i * columns + column, mask=in_columns, other=0) - _at(row, away, i)
                better = in_columns & (column != machine) & (load + direct < limit) & (price < move_value)
                move_value, mover = tl.where(better, price, move_value), tl.where(better, i, mover)
            pair_value, taker = _take_places(
                times, givens, row, in_rows, choice, rest, away, back_time, back, i, machine, limit, columns,
                pair_value, taker, PASSES,
            )  # fmt: skip
            i = tl.min(tl.where(on & (row > i), row, ROWS), 0)
        lowest = tl.minimum(tl.min(move_value, 0), tl.min(pair_value, 0))
        following = tl.min(tl.where(full & (column > machine), column, COLUMNS), 0)
        machine = tl.where(lowest < float("inf"), COLUMNS, following)
    return move_value, mover, pair_value, taker


@triton.jit
def _first_pair(row, value, taker, ROWS: constexpr):
    """Return the first of the best pairs of rows, as one number: who takes the place, and whose."""
    return tl.min(tl.where(value == tl.min(value, 0), taker * ROWS + row, 0x7FFFFFFF), 0)


@triton.jit(do_not_specialize=["samples", "rows", "columns", "rounds"])
def _improve_schedules(
    times, givens, choices, owns, loads, factor, found, samples, rows, columns, rounds,
    REAL: constexpr, ROWS: constexpr, COLUMNS: constexpr,
):  # fmt: skip
    schedule = tl.program_id(0).to(tl.int64)
    times += schedule // samples * rows * columns
    givens += schedule // samples * rows * columns
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    in_rows, in_columns = row < rows, column < columns
    choice = tl.load(choices + schedule * rows + row, mask=in_rows, other=0).to(tl.int32)
    own = tl.load(owns + schedule * rows + row, mask=in_rows, other=0)
    load = tl.load(loads + schedule * columns + column, mask=in_columns, other=0)
    load = tl.where(in_columns, load, -_never(column, REAL))
    here = tl.load(loads + schedule * columns + choice, mask=in_rows, other=0)  # the load of each row's machine
    away = tl.load(givens + row * columns + choice, mask=in_rows, other=0)
    done = rounds * 0
    while done < rounds:
        limit = tl.max(load, 0)
        if REAL:
            limit = limit * tl.load(factor)
        rest = here - own
        move_value, mover, swap_value, swapper = _first_relieved(
            times, givens, row, column, in_rows, in_columns, choice, load, rest, away, away, limit, columns, False,
            False, ROWS, COLUMNS,
        )  # fmt: skip
        move, swap = tl.min(move_value, 0), tl.min(swap_value, 0)
        by_move = tl.min(tl.where(move_value == move, mover * COLUMNS + column, 0x7FFFFFFF), 0)
        relieved = tl.minimum(move, swap) < float("inf")
        # where each row would go; nobody asks where a machine can be relieved without
        onward, onto = _never(row, True), row * 0
        third = tl.where(relieved, columns, columns * 0)
        while third < columns:
            time = tl.load(times + row * columns + third, mask=in_rows, other=0)
            price = tl.load(givens + row * columns + third, mask=in_rows, other=0) - away
            better = in_rows & (choice != third) & (_at(column, load, third) + time < limit) & (price < onward)
            onward, onto = tl.where(better, price, onward), tl.where(better, third, onto)
            third += 1
        _, _, pass_value, passer = _first_relieved(
            times, givens, row, column, in_rows, in_columns, choice, load, rest, away, onward, limit, columns, relieved,
            True, ROWS, COLUMNS,
        )  # fmt: skip
        passes = tl.min(pass_value, 0) < float("inf")
        # room is gathered between machines that are not full
        gathering = in_rows & (here < limit) & (away > 0) & ((relieved | passes) == 0)
        gather_value, gatherer = _never(row, True), row * 0
        i = tl.min(tl.where(gathering, row, ROWS), 0)
        while i < ROWS:
            source = _at(row, choice, i)
            back_time = tl.load(times + row * columns + source, mask=in_rows, other=0)
            back = tl.load(givens + row * columns + source, mask=in_rows, other=0) - away
            gather_value, gatherer = _take_places(
                times, givens, row, in_rows, choice, rest, away, back_time, back, i, source, limit, columns,
                gather_value, gatherer, False,
            )  # fmt: skip
            i = tl.min(tl.where(gathering & (row > i), row, ROWS), 0)
        lone_value = tl.where(gathering, onward, _never(row, True))
        lone, pair = tl.min(lone_value, 0), tl.min(gather_value, 0)
        by_lone = tl.min(tl.where(lone_value == lone, row, ROWS - 1), 0)
        gathers = tl.minimum(lone, pair) < 0.0
        # the row that moves, where to, and the other row: none where it moves alone
        alone = tl.where(relieved, move <= swap, gathers & (lone <= pair))
        by_pair = _first_pair(row, gather_value, gatherer, ROWS)
        by_pair = tl.where(passes, _first_pair(row, pass_value, passer, ROWS), by_pair)
        by_pair = tl.where(relieved, _first_pair(row, swap_value, swapper, ROWS), by_pair)
        changes = relieved | passes | gathers
        one = tl.where(alone, tl.where(relieved, by_move // COLUMNS, by_lone), by_pair // ROWS)
        other = tl.where(alone, -1, by_pair % ROWS)
        alone_goal = tl.where(relieved, by_move % COLUMNS, _at(row, onto, one))
        goal = tl.where(alone, alone_goal, _at(row, choice, other))
        source = _at(row, choice, one)
        third = tl.where(passes, _at(row, onto, other), source)
        arriving = tl.load(times + one * columns + goal, mask=changes, other=0)
        passed = tl.load(times + other * columns + third, mask=changes & (other >= 0), other=0)
        one_away = tl.load(givens + one * columns + goal, mask=changes, other=0)
        other_away = tl.load(givens + other * columns + third, mask=changes & (other >= 0), other=0)
        source_load = _at(column, load, source) - _at(row, own, one) + tl.where(third == source, passed, passed * 0)
        goal_load = _at(column, load, goal) - _at(row, own, other) + arriving
        third_load = _at(column, load, third) + passed
        # where nothing changes, no row and no machine is meant
        one, other = tl.where(changes, one, -1), tl.where(changes, other, -1)
        source, goal = tl.where(changes, source, -1), tl.where(changes, goal, -1)
        choice = tl.where(row == one, goal, tl.where(row == other, third, choice))
        own = tl.where(row == one, arriving, tl.where(row == other, passed, own))
        away = tl.where(row == one, one_away, tl.where(row == other, other_away, away))
        third = tl.where(passes, third, -1)
        load = tl.where(column == third, third_load, load)
        load = tl.where(column == source, source_load, tl.where(column == goal, goal_load, load))
        here = tl.where(choice == third, third_load, here)
        here = tl.where(choice == source, source_load, tl.where(choice == goal, goal_load, here))
        done = tl.where(changes, done + 1, rounds)
    tl.store(found + schedule * rows + row, choice.to(tl.int64), mask=in_rows)


def improve_schedules(target: Tensor, given: Tensor, choice: Tensor, own: Tensor, load: Tensor, rounds: int) -> Tensor:
    """Improve choices (batch, samples, rows) with their times, and loads (batch, samples, columns); return choices.

    `target` (batch, rows, columns) int64 or float64 is what a row takes where it may go, and out of reach elsewhere;
    `given` (batch, rows, columns) float64 what it gives away there.
    """
    (batch, samples, rows), columns = choice.shape, target.shape[2]
    found = torch.empty(batch, samples, rows, dtype=torch.int64, device=choice.device)
    # a number given to a kernel is narrow; one in memory is not
    factor = torch.full((1,), 1 - LOAD_TOLERANCE, dtype=torch.float64, device=choice.device)
    padded = triton.next_power_of_2(rows), triton.next_power_of_2(columns)
    with torch.cuda.device_of(choice):
        _improve_schedules[(batch * samples,)](
            target.contiguous(), given.contiguous(), choice.contiguous(), own.contiguous(), load.contiguous(),
            factor, found, samples, rows, columns, min(rounds, 2**31 - 1), REAL=target.is_floating_point(),
            ROWS=padded[0], COLUMNS=padded[1], num_warps=max(1, padded[0] // _LANES),
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
