"""A table of cells, wherever it came from, before anybody has decided what in it is a name and what a number."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError, UsageError
from ..options import mention
from ..problems.arrays import LARGEST_INTEGER
from .numbers import Plain, is_word, shorten

LARGEST_GRID = 20_000_000
"""Cells of the largest table that is read; as text they take more than a gigabyte."""


@dataclass
class Grid:
    """Cells, with where they stand.

    name : of the file, for messages.
    rows : the cells of each row, stripped; numbers of a program as `Plain`.
    lines : the number of each row where it came from.
    line_word, cell_word : what a row is called there, "line" or "row", and its cells.
    first_column : the number of the first column there.
    column_letters : columns have letters instead of numbers, as in a spreadsheet.
    separator : between cells in a file of text, "" elsewhere.
    header, labels : whether row 1 holds names of columns, and column 1 names of rows; None where that is to be found.
    padded : there may be empty rows and columns around the table, which do not belong to it.
    notes : what else was understood, for the line that says it.
    """

    name: str
    rows: list[list[str]]
    lines: list[int]
    line_word: str = "line"
    cell_word: str = "cells"
    first_column: int = 1
    column_letters: bool = False
    separator: str = ""
    header: bool | None = None
    labels: bool | None = None
    padded: bool = False
    notes: list[str] = field(default_factory=list)

    def place(self, row: int, column: int) -> str:
        """Say where a cell stands in its file."""
        number = self.first_column + column
        if self.column_letters:
            return f"{self.name}: cell {column_letter(number)}{self.lines[row]}"
        return f"{self.name}: {self.line_word} {self.lines[row]}, column {number}"

    def column_place(self, column: int) -> str:
        """Say which column it is in its file."""
        number = self.first_column + column
        return f"column {column_letter(number) if self.column_letters else number}"

    def without(self, skipped: Sequence[str]) -> "Grid":
        """Leave out rows and columns, each by its name (its first cell) or by its place: "row 4", "column 3"."""
        for asked in skipped:
            header = self.rows[0] if self.rows else []
            width = max(map(len, self.rows), default=0)
            # a narrow first row is a title
            columns = [place for place, cell in enumerate(header) if cell == asked and len(header) >= width - 1]
            rows = [place for place, row in enumerate(self.rows) if row[:1] == [asked] and (place or not columns)]
            place = re.fullmatch(r"(row|line|record|column) (\w+)", asked)
            if place and place[1] != "column":
                rows = rows or [index for index, line in enumerate(self.lines) if str(line) == place[2]]
            elif place:
                found = [index for index in range(width) if self.column_place(index) == asked]
                columns = columns or [index - width + len(header) for index in found]
            if len(rows) + len(columns) != 1:
                problem = "there is no row and no column" if not rows and not columns else "there are several called"
                raise UsageError(f"{self.name}: {problem} {shorten(asked)} ({mention('skip')})")
            if columns:
                from_end = len(header) - columns[0]  # a header may lack its corner
                self.rows = [row[: len(row) - from_end] + row[len(row) - from_end + 1 :] for row in self.rows]
            else:
                del self.rows[rows[0]], self.lines[rows[0]]
            self.notes.append(f"without {shorten(asked)}")
        return self

    def trimmed(self) -> "Grid":
        """Leave out empty rows and columns around the cells, as spreadsheets like to write them."""
        rows, lines = self.rows, self.lines
        while rows and not any(rows[-1]):
            rows, lines = rows[:-1], lines[:-1]
        while rows and not any(rows[0]):
            rows, lines = rows[1:], lines[1:]
        left = 0
        width = max((len(row) for row in rows), default=0)
        while left < width and all(not cell for row in rows for cell in row[left : left + 1]):
            left += 1
        # a column is used as far as its last cell; where every row reaches that far, the rest is empty in all
        used = max((index + 1 for row in rows for index in (_last(row),)), default=0)
        cut = used if all(len(row) >= used for row in rows) else width
        if left and self.separator and not any(is_word(cell) for cell in rows[0]):
            # under a header it has no name; here it may be a machine that no job may use
            raise InputError(f"{self.name}: column 1 is empty in every row; write '-' if all its pairs are forbidden")
        self.rows, self.lines = [row[left:cut] for row in rows], list(lines)
        self.first_column += left
        return self


def column_letter(number: int) -> str:
    """Return the letters of a column of a spreadsheet, counting from 1: A, B, …, Z, AA, …"""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def cell_of(value: Any, place: str) -> str:
    """Return the cell of a value that a program holds; raise InputError for what is neither number nor text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        raise InputError(f"{place}: {str(value).lower()} is not a number")
    if isinstance(value, np.timedelta64 | np.datetime64):
        raise InputError(f"{place}: a {type(value).__name__} is not a number")
    if isinstance(value, int | np.integer):
        text = str(int(value)) if abs(int(value)) < 10**40 else "9" * 41
        return Plain(text)
    if isinstance(value, float | np.floating):
        return Plain(repr(float(value)))
    try:  # fractions, decimals and their like
        real = float(value)
        exact = int(value) if abs(real) >= LARGEST_INTEGER and math.isfinite(real) else None
    except OverflowError:
        raise InputError(f"{place}: the number is too large") from None
    except (TypeError, ValueError):
        raise InputError(f"{place}: a {type(value).__name__} is not a number") from None
    if math.isinf(real) and value not in (math.inf, -math.inf):
        raise InputError(f"{place}: the number is too large")
    return Plain(repr(real) if exact is None or exact != value else exact)


def _last(row: list[str]) -> int:
    """Return the index of the last cell with something in it; −1 where there is none."""
    return next((index for index in range(len(row) - 1, -1, -1) if row[index]), -1)
