"""Merging on a CPU: loops over one schedule or tour at a time, compiled by numba."""

import numpy as np
import torch
from torch import Tensor

from ...jit import compiled
from ..dispatch import host_copy, in_threads, on_host
from ..improve.numba import Indices, Numbers


@compiled
def _merge_tours(  # noqa: C901
    distances: Numbers, successors: Indices, others: Indices, leasts: Numbers, samples: int, most_parts: int,
    most_trials: int, start: int, end: int,
) -> None:  # fmt: skip
    """Merge others (N, count, n) into tours `start` to `end` of successors (N, n), in place.

    Tour p is one of matrix p // samples of distances (batch, n, n), and a change must gain more than leasts[p] (N,).
    """
    size = distances.shape[1]
    order, place, before = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    part, cuts, length = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    change = np.empty(size, distances.dtype)
    for p in range(start, end):
        matrix, successor, least = distances[p // samples], successors[p], leasts[p]
        if not _is_tour(successor):
            continue
        _walk(successor, order, place, before)
        for m in range(others.shape[1]):
            other = others[p, m]
            if not _is_tour(other):
                continue
            count = _find_parts(matrix, successor, other, before, part, length, change)
            rank = np.argsort(change[:count], kind="mergesort")[:most_parts]
            few = len(rank)
            tried = np.zeros((few, few), np.bool_)
            for _ in range(most_trials):
                best, one, two = -least, -1, -1
                for i in range(few):
                    c = rank[i]
                    if length[c] < 0:  # taken over already
                        continue
                    if min(change[c], 2 * change[c]) >= best:  # all that follow change more
                        break
                    if change[c] < best and length[c] % 2 == 1 and not tried[i, i]:
                        best, one, two = change[c], i, i
                    for k in range(i + 1, few):
                        e = rank[k]
                        total = change[c] + change[e]
                        if total >= best:
                            break
                        if length[e] >= 0 and (length[c] + length[e]) % 2 == 0 and not tried[i, k]:
                            best, one, two = total, i, k
                            break
                if one < 0:
                    break
                tried[one, two] = True
                c, e = rank[one], rank[two]
                if not _closes(other, order, place, part, c, e, cuts):
                    continue
                for city in range(size):
                    if part[city] == c or part[city] == e:
                        successor[city] = other[city]
                _walk(successor, order, place, before)
                length[c], length[e] = -1, -1


@compiled
def _is_tour(successor: Indices) -> bool:
    """Tell whether successors (n,) are one tour; elsewhere the functions below do not end, or leave the arrays."""
    size, city = len(successor), 0
    for turn in range(1, size + 1):
        city = successor[city]
        if not 0 <= city < size or (city == 0 and turn < size):
            return False
    return city == 0


@compiled
def _walk(successor: Indices, order: Indices, place: Indices, before: Indices) -> None:
    """Fill in the cities in visiting order, from city 0, the place of each, and the city before it; all (n,)."""
    city = 0
    for turn in range(len(successor)):
        order[turn], place[city] = city, turn
        following = successor[city]
        before[following] = city
        city = following


@compiled
def _find_parts(
    matrix: Numbers, successor: Indices, other: Indices, before: Indices, part: Indices, length: Indices,
    change: Numbers,
) -> int:  # fmt: skip
    """Number the parts, in the order of their least cities; fill in each city's, and their lengths and changes."""
    size, count = len(successor), 0
    for city in range(size):
        part[city] = -1
    for first in range(size):
        if part[first] >= 0 or successor[first] == other[first]:
            continue
        change[count], length[count] = 0, 0
        city = first
        while part[city] < 0:
            part[city] = count
            length[count] += 1
            change[count] += matrix[city, other[city]] - matrix[city, successor[city]]
            city = before[other[city]]
        count += 1
    return count


@compiled
def _closes(other: Indices, order: Indices, place: Indices, part: Indices, c: int, e: int, cuts: Indices) -> bool:
    """Tell whether one tour is left when the cities of parts c and e go on as in the other one.

    They cut the tour into segments, each ending in such a city; where it then goes begins a segment, too.
    """
    count = 0
    for turn in range(len(order)):
        if part[order[turn]] == c or part[order[turn]] == e:
            cuts[count] = turn
            count += 1
    segment = 0
    for met in range(1, count + 1):
        begin = place[other[order[cuts[segment]]]]
        low, high = 0, count  # the first cut from there on; after the last one the first again
        while low < high:
            middle = (low + high) // 2
            if cuts[middle] >= begin:
                high = middle
            else:
                low = middle + 1
        segment = low if low < count else 0
        if segment == 0:
            return met == count
    return False


@compiled
def _merge_schedules(  # noqa: C901
    times: Numbers, choices: Indices, others: Indices, loads: Numbers, samples: int, most_changes: int,
    tolerance: float, start: int, end: int,
) -> None:  # fmt: skip
    """Merge others (N, count, rows) into schedules `start` to `end` of choices (N, rows), in place.

    Schedule p is one of matrix p // samples of times (batch, rows, columns), with loads[p] of (N, columns).
    """
    rows, columns = times.shape[1], times.shape[2]
    open_rows = np.empty(rows, np.int64)
    for p in range(start, end):
        matrix, choice, load = times[p // samples], choices[p], loads[p]
        for m in range(others.shape[1]):
            other = others[p, m]
            for _ in range(most_changes):
                top = load[0]
                for column in range(1, columns):
                    top = max(top, load[column])
                limit = top
                if tolerance > 0:
                    limit = top * (1 - tolerance)
                count = 0
                for row in range(rows):
                    if choice[row] != other[row]:
                        open_rows[count] = row
                        count += 1
                best, first, second = limit, -1, -1
                for source in range(columns):
                    if load[source] < limit or first >= 0:
                        continue
                    for at in range(count):
                        i = open_rows[at]
                        left = load[source] - matrix[i, source]
                        if choice[i] != source or left > best or (left == best and second < 0):
                            continue
                        goal = other[i]
                        arrived = load[goal] + matrix[i, goal]
                        value = max(left, arrived)
                        if value < best or (value == best and second >= 0):  # one goes before two
                            best, first, second = value, i, -1
                        for behind in range(count):
                            k = open_rows[behind]
                            if choice[k] != goal:
                                continue
                            target = other[k]
                            value = arrived - matrix[k, goal]
                            if target == source:
                                value = max(value, left + matrix[k, source])
                            else:
                                value = max(value, max(left, load[target] + matrix[k, target]))
                            if value < best:
                                best, first, second = value, i, k
                if first < 0:
                    break
                source, goal = choice[first], other[first]
                leaving, arriving = -matrix[first, source], matrix[first, goal]
                choice[first] = goal
                if second >= 0:  # each load changes once, so that all implementations round reals alike
                    arriving -= matrix[second, goal]
                    target = other[second]
                    choice[second] = target
                    if target == source:
                        leaving += matrix[second, source]
                    else:
                        load[target] += matrix[second, target]
                load[source] += leaving
                load[goal] += arriving


def merge_tours(
    distances: Tensor, successor: Tensor, others: Tensor, least: Tensor, most_parts: int, most_trials: int
) -> Tensor:
    """Merge others (batch, samples, count, n) into tours (batch, samples, n), by gains of more than `least`."""
    merged = host_copy(successor)
    arrays = on_host(distances), merged, on_host(others.flatten(0, 1)), on_host(least).reshape(-1)
    in_threads(_merge_tours, len(merged), *arrays, successor.shape[1], most_parts, most_trials, fewest=1)
    return torch.from_numpy(merged).view_as(successor).to(successor.device)


def merge_schedules(
    times: Tensor, choice: Tensor, others: Tensor, load: Tensor, most_changes: int, tolerance: float
) -> Tensor:
    """Merge others (batch, samples, count, rows) into choices (batch, samples, rows) with their loads."""
    merged = host_copy(choice)
    arrays = on_host(times), merged, on_host(others.flatten(0, 1)), host_copy(load)
    in_threads(_merge_schedules, len(merged), *arrays, choice.shape[1], most_changes, tolerance, fewest=1)
    return torch.from_numpy(merged).view_as(choice).to(choice.device)
