"""What a file says before its problem is known, and the options that decide what a file leaves open."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..options import mention
from ..problems.instance import BARE, RawInstance
from .cells import Number, shorten

Metric = Literal["euclidean", "geo"]
METRICS: tuple[str, ...] = ("euclidean", "geo")


@dataclass(frozen=True)
class ReadOptions:
    """Answers to what a file may leave open; None leaves it to the file, which is refused where it is in doubt.

    labels : True: row 1 and column 1 are names, even if they are numbers. False: no number is a name.
    comments : True: lines that begin with # are comments. False: they are rows like all others.
    decimal : the mark before the fraction of a number, "." or ","; the other one groups thousands.
    id_column : the column that holds the names of the rows: its own name, or its number from 1; "0" for none.
    metric : the table holds points: "euclidean" (x, y) or "geo" (latitude, longitude in degrees) distances are
        taken between them.
    skip : rows and columns that are left out, by their names or places: "Total", "row 4", "column 3".
    transpose : True: rows and columns change places, since machines are rows, or rows are where one goes to. False:
        they do not.
    sheet, range : the part of a workbook, such as "Times" and "B2:F20".
    hidden : True: hidden rows and columns of a workbook are read. False: they are left out.
    nan_forbidden : NaN marks a forbidden pair, instead of being refused.
    """

    labels: bool | None = None
    comments: bool | None = None
    decimal: str | None = None
    id_column: str | None = None
    metric: str | None = None
    sheet: str | None = None
    range: str | None = None
    nan_forbidden: bool = False
    skip: tuple[str, ...] = ()
    transpose: bool | None = None
    hidden: bool | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise UsageError(f"the decimal mark must be '.' or ',', got {self.decimal!r}")
        if self.metric is not None and self.metric not in METRICS:
            raise UsageError(f"unknown metric {self.metric!r}; choose {' or '.join(METRICS)}")


DEFAULTS = ReadOptions()


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
