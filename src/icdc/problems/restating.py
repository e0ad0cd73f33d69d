"""Instances with conditions, and sequences of jobs, as plain instances that every solver knows; and the way back.

Nothing is approximated: a solution of the one is a solution of the other and costs the same, so that lower bounds and
proofs carry over as they are. A pair that is fixed forbids the other pairs of its row and, on tours, of its column. An
open path returns for nothing: to a given first city, from a given last one, or by way of one city more. A machine that
is busy has one job more, of that length, which is permitted nowhere else. A change that weighs something costs that
much more.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .atsp import Atsp
from .base import Problem
from .forbidden import with_stand_ins
from .instance import Conditions, Instance, closed, path_ends
from .pmsp import Pmsp


def restate(instance: Instance) -> Instance:
    """Return an instance as solvers are given it: itself, or a plain one whose `original` it is."""
    conditions, problem = instance.conditions, instance.problem
    if conditions is None and not problem.restated:
        return instance
    conditions = conditions or Conditions()
    costs = problem.cost_matrix(instance.batch())
    assert costs is not None  # a structure promises a matrix
    forbidden = np.zeros(costs[0].shape, dtype=bool) if instance.forbidden is None else instance.forbidden.copy()
    if problem.structure == "tour":
        return _restated_tour(instance, conditions, _weighed_steps(instance, conditions, costs[0]), forbidden)
    return _restated_schedule(instance, conditions, costs[0], forbidden)


def to_original(instance: Instance, choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a choice of a restated instance as one of its original; −1 everywhere where it is none."""
    original = instance.original
    if original is None:
        return choice
    conditions, items = original.conditions or Conditions(), original.shape[0]
    path = choice[:items].copy()
    if not conditions.open:
        return path
    if items < len(choice):  # the city from which the tour returns is its own successor
        ends = path == items
    elif conditions.first is not None:
        ends = path == conditions.first
    else:
        ends = np.arange(items) == conditions.last
    if ends.sum() != 1:
        return np.full(items, -1)
    path[ends] = np.flatnonzero(ends)
    return path


def from_original(instance: Instance, choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a choice of the original of a restated instance, which keeps all conditions, as one of that instance."""
    if instance.original is None or (conditions := instance.original.conditions) is None:
        return choice
    if conditions.busy is not None:
        return np.concatenate([choice, np.array(conditions.busy_machines, dtype=np.int64)])
    if not conditions.open:
        return choice
    ends = path_ends(choice)
    assert ends is not None  # it keeps all conditions
    if instance.shape[0] == len(choice):
        return closed(choice, ends)
    return np.append(closed(choice, (len(choice), ends[1])), ends[0])  # by way of one city more


def _restated_tour(
    instance: Instance, conditions: Conditions, costs: NDArray[Any], forbidden: NDArray[np.bool_]
) -> Instance:
    """Return a closed tour of plain cities that costs the same."""
    first, last, fixed = conditions.first, conditions.last, list(conditions.fixed)
    names = instance.row_labels(range(len(costs) - int(instance.problem.restated)))
    outside = conditions.open and first is None and last is None
    if instance.problem.restated:
        idle = len(costs) - 1
        names = [*names, "(idle)"]
        fixed += [] if first is None else [(idle, first)]
        fixed += [] if last is None else [(last, idle)]
    elif outside:
        costs = np.pad(costs, (0, 1))
        forbidden = np.pad(forbidden, (0, 1))
        names = [*names, "(outside)"]
    elif conditions.open:
        # coming back costs nothing and is permitted, whatever the matrix says of it
        costs = costs.copy()
        if first is not None:
            costs[:, first], forbidden[:, first] = 0, False
        if last is not None:
            costs[last], forbidden[last] = 0, False
    if first is not None and last is not None and not instance.problem.restated:
        fixed.append((last, first))
    for row, column in fixed:
        kept = forbidden[row, column]
        forbidden[row] = forbidden[:, column] = True
        forbidden[row, column] = kept
    np.fill_diagonal(forbidden, False)
    return _plain(instance, Atsp(), costs, forbidden, names, names)


def _restated_schedule(
    instance: Instance, conditions: Conditions, costs: NDArray[Any], forbidden: NDArray[np.bool_]
) -> Instance:
    """Return a schedule of plain jobs that ends at the same time."""
    jobs, machines = costs.shape
    rows, columns = instance.row_labels(range(jobs)), instance.column_labels(range(machines))
    if conditions.stay is not None and conditions.before is not None:
        moved = np.arange(machines) != np.array(conditions.before)[:, None]
        costs = costs + np.where(moved, np.array(conditions.stay), np.array(0))
    for job, machine in conditions.fixed:
        forbidden[job] = np.arange(machines) != machine
    if conditions.busy is not None:
        busy = np.array(conditions.busy_machines, dtype=np.int64)
        times = np.array([conditions.busy[machine] for machine in busy])[:, None]
        costs = np.vstack([costs, np.broadcast_to(times, (len(busy), machines))]) if len(busy) else costs
        forbidden = np.vstack([forbidden, np.arange(machines) != busy[:, None]])
        rows = [*rows, *(f"(busy {columns[machine]})" for machine in busy)]
    return _plain(instance, Pmsp(), costs, forbidden, rows, columns)


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
    return Instance(
        instance.name, problem, arrays, tuple(rows), tuple(columns), instance.coordinates, marked, original=instance
    )


def _weighed_steps(instance: Instance, conditions: Conditions, costs: NDArray[Any]) -> NDArray[Any]:
    """Return what steps cost, with what each that an earlier solution did not have weighs.

    The idle shop is no job: which job is first or last may change for nothing.
    """
    if conditions.stay is None or conditions.before is None:
        return costs
    changed = np.arange(len(costs)) != np.array(conditions.before)[:, None]
    if instance.problem.restated:
        changed[-1] = changed[:, -1] = False
    np.fill_diagonal(changed, False)
    return np.asarray(costs + np.where(changed, np.array(conditions.stay), np.array(0)))
