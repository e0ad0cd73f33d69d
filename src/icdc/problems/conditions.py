"""What is asked of a solution beyond the matrix: checked against an instance, contradictions named; and is it kept to.

Nothing here knows how an instance is put to a solver (`restating`): costs come from the matrix and the conditions.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError, visible
from .arrays import LARGEST_INTEGER, LARGEST_REAL
from .forbidden import forbidden_pair
from .instance import Conditions, Instance, Names, Number
from .present import counted, number
from .sequencing import Sequencing

Item = str | int
"""An item by its name, or by its number from 0."""

_LARGEST_FIXED = 10**6
"""Pairs that may be fixed at most."""


@dataclass(frozen=True)
class Wishes:
    """What is asked of the solutions of all instances alike.

    fixed : pairs that every solution has, as a mapping or a list of pairs: job and machine; city, or job of a sequence,
        and the one after it.
    busy : until when machines are busy: a mapping from machines to times, or a list of times, one for each machine.
    open : a tour does not return.
    first, last : where a tour or a sequence begins and ends.
    stay : what each change against the start weighs.
    words : what each of these is called in sentences, where not by its name here.
    """

    fixed: Mapping[Item, Item] | Iterable[Sequence[Item]] | None = None
    busy: Mapping[Item, Number] | Sequence[Number] | None = None
    open: bool = False
    first: Item | None = None
    last: Item | None = None
    stay: Number | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.open, bool):
            raise UsageError(f"{self.word('open')} must be true or false, got {self.open!r}")
        if self.fixed is not None and not isinstance(self.fixed, str | Mapping) and isinstance(self.fixed, Iterable):
            object.__setattr__(self, "fixed", tuple(self.fixed))  # asked of every instance, so read more than once

    def __bool__(self) -> bool:
        """Tell whether anything is asked."""
        return self.open or any(
            value is not None for value in (self.fixed, self.busy, self.first, self.last, self.stay)
        )

    def word(self, name: str) -> str:
        """Return what a wish is called in sentences."""
        return self.words.get(name, f"'{name}'")


def posed(
    instance: Instance, wishes: Wishes, start: Callable[[Instance], NDArray[np.int64]] | None = None
) -> tuple[Instance, NDArray[np.int64] | None]:
    """Return an instance with its conditions, and the choice (rows,) to begin from, if there is one that keeps them.

    start : returns the choice of the start for an instance that has all conditions but `stay`. One that does not keep
        them is refused, unless changes are weighed against it: then it is only compared with.

    Raises
    ------
    UsageError
        If a wish makes no sense for the problem, or two wishes do not go together.
    InputError
        If wishes contradict each other or the instance, or name what it does not have.
    """
    if wishes.stay is not None and start is None:
        said = wishes.word("stay")
        raise UsageError(f"{said} weighs changes against a start, and there is none; give {wishes.word('start')}")
    if wishes:
        asked = _added(instance, _conditions(instance, wishes))
        nothing = asked == Conditions() and wishes.stay is None  # an empty list of pairs, say
        instance = replace(instance, conditions=None if nothing else asked)
    if start is None:
        return instance, None
    choice = start(instance)
    checked = instance.conditions is not None or instance.problem.restated
    wrong = violation(instance, choice) if checked else None
    if wishes.stay is None:
        if wrong is not None:
            raise InputError(f"the start of {instance.name} does not keep to what is asked: {wrong}")
        return instance, choice
    if wrong is not None and not _can_be_compared(instance, choice):
        raise InputError(f"the start of {instance.name} is not a solution: {wrong}")
    weight = _number(wishes.stay, wishes.word("stay"))
    weighed = replace(instance.conditions or Conditions(), stay=weight, before=tuple(choice.tolist()))
    return replace(instance, conditions=weighed), choice if wrong is None else None


def _added(instance: Instance, asked: Conditions) -> Conditions:
    """Return what is asked besides the conditions that an instance has already; they are never left out unsaid."""
    known = instance.conditions
    if known is None:
        return asked
    if asked == Conditions():  # only changes are to weigh something
        return replace(known, stay=None, before=None)
    raise UsageError(f"{instance.name} has conditions already ({in_words(instance)}); ask for all of them together")


def _can_be_compared(instance: Instance, choice: NDArray[np.int64]) -> bool:
    """Tell whether a choice is a solution of the matrix, if forbidden pairs and other conditions are left aside."""
    asked = instance.conditions
    bare = Conditions(open=asked is not None and asked.open)
    return violation(replace(instance, forbidden=None, conditions=bare), choice) is None


def _conditions(instance: Instance, wishes: Wishes) -> Conditions:
    """Return what is asked of one instance in numbers."""
    problem = instance.problem
    if problem.structure is None:
        asked = next(word for word in ("fixed", "busy", "open", "first", "last", "stay") if _is_asked(wishes, word))
        raise UsageError(
            f"{wishes.word(asked)} cannot be asked of '{problem.name}': its solutions are neither tours nor schedules "
            "that a matrix tells all about"
        )
    tour = problem.structure == "tour"
    for word in ("open", "first", "last"):
        if not tour and _is_asked(wishes, word):
            raise UsageError(f"{wishes.word(word)} is for tours, and {instance.name} is a schedule ('{problem.name}')")
    if tour and wishes.busy is not None:
        raise UsageError(
            f"{wishes.word('busy')} is for schedules on parallel machines, and {instance.name} is of '{problem.name}'"
        )
    if wishes.open and isinstance(problem, Sequencing):
        raise UsageError(
            f"{wishes.word('open')} is for tours; a sequence of '{problem.name}' begins and ends anyway, "
            f"{wishes.word('first')} and {wishes.word('last')} say where"
        )
    ends = [_end(instance, wishes, word) for word in ("first", "last")]
    alone = problem.named(instance.size)[0] == 1
    if ends[0] is not None and ends[0] == ends[1] and not alone:
        said = f"{wishes.word('first')} and {wishes.word('last')}"
        raise InputError(f"{instance.name}: {said} both name {instance.row_text(ends[0])}")
    fixed = _fixed(instance, wishes, ends)
    busy = None if wishes.busy is None else _busy(instance, wishes)
    return Conditions(fixed, wishes.open, ends[0], ends[1], busy)


def _is_asked(wishes: Wishes, word: str) -> bool:
    value = getattr(wishes, word)
    return value is not None and value is not False


def _end(instance: Instance, wishes: Wishes, word: str) -> int | None:
    value = getattr(wishes, word)
    if value is None:
        return None
    count = instance.problem.named(instance.size)[0]
    return _item(value, instance.rows, count, instance.problem.row_words[0], instance.name, wishes.word(word))


def _item(value: Any, names: Names | None, count: int, word: str, name: str, said: str) -> int:
    """Return the number of an item: by its name first, else by its number from 0."""
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
        known = "" if names is None else f"; the first is '{visible(names[0])}'"
        raise InputError(f"{said}: {name} has no {word} '{shown}'{known}")
    if not 0 <= value < count:
        raise InputError(f"{said}: {name} has no {word} {value}; they count from 0 to {count - 1}")
    return value


def _pairs(wishes: Wishes) -> list[tuple[Any, Any]]:
    said = wishes.word("fixed")
    if wishes.fixed is None:
        return []
    if isinstance(wishes.fixed, str) or not isinstance(wishes.fixed, Mapping | Iterable):
        raise UsageError(f"{said} must be pairs, such as {{'job': 'machine'}} or [(0, 2), (1, 0)]")
    entries = list(wishes.fixed.items() if isinstance(wishes.fixed, Mapping) else wishes.fixed)
    if len(entries) > _LARGEST_FIXED:
        raise InputError(f"{said} has more than {_LARGEST_FIXED} pairs")
    for place, entry in enumerate(entries, 1):
        if isinstance(entry, str) or not isinstance(entry, Sequence | np.ndarray) or len(entry) != 2:
            raise InputError(f"{said}: entry {place} is no pair")
    return [(entry[0], entry[1]) for entry in entries]


def _fixed(instance: Instance, wishes: Wishes, ends: list[int | None]) -> tuple[tuple[int, int], ...]:
    """Return the fixed pairs, sorted; raise InputError where they cannot all be part of one solution."""
    problem, said, name = instance.problem, wishes.word("fixed"), instance.name
    rows, columns = problem.named(instance.size)
    tour = problem.structure == "tour"
    following = instance.items if tour else instance.columns
    word = problem.row_words[0] if tour else problem.column_words[0]
    chosen: dict[int, int] = {}
    for row_given, column_given in _pairs(wishes):
        row = _item(row_given, instance.rows, rows, problem.row_words[0], name, said)
        column = _item(column_given, following, rows if tour else columns, word, name, said)
        pair = instance.pair_text((row, column))
        if tour and row == column:
            raise InputError(f"{said}: {instance.row_text(row)} cannot follow itself")
        if instance.forbidden is not None and instance.forbidden[row, column]:
            raise InputError(f"{said}: {pair} is forbidden in {name}")
        if chosen.get(row, column) != column:
            raise InputError(f"{said}: {pair}, but also {instance.pair_text((row, chosen[row]))}")
        chosen[row] = column
    if tour:
        check_steps(instance, wishes, chosen, ends, rows)
    return tuple(sorted(chosen.items()))


def _busy(instance: Instance, wishes: Wishes) -> tuple[Number, ...]:
    """Return until when each machine is busy."""
    problem, said, given = instance.problem, wishes.word("busy"), wishes.busy
    count = problem.named(instance.size)[1]
    word = problem.column_words[0]
    if isinstance(given, Mapping):
        times: list[Number] = [0] * count
        named: dict[int, Any] = {}
        for machine, value in given.items():
            place = _item(machine, instance.columns, count, word, instance.name, said)
            if place in named:
                raise InputError(f"{said}: {instance.column_text(place)} is named twice")
            named[place] = machine
            times[place] = _number(value, f"{said}: {instance.column_text(place)}")
        return tuple(times)
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise UsageError(f"{said} must be a mapping from {problem.column_words[1]} to times, or a list of times")
    if len(given) != count:
        raise InputError(
            f"{said}: there are {len(given)} times for {count} {problem.column_words[1]} of {instance.name}"
        )
    return tuple(_number(value, f"{said}: {instance.column_text(place)}") for place, value in enumerate(given))


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


def check_steps(
    instance: Instance, wishes: Wishes, chosen: Mapping[int, int], ends: list[int | None], items: int
) -> None:
    """Refuse fixed steps that no tour, path or sequence has all of."""
    said, (first, last) = wishes.word("fixed"), ends
    before: dict[int, int] = {}
    for row, column in chosen.items():
        if column in before:
            one, other = instance.row_text(before[column]), instance.row_text(row)
            raise InputError(f"{said}: both {one} and {other} come right before {instance.row_text(column)}")
        before[column] = row
    path = wishes.open or isinstance(instance.problem, Sequencing)
    if path and first is not None and first in before:
        step = instance.pair_text((before[first], first))
        raise InputError(f"{said}: {step}, but {wishes.word('first')} says that nothing comes before")
    if path and last is not None and last in chosen:
        step = instance.pair_text((last, chosen[last]))
        raise InputError(f"{said}: {step}, but {wishes.word('last')} says that nothing comes after")
    steps = dict(chosen)
    if first is not None and last is not None and first != last:
        # from the last back to the first: as a step of a closed tour, or as what closes a path
        if not path:
            _check_return(instance, wishes, steps, before, (last, first))
        steps[last] = first
    _check_circles(instance, wishes, steps, path, items, closing=steps.keys() - chosen.keys())


def _check_return(
    instance: Instance, wishes: Wishes, steps: Mapping[int, int], before: Mapping[int, int], back: tuple[int, int]
) -> None:
    """Refuse fixed or forbidden steps that keep a closed tour from returning from its last to its first city."""
    last, first = back
    ends, said = f"{wishes.word('first')} and {wishes.word('last')}", wishes.word("fixed")
    wanted = instance.pair_text((last, first))
    if steps.get(last, first) != first:
        raise InputError(f"{said}: {instance.pair_text((last, steps[last]))}, but {ends} say {wanted}")
    if before.get(first, last) != last:
        raise InputError(f"{said}: {instance.pair_text((before[first], first))}, but {ends} say {wanted}")
    if instance.forbidden is not None and instance.forbidden[last, first]:
        raise InputError(f"{ends}: {wanted} is forbidden in {instance.name}")


def _check_circles(
    instance: Instance, wishes: Wishes, steps: Mapping[int, int], path: bool, items: int, closing: set[int]
) -> None:
    """Refuse steps that close a circle before every item is in it."""
    said = wishes.word("fixed")
    seen: set[int] = set()
    for begin in steps:
        round_trip, item = [], begin
        while item in steps and item not in seen:
            seen.add(item)
            round_trip.append(item)
            item = steps[item]
        if not round_trip or item != begin:
            continue
        labels = instance.row_labels(round_trip)
        words = " → ".join([*(labels if len(labels) <= 6 else [*labels[:5], "…"]), labels[0]])
        if closing & set(round_trip):  # from the last to the first
            if len(round_trip) < items:
                ends = f"{wishes.word('first')} to {wishes.word('last')}"
                raise InputError(f"{said}: the steps lead from {ends} and leave out {items - len(round_trip)} others")
        elif len(round_trip) < items:
            raise InputError(
                f"{said}: the steps close a circle before every {instance.problem.row_words[0]} is in it: {words}"
            )
        elif path:
            raise InputError(f"{said}: the steps lead back to where they begin, and a path does not: {words}")


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
            return f"it does not have {instance.pair_text((row, column))}"
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
        return instance.pair_text(pair)
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
