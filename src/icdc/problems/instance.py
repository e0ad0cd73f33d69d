"""One instance: as a file or a caller gave it, what a solution must keep to, and as it is solved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import visible
from .base import Arrays, Problem, Size, main_matrix

Names = tuple[str, ...]
Number = int | float

BARE = ""
"""The name of an array that came without one: just a matrix."""


@dataclass(frozen=True)
class RawInstance:
    """One instance as a file or a caller gave it, before it is checked, and maybe before its problem is known.

    name : where it came from, for messages and answers.
    arrays : named arrays of one instance, or one array named `BARE`; there may be more than a problem needs.
    problem : the problem's name, where the file says it.
    rows, columns : names of the items, where the file has any.
    blank_diagonal : the diagonal was left out, as only a matrix from items to the same items has it.
    forbidden : for arrays of which some entries are marked as forbidden pairs, which; those entries hold 0.
    notes : how the input was read, in a few words each.
    unused : entries of the file that are not arrays and are not used.
    is_table : whether it is one table of cells, so that options about tables apply.
    """

    name: str
    arrays: dict[str, NDArray[Any]]
    problem: str | None = None
    rows: Names | None = None
    columns: Names | None = None
    blank_diagonal: bool = False
    forbidden: dict[str, NDArray[np.bool_]] | None = None
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    is_table: bool = False


@dataclass(frozen=True)
class Conditions:
    """What a solution must keep to, and what changes of an earlier solution cost.

    fixed : pairs (row, column) that every solution has: this job on that machine, this city and the one after it.
    open : a tour does not return: it is a path, whose last city has no successor.
    first, last : where the solution of a tour or a sequence begins and ends; None where any item may.
    busy : until when each machine is busy with something else; None where all are free from the beginning.
    stay : what each change of an earlier solution weighs; None where changes cost nothing.
    before : the earlier solution, the column of each row; None without `stay`.
    """

    fixed: tuple[tuple[int, int], ...] = ()
    open: bool = False
    first: int | None = None
    last: int | None = None
    busy: tuple[Number, ...] | None = None
    stay: Number | None = None
    before: tuple[int, ...] | None = None

    @property
    def busy_machines(self) -> list[int]:
        """The machines that are busy for any time."""
        return [machine for machine, time in enumerate(self.busy or ()) if time > 0]

    def as_dict(self) -> dict[str, Any]:
        """Return what is asked as it stands in an answer's JSON, without what is not."""
        values: dict[str, Any] = {}
        if self.fixed:
            values["fixed"] = [list(pair) for pair in self.fixed]
        if self.open:
            values["open"] = True
        for name in ("first", "last", "stay"):
            if getattr(self, name) is not None:
                values[name] = getattr(self, name)
        if self.busy is not None:
            values["busy"] = list(self.busy)
        if self.before is not None:
            values["before"] = list(self.before)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `as_dict` writes."""
        lists = {name: tuple(values[name]) for name in ("busy", "before") if name in values}
        pairs = tuple((int(row), int(column)) for row, column in values.get("fixed", ()))
        return cls(**{**values, **lists, "fixed": pairs})


@dataclass(frozen=True, eq=False)
class Instance:
    """One checked instance.

    name : where it came from: the file, with the instance's number in brackets where the file has several.
    problem : what it is an instance of.
    arrays : the problem's arrays, without a batch axis.
    rows, columns : names of the items, where the file gave any.
    coordinates : (n, 2) float64, where the file gave any; used to draw.
    forbidden : (rows, columns) bool, the pairs that no solution may use; None where all are permitted. Entries of
        the arrays at such pairs are stand-ins that cost more than any permitted solution (`problems.forbidden`).
    understood : one line that says how the input was read.
    conditions : what a solution must keep to beyond the matrix; None where there is nothing.
    original : the instance that this one is solved in place of (`problems.restating`); None for one from outside.
    """

    name: str
    problem: Problem
    arrays: Arrays
    rows: Names | None = None
    columns: Names | None = None
    coordinates: NDArray[np.float64] | None = None
    forbidden: NDArray[np.bool_] | None = None
    understood: str | None = None
    conditions: Conditions | None = None
    original: Instance | None = None

    def __eq__(self, other: object) -> bool:
        """Tell whether two instances are of one problem and hold the same numbers under the same names."""
        if not isinstance(other, Instance):
            return NotImplemented
        return all(_same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    def __hash__(self) -> int:
        return hash((self.name, type(self.problem), *(array.tobytes() for array in self.arrays.values())))

    def batch(self) -> Arrays:
        """Return the arrays with a leading axis of one."""
        return {name: array[None] for name, array in self.arrays.items()}

    def matrix(self) -> NDArray[Any] | None:
        """Return what pairs cost, or else the first array of a solution's shape, with NaN for forbidden pairs."""
        matrices = main_matrix(self.problem, self.batch())
        if matrices is None or self.forbidden is None:
            return None if matrices is None else matrices[0]
        return np.where(self.forbidden, np.nan, matrices[0])

    @property
    def size(self) -> Size:
        """Its size."""
        return self.problem.size(self.batch())

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of its solution matrix."""
        return self.problem.shape(self.size)

    @property
    def integral(self) -> bool:
        """Whether every array holds integers, so that costs are exact."""
        return all(np.issubdtype(array.dtype, np.integer) for array in self.arrays.values())

    def solution(self, choice: NDArray[np.int64]) -> list[int]:
        """Write a choice (rows,) as people read it: as its problem does, and from the first item to the last.

        The last city of an open path is its own successor in a choice.
        """
        conditions = self.conditions
        if conditions is None or not self.problem.solution_is_tour or choice.min() < 0:  # without any solution
            return self.problem.solution(choice)
        first = conditions.first
        if conditions.open:
            ends = path_ends(choice)
            assert ends is not None  # feasible choices alone are written
            first = ends[0]
            choice = closed(choice, ends)
        order = self.problem.solution(choice)
        if len(order) < len(choice):  # a sequence, which begins where it begins
            return order
        if first is None and conditions.last is not None:
            first = order[(order.index(conditions.last) + 1) % len(order)]
        begin = 0 if first is None else order.index(first)
        return order[begin:] + order[:begin]

    def choice(self, solution: list[int]) -> NDArray[np.int64]:
        """Read what `solution` writes; raise InputError if it cannot be a solution."""
        choice = self.problem.choice(solution)
        if self.conditions is not None and self.conditions.open:
            choice[solution[-1]] = solution[-1]
        return choice

    @property
    def weighs_changes(self) -> bool:
        """Whether the objective, and so every bound on it, counts changes beside the cost."""
        return self.conditions is not None and self.conditions.stay is not None

    @property
    def items(self) -> Names | None:
        """The names of what stands in a solution: those of the rows for tours and sequences, else of the columns."""
        return self.rows if self.problem.solution_is_tour else self.columns

    def item_labels(self, items: Iterable[int]) -> list[str]:
        """Return what stands in a solution by name where there are names, by number from 0 where not."""
        return _labels(items, self.items)

    def row_labels(self, items: Iterable[int]) -> list[str]:
        """Return rows by name where they have names, by number from 0 where not."""
        return _labels(items, self.rows)

    def column_labels(self, items: Iterable[int]) -> list[str]:
        """Return columns by name where they have names, by number from 0 where not."""
        return _labels(items, self.columns)

    def row_text(self, item: int) -> str:
        """Name a row in a sentence: "job 'paint'", "city 3"."""
        return _text(self.problem.row_words[0], item, self.rows)

    def column_text(self, item: int) -> str:
        """Name a column in a sentence: "machine 'M2'", "city 3"."""
        return _text(self.problem.column_words[0], item, self.columns)

    def pair_text(self, pair: tuple[int, int]) -> str:
        """Name a pair in a sentence: "job 'paint' with machine 'M2'", "from city 3 to city 5"."""
        return self.problem.describe_pair(self, pair)


def path_ends(choice: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the first and the last item of an open path, whose last is its own successor; None where it is no path."""
    items = np.arange(len(choice))
    last = np.flatnonzero(choice == items)
    first = np.setdiff1d(items, np.delete(choice, last))
    return (int(first[0]), int(last[0])) if len(first) == len(last) == 1 else None


def closed(choice: NDArray[np.int64], ends: tuple[int, int]) -> NDArray[np.int64]:
    """Return the closed tour of an open path: its last item leads to its first."""
    tour = choice.copy()
    tour[ends[1]] = ends[0]
    return tour


def _same(one: Any, other: Any) -> bool:
    """Tell whether two parts of instances are equal: arrays with their types, problems by class and contents."""
    if isinstance(one, Problem):
        return type(one) is type(other) and _same(vars(one), vars(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


def _labels(items: Iterable[int], names: Names | None) -> list[str]:
    return [str(item) if names is None else visible(names[item]) for item in items]


def _text(word: str, item: int, names: Names | None) -> str:
    return f"{word} {item}" if names is None else f"{word} '{visible(names[item])}'"
