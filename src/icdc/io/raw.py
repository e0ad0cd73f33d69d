"""What a file says, before anybody has decided which problem it is: numbers as people write them, and instances."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..problems.instance import Names
from ..problems.matrices import LARGEST_INTEGER, LARGEST_REAL

Number = int | float

BARE = ""
"""The name of an array that came without one: just a matrix."""

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|na|n/a|inf|infinity|∞)", re.IGNORECASE)


@dataclass(frozen=True)
class RawInstance:
    """One instance as it was found.

    name : where it came from, for messages and answers.
    arrays : named arrays of one instance, or one array named `BARE`; there may be more than a problem needs.
    problem : the problem's name, where the file says it.
    rows, columns : names of the items, where the file has any.
    blank_diagonal : the diagonal was left out, as only a matrix from items to the same items has it.
    """

    name: str
    arrays: dict[str, NDArray[Any]]
    problem: str | None = None
    rows: Names | None = None
    columns: Names | None = None
    blank_diagonal: bool = False


def looks_numeric(text: str) -> bool:
    """Tell whether a cell is meant as a number, valid or not, so that it is never taken for a label."""
    return text == "" or bool(_REAL.fullmatch(text) or _NOT_FINITE.fullmatch(text))


def parse_number(text: str) -> Number:
    """Return an int or a float; raise InputError with the reason (the caller knows the place) otherwise."""
    if _INTEGER.fullmatch(text):
        # compare lengths first: converting thousands of digits is slow and can be refused by Python itself
        value: Number = int(text) if len(text) <= 40 else math.inf
    elif _REAL.fullmatch(text):
        value = float(text)
    elif text == "":
        raise InputError("the cell is empty")
    elif _NOT_FINITE.fullmatch(text):
        raise InputError(f"'{text}' is not a finite number")
    else:
        raise InputError(f"{shorten(text)} is not a number")
    if too_large(value):
        raise InputError(f"{shorten(text)} is too large")
    return value


def too_large(value: Number) -> bool:
    """Tell whether a number is beyond what can be computed with exactly (integers) or safely (reals)."""
    return abs(value) > (LARGEST_INTEGER if isinstance(value, int) else LARGEST_REAL)


def to_array(rows: Sequence[Sequence[Number]]) -> NDArray[Any]:
    """Return int64 (rows, columns) if every number is an int, float64 otherwise."""
    exact = all(isinstance(value, int) for row in rows for value in row)
    return np.array(rows, dtype=np.int64 if exact else np.float64)


def shorten(text: str, limit: int = 40) -> str:
    """Quote a piece of somebody's file for a message of one line."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return "'" + "".join(c if c.isprintable() else "?" for c in text) + "'"


def reject_duplicates(names: Sequence[str], what: str) -> None:
    """Raise InputError if a name occurs twice, since an answer could not be read back."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{what} {shorten(name)} occurs twice")
        seen.add(name)
