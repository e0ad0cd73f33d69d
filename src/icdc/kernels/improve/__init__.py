"""Local search for batches of schedules and tours.

Schedules: a job leaves a fullest machine, at the least price. The load of a machine is the sum of the times of the
rows that chose it, a fullest machine one that reaches the makespan. Whatever is changed, every machine that a change
touches ends below the makespan:

1. A row leaves a fullest machine for another one (a move), or for that of a row that takes its place (an exchange). So
   the makespan falls, or fewer machines reach it. Of several fullest machines, the first that can be relieved is
   relieved.
2. Where none can, a row may also take the place of one that passes on to a third machine.
3. Where that is not possible either, rows elsewhere move or are exchanged if that lowers their excess: room is gathered
   with which a fullest machine may be relieved after all.

Of all changes of a kind the one of least excess is made. Columns have prices, as in a linear program of the schedule;
the excess of a row is its time at the price of its column beyond the cheapest it could have (`schedule_excess`). The
sum over all rows is by how much a perfectly balanced schedule would exceed the bound that the prices prove. A search
that ignores prices soon fills all machines so that nothing fits; this one leaves plateaus and repeats no schedule. Of
equals a move goes before an exchange, then the first: all implementations give the same schedules.

Tours: two neighbouring segments change places, or, which is the same, a segment goes elsewhere. Three steps a→a',
b→b', c→c', met in this order, become a→b', c→a', b→c'; no segment is met backwards, so that nothing is assumed about
distances there and back. From city to city the best change is made that begins there.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import dispatch
from ..decode import column_totals, picked
from ..prices import schedule_prices
from . import numba

FORBIDDEN = 2**60
"""Cost of a forbidden pair among whole numbers: more than any solution, and three of them still fit; reals have ∞."""
LOAD_TOLERANCE = 1e-9
"""Loads of real times this near to the makespan, relative to it, are as full; whole times are compared exactly."""
GAIN_TOLERANCE = 1e-9
"""What a change of a tour must gain at least where distances are real, in steps to a nearest city."""
PRICE_ROUNDS = 16
"""Rounds of pricing the columns: more of them make better bounds, but not better schedules."""
PRICE_UNIT = 2.0**-20
"""Prices are multiples of it: their last digits depend on how many instances are priced together, and a schedule must
not. Times at such prices, and their excess, are exact where times are whole."""


def improve_schedules(times: Tensor, choice: Tensor, rounds: int, allowed: Tensor | None = None) -> Tensor:
    """Change schedules, each at most `rounds` times, until nothing takes work off a fullest machine.

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
    if rounds < 1 or not choice.numel() or choice.is_meta:  # there only shapes are looked at
        return choice.clone()
    wide = _exact(times)
    target = _without_forbidden(wide, allowed)
    excess = schedule_excess(wide, allowed)
    arguments = target, excess, choice, picked(wide, choice), column_totals(wide, choice), rounds
    if dispatch.schedules_fit(times):
        improved = _by_kernel("improve_schedules", *arguments)
    else:
        improved = numba.improve_schedules(*arguments, LOAD_TOLERANCE if wide.is_floating_point() else 0.0)
    if not times.is_floating_point():
        return improved
    return no_worse(improved, choice, lambda schedules: column_totals(times, schedules).amax(-1))


def schedule_excess(times: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return λ_c t_rc − min_c λ_c t_rc for prices λ of the columns, (batch, rows, columns) float64.

    It is not negative where pairs are permitted.
    """
    prices = (schedule_prices(times, allowed, PRICE_ROUNDS).prices / PRICE_UNIT).round() * PRICE_UNIT
    priced = times.double() * prices[:, None]
    return priced - (priced if allowed is None else priced.masked_fill(~allowed, float("inf"))).amin(2, keepdim=True)


def improve_tours(distances: Tensor, successor: Tensor, rounds: int, allowed: Tensor | None = None) -> Tensor:
    """Change tours, each at most `rounds` times, until no exchange of two neighbouring segments makes them shorter.

    Parameters
    ----------
    distances : (batch, n, n). Whole distances are added up as int64, reals as float64.
    successor : (batch, samples, n) int64, the city after every city; tours through all of them.
    rounds : changes to a tour; 0 makes none.
    allowed : (batch, n, n) bool, True where a step is permitted. No forbidden step is taken up; those that tours
        have already may stay.

    Returns
    -------
    Tensor (batch, samples, n) int64, tours no longer than before.
    """
    size = successor.shape[2]
    if rounds < 1 or size < 3 or not successor.numel() or successor.is_meta:
        return successor.clone()
    wide = _exact(distances)
    least = least_gain(wide)[:, None].expand(-1, successor.shape[1])
    arguments = _without_forbidden(wide, allowed), successor, picked(wide, successor), least, rounds
    if dispatch.tours_fit(distances):
        improved = _by_kernel("improve_tours", *arguments)
    else:
        improved = numba.improve_tours(*arguments)
    if not distances.is_floating_point():
        return improved
    return no_worse(improved, successor, lambda tours: picked(distances, tours).sum(-1))


def least_gain(distances: Tensor) -> Tensor:
    """Return what a change must gain at least, (batch,): nothing for whole distances (batch, n, n).

    For reals a share of what a step to the nearest city costs on average, and more than sums of them are rounded by. It
    depends on the distances alone, so that a tour at a local optimum is left as it is.
    """
    if not distances.is_floating_point():
        return torch.zeros_like(distances[:, 0, 0])
    size = distances.abs().nan_to_num(posinf=0.0)
    near = size.masked_fill(torch.eye(size.shape[1], dtype=torch.bool, device=size.device), torch.inf).amin(2)
    rounding = 16 * torch.finfo(torch.float64).eps * size.amax((1, 2))
    return torch.maximum(GAIN_TOLERANCE * near.mean(1), rounding)


def no_worse(after: Tensor, before: Tensor, cost: Callable[[Tensor], Tensor]) -> Tensor:
    """Return solutions (batch, samples, rows) after a search of reals, or those before where these cost less.

    A search adds up changes in an order of its own; `cost`, (batch, samples), adds up as its caller will.
    """
    return torch.where((cost(after) <= cost(before))[..., None], after, before)


def _exact(costs: Tensor) -> Tensor:
    """Return costs as they are added up: int64, or float64 for reals."""
    return costs.to(torch.float64 if costs.is_floating_point() else torch.int64)


def _without_forbidden(costs: Tensor, allowed: Tensor | None) -> Tensor:
    """Return costs (batch, rows, columns), those of forbidden pairs out of reach."""
    if allowed is None:
        return costs
    return costs.masked_fill(~allowed, float("inf") if costs.is_floating_point() else FORBIDDEN)


def _by_kernel(name: str, *arguments: Any) -> Tensor:
    improved: Tensor = getattr(dispatch.triton_kernels("improve.triton"), name)(*arguments)
    return improved
