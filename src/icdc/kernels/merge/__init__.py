"""Merging: a schedule or a tour takes over from others the parts in which they are better.

Schedules: where two differ, a job has two machines, one in each. A job of a fullest machine goes to its other one,
alone or together with a job of that machine, which goes to its own other machine in turn, wherever that is. Nothing
is looked at but what the other schedule says. As in local search (`improve`), all machines of a change must end below
the makespan, so that it falls, or fewer machines reach it.

Tours: where two differ, a city has two successors, one in each, and two predecessors: going along a step of one and
back along a step of the other leads round a cycle. The cities whose steps are along such a cycle are a *part*. A tour
that takes the other's steps out of the cities of some parts still leaves and enters every city once; whether it is
still one tour is looked at. A part of an even number of cities never leaves one tour behind, and two parts can do so
only if both are even or both are odd, because all cycles through n cities are permutations of one sign.

All implementations give the same solutions, except where the rounding of reals decides between two parts of tours.
"""

import torch
from torch import Tensor

from .. import dispatch
from ..decode import column_totals, picked
from ..improve import LOAD_TOLERANCE, least_gain, no_worse
from . import numba

MOST_CHANGES = 16
"""Changes to a schedule that are taken over from one other."""
MOST_PARTS = 32
"""Parts of another tour that are looked at, those that gain most or lose least."""
MOST_TRIALS = 32
"""Parts, or pairs of parts, of another tour that are tried."""


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
    Tensor (batch, samples, rows) int64, with makespans no longer than before.
    """
    if not others.numel() or others.is_meta:  # there only shapes are looked at
        return choice.clone()
    wide = times.to(torch.float64 if times.is_floating_point() else torch.int64)
    load = column_totals(wide, choice)
    if dispatch.schedules_fit(times):
        merged: Tensor = dispatch.triton_kernels("merge.triton").merge_schedules(wide, choice, others, load)
    else:
        tolerance = LOAD_TOLERANCE if wide.is_floating_point() else 0.0
        merged = numba.merge_schedules(wide, choice, others, load, MOST_CHANGES, tolerance)
    if not times.is_floating_point():
        return merged
    return no_worse(merged, choice, lambda schedules: column_totals(times, schedules).amax(-1))


def merge_tours(distances: Tensor, successor: Tensor, others: Tensor) -> Tensor:
    """Let tours take over parts of others, one other after the other.

    Of the `MOST_PARTS` most gainful parts, single parts and pairs are tried by falling gain, at most `MOST_TRIALS`,
    while they gain; those that leave one tour are applied.

    Parameters
    ----------
    distances : (batch, n, n). Whole distances are added up as int64, reals as float64.
    successor : (batch, samples, n) int64, the city after every city; tours through all of them.
    others : (batch, samples, count, n) int64, the tours that each of them takes parts of.

    Returns
    -------
    Tensor (batch, samples, n) int64, tours no longer than before.
    """
    size = successor.shape[2]
    if size < 3 or not others.numel() or others.is_meta:
        return successor.clone()
    wide = distances.to(torch.float64 if distances.is_floating_point() else torch.int64)
    least = least_gain(wide)[:, None].expand(-1, successor.shape[1])
    if distances.is_floating_point():  # infinite steps count as longer than any tour, so that two of them cancel out
        finite = wide.abs().nan_to_num(posinf=0.0).amax((1, 2), keepdim=True)
        wide = torch.where(wide.isposinf(), 4 * size * finite, wide)
    if dispatch.tours_fit(distances):
        merged: Tensor = dispatch.triton_kernels("merge.triton").merge_tours(wide, successor, others, least)
    else:
        merged = numba.merge_tours(wide, successor, others, least, MOST_PARTS, MOST_TRIALS)
    if not distances.is_floating_point():
        return merged
    return no_worse(merged, successor, lambda tours: picked(distances, tours).sum(-1))
