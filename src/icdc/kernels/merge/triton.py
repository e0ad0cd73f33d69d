# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Merging on a GPU: one program for each schedule or tour, which goes through its others one after the other.

A program keeps its solution in registers and reads times and distances through the cache. Cycles of cities are followed
over 1, 2, 4, … steps, all cities at once. Solutions come out as those of the loops on a CPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ..improve import LOAD_TOLERANCE
from ..improve.triton import _LANES, _NARROWEST, _at, _never
from . import MOST_CHANGES, MOST_PARTS, MOST_TRIALS


@triton.jit
def _least_met(city, following, size, CITIES: constexpr):
    """Return the least city on the cycle of each one, if `following` leads from city to city."""
    least, reach = city + 0, size * 0 + 1
    while reach < size:
        # the least city met and where it leads to, in one number
        ahead = tl.gather(least * CITIES + following, following, 0)
        least, following = tl.minimum(least, ahead // CITIES), ahead % CITIES
        reach += reach
    return least


@triton.jit
def _lowest(total):
    """Return the least number of a matrix; of a column first, which one thread keeps."""
    return tl.min(tl.min(total, 0), 0)


@triton.jit(do_not_specialize=["samples", "size", "count"])
def _merge_tours(
    distances, successors, others, befores, leasts, found, samples, size, count,
    REAL: constexpr, CITIES: constexpr, PARTS: constexpr, TRIALS: constexpr,
):  # fmt: skip
    tour = tl.program_id(0).to(tl.int64)
    distances += tour // samples * size * size
    others += tour * count * size
    befores += tour * count * size
    city, part = tl.arange(0, CITIES), tl.arange(0, PARTS)
    inside = city < size
    # a city that does not exist is followed by itself, in all tours
    successor = tl.load(successors + tour * size + city, mask=inside, other=0).to(tl.int32)
    successor = tl.where(inside, successor, city)
    least = tl.load(leasts + tour)
    one, two = part[:, None], part[None, :]
    pair = one * PARTS + two
    turn = count * 0
    while turn < count:
        other = tl.load(others + turn * size + city, mask=inside, other=0).to(tl.int32)
        before = tl.load(befores + turn * size + city, mask=inside, other=0).to(tl.int32)
        other, before = tl.where(inside, other, city), tl.where(inside, before, city)
        change = tl.load(distances + city * size + other, mask=inside, other=0)
        change -= tl.load(distances + city * size + successor, mask=inside, other=0)
        # along a step of the tour and back along one of the other: the least city met names the part
        name = _least_met(city, tl.gather(before, successor, 0), size, CITIES)
        names = (name == city) & (other != successor)
        value, odd = _never(city, REAL), city * 0
        least_city = tl.min(tl.where(names, city, CITIES), 0)
        while least_city < CITIES:
            here, within = city == least_city, name == least_city
            value = tl.where(here, tl.sum(tl.where(within, change, 0), 0), value)
            odd = tl.where(here, tl.sum(tl.where(within, 1, 0), 0) % 2, odd)
            least_city = tl.min(tl.where(names & (city > least_city), city, CITIES), 0)
        # those that change least, in their order; of equal ones the first
        parts, known = size * 0, tl.minimum(tl.sum(tl.where(names, 1, 0), 0), PARTS)
        part_name, part_odd, part_value = part * 0, part * 0, tl.zeros([PARTS], change.dtype)
        while parts < known:
            lowest = tl.min(value, 0)
            least_city = tl.min(tl.where(value == lowest, city, CITIES), 0)
            part_name = tl.where(part == parts, least_city, part_name)
            part_odd = tl.where(part == parts, _at(city, odd, least_city), part_odd)
            part_value = tl.where(part == parts, lowest, part_value)
            value = tl.where(city == least_city, _never(city, REAL), value)
            parts += 1
        alone = tl.where(part_odd == 1, part_value, _never(part, REAL))
        together = part_value[:, None] + part_value[None, :]
        together = tl.where(part_odd[:, None] == part_odd[None, :], together, _never(together, REAL))
        total = tl.where(one == two, alone[:, None], together)
        total = tl.where((one <= two) & (two < known), total, _never(total, REAL))
        trial, lowest = size * 0, _lowest(total)
        while (trial < TRIALS) & (lowest < -least):
            tried = _lowest(tl.where(total == lowest, pair, PARTS * PARTS))
            i, k = tried // PARTS, tried % PARTS
            meant = (name == _at(part, part_name, i)) | (name == _at(part, part_name, k))
            changed = tl.where(meant, other, successor)
            closed = tl.max(tl.where(inside, _least_met(city, changed, size, CITIES), 0), 0) == 0
            successor = tl.where(closed, changed, successor)
            # what was tried is left out, and what was taken over with all that goes along with it
            gone = closed & ((one == i) | (one == k) | (two == i) | (two == k))
            total = tl.where((pair == tried) | gone, _never(total, REAL), total)
            lowest = _lowest(total)
            trial += 1
        turn += 1
    tl.store(found + tour * size + city, successor.to(tl.int64), mask=inside)


def merge_tours(distances: Tensor, successor: Tensor, others: Tensor, least: Tensor) -> Tensor:
    """Merge others (batch, samples, count, n) into tours (batch, samples, n), by gains of more than `least`."""
    (batch, samples, size), count = successor.shape, others.shape[2]
    found = torch.empty(batch, samples, size, dtype=torch.int64, device=successor.device)
    others = others.contiguous()
    city = torch.arange(size, device=others.device)
    before = torch.empty_like(others).scatter_(3, others, city.expand_as(others))
    padded = _padded(size)
    with torch.cuda.device_of(successor):
        _merge_tours[(batch * samples,)](
            distances.contiguous(), successor.contiguous(), others, before, least.contiguous(), found, samples, size,
            count, REAL=distances.is_floating_point(), CITIES=padded, PARTS=MOST_PARTS, TRIALS=MOST_TRIALS,
            num_warps=max(1, padded // _LANES),
        )  # fmt: skip
    return found


@triton.jit(do_not_specialize=["samples", "rows", "columns", "count"])
def _merge_schedules(
    times, choices, others, loads, factor, found, samples, rows, columns, count,
    REAL: constexpr, ROWS: constexpr, COLUMNS: constexpr, CHANGES: constexpr,
):  # fmt: skip
    schedule = tl.program_id(0).to(tl.int64)
    times += schedule // samples * rows * columns
    others += schedule * count * rows
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    in_rows, in_columns = row < rows, column < columns
    choice = tl.load(choices + schedule * rows + row, mask=in_rows, other=0).to(tl.int32)
    own = tl.load(times + row * columns + choice, mask=in_rows, other=0)
    load = tl.load(loads + schedule * columns + column, mask=in_columns, other=0)
    load = tl.where(in_columns, load, -_never(column, REAL))
    turn = count * 0
    while turn < count:
        # a row that does not exist is on the same machine in all schedules
        other = tl.load(others + turn * rows + row, mask=in_rows, other=0).to(tl.int32)
        arriving = tl.load(times + row * columns + other, mask=in_rows, other=0)
        changes = rows * 0
        while changes < CHANGES:
            limit = tl.max(load, 0)
            if REAL:
                limit = limit * tl.load(factor)
            here, there = tl.gather(load, choice, 0), tl.gather(load, other, 0)
            left, arrived = here - own, there + arriving
            differs = choice != other
            leaves = differs & (here >= limit)
            alone = tl.where(leaves, tl.maximum(left, arrived), _never(row, REAL))
            first, second = rows * 0 - 1, rows * 0 - 1
            machine = tl.min(tl.where(leaves, choice, COLUMNS), 0)
            while machine < COLUMNS:
                on = leaves & (choice == machine)
                single = tl.min(tl.where(on, alone, _never(row, REAL)), 0)
                # best[k]: with row k going on to its other machine; what a row leaves behind is part of every change
                best, leaver = _never(row, REAL), row * 0
                worthwhile = on & (left < tl.minimum(single, limit))
                i = tl.min(tl.where(worthwhile, row, ROWS), 0)
                while i < ROWS:
                    goal, rest, full = _at(row, other, i), _at(row, left, i), _at(row, arrived, i)
                    back = arriving + tl.where(other == machine, rest, there)
                    value = tl.maximum(full - own, tl.maximum(rest, back))
                    better = differs & (choice == goal) & (value < best)
                    best, leaver = tl.where(better, value, best), tl.where(better, i, leaver)
                    i = tl.min(tl.where(worthwhile & (row > i), row, ROWS), 0)
                double = tl.min(best, 0)
                by_one = tl.min(tl.where(on & (alone == single), row, ROWS), 0)
                by_two = tl.min(tl.where(best == double, leaver * ROWS + row, 0x7FFFFFFF), 0)
                improved = tl.minimum(single, double) < limit
                first = tl.where(improved, tl.where(single <= double, by_one, by_two // ROWS), -1)
                second = tl.where(improved & (single > double), by_two % ROWS, -1)
                following = tl.min(tl.where(leaves & (choice > machine), choice, COLUMNS), 0)
                machine = tl.where(improved, COLUMNS, following)
            # where no row is meant, all that is looked up is zero
            source, goal, target = _at(row, choice, first), _at(row, other, first), _at(row, other, second)
            step = tl.where(column == source, -_at(row, own, first), 0)
            step += tl.where(column == goal, _at(row, arriving, first) - _at(row, own, second), 0)
            load += step + tl.where(column == target, _at(row, arriving, second), 0)
            moving = (row == first) | (row == second)
            choice, own = tl.where(moving, other, choice), tl.where(moving, arriving, own)
            changes = tl.where(first >= 0, changes + 1, CHANGES)
        turn += 1
    tl.store(found + schedule * rows + row, choice.to(tl.int64), mask=in_rows)


def merge_schedules(times: Tensor, choice: Tensor, others: Tensor, load: Tensor) -> Tensor:
    """Merge others (batch, samples, count, rows) into choices (batch, samples, rows) with their loads."""
    (batch, samples, rows), columns = choice.shape, times.shape[2]
    found = torch.empty(batch, samples, rows, dtype=torch.int64, device=choice.device)
    # a number given to a kernel is narrow; one in memory is not
    factor = torch.full((1,), 1 - LOAD_TOLERANCE, dtype=torch.float64, device=choice.device)
    padded = _padded(rows), _padded(columns)
    with torch.cuda.device_of(choice):
        _merge_schedules[(batch * samples,)](
            times.contiguous(), choice.contiguous(), others.contiguous(), load.contiguous(), factor, found, samples,
            rows, columns, others.shape[2], REAL=times.is_floating_point(), ROWS=padded[0], COLUMNS=padded[1],
            CHANGES=MOST_CHANGES, num_warps=max(1, padded[0] // _LANES),
        )  # fmt: skip
    return found


def _padded(count: int) -> int:
    padded: int = max(_NARROWEST, triton.next_power_of_2(count))
    return padded
