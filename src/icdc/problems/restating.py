"""Instances with conditions, and sequences of jobs, as plain instances that every solver knows; and the way back.

Nothing is approximated: a solution of the one is a solution of the other and costs the same, so that lower bounds and
proofs carry over as they are. A pair that is fixed forbids the other pairs of its row and, on tours, of its column. An
open path returns for nothing: to a given first city, from a given last one, or by way of one city more. A machine that
is busy has one job more, of that length, which is permitted nowhere else. A change that weighs something costs that
much more.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .atsp import Atsp
from .conditions import Conditions, Number
from .contract import Problem
from .forbidden import forbidden_pair, pair_text, why_impossible, with_stand_ins
from .instance import Instance
from .pmsp import Pmsp
from .sequencing import Sequencing
from .text import counted, number


@dataclass(frozen=True)
class Restated:
    """An instance as it is asked, and as it is solved.

    asked : what a caller gave, with its conditions.
    solved : an instance without conditions; the same object where nothing had to be restated.
    outside : whether the solved tour has one city more, through which an open path returns.
    """

    asked: Instance
    solved: Instance
    outside: bool = False

    def back(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a choice of the solved instance as one of the asked instance; −1 everywhere where it is none."""
        rows = _shape(self.asked)[0]
        if self.solved is self.asked:
            return choice
        asked = self.asked.conditions or Conditions()
        if asked.open:
            return self._path_of(choice, asked)
        return choice[:rows].copy()

    def forth(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a choice of the asked instance, which keeps all conditions, as one of the solved instance."""
        asked = self.asked.conditions
        if self.solved is self.asked or asked is None:
            return choice
        if asked.busy is not None:
            return np.concatenate([choice, _busy_machines(asked.busy)])
        if not asked.open:
            return choice
        items = np.arange(len(choice))
        last = int(np.flatnonzero(choice == items)[0])
        first = int(np.setdiff1d(items, np.delete(choice, last))[0])
        closed = np.append(choice, first) if self.outside else choice.copy()
        closed[last] = len(choice) if self.outside else first
        return closed

    def _path_of(self, choice: NDArray[np.int64], asked: Conditions) -> NDArray[np.int64]:
        """Return the path of a closed tour: the city from which it returns is its own successor."""
        items = len(choice) - int(self.outside)
        path = choice[:items].copy()
        if self.outside:
            ends = path == items
        elif asked.first is not None:
            ends = path == asked.first
        else:
            ends = np.arange(items) == asked.last
        if ends.sum() != 1:
            return np.full(items, -1)
        path[ends] = np.flatnonzero(ends)
        return path


def restate(instance: Instance) -> Restated:
    """Return an instance as solvers are given it."""
    asked, problem = instance.conditions, instance.problem
    if asked is None and not problem.restated:
        return Restated(instance, instance)
    asked = asked or Conditions()
    costs = problem.cost_matrix(instance.batch())
    assert costs is not None  # a structure promises a matrix
    forbidden = np.zeros(costs[0].shape, dtype=bool) if instance.forbidden is None else instance.forbidden.copy()
    if problem.structure == "tour":
        return _restated_tour(instance, asked, _weighed_steps(instance, asked, costs[0]), forbidden)
    return _restated_schedule(instance, asked, costs[0], forbidden)


def _restated_tour(
    instance: Instance, asked: Conditions, costs: NDArray[Any], forbidden: NDArray[np.bool_]
) -> Restated:
    """Return a closed tour of plain cities that costs the same."""
    first, last, fixed = asked.first, asked.last, list(asked.fixed)
    names = instance.row_labels(range(len(costs) - int(isinstance(instance.problem, Sequencing))))
    outside = asked.open and first is None and last is None
    if isinstance(instance.problem, Sequencing):
        idle = len(costs) - 1
        names = [*names, "(idle)"]
        fixed += [] if first is None else [(idle, first)]
        fixed += [] if last is None else [(last, idle)]
    elif outside:
        costs = np.pad(costs, (0, 1))
        forbidden = np.pad(forbidden, (0, 1))
        names = [*names, "(outside)"]
    elif asked.open:
        # coming back costs nothing and is permitted, whatever the matrix says of it
        costs = costs.copy()
        if first is not None:
            costs[:, first], forbidden[:, first] = 0, False
        if last is not None:
            costs[last], forbidden[last] = 0, False
    if first is not None and last is not None and not isinstance(instance.problem, Sequencing):
        fixed.append((last, first))
    for row, column in fixed:
        kept = forbidden[row, column]
        forbidden[row] = forbidden[:, column] = True
        forbidden[row, column] = kept
    np.fill_diagonal(forbidden, False)
    return Restated(instance, _plain(instance, Atsp(), costs, forbidden, names, names), outside)


def _restated_schedule(
    instance: Instance, asked: Conditions, costs: NDArray[Any], forbidden: NDArray[np.bool_]
) -> Restated:
    """Return a schedule of plain jobs that ends at the same time."""
    jobs, machines = costs.shape
    rows, columns = instance.row_labels(range(jobs)), instance.column_labels(range(machines))
    if asked.stay is not None and asked.before is not None:
        moved = np.arange(machines) != np.array(asked.before)[:, None]
        costs = costs + np.where(moved, np.array(asked.stay), np.array(0))
    for job, machine in asked.fixed:
        forbidden[job] = np.arange(machines) != machine
    if asked.busy is not None:
        taken = _busy_machines(asked.busy)
        times = np.array([asked.busy[machine] for machine in taken])[:, None]
        costs = np.vstack([costs, np.broadcast_to(times, (len(taken), machines))]) if len(taken) else costs
        forbidden = np.vstack([forbidden, np.arange(machines) != taken[:, None]])
        rows = [*rows, *(f"(busy {columns[machine]})" for machine in taken)]
    return Restated(instance, _plain(instance, Pmsp(), costs, forbidden, rows, columns))


def _plain(
    instance: Instance,
    problem: Problem,
    costs: NDArray[Any],
    forbidden: NDArray[np.bool_],
    rows: list[str],
    columns: list[str],
) -> Instance:
    """Return an instance without conditions, of a problem whose one array is the matrix."""
    (name,) = problem.arrays
    try:
        arrays = {name: problem.check({name: costs[None]})[name][0]}
    except InputError as error:
        raise InputError(f"{instance.name}: with what is asked, {error}") from None
    if forbidden.any():
        try:
            arrays = with_stand_ins(problem, arrays, forbidden)
        except InputError as error:
            raise InputError(f"{instance.name}: what is asked forbids pairs, and {error}") from None
    marked = forbidden if forbidden.any() else None
    return Instance(instance.name, problem, arrays, tuple(rows), tuple(columns), instance.coordinates, marked)


def _weighed_steps(instance: Instance, asked: Conditions, costs: NDArray[Any]) -> NDArray[Any]:
    """Return what steps cost, with what each that an earlier solution did not have weighs.

    The idle shop is no job: which job is first or last may change for nothing.
    """
    if asked.stay is None or asked.before is None:
        return costs
    changed = np.arange(len(costs)) != np.array(asked.before)[:, None]
    if isinstance(instance.problem, Sequencing):
        changed[-1] = changed[:, -1] = False
    np.fill_diagonal(changed, False)
    return np.asarray(costs + np.where(changed, np.array(asked.stay), np.array(0)))


def _busy_machines(busy: tuple[Number, ...]) -> NDArray[np.int64]:
    """Return the machines that are busy for any time."""
    return np.array([machine for machine, time in enumerate(busy) if time > 0], dtype=np.int64)


def changes(instance: Instance, choice: NDArray[np.int64]) -> int | None:
    """Return how many jobs moved, or how many steps are new, against the earlier solution; None where none is given."""
    asked = instance.conditions
    if asked is None or asked.before is None:
        return None
    differs = choice != np.array(asked.before)
    if instance.problem.structure == "tour":
        differs &= choice != np.arange(len(choice))  # the end of a path is no step
        if isinstance(instance.problem, Sequencing):
            differs[-1] = False
            differs &= choice != len(choice) - 1
    return int(differs.sum())


def cost(instance: Instance, choice: NDArray[np.int64]) -> Number:
    """Return what a feasible choice (rows,) truly costs by the matrix of an instance with conditions.

    An open path without a return, a schedule with the time for which machines were busy; changes weigh nothing.
    """
    return _total(instance, choice, 0)


def objective(instance: Instance, choice: NDArray[np.int64]) -> Number:
    """Return what solvers minimise: the cost, with what changes weigh.

    On a tour, their number times their weight more. On a schedule a job that moved takes that much longer on its new
    machine, and the objective is the makespan then.
    """
    asked = instance.conditions
    return _total(instance, choice, 0 if asked is None or asked.stay is None else asked.stay)


def _total(instance: Instance, choice: NDArray[np.int64], weight: Number) -> Number:
    costs, asked = instance.problem.cost_matrix(instance.batch()), instance.conditions or Conditions()
    assert costs is not None  # a structure promises a matrix
    entries: list[Number] = costs[0][np.arange(len(choice)), choice].tolist()
    if instance.problem.structure == "tour":
        if asked.open:  # whatever stands on the diagonal
            entries = [entry for row, entry in enumerate(entries) if choice[row] != row]
        changed = changes(instance, choice) or 0
        return sum(entries) + (weight * changed if weight else 0)
    loads: list[Number] = [0] * costs.shape[2] if asked.busy is None else list(asked.busy)
    for row, (machine, entry) in enumerate(zip(choice.tolist(), entries, strict=True)):
        moved = asked.before is not None and asked.before[row] != machine
        loads[machine] += entry + (weight if moved and weight else 0)
    return max(loads)


def violation(instance: Instance, choice: NDArray[np.int64]) -> str | None:
    """Say what is wrong with a choice (rows,) of an instance that has a structure; None if it is feasible."""
    problem, asked = instance.problem, instance.conditions or Conditions()
    rows, columns = _shape(instance)
    if choice.shape != (rows,) or (choice < 0).any() or (choice >= columns).any():
        return "it names what the instance does not have"
    if problem.structure == "tour" and not _is_one_way(choice, asked.open):
        return f"it is no {'path' if asked.open else 'tour'} through every {problem.row_words[0]}"
    if (pair := _forbidden_pair(instance, choice)) is not None:
        return f"it uses a forbidden pair, {pair}"
    for row, column in asked.fixed:
        if choice[row] != column:
            if isinstance(problem, Sequencing):
                names = instance.row_labels([row, column])
                return f"{problem.row_words[0]} {names[1]} is not right after {problem.row_words[0]} {names[0]}"
            return f"it does not have {pair_text(instance, (row, column))}"
    if problem.structure == "tour" and (asked.first is not None or asked.last is not None):
        order = instance.solution(choice)
        for word, item, found in (("begins", asked.first, order[0]), ("ends", asked.last, order[-1])):
            if item is not None and item != found:
                is_at, wanted = instance.row_labels([found, item])
                return f"it {word} with {problem.row_words[0]} {is_at}, not {wanted}"
    return None


def _forbidden_pair(instance: Instance, choice: NDArray[np.int64]) -> str | None:
    """Name the first forbidden pair that a choice uses."""
    open_path = instance.conditions is not None and instance.conditions.open
    marked = instance.forbidden
    if open_path and marked is not None:
        marked = marked & (np.arange(len(choice)) != choice)[:, None]
    pair = forbidden_pair(replace(instance, forbidden=marked), choice)
    if pair is None:
        return None
    if not isinstance(instance.problem, Sequencing):
        return pair_text(instance, pair)
    idle = len(choice) - 1
    row, column = (instance.row_labels([item])[0] if item < idle else None for item in pair)
    word = instance.problem.row_words[0]
    return f"{word} {column} first" if row is None else f"{word} {column} after {word} {row}"


def _is_one_way(choice: NDArray[np.int64], path: bool) -> bool:
    """Tell whether successors (rows,) lead through all items once: around, or from one end to another."""
    items = np.arange(len(choice))
    if path:
        ends = np.flatnonzero(choice == items)
        begins = np.setdiff1d(items, np.delete(choice, ends))
        if len(ends) != 1 or len(begins) != 1:
            return False
        choice = choice.copy()
        choice[ends] = begins
    city, steps = 0, 0
    while steps < len(choice):
        city, steps = int(choice[city]), steps + 1
        if city == 0:
            break
    return city == 0 and steps == len(choice)


def in_words(instance: Instance) -> str | None:
    """Say in a line what is asked of a solution; None where nothing is."""
    asked, problem = instance.conditions, instance.problem
    if asked is None:
        return None
    said = ["an open path"] if asked.open else []
    for word, verb, item in (("from", "beginning with", asked.first), ("to", "ending with", asked.last)):
        if item is not None:
            said.append(f"{word if asked.open else verb} {problem.row_words[0]} {instance.row_labels([item])[0]}")
    said = [(" " if asked.open else ", ").join(said)] if said else []
    tour = problem.structure == "tour"
    if asked.fixed:
        said.append(f"{counted(len(asked.fixed), ('step', 'steps') if tour else problem.row_words)} fixed")
    if asked.busy is not None:
        taken = _busy_machines(asked.busy)
        said.append(f"{counted(len(taken), problem.column_words)} busy at the beginning")
    if asked.stay is not None:
        what = "new step" if tour else f"{problem.row_words[0]} that moves"
        said.append(f"each {what} weighs {number(asked.stay)}")
    return "; ".join(said) or None


def why_restated_is_impossible(restated: Restated) -> str | None:
    """Say in the words of what was asked why an instance has no solution, where a simple reason can be found."""
    solved = restated.solved
    if isinstance(restated.asked.problem, Sequencing):
        solved = replace(solved, problem=_Jobs())
    return why_impossible(solved)


class _Jobs(Atsp):
    """A tour whose cities are jobs, for sentences."""

    row_words = column_words = ("job", "jobs")


def _shape(instance: Instance) -> tuple[int, int]:
    return instance.problem.shape(instance.problem.size(instance.batch()))
