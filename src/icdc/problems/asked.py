"""What is true of a solution of an instance as it was asked: does it keep to everything, what does it cost.

Nothing here knows how the instance was put to a solver (`restating`): costs come from the matrix and the conditions.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .conditions import Conditions, Number
from .forbidden import forbidden_pair
from .instance import Instance
from .naming import pair_text
from .sequencing import Sequencing
from .text import counted, number


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
    rows, columns = instance.shape
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
        said.append(f"{counted(len(asked.busy_machines), problem.column_words)} busy at the beginning")
    if asked.stay is not None:
        what = "new step" if tour else f"{problem.row_words[0]} that moves"
        said.append(f"each {what} weighs {number(asked.stay)}")
    return "; ".join(said) or None
