"""Local search on a CPU: loops over one schedule or tour at a time, compiled by numba.

Tours are walked from city to city, and each makes the best change that begins with a shorter step out of it.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...jit import compiled
from ..dispatch import host_copy, in_threads, on_host

Numbers = NDArray[Any]
"""int64 or float64."""
Indices = NDArray[np.int64]

_GENEROUS = 1 + 1e-12
"""Times the excess of rows, to be sure that rounding hides nothing of it."""


@compiled
def _improve_schedules(
    times: Numbers, excesses: Numbers, choices: Indices, owns: Numbers, loads: Numbers, samples: int, rounds: int,
    tolerance: float, start: int, end: int,
) -> None:  # fmt: skip
    """Improve schedules `start` to `end` in place: choices and their times (N, rows), loads (N, columns).

    Schedule p is one of matrix p // samples of times and of their excess (batch, rows, columns).
    """
    rows, columns = times.shape[1], times.shape[2]
    rest, back = np.empty(rows, times.dtype), np.empty(rows, times.dtype)
    away, onward, onto = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
    for p in range(start, end):
        matrix, excess, choice, own, load = times[p // samples], excesses[p // samples], choices[p], owns[p], loads[p]
        for _ in range(rounds):
            limit = load[0]
            for column in range(1, columns):
                limit = max(limit, load[column])
            if tolerance > 0:
                limit = limit * (1 - tolerance)
            for row in range(rows):
                rest[row], away[row] = load[choice[row]] - own[row], excess[row, choice[row]]
            first, goal, second, third = _best_relief(matrix, excess, choice, load, rest, back, away, limit)
            if first < 0:
                _fill_onward(matrix, excess, choice, load, away, limit, onward, onto)
                first, second = _best_passing_on(matrix, excess, choice, load, rest, away, limit, onward)
                if first >= 0:
                    goal, third = choice[second], onto[second]
            if first < 0:
                first, goal, second, third = _best_gathering(
                    matrix, excess, choice, load, rest, away, limit, onward, onto
                )
            if first < 0:
                break
            source = choice[first]
            leaving, arriving = load[source] - own[first], load[goal]
            if second >= 0:
                arriving -= own[second]
                choice[second], own[second] = third, matrix[second, third]
                if third == source:
                    leaving += own[second]
                else:
                    load[third] += own[second]
            choice[first], own[first] = goal, matrix[first, goal]
            load[source], load[goal] = leaving, arriving + own[first]


@compiled
def _best_relief(
    matrix: Numbers, excess: Numbers, choice: Indices, load: Numbers, rest: Numbers, back: Numbers, away: Numbers,
    limit: float,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Return the best move or exchange of the first fullest machine that has one: row, goal, other row, its goal.

    `rest` (rows,) are the loads without each row, `away` (rows,) its excess where it is, `back` room for (rows,) times.
    Without another row that is −1, without any change all are.
    """
    rows, columns = matrix.shape
    for source in range(columns):
        if load[source] < limit:
            continue
        move, swap = np.inf, np.inf
        move_row, move_column, swap_row, swap_other = -1, -1, -1, -1
        for other in range(rows):  # a column of the matrix is read once, not for every row
            back[other] = matrix[other, source]
        for row in range(rows):
            if choice[row] != source or rest[row] >= limit:
                continue
            for column in range(columns):
                value = excess[row, column] - away[row]
                if value < move and column != source and load[column] + matrix[row, column] < limit:
                    move, move_row, move_column = value, row, column
            for other in range(rows):
                goal = choice[other]
                if goal != source and rest[other] + matrix[row, goal] < limit and rest[row] + back[other] < limit:
                    value = (excess[row, goal] - away[row]) + (excess[other, source] - away[other])
                    if value < swap:
                        swap, swap_row, swap_other = value, row, other
        if move_row >= 0 and move <= swap:
            return move_row, move_column, -1, -1
        if swap_row >= 0:
            return swap_row, choice[swap_other], swap_other, source
    return -1, -1, -1, -1


@compiled
def _fill_onward(
    matrix: Numbers, excess: Numbers, choice: Indices, load: Numbers, away: Numbers, limit: float, onward: Numbers,
    onto: Indices,
) -> None:  # fmt: skip
    """Fill in the column of least excess with room for each row, and what more that is; ∞ where there is none."""
    rows, columns = matrix.shape
    for row in range(rows):
        onward[row], onto[row] = np.inf, -1
        for column in range(columns):
            value = excess[row, column] - away[row]
            if value < onward[row] and column != choice[row] and load[column] + matrix[row, column] < limit:
                onward[row], onto[row] = value, column


@compiled
def _best_passing_on(
    matrix: Numbers, excess: Numbers, choice: Indices, load: Numbers, rest: Numbers, away: Numbers, limit: float,
    onward: Numbers,
) -> tuple[int, int]:  # fmt: skip
    """Return the row of the first fullest machine that can be relieved so, and the row whose place it takes at best."""
    rows, columns = matrix.shape
    for source in range(columns):
        if load[source] < limit:
            continue
        best, first, second = np.inf, -1, -1
        for row in range(rows):
            if choice[row] != source or rest[row] >= limit:
                continue
            for other in range(rows):
                goal = choice[other]
                if onward[other] < np.inf and goal != source and rest[other] + matrix[row, goal] < limit:
                    value = (excess[row, goal] - away[row]) + onward[other]
                    if value < best:
                        best, first, second = value, row, other
        if first >= 0:
            return first, second
    return -1, -1


@compiled
def _best_gathering(
    matrix: Numbers, excess: Numbers, choice: Indices, load: Numbers, rest: Numbers, away: Numbers, limit: float,
    onward: Numbers, onto: Indices,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Return the best move or exchange between machines that are not full: row, goal, other row, its goal; or −1 all.

    It must lower the excess.
    """
    rows = len(choice)
    move, swap, most = 0.0, 0.0, 0.0
    move_row, swap_row, swap_other = -1, -1, -1
    for row in range(rows):
        most = max(most, away[row])
    for row in range(rows):
        if away[row] <= 0 or load[choice[row]] >= limit:
            continue
        if onward[row] < move:
            move, move_row = onward[row], row
        # two rows gain no more than their excess now
        if (away[row] + most) * _GENEROUS < -swap:
            continue
        source = choice[row]
        for other in range(rows):
            goal = choice[other]
            if (away[row] + away[other]) * _GENEROUS < -swap or goal == source:
                continue
            value = (excess[row, goal] - away[row]) + (excess[other, source] - away[other])
            if value < swap and rest[other] + matrix[row, goal] < limit and rest[row] + matrix[other, source] < limit:
                swap, swap_row, swap_other = value, row, other
    if move_row >= 0 and move <= swap:
        return move_row, onto[move_row], -1, -1
    if swap_row >= 0:
        return swap_row, choice[swap_other], swap_other, choice[swap_row]
    return -1, -1, -1, -1


@compiled
def _improve_tours(  # noqa: C901
    distances: Numbers, successors: Indices, steps: Numbers, leasts: Numbers, samples: int, rounds: int,
    start: int, end: int,
) -> None:  # fmt: skip
    """Improve tours `start` to `end` in place: successors and what the steps to them cost (N, n).

    Tour p is one of matrix p // samples of distances (batch, n, n), and a change must gain more than leasts[p] (N,).
    """
    size = distances.shape[1]
    order, position, moved = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    cheapest = np.empty(size, distances.dtype)
    closing, least_closing = np.empty(size, distances.dtype), np.empty(size, distances.dtype)
    known = -1
    for p in range(start, end):
        matrix, successor, step, least = distances[p // samples], successors[p], steps[p], leasts[p]
        if known != p // samples:
            known = p // samples
            for city in range(size):
                cheapest[city] = matrix[city, 0 if city > 0 else 1]
                for into in range(size):
                    if into != city:
                        cheapest[city] = min(cheapest[city], matrix[city, into])
        city = 0
        for place in range(size):
            order[place], position[city] = city, place
            city = successor[city]
        done, idle, a = 0, 0, 0
        while idle < size and done < rounds:
            best, best_first, best_second = -least, 0, 0
            offset = position[a] + 1
            head = successor[a]
            ready = False
            # of the three cities of a change that gains, one can begin with a shorter step
            for into in range(size):
                gain = step[a] - matrix[a, into]
                if gain <= least or into == head:
                    continue
                if not ready:  # what it costs to close the tour after each place, and the least from there on
                    ready = True
                    place = position[a]
                    for ahead in range(size - 2, 0, -1):
                        place = place - 1 if place > 0 else size - 1
                        city = order[place]
                        closing[ahead] = matrix[city, head] - step[city]
                        least_closing[ahead] = closing[ahead]
                        if ahead < size - 2:
                            least_closing[ahead] = min(closing[ahead], least_closing[ahead + 1])
                first = position[into] - offset
                if first < 0:
                    first += size
                b = order[position[into] - 1]
                gain += step[b]
                if first > size - 2 or cheapest[b] + least_closing[first] - gain >= best:
                    continue
                place = position[into]
                for ahead in range(first, size - 1):
                    place = place + 1 if place + 1 < size else 0
                    change = matrix[b, order[place]] + closing[ahead] - gain
                    if change < best:
                        best, best_first, best_second = change, first, ahead + 1 - first
            if best_first == 0:
                idle += 1
            else:
                idle, done = 0, done + 1
                _exchange(matrix, order, position, successor, step, moved, offset % size, best_first, best_second)
            a = successor[a]


@compiled
def _exchange(
    matrix: Numbers, order: Indices, position: Indices, successor: Indices, step: Numbers, moved: Indices,
    start: int, first: int, second: int,
) -> None:  # fmt: skip
    """Let the `first` cities from place `start` and the `second` cities after them change places, the rest stays."""
    size = len(order)
    for i in range(first + second):
        moved[i] = order[(start + i) % size]
    for i in range(first + second):
        city = moved[i + first] if i < second else moved[i - second]
        place = (start + i) % size
        order[place], position[city] = city, place
    for end in (start - 1, start + second - 1, start + first + second - 1):
        city, following = order[end % size], order[(end + 1) % size]
        successor[city], step[city] = following, matrix[city, following]


def improve_schedules(
    target: Tensor, excess: Tensor, choice: Tensor, own: Tensor, load: Tensor, rounds: int, tolerance: float
) -> Tensor:
    """Improve choices (batch, samples, rows) with their times, and loads (batch, samples, columns); return choices.

    `target` (batch, rows, columns) int64 or float64 is what a row takes where it may go, and out of reach elsewhere;
    `excess` (batch, rows, columns) float64 its excess there. Loads up to `tolerance` below the makespan are as full.
    """
    improved = host_copy(choice)
    arrays = on_host(target), on_host(excess), improved, host_copy(own), host_copy(load)
    in_threads(_improve_schedules, len(improved), *arrays, choice.shape[1], rounds, tolerance)
    return torch.from_numpy(improved).view_as(choice).to(choice.device)


def improve_tours(target: Tensor, successor: Tensor, step: Tensor, least: Tensor, rounds: int) -> Tensor:
    """Improve tours (batch, samples, n) with what their steps cost; return successors.

    `target` (batch, n, n) int64 or float64 is what a permitted step costs, and out of reach elsewhere; a change gains
    more than `least` (batch, samples).
    """
    improved = host_copy(successor)
    arrays = on_host(target), improved, host_copy(step), on_host(least).reshape(-1)
    in_threads(_improve_tours, len(improved), *arrays, successor.shape[1], rounds)
    return torch.from_numpy(improved).view_as(successor).to(successor.device)
