"""Numbers as people write them: decimal points and commas, groups of thousands, and cells that are no numbers."""

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import InputError, UsageError, visible
from ..options import mention
from ..problems.arrays import LARGEST_INTEGER, LARGEST_REAL

Number = int | float

_GROUPS = " \u00a0\u2007\u2009\u202f'’"  # blanks of several widths and apostrophes group thousands in either style


def _pattern(decimal: str, group: str) -> re.Pattern[str]:
    whole = rf"\d+|[1-9]\d{{0,2}}(?P<group>[{_GROUPS}{re.escape(group)}])\d{{3}}(?:(?P=group)\d{{3}})*"
    mark = re.escape(decimal)
    return re.compile(rf"[+-]?(?:(?:{whole})(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?", re.ASCII)


_STYLES = {".": _pattern(".", ","), ",": _pattern(",", ".")}
_FORBIDDEN = frozenset(["", "-", "--", "–", "—", "x", "inf", "+inf", "infinity", "+infinity", "∞", "null", "none"])
_MISSING = frozenset(["nan", "+nan", "-nan", "na", "n/a", "#n/a", "nil", "-inf", "-infinity", "-∞"])
_WRITTEN = frozenset(["x", "null", "none", "inf", "infinity"])  # marks that may just as well be somebody's name

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
    """Tell whether a cell says that nobody knows its number."""
    return cell.casefold() in _MISSING


def is_number(cell: str) -> bool:
    """Tell whether a cell is a number in some style of writing."""
    if cell.isdigit() and cell.isascii():
        return True
    return any(_value(cell, decimal) is not None for decimal in _STYLES)


def is_word(cell: str) -> bool:
    """Tell whether a cell is neither a number nor a mark in place of one."""
    return not (is_forbidden(cell) or is_missing(cell) or is_number(cell))


def are_names(cells: Iterable[str]) -> bool:
    """Tell whether all cells are words, one of them beyond doubt ('x' may be a mark as well as a name)."""
    cells = list(cells)
    return any(map(is_word, cells)) and all(is_word(cell) or cell.casefold() in _WRITTEN for cell in cells)


def style_of(cells: Iterable[tuple[str, str]], separator: str, asked: str | None) -> Style:
    """Decide which mark stands before fractions, from cells with their places.

    Cells that make sense in one style only decide. Without any, commas group thousands where they separate cells,
    too, and points stand before fractions there and where a program wrote the numbers. What is left is refused, with
    the option that decides: tabs and semicolons are what spreadsheets put between numbers of all countries.

    separator : between the cells of the file, "" where there is none, or only blanks.
    asked : the mark that was asked for, if one was.
    """
    if asked is not None:
        return Style(asked)
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
    """Quote a piece of somebody's file for a message of one line."""
    return "'" + visible(text if len(text) <= limit else text[: limit - 1] + "…") + "'"
