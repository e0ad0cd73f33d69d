"""Conditions on solutions beyond the matrix: read and checked for an instance, and whether a solution keeps to them.

`restating` puts an instance with conditions to solvers; here costs come from the matrix and the conditions.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, Surface, UsageError, visible
from ..options import Group, check, mention, options_of
from ..search.structures import structure_of
from ..search.tour_branching import is_tour
from .arrays import LARGEST_INTEGER, LARGEST_REAL
from .forbidden import forbidden_pair
from .instance import Conditions, Instance, Names, Number, closed, path_ends
from .present import counted, number

CONDITIONS = tuple(option.name for option in options_of(Surface.PYTHON, Group.CONDITIONS))
"""The names of conditions, as options."""

Item = str | int
"""An item by its name, or by its number from 0."""

_MOST_FIXED = 10**6
"""Pairs that may be fixed."""


def with_conditions(
    instance: Instance,
    wanted: Mapping[str, Any],
    start: Callable[[Instance], NDArray[np.int64]] | None = None,
    words: Mapping[str, str] | None = None,
) -> tuple[Instance, NDArray[np.int64] | None]:
    """Return an instance with its conditions, and the choice (rows,) to begin from, if there is one that keeps them.

    Parameters
    ----------
    wanted : values of the options that are conditions (`CONDITIONS`), as a caller gives them; None or False is nothing.
    start : returns the choice of the start for an instance that has all conditions but `stay`. One that does not keep
        them is refused, unless changes are weighed against it: then it is only compared with.
    words : what options are called in sentences, where not as the table of options says.

    Raises
    ------
    UsageError
        If a condition makes no sense for the problem, or two do not go together.
    InputError
        If conditions contradict each other or the instance, or name what it does not have.
    """
    reader = _Reader(instance, wanted, words or {})
    if reader.stay is not None and start is None:
        said = reader.word("stay")
        raise UsageError(f"{said} weighs changes against a start, and there is none; give {reader.word('start')}")
    if reader.names:
        conditions = _merged(instance, reader.conditions())
        nothing = conditions == Conditions() and reader.stay is None  # an empty list of pairs, say
        instance = replace(instance, conditions=None if nothing else conditions)
    if start is None:
        return instance, None
    choice = start(instance)
    checked = instance.conditions is not None or instance.problem.restated
    wrong = violation(instance, choice) if checked else None
    if reader.stay is None:
        if wrong is not None:
            raise InputError(f"the start of {instance.name} does not keep to what is asked: {wrong}")
        return instance, choice
    if wrong is not None and not _is_comparable(instance, choice):
        raise InputError(f"the start of {instance.name} is not a solution: {wrong}")
    weight = _number(reader.stay, reader.word("stay"))
    weighed = replace(instance.conditions or Conditions(), stay=weight, before=tuple(choice.tolist()))
    return replace(instance, conditions=weighed), choice if wrong is None else None


def _merged(instance: Instance, added: Conditions) -> Conditions:
    """Return what is added to the conditions that an instance has already; they are never dropped silently."""
    present = instance.conditions
    if present is None:
        return added
    if added == Conditions():  # only changes are to weigh something
        return replace(present, stay=None, before=None)
    raise UsageError(f"{instance.name} has conditions already ({in_words(instance)}); ask for all of them together")


def _is_comparable(instance: Instance, choice: NDArray[np.int64]) -> bool:
    """Tell whether a choice is a solution of the matrix, whatever is forbidden and whatever else is asked."""
    bare = Conditions(open=_of(instance).open)
    return violation(replace(instance, forbidden=None, conditions=bare), choice) is None


class _Reader:
    """Reads the conditions of one instance.

    names : of the conditions that are asked.
    """

    def __init__(self, instance: Instance, wanted: Mapping[str, Any], words: Mapping[str, str]) -> None:
        self.instance, self.problem, self.words = instance, instance.problem, words
        self.open: bool = check("open", wanted.get("open"))
        self.fixed, self.stay, self.first, self.last, self.busy = (
            wanted.get(name) for name in ("fixed", "stay", "first", "last", "busy")
        )
        values = vars(self)
        self.names = [name for name in CONDITIONS if values[name] is not None and values[name] is not False]
        self.rows, self.columns = self.problem.named(instance.size)

    def word(self, name: str) -> str:
        """Return what an option is called in sentences."""
        return self.words.get(name) or mention(name)

    def conditions(self) -> Conditions:
        """Return the conditions in numbers, without those on changes."""
        problem, instance = self.problem, self.instance
        if problem.structure is None or not structure_of(problem.structure).conditions:
            raise UsageError(
                f"{self.word(self.names[0])} cannot be asked of '{problem.name}': it is only for tours and schedules "
                "given by one matrix"
            )
        tour = problem.structure == "tour"
        for name in ("open", "first", "last"):
            if not tour and name in self.names:
                raise UsageError(
                    f"{self.word(name)} is for tours, and {instance.name} is a schedule ('{problem.name}')"
                )
        if tour and self.busy is not None:
            raise UsageError(
                f"{self.word('busy')} is for schedules on parallel machines, and {instance.name} is of '{problem.name}'"
            )
        if self.open and problem.restated:
            raise UsageError(
                f"{self.word('open')} is for tours; a sequence of '{problem.name}' begins and ends anyway, "
                f"{self.word('first')} and {self.word('last')} say where"
            )
        first, last = self._end("first"), self._end("last")
        if first is not None and first == last and self.rows > 1:
            ends = f"{self.word('first')} and {self.word('last')}"
            raise InputError(f"{instance.name}: {ends} both name {instance.row_text(first)}")
        fixed = self._fixed_pairs()
        if tour:
            self._check_steps(fixed, first, last)
        return Conditions(tuple(sorted(fixed.items())), self.open, first, last, self._busy_times())

    def _end(self, name: str) -> int | None:
        value = getattr(self, name)
        return None if value is None else self._item(value, name)

    def _item(self, value: Any, name: str, column: bool = False) -> int:
        """Return the number of a row or a column: by its name first, else by its number from 0."""
        instance, said = self.instance, self.word(name)
        word = (self.problem.column_words if column else self.problem.row_words)[0]
        names: Names | None = instance.columns if column else instance.rows
        count = self.columns if column else self.rows
        if isinstance(value, str):
            if names is not None and value in names:
                return names.index(value)
            digits = value.strip()
            if digits.isascii() and digits.isdigit() and len(digits) < 19:
                value = int(digits)
        if isinstance(value, np.integer):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            shown = visible(value)[:60] if isinstance(value, str) else repr(value)[:60]
            example = "" if names is None else f"; the first is '{visible(names[0])}'"
            raise InputError(f"{said}: {instance.name} has no {word} '{shown}'{example}")
        if not 0 <= value < count:
            raise InputError(f"{said}: {instance.name} has no {word} {value}; they count from 0 to {count - 1}")
        return value

    def _fixed_pairs(self) -> dict[int, int]:
        """Return the column of every row that is fixed; raise InputError where one has two or a forbidden one."""
        instance, said = self.instance, self.word("fixed")
        tour = self.problem.structure == "tour"
        chosen: dict[int, int] = {}
        for row_item, column_item in self._pairs():
            row, column = self._item(row_item, "fixed"), self._item(column_item, "fixed", column=not tour)
            pair = instance.pair_text((row, column))
            if tour and row == column:
                raise InputError(f"{said}: {instance.row_text(row)} cannot follow itself")
            if instance.forbidden is not None and instance.forbidden[row, column]:
                raise InputError(f"{said}: {pair} is forbidden in {instance.name}")
            if chosen.get(row, column) != column:
                raise InputError(f"{said}: {pair}, but also {instance.pair_text((row, chosen[row]))}")
            chosen[row] = column
        return chosen

    def _pairs(self) -> list[tuple[Any, Any]]:
        said, fixed = self.word("fixed"), self.fixed
        if fixed is None:
            return []
        if isinstance(fixed, str) or not isinstance(fixed, Iterable):
            raise UsageError(f"{said} must be pairs, such as {{'job': 'machine'}} or [(0, 2), (1, 0)]")
        entries = list(fixed.items() if isinstance(fixed, Mapping) else fixed)
        if len(entries) > _MOST_FIXED:
            raise InputError(f"{said} has more than {_MOST_FIXED} pairs")
        for place, entry in enumerate(entries, 1):
            if isinstance(entry, str) or not isinstance(entry, Sequence | np.ndarray) or len(entry) != 2:
                raise InputError(f"{said}: entry {place} is no pair")
        return [(entry[0], entry[1]) for entry in entries]

    def _busy_times(self) -> tuple[Number, ...] | None:
        """Return until when each machine is busy."""
        instance, said, busy = self.instance, self.word("busy"), self.busy
        words = self.problem.column_words
        if busy is None:
            return None
        if isinstance(busy, Mapping):
            times: dict[int, Number] = {}
            for machine, value in busy.items():
                place = self._item(machine, "busy", column=True)
                if place in times:
                    raise InputError(f"{said}: {instance.column_text(place)} is named twice")
                times[place] = _number(value, f"{said}: {instance.column_text(place)}")
            return tuple(times.get(place, 0) for place in range(self.columns))
        if isinstance(busy, str) or not isinstance(busy, Sequence | np.ndarray):
            raise UsageError(f"{said} must be a mapping from {words[1]} to times, or a list of times")
        if len(busy) != self.columns:
            raise InputError(f"{said}: there are {len(busy)} times for {self.columns} {words[1]} of {instance.name}")
        return tuple(_number(value, f"{said}: {instance.column_text(place)}") for place, value in enumerate(busy))

    def _check_steps(self, fixed: Mapping[int, int], first: int | None, last: int | None) -> None:
        """Refuse fixed steps that no single tour, path or sequence can contain."""
        instance, said = self.instance, self.word("fixed")
        before: dict[int, int] = {}
        for row, column in fixed.items():
            if column in before:
                one, other = instance.row_text(before[column]), instance.row_text(row)
                raise InputError(f"{said}: both {one} and {other} come right before {instance.row_text(column)}")
            before[column] = row
        path = self.open or self.problem.restated
        if path and first is not None and first in before:
            step = instance.pair_text((before[first], first))
            raise InputError(f"{said}: {step}, but {self.word('first')} says that nothing comes before")
        if path and last is not None and last in fixed:
            step = instance.pair_text((last, fixed[last]))
            raise InputError(f"{said}: {step}, but {self.word('last')} says that nothing comes after")
        steps = dict(fixed)
        if first is not None and last is not None and first != last:
            # from the last back to the first: as a step of a closed tour, or as what closes a path
            if not path:
                self._check_return(steps, before, (last, first))
            steps[last] = first
        self._check_circles(steps, path, closing=steps.keys() - fixed.keys())

    def _check_return(self, steps: Mapping[int, int], before: Mapping[int, int], step: tuple[int, int]) -> None:
        """Refuse fixed or forbidden steps that keep a closed tour from returning from its last to its first city."""
        instance, (last, first) = self.instance, step
        ends, said = f"{self.word('first')} and {self.word('last')}", self.word("fixed")
        needed = instance.pair_text(step)
        if steps.get(last, first) != first:
            raise InputError(f"{said}: {instance.pair_text((last, steps[last]))}, but {ends} say {needed}")
        if before.get(first, last) != last:
            raise InputError(f"{said}: {instance.pair_text((before[first], first))}, but {ends} say {needed}")
        if instance.forbidden is not None and instance.forbidden[last, first]:
            raise InputError(f"{ends}: {needed} is forbidden in {instance.name}")

    def _check_circles(self, steps: Mapping[int, int], path: bool, closing: set[int]) -> None:
        """Refuse steps that close a circle before every item is in it."""
        said, items = self.word("fixed"), self.rows
        seen: set[int] = set()
        for begin in steps:
            circle, item = [], begin
            while item in steps and item not in seen:
                seen.add(item)
                circle.append(item)
                item = steps[item]
            if not circle or item != begin:
                continue
            labels = self.instance.row_labels(circle)
            words = " → ".join([*(labels if len(labels) <= 6 else [*labels[:5], "…"]), labels[0]])
            if closing & set(circle):  # from the last to the first
                if len(circle) < items:
                    ends = f"{self.word('first')} to {self.word('last')}"
                    raise InputError(f"{said}: the steps lead from {ends} and leave out {items - len(circle)} others")
            elif len(circle) < items:
                row = self.problem.row_words[0]
                raise InputError(f"{said}: the steps close a circle before every {row} is in it: {words}")
            elif path:
                raise InputError(f"{said}: the steps lead back to where they begin, and a path does not: {words}")


def _number(value: Any, said: str) -> Number:
    """Return a time or a weight: not negative, finite, whole where it can be."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{said}: {str(value)[:60]!r} is not a number")
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{said}: the number must be finite and not negative, got {value}")
    if value > (LARGEST_INTEGER if isinstance(value, int) else LARGEST_REAL):
        raise InputError(f"{said}: the number is too large")
    return int(value) if isinstance(value, float) and value.is_integer() and value <= LARGEST_INTEGER else value


def _of(instance: Instance) -> Conditions:
    return instance.conditions or Conditions()


def changes(instance: Instance, choice: NDArray[np.int64]) -> int | None:
    """Return how many jobs moved, or how many steps are new, against the earlier solution; None where none is given."""
    before = _of(instance).before
    if before is None:
        return None
    differs = choice != np.array(before)
    if instance.problem.structure == "tour":
        differs &= choice != np.arange(len(choice))  # the end of a path is no step
        if instance.problem.restated:
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

    On tours: weight × number of new steps is added. On schedules: each moved job takes `weight` longer; the result is
    the makespan.
    """
    return _total(instance, choice, _of(instance).stay or 0)


def _total(instance: Instance, choice: NDArray[np.int64], weight: Number) -> Number:
    costs, conditions = instance.problem.cost_matrix(instance.batch()), _of(instance)
    assert costs is not None  # a structure promises a matrix
    entries: list[Number] = costs[0][np.arange(len(choice)), choice].tolist()
    if instance.problem.structure == "tour":
        if conditions.open:  # whatever stands on the diagonal
            entries = [entry for row, entry in enumerate(entries) if choice[row] != row]
        changed = changes(instance, choice) or 0
        return sum(entries) + (weight * changed if weight else 0)
    loads: list[Number] = [0] * costs.shape[2] if conditions.busy is None else list(conditions.busy)
    for row, (machine, entry) in enumerate(zip(choice.tolist(), entries, strict=True)):
        moved = conditions.before is not None and conditions.before[row] != machine
        loads[machine] += entry + (weight if moved and weight else 0)
    return max(loads)


def violation(instance: Instance, choice: NDArray[np.int64]) -> str | None:
    """Say what is wrong with a choice (rows,) of an instance that has a structure; None if it is feasible."""
    problem, conditions = instance.problem, _of(instance)
    rows, columns = instance.shape
    if choice.shape != (rows,) or (choice < 0).any() or (choice >= columns).any():
        return "it names what the instance does not have"
    if problem.structure == "tour" and not _is_one_way(choice, conditions.open):
        return f"it is no {'path' if conditions.open else 'tour'} through every {problem.row_words[0]}"
    if (pair := _forbidden_pair(instance, choice)) is not None:
        return f"it uses a forbidden pair, {pair}"
    for row, column in conditions.fixed:
        if choice[row] != column:
            if problem.restated:
                names = instance.row_labels([row, column])
                return f"{problem.row_words[0]} {names[1]} is not right after {problem.row_words[0]} {names[0]}"
            return f"it does not have {instance.pair_text((row, column))}"
    if problem.structure == "tour" and (conditions.first is not None or conditions.last is not None):
        order = instance.solution(choice)
        for word, item, end in (("begins", conditions.first, order[0]), ("ends", conditions.last, order[-1])):
            if item is not None and item != end:
                wrong, right = instance.row_labels([end, item])
                return f"it {word} with {problem.row_words[0]} {wrong}, not {right}"
    return None


def _forbidden_pair(instance: Instance, choice: NDArray[np.int64]) -> str | None:
    """Name the first forbidden pair that a choice uses."""
    marked = instance.forbidden
    if _of(instance).open and marked is not None:
        marked = marked & (np.arange(len(choice)) != choice)[:, None]
    pair = forbidden_pair(replace(instance, forbidden=marked), choice)
    return None if pair is None else instance.pair_text(pair)


def _is_one_way(choice: NDArray[np.int64], path: bool) -> bool:
    """Tell whether successors (rows,) lead through all items once: around, or from one end to another."""
    if not path:
        return bool(is_tour(choice))
    ends = path_ends(choice)
    return ends is not None and bool(is_tour(closed(choice, ends)))


def in_words(instance: Instance) -> str | None:
    """Say in a line what is asked of a solution; None where nothing is."""
    conditions, problem = instance.conditions, instance.problem
    if conditions is None:
        return None
    parts = ["an open path"] if conditions.open else []
    for word, verb, item in (("from", "beginning with", conditions.first), ("to", "ending with", conditions.last)):
        if item is not None:
            parts.append(f"{word if conditions.open else verb} {problem.row_words[0]} {instance.row_labels([item])[0]}")
    parts = [(" " if conditions.open else ", ").join(parts)] if parts else []
    tour = problem.structure == "tour"
    if conditions.fixed:
        parts.append(f"{counted(len(conditions.fixed), ('step', 'steps') if tour else problem.row_words)} fixed")
    if conditions.busy is not None:
        parts.append(f"{counted(len(conditions.busy_machines), problem.column_words)} busy at the beginning")
    if conditions.stay is not None:
        what = "new step" if tour else f"{problem.row_words[0]} that moves"
        parts.append(f"each {what} weighs {number(conditions.stay)}")
    return "; ".join(parts) or None
