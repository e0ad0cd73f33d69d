"""Cells: where each stands, what it says, and the options that decide what cells leave open.

A cell is a number, as people write them, a mark for a forbidden pair, a word, or an amount such as `5 min`.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError, visible
from ..options import mention
from ..problems.arrays import LARGEST_INTEGER, LARGEST_REAL

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
    transpose : True: swap rows and columns, because machines or destinations are rows. False: do not.
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

Number = int | float

_GROUPS = " \u00a0\u2007\u2009\u202f'’"  # blanks of several widths and apostrophes group thousands in either style


def _pattern(decimal: str, group: str) -> re.Pattern[str]:
    whole = rf"\d+|[1-9]\d{{0,2}}(?P<group>[{_GROUPS}{re.escape(group)}])\d{{3}}(?:(?P=group)\d{{3}})*"
    mark = re.escape(decimal)
    return re.compile(rf"[+-]?(?:(?:{whole})(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?", re.ASCII)


_AMOUNT = re.compile(r"[A-Z]{3}[ \u00a0\u202f]?[+-]?\d")  # a currency by its code
_STYLES = {".": _pattern(".", ","), ",": _pattern(",", ".")}
_FORBIDDEN = frozenset(["", "-", "--", "–", "—", "x", "inf", "+inf", "infinity", "+infinity", "∞", "null", "none"])
_MISSING = frozenset(["nan", "+nan", "-nan", "na", "n/a", "#n/a", "nil", "-inf", "-infinity", "-∞"])
_WRITTEN = frozenset(["x", "null", "none", "inf", "infinity"])  # marks that may be names as well

HINT = "a forbidden pair is written as an empty cell, '-', 'x' or 'inf'"


class Plain(str):
    """A number as a program writes it, with a decimal point and without groups."""

    __slots__ = ()


class Style(NamedTuple):
    """How the numbers of a table are written.

    decimal : the mark before a fraction.
    witness : a cell that shows it; None where no cell does.
    """

    decimal: str
    witness: str | None = None


def is_forbidden(cell: str) -> bool:
    """Tell whether a cell says that its pair is forbidden."""
    return cell == "" or cell.casefold() in _FORBIDDEN


def is_missing(cell: str) -> bool:
    """Tell whether a cell says that its number is missing."""
    return cell.casefold() in _MISSING


def is_number(cell: str) -> bool:
    """Tell whether a cell is a number in some style of writing."""
    if cell.isdigit() and cell.isascii():
        return True
    return any(_value(cell, decimal) is not None for decimal in _STYLES)


def is_word(cell: str) -> bool:
    """Tell whether a cell is neither a number nor a mark in place of one."""
    return not (is_forbidden(cell) or is_missing(cell) or is_number(cell))


def is_amount(cell: str) -> bool:
    """Tell whether a word may be meant as a number: one with a unit or a sign, or written in an unusual way.

    Such as `5 min`, `5%`, `$5`, `EUR 5`, `1:30`, `1/2`, `(5)`, `½`, `1,00,000`, `True`; `3rd` and `10b` cannot be told
    from them. Item numbers such as `M1`, `#1` and `№1` begin with a letter, # or №, and are not amounts.
    """
    if cell.casefold() in ("true", "false"):
        return True
    return bool(_AMOUNT.match(cell)) or next((c.isnumeric() for c in cell if not _is_sign(c)), False)


def _is_sign(char: str) -> bool:
    """Tell whether a character may stand before a number: currencies, brackets, blanks and the like."""
    return not char.isalnum() and char not in "#№_[{<"


def are_names(cells: Iterable[str]) -> bool:
    """Tell whether all cells are words, one of them beyond doubt ('x' may be a mark as well as a name)."""
    cells = list(cells)
    return any(map(is_word, cells)) and all(is_word(cell) or cell.casefold() in _WRITTEN for cell in cells)


def style_of(cells: Iterable[tuple[str, str]], separator: str, decimal: str | None) -> Style:
    """Decide which mark stands before fractions, from cells with their places.

    Cells that make sense in one style only decide. Without any, commas group thousands where they separate cells,
    too, and points stand before fractions there and where a program wrote the numbers. What is left is refused, with
    the option that decides: tabs and semicolons are what spreadsheets put between numbers of all countries.

    separator : between the cells of the file, "" where there is none, or only blanks.
    decimal : the mark, where an option says it.
    """
    if decimal is not None:
        return Style(decimal)
    doubtful: tuple[str, str] | None = None
    seen = None
    for cell, place in cells:
        if isinstance(cell, Plain) or not ("," in cell or "." in cell):
            continue
        point, comma = _value(cell, "."), _value(cell, ",")
        if point is None and comma is None:
            continue
        if point is None or comma is None:
            return Style("," if point is None else ".", cell)
        if point != comma:
            seen = seen or cell
            certain = separator == "," if "," in cell else separator in (",", "")
            doubtful = doubtful or (None if certain else (cell, place))
    if doubtful is not None:
        cell, place = doubtful
        raise UsageError(
            f"{place}: {shorten(cell)} may be {_value(cell, ',')} or {_value(cell, '.')}; "
            f"say which mark stands before fractions with {mention('decimal', ',')} or {mention('decimal', '.')}"
        )
    return Style(".", seen)


def read_number(cell: str, style: Style) -> Number:
    """Return the number in a cell; raise InputError with the reason (the caller knows the place) otherwise."""
    if cell.isdigit() and cell.isascii() and len(cell) < 16:
        return int(cell)
    value = _value(cell, "." if isinstance(cell, Plain) else style.decimal)
    if value is None:
        if cell == "":
            raise InputError("the cell is empty")
        if is_missing(cell) or is_forbidden(cell):
            raise InputError(f"{shorten(cell)} is not a finite number; {HINT}")
        other = _value(cell, "," if style.decimal == "." else ".")
        if other is not None:
            beside = "" if style.witness is None else f", as in {shorten(style.witness)}"
            raise InputError(f"{shorten(cell)} is not a number where '{style.decimal}' stands before fractions{beside}")
        raise InputError(f"{shorten(cell)} is not a number")
    if too_large(value):
        raise InputError(f"{shorten(cell)} is too large")
    return value


def parse_number(text: str) -> Number:
    """Return the number in a word of a file whose format says how numbers are written."""
    return read_number(Plain(text), Style("."))


def _value(cell: str, decimal: str) -> Number | None:
    """Return the number that a cell is in a style of writing; infinity where it is beyond all limits; else None."""
    if "−" in cell:
        cell = cell.replace("−", "-")
    match = _STYLES[decimal].fullmatch(cell)
    if match is None:
        return None
    if match["group"]:
        cell = cell.replace(match["group"], "")
    cell = cell.replace(decimal, ".")
    if cell.lstrip("+-").isdigit():
        # compare lengths first: converting thousands of digits is slow and can be refused by Python itself
        return int(cell) if len(cell) <= 40 else math.inf
    return float(cell)


def too_large(value: Number) -> bool:
    """Tell whether a number is beyond what can be computed with exactly (integers) or safely (reals)."""
    return abs(value) > (LARGEST_INTEGER if isinstance(value, int) else LARGEST_REAL)


def shorten(text: str, limit: int = 40) -> str:
    """Quote a piece of a file for a message of one line."""
    return "'" + visible(text if len(text) <= limit else text[: limit - 1] + "…") + "'"


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
        for part in skipped:
            header = self.rows[0] if self.rows else []
            width = max(map(len, self.rows), default=0)
            # a narrow first row is a title
            columns = [place for place, cell in enumerate(header) if cell == part and len(header) >= width - 1]
            rows = [place for place, row in enumerate(self.rows) if row[:1] == [part] and (place or not columns)]
            place = re.fullmatch(r"(row|line|record|column) (\w+)", part)
            if place and place[1] != "column":
                rows = rows or [index for index, line in enumerate(self.lines) if str(line) == place[2]]
            elif place:
                places = [index for index in range(width) if self.column_place(index) == part]
                columns = columns or [index - width + len(header) for index in places]
            if len(rows) + len(columns) != 1:
                problem = "there is no row and no column" if not rows and not columns else "there are several called"
                raise UsageError(f"{self.name}: {problem} {shorten(part)} ({mention('skip')})")
            if columns:
                from_end = len(header) - columns[0]  # a header may lack its corner
                self.rows = [row[: len(row) - from_end] + row[len(row) - from_end + 1 :] for row in self.rows]
            else:
                del self.rows[rows[0]], self.lines[rows[0]]
            self.notes.append(f"without {shorten(part)}")
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


def column_number(letters: str) -> int:
    """Return the number of a column of a spreadsheet: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def cell_of(value: Any, place: str) -> str:
    """Return the cell of a value that a program holds; raise InputError for what is neither number nor text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if isinstance(value, Plain) else value.strip()
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
