"""Local search and merging in torch operations, all solutions at once: what loops and kernels are compared with."""

from typing import NamedTuple

import torch
from torch import Tensor

from icdc.kernels import column_totals, merge, picked
from icdc.kernels.improve import FORBIDDEN, LOAD_TOLERANCE, least_gain, no_worse, schedule_excess

NEVER = float("inf")


def exact(costs: Tensor) -> Tensor:
    """Return costs as they are added up."""
    return costs.to(torch.float64 if costs.is_floating_point() else torch.int64)


def entry(matrix: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return matrix[n, row[n], column[n]], (N, 1)."""
    return matrix.flatten(1).gather(1, row * matrix.shape[2] + column)


def target_of(costs: Tensor, allowed: Tensor | None) -> Tensor:
    """Return costs, those of forbidden pairs out of reach."""
    wide = exact(costs)
    barred = NEVER if wide.is_floating_point() else FORBIDDEN
    return wide if allowed is None else wide.masked_fill(~allowed, barred)


class Schedules(NamedTuple):
    """Schedules being improved: times and their excess (N, rows, columns), choice and its times (N, rows), loads
    (N, columns)."""

    times: Tensor
    excess: Tensor
    choice: Tensor
    own: Tensor
    load: Tensor


class Options(NamedTuple):
    """Where rows may go.

    limit : (N, 1) what every load must stay below.
    more : (N, rows, columns) by how much the excess grows with a row on a column.
    rest : (N, rows) the load of each row's column without it.
    onward, onto : (N, rows) the column of least excess with room for a row, and what more that is; ∞ for none.
    """

    limit: Tensor
    more: Tensor
    rest: Tensor
    onward: Tensor
    onto: Tensor


class Change(NamedTuple):
    """A change to each schedule, (N, 1) all: by how much the excess grows (∞ where there is none), the row that moves,
    and the other one that is exchanged with it or passes on to `onto`; −1 where there is no other."""

    value: Tensor
    row: Tensor
    goal: Tensor
    other: Tensor
    onto: Tensor


def improve_schedules(times: Tensor, choice: Tensor, rounds: int, allowed: Tensor | None = None) -> Tensor:
    """Do what `kernels.improve_schedules` says."""
    samples, wide = choice.shape[1], exact(times)
    costs = target_of(times, allowed), schedule_excess(wide, allowed)
    parts = choice, picked(wide, choice), column_totals(wide, choice)
    state = Schedules(*(x.repeat_interleave(samples, 0) for x in costs), *(x.flatten(0, 1) for x in parts))
    for _ in range(rounds):
        state, improved = step_of_schedules(state)
        if not bool(improved.any()):
            break
    found = state.choice.view_as(choice)
    if not times.is_floating_point():
        return found
    return no_worse(found, choice, lambda schedules: column_totals(times, schedules).amax(-1))


def step_of_schedules(state: Schedules) -> tuple[Schedules, Tensor]:
    """Make the best change to every schedule that has one; tell which have changed, (N,) bool."""
    times, excess, choice, own, load = state
    top = load.amax(1, keepdim=True)
    limit = top * (1 - LOAD_TOLERANCE) if load.is_floating_point() else top
    here, away = load.gather(1, choice), excess.gather(2, choice[:, :, None])[:, :, 0]
    more, rest, fits = excess - away[:, :, None], here - own, load[:, None] + times < limit[:, :, None]
    fits = fits.scatter(2, choice[:, :, None], False)  # staying is no move
    onward, onto = more.masked_fill(~fits, NEVER).min(2)
    options = Options(limit, more, rest, onward, onto)
    full = here >= limit
    relieving = full & (rest < limit)
    change = best_change(state, options, relieving, choice, passing_on=False)
    change = first_of(change, best_change(state, options, relieving, choice, passing_on=True))
    gathered = best_change(state, options, ~full & (away > 0), torch.zeros_like(choice), passing_on=False)
    too_little = gathered.value >= 0
    change = first_of(change, gathered._replace(value=gathered.value.masked_fill(too_little, NEVER)))
    return changed(state, change), change.value[:, 0] < NEVER


def first_of(change: Change, instead: Change) -> Change:
    """Return a change, or where there is none another instead."""
    there = change.value < NEVER
    return Change(*(torch.where(there, one, two) for one, two in zip(change, instead, strict=True)))


def best_change(state: Schedules, options: Options, rows: Tensor, group: Tensor, passing_on: bool) -> Change:
    """Return the best change that begins with one of `rows` (N, rows) bool, of the first group (N, rows) that has one.

    A move or an exchange, or with `passing_on` a row that takes the place of another one which passes on.
    """
    pair, partner = best_partners(state, options, rows, passing_on)
    move = torch.full_like(pair, NEVER) if passing_on else options.onward.masked_fill(~rows, NEVER)
    best = torch.minimum(move, pair)
    last = state.choice.shape[1] + state.load.shape[1]
    chosen = group == group.masked_fill(best == NEVER, last).amin(1, keepdim=True)
    (moves, mover), (pairs, one) = (value.masked_fill(~chosen, NEVER).min(1, keepdim=True) for value in (move, pair))
    lone = moves <= pairs
    row, other = torch.where(lone, mover, one), partner.gather(1, one)
    goal = torch.where(lone, options.onto.gather(1, row), state.choice.gather(1, other))
    onto = options.onto.gather(1, other) if passing_on else state.choice.gather(1, row)
    return Change(torch.minimum(moves, pairs), row, goal, other.masked_fill(lone, -1), onto)


def best_partners(state: Schedules, options: Options, rows: Tensor, passing_on: bool) -> tuple[Tensor, Tensor]:
    """Return for each of `rows` the one whose place it takes at least excess, and what more that is; (N, rows)."""
    times, choice = state.times, state.choice
    limit, more, rest = options.limit[:, :, None], options.more, options.rest
    # [n, i, k]: row i goes to where row k is
    to = choice[:, None].expand(-1, choice.shape[1], -1)
    arriving, price = times.gather(2, to), more.gather(2, to)
    able = rows[:, :, None] & (choice[:, :, None] != choice[:, None]) & (rest[:, None] + arriving < limit)
    if passing_on:
        price = price + options.onward[:, None]
    else:
        able &= rest[:, :, None] + arriving.mT < limit
        price = price + price.mT
    value, partner = price.masked_fill(~able, NEVER).min(2)
    return value, partner


def changed(state: Schedules, change: Change) -> Schedules:
    """Make the changes; schedules without one stay as they are."""
    times, excess, choice, own, load = state
    value, row, goal, other, onto = change
    makes, pairs = value < NEVER, other >= 0
    other = other.clamp_min(0)
    source, zero = choice.gather(1, row), torch.zeros_like(own[:, :1])
    arriving, passed = entry(times, row, goal), entry(times, other, onto)
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
    return Schedules(times, excess, *kept)


def visiting_order(successor: Tensor) -> Tensor:
    """Return the cities of tours (…, n), as successors, in the order they are visited, from city 0."""
    city = torch.zeros_like(successor[..., :1])
    order = [city]
    for _ in range(successor.shape[-1] - 1):
        city = successor.gather(-1, city)
        order.append(city)
    return torch.cat(order, -1)


def improve_tours(distances: Tensor, successor: Tensor, rounds: int, allowed: Tensor | None = None) -> Tensor:
    """Do what `kernels.improve_tours` says, by the best change of all each time: their tours differ."""
    samples, wide = successor.shape[1], exact(distances)
    costs = target_of(distances, allowed).repeat_interleave(samples, 0)
    least = least_gain(wide).repeat_interleave(samples, 0)
    order = visiting_order(successor).flatten(0, 1)
    step = picked(wide, successor).flatten(0, 1).gather(1, order)
    for _ in range(rounds):
        order, step, improved = exchanged_segments(costs, order, step, least)
        if not bool(improved.any()):
            break
    found = torch.zeros_like(order).scatter(1, order, order.roll(-1, 1)).view_as(successor)
    if not distances.is_floating_point():
        return found
    return no_worse(found, successor, lambda tours: picked(distances, tours).sum(-1))


def exchanged_segments(costs: Tensor, order: Tensor, step: Tensor, least: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make the best exchange of every tour.

    From costs (N, n, n), the cities in visiting order (N, n) and what the step from each place costs (N, n); return
    the two after it and which tours have changed, (N,) bool. Steps out of places i < j < k change; for each i and j
    the best k is found among all at once.
    """
    size = order.shape[1]
    place = torch.arange(size, device=costs.device)
    far = NEVER if costs.is_floating_point() else 2**61  # two of them fit, and so do four forbidden steps
    after = order.roll(-1, 1)
    # between[n, i, j]: from the city at place i to the one after place j
    between = costs.gather(1, order[:, :, None].expand(-1, -1, size)).gather(2, after[:, None].expand(-1, size, -1))
    closing = between - step[:, None]
    lowest = torch.full_like(between, far)  # [n, j, i], over all k after j
    for last in range(2, size):
        part = lowest[:, 1:last, : last - 1]
        part.copy_(torch.minimum(part, between[:, last, None, : last - 1] + closing[:, 1:last, last, None]))
    opening = between.mT - step[:, None] - step[:, :, None]
    total = (lowest + opening).masked_fill(place[:, None] <= place, far)
    best = total.flatten(1).argmin(1, keepdim=True)
    j, i = best // size, best % size
    improved = total.flatten(1).gather(1, best) < -least[:, None]
    ends = between.gather(2, i[:, :, None].expand(-1, size, 1))[:, :, 0]
    ends = ends + closing.gather(1, j[:, :, None].expand(-1, 1, size))[:, 0]
    k = ends.masked_fill(place <= j, far).argmin(1, keepdim=True)
    # places i + 1 … j and j + 1 … k change places
    moved = (place > i) & (place <= k)
    source = torch.where(place <= i + k - j, place + j - i, place + j - k)
    source = torch.where(moved & improved, source, place)
    order, step = order.gather(1, source), step.gather(1, source)
    for end_of_a_step in (i, i + k - j, k):
        end = torch.where(improved, end_of_a_step, 0)
        fresh = entry(costs, order.gather(1, end), order.gather(1, (end + 1) % size))
        step = torch.where(improved, step.scatter(1, end, fresh), step)
    return order, step, improved[:, 0]


def merge_schedules(times: Tensor, choice: Tensor, others: Tensor) -> Tensor:
    """Do what `kernels.merge_schedules` says."""
    wide = exact(times)
    load, own_times = column_totals(wide, choice).flatten(0, 1), wide.repeat_interleave(choice.shape[1], 0)
    found = choice.flatten(0, 1)
    for other in others.flatten(0, 1).unbind(1):
        for _ in range(merge.MOST_CHANGES):
            found, load, improved = step_of_merging(own_times, found, other, load)
            if not bool(improved.any()):
                break
    found = found.view_as(choice)
    if not times.is_floating_point():
        return found
    return no_worse(found, choice, lambda schedules: column_totals(times, schedules).amax(-1))


def step_of_merging(times: Tensor, choice: Tensor, other: Tensor, load: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make the best change of every schedule (N, rows); return it, loads (N, columns) and which have changed (N,)."""
    columns, never = load.shape[1], NEVER if load.is_floating_point() else 2**62
    differs, there = choice != other, other
    own, arriving = (times.gather(2, column[:, :, None])[:, :, 0] for column in (choice, other))
    top = load.amax(1, keepdim=True)
    limit = top * (1 - LOAD_TOLERANCE) if load.is_floating_point() else top
    leaves = differs & (load.gather(1, choice) >= limit)
    left, arrived = load.gather(1, choice) - own, load.gather(1, there) + arriving
    alone = torch.maximum(left, arrived).masked_fill(~leaves, never)
    # [n, i, k]: row i goes to where row k is, and k goes to its own other column, which may be where i was
    back = torch.where(there[:, None] == choice[:, :, None], left[:, :, None] + arriving[:, None], arrived[:, None])
    with_other = torch.maximum(arrived[:, :, None] - own[:, None], torch.maximum(left[:, :, None], back))
    together = leaves[:, :, None] & differs[:, None] & (choice[:, None] == there[:, :, None])
    value, partner = with_other.masked_fill(~together, never).min(2)
    improving = torch.minimum(alone, value) < limit
    machine = choice.masked_fill(~improving, columns).amin(1, keepdim=True)
    on = choice == machine
    single, first = alone.masked_fill(~on, never).min(1, keepdim=True)
    double, second = value.masked_fill(~on, never).min(1, keepdim=True)
    lone = single <= double
    moving = torch.zeros_like(on).scatter(1, torch.where(lone, first, second), True)
    moving = moving.scatter(1, torch.where(lone, first, partner.gather(1, second)), True) & (machine < columns)
    step = torch.zeros_like(load).scatter_add(1, choice, torch.where(moving, -own, 0))
    step = step.scatter_add(1, there, torch.where(moving, arriving, 0))
    return torch.where(moving, there, choice), load + step, machine[:, 0] < columns


def merge_tours(distances: Tensor, successor: Tensor, others: Tensor, least: Tensor | None = None) -> Tensor:
    """Do what `kernels.merge_tours` says; changes gain more than `least` (batch, samples) where it is given."""
    size, samples, wide = successor.shape[2], successor.shape[1], exact(distances)
    if least is None:
        least = least_gain(wide)[:, None].expand(-1, samples)
    if distances.is_floating_point():
        finite = wide.abs().nan_to_num(posinf=0.0).amax((1, 2), keepdim=True)
        wide = torch.where(wide.isposinf(), 4 * size * finite, wide)
    matrix = torch.arange(len(wide), device=wide.device).repeat_interleave(samples)[:, None]
    city = torch.arange(size, device=wide.device)
    found, least = successor.flatten(0, 1), least.flatten()
    for other in others.flatten(0, 1).unbind(1):
        change = wide[matrix, city, other] - wide[matrix, city, found]
        part, total = parts_of(found, other, change)
        for _ in range(merge.MOST_TRIALS):
            lowest, pair = total.flatten(1).min(1)
            trying = lowest < -least
            if not bool(trying.any()):
                break
            one, two = pair // total.shape[2], pair % total.shape[2]
            chosen = (part == one[:, None]) | (part == two[:, None])
            trial = torch.where(chosen & trying[:, None], other, found)
            closed = is_tour(trial)
            found = torch.where(closed[:, None], trial, found)
            total = without_pair(total, one, two, closed & trying)
    found = found.view_as(successor)
    if not distances.is_floating_point():
        return found
    return no_worse(found, successor, lambda tours: picked(distances, tours).sum(-1))


def parts_of(successor: Tensor, other: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
    """Number the parts in which tours (N, n) differ from others, by what their steps change (N, n) added up.

    Return the number of each city's part (N, n), `MOST_PARTS` at least where it is none that is looked at, and by how
    much the tours' lengths change if they take over parts c ≤ e, (N, parts, parts); far too much where c > e, or where
    that cannot leave one tour.
    """
    size = successor.shape[1]
    city = torch.arange(size, device=successor.device).expand_as(successor)
    # back along a step of the tour from where the other leads, over 1, 2, 4, … steps: the least city met names the part
    turn = torch.zeros_like(successor).scatter(1, successor, city).gather(1, other)
    name = city
    for _ in range(size.bit_length()):
        name = torch.minimum(name, name.gather(1, turn))
        turn = turn.gather(1, turn)
    length = torch.zeros_like(name).scatter_add(1, name, torch.ones_like(name))
    value = torch.zeros_like(change).scatter_add(1, name, change)
    value = value.masked_fill((name != city) | (successor == other), far_of(change))
    value, names = value.sort(dim=1, stable=True)
    number = torch.zeros_like(names).scatter(1, names, city).gather(1, name)
    count = min(size, merge.MOST_PARTS)
    value, even = value[:, :count], length.gather(1, names)[:, :count] % 2 == 0
    place = torch.arange(count, device=value.device)
    total = torch.where(place[:, None] == place, value[:, :, None], value[:, :, None] + value[:, None])
    apart = torch.where(place[:, None] == place, even[:, :, None], even[:, :, None] != even[:, None])
    return number, total.masked_fill(apart | (place[:, None] > place), far_of(change))


def without_pair(total: Tensor, one: Tensor, two: Tensor, taken: Tensor) -> Tensor:
    """Leave a pair of parts out, and where it was taken all pairs with either; they are numbers (N,)."""
    place = torch.arange(total.shape[1], device=total.device)
    first, second = ((place == part[:, None]) for part in (one, two))
    tried = first[:, :, None] & second[:, None]
    gone = (first | second) & taken[:, None]
    return total.masked_fill(tried | gone[:, :, None] | gone[:, None], far_of(total))


def is_tour(successor: Tensor) -> Tensor:
    """Tell which successors (N, n) are one tour: every city is entered, and all meet city 0."""
    entered = torch.zeros_like(successor).scatter(1, successor, 1)
    met = torch.arange(successor.shape[1], device=successor.device).expand_as(successor)
    for _ in range(successor.shape[1].bit_length()):
        met = torch.minimum(met, met.gather(1, successor))
        successor = successor.gather(1, successor)
    return (met == 0).all(1) & (entered == 1).all(1)


def far_of(change: Tensor) -> float | int:
    """Return more than any change; two of them fit."""
    return NEVER if change.is_floating_point() else 2**61
