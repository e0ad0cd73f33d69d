"""What a file says, before anybody has decided which problem it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..options import mention
from ..problems.base import Names
from .numbers import Number, shorten
from .reading import ReadOptions

BARE = ""
"""The name of an array that came without one: just a matrix."""


@dataclass(frozen=True)
class RawInstance:
    """One instance as it was found.

    name : where it came from, for messages and answers.
    arrays : named arrays of one instance, or one array named `BARE`; there may be more than a problem needs.
    problem : the problem's name, where the file says it.
    rows, columns : names of the items, where the file has any.
    blank_diagonal : the diagonal was left out, as only a matrix from items to the same items has it.
    forbidden : for arrays of which some entries are marked as forbidden pairs, which; those entries hold 0.
    notes : what was understood, in a few words each.
    unused : entries of the file that are no array, and that nothing looks at.
    is_table : it is one table of cells, so that options about tables were heard.
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


def turned(raw: RawInstance, options: ReadOptions) -> RawInstance:
    """Let rows and columns of a matrix change places, where that is asked for."""
    if not options.transpose:
        return raw
    if set(raw.arrays) != {BARE} or raw.arrays[BARE].ndim != 2:
        raise UsageError(f"{raw.name}: {mention('transpose', True)} is for a table, or for one matrix without a name")
    marked = None if raw.forbidden is None else {name: mask.T for name, mask in raw.forbidden.items()}
    matrix = np.ascontiguousarray(raw.arrays[BARE].T)
    notes = (*raw.notes, "rows and columns changed places")
    return replace(raw, arrays={BARE: matrix}, rows=raw.columns, columns=raw.rows, forbidden=marked, notes=notes)


def to_array(rows: Sequence[Sequence[Number]]) -> NDArray[Any]:
    """Return int64 (rows, columns) if every number is an int, float64 otherwise."""
    exact = all(isinstance(value, int) for row in rows for value in row)
    return np.array(rows, dtype=np.int64 if exact else np.float64)


def tidy(name: str) -> str:
    """Return a name on one line, however it was written; halves of characters, which no file holds, as their code."""
    if name.isprintable():
        return name
    return " ".join(name.encode("utf-8", "backslashreplace").decode().split())


def reject_duplicates(names: Sequence[str], what: str) -> None:
    """Raise InputError if a name occurs twice, since an answer could not be read back."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{what} {shorten(name)} occurs twice")
        seen.add(name)
