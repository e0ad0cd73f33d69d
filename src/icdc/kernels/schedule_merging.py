"""Merging schedules: one takes over from others the machines of jobs by which a fullest machine gets less to do.

Where two schedules differ, a job has two machines, one in each. A job of a fullest machine goes to its other one, alone
or together with a job of that machine, which goes to its own other machine in turn, wherever that is. Nothing is looked
at but what the other schedule says. As in local search (`schedule_descent`), all machines of a change must end below
the makespan, so that it falls, or fewer machines reach it.
"""

import torch
from torch import Tensor

from .choosing import compiled_runs_fast_on, triton_runs_on
from .schedule_descent import TOLERANCE, WIDEST_JOBS, WIDEST_MACHINES
from .solutions import column_totals, no_worse

MOST_CHANGES = 16
"""Changes to a schedule that are taken over from one other."""
_BLOCK = {"cpu": 2**20, "cuda": 2**24}
"""Numbers of the largest intermediate tensor."""


def merge_schedules(times: Tensor, choice: Tensor, others: Tensor) -> Tensor:
    """Let schedules take over changes from others, one other after the other, at most `MOST_CHANGES` from each.

    Of the first fullest machine that can be relieved, the change is made that leaves the lowest largest load of the
    machines it touches, one job before two, then the first.

    Parameters
    ----------
    times : (batch, rows, columns), not negative. Whole times are compared as int64, reals as float64.
    choice : (batch, samples, rows) int64, the column of every row.
    others : (batch, samples, count, rows) int64, the schedules that each of them takes changes from.

    Returns
    -------
    Tensor (batch, samples, rows) int64, with makespans no longer than before; the same from all implementations.
    """
    if not others.numel():
        return choice.clone()
    wide = times.to(torch.float64 if times.is_floating_point() else torch.int64)
    load = column_totals(wide, choice)
    if triton_runs_on(times.device) and times.shape[1] <= WIDEST_JOBS and times.shape[2] <= WIDEST_MACHINES:
        from . import triton_merging

        found = triton_merging.merge_schedules(wide, choice, others, load)
    elif compiled_runs_fast_on(times.device):
        from . import compiled_merging

        found = compiled_merging.merge_schedules(wide, choice, others, load)
    else:
        found = _merge(wide, choice, others, load)
    if not times.is_floating_point():
        return found
    return no_worse(found, choice, lambda schedules: column_totals(times, schedules).amax(-1))


def _merge(times: Tensor, choice: Tensor, others: Tensor, load: Tensor) -> Tensor:
    """Merge in plain operations, a block of schedules side by side, other after other."""
    batch, samples, rows = choice.shape
    count = max(1, _BLOCK.get(times.device.type, _BLOCK["cpu"]) // (rows * max(rows, times.shape[2])))
    matrix = torch.arange(batch, device=times.device).repeat_interleave(samples)
    flat, loads, every = choice.flatten(0, 1), load.flatten(0, 1), others.flatten(0, 1)
    parts = []
    for start in range(0, batch * samples, count):
        block = slice(start, start + count)
        found, now, own_times = flat[block], loads[block], times[matrix[block]]
        for other in every[block].unbind(1):
            for _ in range(MOST_CHANGES):
                found, now, changed = _step(own_times, found, other, now)
                if times.device.type == "cpu" and not bool(changed.any()):  # elsewhere a look would wait for the device
                    break
        parts.append(found)
    return torch.cat(parts).view_as(choice)


def _step(times: Tensor, choice: Tensor, other: Tensor, load: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make the best change of every schedule (N, rows); return it, loads (N, columns) and which have changed (N,)."""
    columns, never = load.shape[1], float("inf") if load.is_floating_point() else 2**62
    differs = choice != other
    count = int(differs.sum(1).max()) if times.device.type == "cpu" else choice.shape[1]
    if not count:
        return choice, load, torch.zeros_like(differs[:, 0])
    # only rows that differ are looked at, in their order; where there are fewer of them, others that do not count
    row = (~differs).to(torch.uint8).argsort(dim=1, stable=True)[:, :count]
    differs, here, there = differs.gather(1, row), choice.gather(1, row), other.gather(1, row)
    taken = times.gather(1, row[:, :, None].expand(-1, -1, columns))
    own, arriving = (taken.gather(2, column[:, :, None])[:, :, 0] for column in (here, there))
    top = load.amax(1, keepdim=True)
    limit = top * (1 - TOLERANCE) if load.is_floating_point() else top
    leaves = differs & (load.gather(1, here) >= limit)
    left, arrived = load.gather(1, here) - own, load.gather(1, there) + arriving
    alone = torch.maximum(left, arrived).masked_fill(~leaves, never)
    # [n, i, k]: row i goes to where row k is, and k goes to its own other column, which may be where i was
    back = torch.where(there[:, None] == here[:, :, None], left[:, :, None] + arriving[:, None], arrived[:, None])
    with_other = torch.maximum(arrived[:, :, None] - own[:, None], torch.maximum(left[:, :, None], back))
    together = leaves[:, :, None] & differs[:, None] & (here[:, None] == there[:, :, None])
    value, partner = with_other.masked_fill(~together, never).min(2)
    improving = torch.minimum(alone, value) < limit
    machine = here.masked_fill(~improving, columns).amin(1, keepdim=True)
    changed = machine < columns
    on = here == machine
    single, first = alone.masked_fill(~on, never).min(1, keepdim=True)
    double, second = value.masked_fill(~on, never).min(1, keepdim=True)
    lone = single <= double
    moving = torch.zeros_like(on).scatter(1, torch.where(lone, first, second), True)
    moving = moving.scatter(1, torch.where(lone, first, partner.gather(1, second)), True) & changed
    step = torch.zeros_like(load).scatter_add(1, here, torch.where(moving, -own, 0))
    step = step.scatter_add(1, there, torch.where(moving, arriving, 0))
    return choice.scatter(1, row, torch.where(moving, there, here)), load + step, changed[:, 0]
