"""Local search for any problem: small changes to solutions, judged by the problem itself, while one of them helps.

Which changes: one row takes another column; two rows exchange their columns; and on tours, where neither can leave a
tour behind, a segment moves elsewhere, nothing reversed, which is three rows passing their successors round. A change
counts only if the problem's `feasible` accepts the outcome and its `cost` is lower.

All solutions of a batch go forward together, one change a round. On a CPU those that no change improves any more are
left out of the next round. Elsewhere every round is computed for all, since no value is read on the host: fixed shapes,
fit for a CUDA graph. The outcome is the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import kernels
from .base import Instances, Problem
from .decoding import Starts, fixed_noise, random_choice
from .rules import HamiltonianCycle, positions

Judge = Callable[[Problem, Instances, Tensor], Tensor]
"""Costs (batch, samples) of choices (batch, samples, rows)."""

MOST_ENTRIES = 2**21
"""Entries of changed solutions that are judged together: 16 MiB of columns, whatever the problem's size."""
EFFORT = 2**28
"""Entries of changed solutions that are looked at for one solution where no number of rounds is given."""
LONGEST_SEGMENT = 10
"""Cities of the longest segment that is moved; below thirty cities these are all segments there are."""


@dataclass(frozen=True)
class Changes:
    """A kind of change to solutions, every one of which has a number.

    count : how many there are, for so many rows and columns.
    of : the changes (m,) of solutions (N, rows) with so many columns: which rows take which columns. Both
        (N, m, changed rows), or with 1 in place of N where they are the same for all.
    """

    count: Callable[[int, int], int]
    of: Callable[[Tensor, int, Tensor], tuple[Tensor, Tensor]]


def _change_one(choice: Tensor, columns: int, number: Tensor) -> tuple[Tensor, Tensor]:
    return (number // columns)[None, :, None], (number % columns)[None, :, None]


def _exchange_two(choice: Tensor, columns: int, number: Tensor) -> tuple[Tensor, Tensor]:
    # every row with the one 1, 2, … places behind it, halfway round: each pair once
    rows = choice.shape[1]
    first, behind = number % rows, 1 + number // rows
    pair = torch.stack([first, (first + behind) % rows], -1)
    return pair[None], choice[:, pair.flip(-1)]


def _move_segment(choice: Tensor, columns: int, number: Tensor) -> tuple[Tensor, Tensor]:
    # … a | b … c | d … e | f …: the rows a, c and e are followed by d, f and b instead
    cities = choice.shape[1]
    longest, places = _longest(cities), cities - 2
    begin, rest = number // (longest * places), number % (longest * places)
    end = 1 + rest // places
    behind = end + 1 + rest % places % (cities - 1 - end)  # fewer places the longer the segment: some come twice
    tour = positions(choice, torch.zeros_like(choice[:, 0])).argsort(1)
    cut = tour[:, torch.stack([begin, begin + end, begin + behind], -1) % cities]
    following = choice.gather(1, cut.flatten(1)).view_as(cut)
    return cut, following.roll(-1, -1)


def _longest(cities: int) -> int:
    """Return how long a segment is moved: of the three parts of a tour one is no longer than a third."""
    return max(1, min(LONGEST_SEGMENT, cities // 3))


CHANGE_ONE = Changes(lambda rows, columns: rows * columns, _change_one)
EXCHANGE_TWO = Changes(lambda rows, columns: rows * (rows // 2), _exchange_two)
MOVE_SEGMENT = Changes(lambda rows, columns: rows * _longest(rows) * max(0, rows - 2), _move_segment)


def improve(problem: Problem, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
    """Do what `Problem.improve` promises: by the structure of the problem, or else by its cost alone."""
    times, steps = problem.promised_times(instances), problem.promised_travel(instances)
    if times is not None:
        return kernels.improve_schedules(times, choice, rounds)
    if steps is not None:
        return kernels.improve_tours(steps, choice, rounds)
    return descend(problem, instances, choice, rounds)


def merge(problem: Problem, instances: Instances, choice: Tensor, others: Tensor) -> Tensor:
    """Do what `Problem.merge` promises, by the structure of the problem."""
    times, steps = problem.promised_times(instances), problem.promised_travel(instances)
    if times is not None:
        return kernels.merge_schedules(times, choice, others)
    return choice if steps is None else kernels.merge_tours(steps, choice, others)


def construct(problem: Problem, instances: Instances, count: int) -> Starts:
    """Do what `Problem.construct` promises where nothing better is known: draw at random, and improve."""
    shape, first = problem.shape(problem.size(instances)), next(iter(instances.values()))
    noise = fixed_noise(len(first), count, first.device)
    choice = random_choice(problem.rule, shape, noise, problem.permitted(instances))
    return Starts(problem.improve(instances, choice.view(len(first), count, -1), affordable_rounds(problem, *shape)))


def descend(problem: Problem, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
    """Improve choices (batch, samples, rows) by the best change of a kind, at most `rounds` times each.

    Kinds are tried in turn; where one row may change for the better, no exchange is looked for. What ends before its
    rounds do cannot be improved by any such change.
    """
    batch, samples, rows = choice.shape
    columns = problem.shape(problem.size(instances))[1]
    # every solution with an instance of its own: those still under way need not be equally many for each
    instances = {name: tensor.repeat_interleave(samples, 0) for name, tensor in instances.items()}
    best = choice.flatten(0, 1)
    cost = judged(problem, instances, best[:, None]).squeeze(1)
    kinds = _kinds(problem)
    going = torch.ones_like(cost, dtype=torch.bool)
    for _ in range(rounds):
        waiting = going
        for kind in kinds:
            best, cost, better = _attempt(problem, instances, best, cost, waiting, columns, kind)
            waiting = waiting & ~better
        going = going & ~waiting
        if _readable(choice) and not bool(going.any()):
            break
    return best.view(batch, samples, rows)


def affordable_rounds(problem: Problem, rows: int, columns: int) -> int:
    """Return how many rounds are worth their time by default: as many as there are rows, at most."""
    entries = rows * sum(kind.count(rows, columns) for kind in _kinds(problem))
    return min(rows, EFFORT // max(1, entries))


def _kinds(problem: Problem) -> tuple[Changes, ...]:
    return (MOVE_SEGMENT,) if isinstance(problem.rule, HamiltonianCycle) else (CHANGE_ONE, EXCHANGE_TWO)


def _cost(problem: Problem, instances: Instances, choice: Tensor) -> Tensor:
    return problem.cost(instances, choice)


def judged(problem: Problem, instances: Instances, choice: Tensor) -> Tensor:
    """Return costs (batch, samples) of choices (batch, samples, rows); infeasible ones get the largest value."""
    cost = problem.cost(instances, choice)
    return cost.masked_fill(~problem.feasible(instances, choice), _worst(cost))


def _attempt(
    problem: Problem, instances: Instances, choice: Tensor, cost: Tensor, waiting: Tensor, columns: int,
    kind: Changes,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Make the best change of a kind to the solutions that wait for one, where it helps.

    Return choices (N, rows), costs (N,), and which have changed (N,).
    """
    at = waiting.nonzero().squeeze(1) if _readable(choice) else torch.arange(len(choice), device=choice.device)
    if not len(at):
        return choice, cost, waiting
    new, new_cost = _best_change(problem, _some(instances, at), choice[at], columns, kind)
    helps = waiting[at] & (new_cost < cost[at])
    new = torch.where(helps[:, None], new, choice[at])
    new_cost = torch.where(helps, new_cost, cost[at])
    better = torch.zeros_like(waiting).index_copy(0, at, helps)
    return choice.index_copy(0, at, new), cost.index_copy(0, at, new_cost), better


def _best_change(
    problem: Problem, instances: Instances, choice: Tensor, columns: int, kind: Changes
) -> tuple[Tensor, Tensor]:
    """Return the best feasible change of a kind to every solution (N, rows), and its cost (N,)."""
    if kind is CHANGE_ONE:
        changes = problem.cost_changes(instances, choice[:, None])
        if changes is not None:
            return _best_known(problem, instances, choice, changes.squeeze(1))
    if not _readable(choice):
        return _cheapest(problem, instances, choice, columns, kind, judged)
    # the cheapest of all changes is nearly always feasible; where it is not, look again at those that are
    best, cost = _cheapest(problem, instances, choice, columns, kind, _cost)
    again = (~problem.feasible(instances, best[:, None])).nonzero()[:, 0]
    if len(again):
        other, other_cost = _cheapest(problem, _some(instances, again), choice[again], columns, kind, judged)
        best, cost = best.index_copy(0, again, other), cost.index_copy(0, again, other_cost)
    return best, cost


def _cheapest(
    problem: Problem, instances: Instances, choice: Tensor, columns: int, kind: Changes, judge: Judge
) -> tuple[Tensor, Tensor]:
    """Return the solutions (N, rows) after the change of a kind that a judge finds best, or none, and its cost (N,)."""
    best, best_cost = choice, judge(problem, instances, choice[:, None]).squeeze(1)
    for changed in _blocks(choice, columns, kind):
        cost, place = judge(problem, instances, changed).min(1)
        better = cost < best_cost
        best = torch.where(better[:, None], _one_of(changed, place), best)
        best_cost = torch.where(better, cost, best_cost)
    return best, best_cost


def _best_known(problem: Problem, instances: Instances, choice: Tensor, changes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best change of one row, and its cost, where the problem says what each would do (N, rows, columns)."""
    mask = problem.mask(instances)
    if mask is not None:
        changes = changes.masked_fill(~mask, _worst(changes))
    if not _readable(choice):
        changes = _only_feasible(problem, instances, choice, changes)
    new = _lowest(choice, changes)
    if _readable(choice):
        again = (~problem.feasible(instances, new[:, None])).nonzero()[:, 0]
        if len(again):
            part = _only_feasible(problem, _some(instances, again), choice[again], changes[again])
            new = new.index_copy(0, again, _lowest(choice[again], part))
    return new, judged(problem, instances, new[:, None]).squeeze(1)


def _only_feasible(problem: Problem, instances: Instances, choice: Tensor, changes: Tensor) -> Tensor:
    """Return changes of one row (N, rows, columns), the worst there are where they lead to nothing feasible."""
    blocks = _blocks(choice, changes.shape[2], CHANGE_ONE)
    feasible = torch.cat([problem.feasible(instances, changed) for changed in blocks], 1)
    return changes.masked_fill(~feasible.view_as(changes), _worst(changes))


def _lowest(choice: Tensor, changes: Tensor) -> Tensor:
    """Return solutions (N, rows) after the lowest of their changes (N, rows, columns); a row's own column is none."""
    columns = changes.shape[2]
    place = changes.scatter(2, choice[:, :, None], _worst(changes)).flatten(1).argmin(1, keepdim=True)
    return choice.scatter(1, place // columns, place % columns)


def _blocks(choice: Tensor, columns: int, kind: Changes) -> Iterator[Tensor]:
    """Yield solutions (N, rows) after each of the changes of a kind, (N, some, rows), as many as fit."""
    count, rows = choice.shape
    together = max(1, MOST_ENTRIES // max(1, count * rows))
    total = kind.count(rows, columns)
    for begin in range(0, total, together):
        number = torch.arange(begin, min(begin + together, total), device=choice.device)
        changing, columns_after = kind.of(choice, columns, number)
        unchanged = choice[:, None].expand(-1, len(number), -1)
        yield unchanged.scatter(2, changing.expand(count, -1, -1), columns_after.expand(count, -1, -1))


def _readable(tensor: Tensor) -> bool:
    """Tell whether values can be looked at without waiting for a device, and without breaking a CUDA graph."""
    return tensor.device.type == "cpu"


def _some(instances: Instances, at: Tensor) -> dict[str, Tensor]:
    """Return some of the instances, by their places."""
    return {name: tensor[at] for name, tensor in instances.items()}


def _one_of(changed: Tensor, place: Tensor) -> Tensor:
    """Return one solution (N, rows) of several (N, m, rows) by its place (N,)."""
    return changed.gather(1, place[:, None, None].expand(-1, 1, changed.shape[2])).squeeze(1)


def _worst(cost: Tensor) -> float | int:
    """Return a value above every cost of this kind; whole numbers stay whole."""
    return torch.inf if cost.is_floating_point() else torch.iinfo(cost.dtype).max
