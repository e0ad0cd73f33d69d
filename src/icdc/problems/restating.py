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
from .base import Problem
from .forbidden import why_impossible, with_stand_ins
from .instance import Conditions, Instance
from .pmsp import Pmsp
from .sequencing import Sequencing


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
        rows = self.asked.shape[0]
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
            return np.concatenate([choice, np.array(asked.busy_machines, dtype=np.int64)])
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
        taken = np.array(asked.busy_machines, dtype=np.int64)
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


def why_restated_is_impossible(restated: Restated) -> str | None:
    """Say in the words of what was asked why an instance has no solution, where a simple reason can be found."""
    solved = restated.solved
    if isinstance(restated.asked.problem, Sequencing):
        solved = replace(solved, problem=_Jobs())
    return why_impossible(solved)


class _Jobs(Atsp):
    """A tour whose cities are jobs, for sentences."""

    row_words = column_words = ("job", "jobs")
