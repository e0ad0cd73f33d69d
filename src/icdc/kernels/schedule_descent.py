"""Local search for schedules: a job leaves a fullest machine, alone or in exchange for another.

The load of a machine is the sum of the times of the rows that chose it, a fullest machine one that reaches the
makespan. A change is made if both machines it touches end below the makespan: the makespan falls, or fewer machines
reach it. So plateaus are left, and no schedule is seen twice. Of the first fullest machine that can be relieved, the
change is made that leaves the lowest larger load of the two, a move before an exchange, then the first; all
implementations agree on that, and give the same schedules.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .choosing import compiled_runs_on, triton_runs_on
from .solutions import column_totals, picked

BARRED = 2**60
"""Time of a forbidden pair of whole times: more than any schedule, and three of them still fit; reals have ∞."""
TOLERANCE = 1e-9
"""Loads of real times this near to the makespan, relative to it, are as full; whole times are compared exactly."""
WIDEST_JOBS, WIDEST_MACHINES = 2048, 256
"""Rows and columns that fit the registers of a Triton program."""
_BLOCK = {"cpu": 2**20, "cuda": 2**24}
"""Numbers of the largest intermediate tensor."""


def improve_schedules(times: Tensor, choice: Tensor, rounds: int, allowed: Tensor | None = None) -> Tensor:
    """Change schedules, each at most `rounds` times, until no move or exchange takes work off a fullest machine.

    Parameters
    ----------
    times : (batch, rows, columns), not negative. Whole times are compared as int64, reals as float64.
    choice : (batch, samples, rows) int64, the column of every row.
    rounds : changes to a schedule; 0 makes none.
    allowed : (batch, rows, columns) bool, True where permitted. No row goes to a forbidden column; one that is
        there already may stay.

    Returns
    -------
    Tensor (batch, samples, rows) int64, with makespans no longer than before.
    """
    if rounds < 1 or not choice.numel():
        return choice.clone()
    kind = torch.float64 if times.is_floating_point() else torch.int64
    wide = times.to(kind)
    barred = float("inf") if kind == torch.float64 else BARRED
    target = wide if allowed is None else wide.masked_fill(~allowed, barred)
    load = column_totals(wide, choice)
    own = picked(wide, choice)
    if triton_runs_on(times.device) and times.shape[1] <= WIDEST_JOBS and times.shape[2] <= WIDEST_MACHINES:
        from . import triton_descent

        found = triton_descent.improve_schedules(target, choice, own, load, rounds)
    elif compiled_runs_on(times.device):
        from . import compiled_descent

        found = compiled_descent.improve_schedules(target, choice, own, load, rounds)
    else:
        found = _improve(target, choice, own, load, rounds)
    if kind == torch.int64:
        return found
    # sums of reals are rounded: what the caller will add up decides
    before, after = (column_totals(times, one).amax(-1) for one in (choice, found))
    return torch.where((after <= before)[..., None], found, choice)


def _improve(target: Tensor, choice: Tensor, own: Tensor, load: Tensor, rounds: int) -> Tensor:
    """Improve in plain operations, a block of schedules at a time."""
    (batch, samples, rows), columns = choice.shape, target.shape[2]
    room = _BLOCK.get(target.device.type, _BLOCK["cpu"])
    count = max(1, room // (rows * max(rows, columns)))
    matrix = torch.arange(batch, device=target.device).repeat_interleave(samples)
    flat = choice.flatten(0, 1), own.flatten(0, 1), load.flatten(0, 1)
    parts = []
    for start in range(0, batch * samples, count):
        part = slice(start, start + count)
        state = _Schedules(target[matrix[part]], *(x[part] for x in flat))
        for _ in range(rounds):
            state, improved = _step(state, room)
            if target.device.type == "cpu" and not bool(improved.any()):  # elsewhere a look would wait for the device
                break
        parts.append(state.choice)
    return torch.cat(parts).view_as(choice)


class _Schedules(NamedTuple):
    """Schedules being improved: times (N, rows, columns), choice and its times (N, rows), loads (N, columns)."""

    times: Tensor
    choice: Tensor
    own: Tensor
    load: Tensor


class _Changes(NamedTuple):
    """The best change of each row, (N, rows): the larger load it leaves, and the other row or the column."""

    value: Tensor
    partner: Tensor


def _step(state: _Schedules, room: int) -> tuple[_Schedules, Tensor]:
    """Make the best change off the first machine of every schedule that has one; tell which have changed, (N,) bool."""
    times, choice, own, load = state
    top = load.amax(1, keepdim=True)
    limit = top * (1 - TOLERANCE) if load.is_floating_point() else top
    full = load.gather(1, choice) >= limit
    move, swap = _best_moves(state, top, full), _best_swaps(state, top, full, room)
    improving = torch.minimum(move.value, swap.value) < limit
    machine = choice.masked_fill(~improving, load.shape[1]).amin(1, keepdim=True)
    improved = machine < load.shape[1]
    move_value, moved, column = _first_best(move, choice == machine)
    swap_value, swapped, other = _first_best(swap, choice == machine)
    moves = move_value <= swap_value
    row = torch.where(moves, moved, swapped)
    source = choice.gather(1, row)
    goal = torch.where(moves, column, choice.gather(1, other))
    arriving = _entry(times, row, goal)
    back, leaving = _entry(times, other, source), own.gather(1, other)
    zero = torch.zeros_like(back)
    source_load = load.gather(1, source) - own.gather(1, row) + torch.where(moves, zero, back)
    goal_load = load.gather(1, goal) - torch.where(moves, zero, leaving) + arriving
    changed_load = load.scatter(1, source, source_load).scatter(1, goal, goal_load)
    new_choice = torch.where(moves, choice, choice.scatter(1, other, source)).scatter(1, row, goal)
    new_own = torch.where(moves, own, own.scatter(1, other, back)).scatter(1, row, arriving)
    kept = (
        torch.where(improved, new, old) for new, old in ((new_choice, choice), (new_own, own), (changed_load, load))
    )
    return _Schedules(times, *kept), improved[:, 0]


def _first_best(changes: _Changes, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best change of some rows (N, rows) bool: its value, row and partner, all (N, 1)."""
    value = changes.value.masked_fill(~rows, _never(changes.value))
    row = value.argmin(1, keepdim=True)
    return value.gather(1, row), row, changes.partner.gather(1, row)


def _best_moves(state: _Schedules, top: Tensor, full: Tensor) -> _Changes:
    """Look at every column for every row of a fullest machine."""
    times, choice, own, load = state
    never = _never(load)
    value = torch.maximum((top - own)[:, :, None], load[:, None] + times)
    value = value.masked_fill(~full[:, :, None], never).scatter(2, choice[:, :, None], never)
    column = value.argmin(2, keepdim=True)
    return _Changes(value.gather(2, column)[:, :, 0], column[:, :, 0])


def _best_swaps(state: _Schedules, top: Tensor, full: Tensor, room: int) -> _Changes:
    """Look at every row of a fullest machine with every row elsewhere, a block of the former at a time."""
    times, choice, own, load = state
    (count, rows), never = choice.shape, _never(load)
    first_full = (~full).to(torch.uint8).argsort(dim=1, stable=True)
    width = int(full.sum(1).max()) if times.device.type == "cpu" else rows
    rest = load.gather(1, choice) - own
    best = _Changes(torch.full_like(own, never), torch.zeros_like(choice))
    block = max(1, room // (count * rows))
    for start in range(0, width, block):
        row = first_full[:, start : min(start + block, width)]
        source = choice.gather(1, row)
        back = times.gather(2, source[:, None].expand(-1, rows, -1)).mT
        arriving = times.gather(1, row[:, :, None].expand(-1, -1, times.shape[2]))
        arriving = arriving.gather(2, choice[:, None].expand(-1, row.shape[1], -1))
        value = torch.maximum((top - own.gather(1, row))[:, :, None] + back, rest[:, None] + arriving)
        value = value.masked_fill(~full.gather(1, row)[:, :, None] | (source[:, :, None] == choice[:, None]), never)
        other = value.argmin(2, keepdim=True)
        lowest = value.gather(2, other)[:, :, 0]
        best = _Changes(best.value.scatter(1, row, lowest), best.partner.scatter(1, row, other[:, :, 0]))
    return best


def _never(load: Tensor) -> float | int:
    return float("inf") if load.is_floating_point() else 2**62


def _entry(matrix: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return matrix[n, row[n], column[n]], (N, 1)."""
    return matrix.flatten(1).gather(1, row * matrix.shape[2] + column)
