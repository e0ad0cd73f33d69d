"""Local search for schedules: a job leaves a fullest machine, at the least price.

The load of a machine is the sum of the times of the rows that chose it, a fullest machine one that reaches the
makespan. Whatever is changed, every machine that a change touches ends below the makespan:

1. A row leaves a fullest machine for another one (a move), or for that of a row that takes its place (an exchange). So
   the makespan falls, or fewer machines reach it. The first fullest machine that can be relieved is.
2. Where none can, a row may also take the place of one that passes on to a third machine.
3. Where that is not possible either, rows elsewhere move or are exchanged if that gives away less: room is gathered
   with which a fullest machine may be relieved after all.

Of all changes of a kind the one is made that gives away least. Columns have prices, as in a linear program of the
schedule; what a row gives away is its time at the price of its column beyond the cheapest it could have (`given_away`).
The sum over all rows is by how much a perfectly balanced schedule would exceed the bound that the prices prove: a
schedule that is relieved without looking at prices is soon so full everywhere that nothing fits any more.

So plateaus are left, and no schedule is seen twice. Of equals a move goes before an exchange, then the first. All
implementations agree on that, and give the same schedules.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .choosing import compiled_runs_on, triton_runs_on
from .prices import schedule_prices
from .solutions import column_totals, no_worse, picked

BARRED = 2**60
"""Time of a forbidden pair of whole times: more than any schedule, and three of them still fit; reals have ∞."""
TOLERANCE = 1e-9
"""Loads of real times this near to the makespan, relative to it, are as full; whole times are compared exactly."""
PRICE_ROUNDS = 16
"""Rounds of pricing the columns: more of them make better bounds, but not better schedules."""
PRICE_UNIT = 2.0**-20
"""Prices are multiples of it: their last digits depend on how many instances are priced together, and a schedule must
not. Times at such prices, and what they give away, are exact where times are whole."""
WIDEST_JOBS, WIDEST_MACHINES = 2048, 256
"""Rows and columns that fit the registers of a Triton program."""
_BLOCK = {"cpu": 2**20, "cuda": 2**24}
"""Numbers of the largest intermediate tensor."""


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
    if rounds < 1 or not choice.numel():
        return choice.clone()
    kind = torch.float64 if times.is_floating_point() else torch.int64
    wide = times.to(kind)
    barred = float("inf") if kind == torch.float64 else BARRED
    target = wide if allowed is None else wide.masked_fill(~allowed, barred)
    given = given_away(wide, allowed)
    load = column_totals(wide, choice)
    own = picked(wide, choice)
    if triton_runs_on(times.device) and times.shape[1] <= WIDEST_JOBS and times.shape[2] <= WIDEST_MACHINES:
        from . import triton_descent

        found = triton_descent.improve_schedules(target, given, choice, own, load, rounds)
    elif compiled_runs_on(times.device):
        from . import compiled_descent

        found = compiled_descent.improve_schedules(target, given, choice, own, load, rounds)
    else:
        found = _improve(target, given, choice, own, load, rounds)
    if kind == torch.int64:
        return found
    return no_worse(found, choice, lambda schedules: column_totals(times, schedules).amax(-1))


def given_away(times: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return what it gives away to have a row on a column, (batch, rows, columns) float64.

    That is λ_c t_rc − min_c λ_c t_rc, for prices λ of the columns; not negative where pairs are permitted.
    """
    prices = (schedule_prices(times, allowed, PRICE_ROUNDS).prices / PRICE_UNIT).round() * PRICE_UNIT
    priced = times.double() * prices[:, None]
    return priced - (priced if allowed is None else priced.masked_fill(~allowed, float("inf"))).amin(2, keepdim=True)


def _improve(target: Tensor, given: Tensor, choice: Tensor, own: Tensor, load: Tensor, rounds: int) -> Tensor:
    """Improve in plain operations, a block of schedules at a time."""
    (batch, samples, rows), columns = choice.shape, target.shape[2]
    room = _BLOCK.get(target.device.type, _BLOCK["cpu"])
    count = max(1, room // (rows * max(rows, columns)))
    matrix = torch.arange(batch, device=target.device).repeat_interleave(samples)
    flat = choice.flatten(0, 1), own.flatten(0, 1), load.flatten(0, 1)
    parts = []
    for start in range(0, batch * samples, count):
        part = slice(start, start + count)
        state = _Schedules(target[matrix[part]], given[matrix[part]], *(x[part] for x in flat))
        for _ in range(rounds):
            state, improved = _step(state, room)
            if target.device.type == "cpu" and not bool(improved.any()):  # elsewhere a look would wait for the device
                break
        parts.append(state.choice)
    return torch.cat(parts).view_as(choice)


class _Schedules(NamedTuple):
    """Schedules being improved: times and what is given away (N, rows, columns), choice and its times (N, rows), loads
    (N, columns)."""

    times: Tensor
    given: Tensor
    choice: Tensor
    own: Tensor
    load: Tensor


class _Options(NamedTuple):
    """Where rows may go.

    limit : (N, 1) what every load must stay below.
    more : (N, rows, columns) what more it gives away to have a row on a column.
    rest : (N, rows) the load of each row's column without it.
    onward, onto : (N, rows) the column with room for a row that gives away least, and what more that is; ∞ for none.
    """

    limit: Tensor
    more: Tensor
    rest: Tensor
    onward: Tensor
    onto: Tensor


class _Change(NamedTuple):
    """A change to each schedule, (N, 1) all: what more it gives away (∞ where there is none), the row that moves, and
    the other one that is exchanged with it or passes on to `onto`; −1 where there is no other."""

    value: Tensor
    row: Tensor
    goal: Tensor
    other: Tensor
    onto: Tensor


def _step(state: _Schedules, room: int) -> tuple[_Schedules, Tensor]:
    """Make the best change to every schedule that has one; tell which have changed, (N,) bool."""
    times, given, choice, own, load = state
    top = load.amax(1, keepdim=True)
    limit = top * (1 - TOLERANCE) if load.is_floating_point() else top
    here, away = load.gather(1, choice), given.gather(2, choice[:, :, None])[:, :, 0]
    more, rest, fits = given - away[:, :, None], here - own, load[:, None] + times < limit[:, :, None]
    # nobody goes to where it is: that has no meaning as a move, and room only where its own time is free
    fits = fits.scatter(2, choice[:, :, None], False)
    onward, onto = more.masked_fill(~fits, float("inf")).min(2)
    options = _Options(limit, more, rest, onward, onto)
    full = here >= limit
    relieving = full & (rest < limit)
    change = _best_change(state, options, relieving, choice, room, passing_on=False)
    if _some_without(change):
        change = _first(change, _best_change(state, options, relieving, choice, room, passing_on=True))
    if _some_without(change):
        together = torch.zeros_like(choice)
        gathered = _best_change(state, options, ~full & (away > 0), together, room, passing_on=False)
        too_little = gathered.value >= 0
        change = _first(change, gathered._replace(value=gathered.value.masked_fill(too_little, float("inf"))))
    return _changed(state, change), change.value[:, 0] < float("inf")


def _some_without(change: _Change) -> bool:
    """Tell whether some schedule has no change yet; a GPU is not asked."""
    return change.value.device.type != "cpu" or not bool((change.value < float("inf")).all())


def _first(change: _Change, instead: _Change) -> _Change:
    """Return a change, or where there is none another instead."""
    there = change.value < float("inf")
    return _Change(*(torch.where(there, one, two) for one, two in zip(change, instead, strict=True)))


def _best_change(
    state: _Schedules, options: _Options, rows: Tensor, group: Tensor, room: int, passing_on: bool
) -> _Change:
    """Return the best change that begins with one of `rows` (N, rows) bool, of the first group (N, rows) that has one.

    A move or an exchange, or with `passing_on` a row that takes the place of another one which passes on.
    """
    never = float("inf")
    pair, partner = _best_partners(state, options, rows, room, passing_on)
    move = torch.full_like(pair, never) if passing_on else options.onward.masked_fill(~rows, never)
    best = torch.minimum(move, pair)
    last = state.choice.shape[1] + state.load.shape[1]
    chosen = group == group.masked_fill(best == never, last).amin(1, keepdim=True)
    (moves, mover), (pairs, one) = (value.masked_fill(~chosen, never).min(1, keepdim=True) for value in (move, pair))
    lone = moves <= pairs
    row, other = torch.where(lone, mover, one), partner.gather(1, one)
    goal = torch.where(lone, options.onto.gather(1, row), state.choice.gather(1, other))
    onto = options.onto.gather(1, other) if passing_on else state.choice.gather(1, row)
    return _Change(torch.minimum(moves, pairs), row, goal, other.masked_fill(lone, -1), onto)


def _best_partners(
    state: _Schedules, options: _Options, wanted: Tensor, room: int, passing_on: bool
) -> tuple[Tensor, Tensor]:
    """Return for each row the other one whose place it takes at least, and what more that gives away; both (N, rows).

    Only for `wanted` rows (N, rows) bool, a block of them at a time; ∞ for all others.
    """
    times, choice = state.times, state.choice
    (count, rows), columns = choice.shape, times.shape[2]
    limit, more, rest = options.limit[:, :, None], options.more, options.rest
    wanted_first = (~wanted).to(torch.uint8).argsort(dim=1, stable=True)
    width = int(wanted.sum(1).max()) if times.device.type == "cpu" else rows
    value, partner = torch.full_like(options.onward, float("inf")), torch.zeros_like(choice)
    block = max(1, room // (count * rows))
    for start in range(0, width, block):
        row = wanted_first[:, start : min(start + block, width)]
        source = choice.gather(1, row)
        # [n, i, k]: row i goes to where row k is
        there = row[:, :, None].expand(-1, -1, columns), choice[:, None].expand(-1, row.shape[1], -1)
        arriving, price = (matrix.gather(1, there[0]).gather(2, there[1]) for matrix in (times, more))
        able = wanted.gather(1, row)[:, :, None] & (source[:, :, None] != choice[:, None])
        able &= rest[:, None] + arriving < limit
        if passing_on:
            price = price + options.onward[:, None]
        else:
            back = source[:, None].expand(-1, rows, -1)
            able &= rest.gather(1, row)[:, :, None] + times.gather(2, back).mT < limit
            price = price + more.gather(2, back).mT
        lowest, other = price.masked_fill(~able, float("inf")).min(2)
        value, partner = value.scatter(1, row, lowest), partner.scatter(1, row, other)
    return value, partner


def _changed(state: _Schedules, change: _Change) -> _Schedules:
    """Make the changes; schedules without one stay as they are."""
    times, given, choice, own, load = state
    value, row, goal, other, onto = change
    makes, pairs = value < float("inf"), other >= 0
    other = other.clamp_min(0)
    source, zero = choice.gather(1, row), torch.zeros_like(own[:, :1])
    arriving, passed = _entry(times, row, goal), _entry(times, other, onto)
    leaving = torch.where(pairs, own.gather(1, other), zero)
    exchanged = pairs & (onto == source)
    # every load changes once: reals are rounded in the same way by all implementations
    new_load = load.scatter(
        1, source, load.gather(1, source) - own.gather(1, row) + torch.where(exchanged, passed, zero)
    )
    new_load = new_load.scatter(1, goal, load.gather(1, goal) - leaving + arriving)
    third = torch.where(pairs & ~exchanged, onto, goal)
    new_load = new_load.scatter(
        1, third, torch.where(pairs & ~exchanged, load.gather(1, third) + passed, new_load.gather(1, third))
    )
    new_choice = torch.where(pairs, choice.scatter(1, other, onto), choice).scatter(1, row, goal)
    new_own = torch.where(pairs, own.scatter(1, other, passed), own).scatter(1, row, arriving)
    kept = (torch.where(makes, new, old) for new, old in ((new_choice, choice), (new_own, own), (new_load, load)))
    return _Schedules(times, given, *kept)


def _entry(matrix: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return matrix[n, row[n], column[n]], (N, 1)."""
    return matrix.flatten(1).gather(1, row * matrix.shape[2] + column)
