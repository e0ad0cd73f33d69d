"""What people ask of a solution, in their own names: checked against an instance, contradictions named."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError, visible
from .asked import in_words, violation
from .conditions import Conditions, Number
from .fixed_steps import check_steps
from .instance import Instance, Names
from .matrices import LARGEST_INTEGER, LARGEST_REAL
from .naming import column_text, pair_text, row_text
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
        raise InputError(f"{instance.name}: {said} both name {row_text(instance, ends[0])}")
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
        pair = pair_text(instance, (row, column))
        if tour and row == column:
            raise InputError(f"{said}: {row_text(instance, row)} cannot follow itself")
        if instance.forbidden is not None and instance.forbidden[row, column]:
            raise InputError(f"{said}: {pair} is forbidden in {name}")
        if chosen.get(row, column) != column:
            raise InputError(f"{said}: {pair}, but also {pair_text(instance, (row, chosen[row]))}")
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
                raise InputError(f"{said}: {column_text(instance, place)} is named twice")
            named[place] = machine
            times[place] = _number(value, f"{said}: {column_text(instance, place)}")
        return tuple(times)
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise UsageError(f"{said} must be a mapping from {problem.column_words[1]} to times, or a list of times")
    if len(given) != count:
        raise InputError(
            f"{said}: there are {len(given)} times for {count} {problem.column_words[1]} of {instance.name}"
        )
    return tuple(_number(value, f"{said}: {column_text(instance, place)}") for place, value in enumerate(given))


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
