"""Numbers as people write them, and arrays of them that keep integers exact."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..problems import matrices
from ..problems.matrices import LARGEST_INTEGER, LARGEST_REAL

Number = int | float

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|na|n/a|inf|infinity|∞)", re.IGNORECASE)


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


def number_array(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Check an array of any numeric kind from a binary file; integers stay integers, reals become float64."""
    if array.dtype == bool:
        return array
    if not matrices.is_numeric(array):
        raise InputError(f"{where}: must hold numbers, got {array.dtype}")
    huge = matrices.too_large(array)
    if huge.any():
        raise InputError(f"{where}: {_place(huge)} is too large")
    return matrices.as_stored(array)


def shorten(text: str, limit: int = 40) -> str:
    """Quote a piece of somebody's file for a message of one line."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return "'" + "".join(c if c.isprintable() else "?" for c in text) + "'"


def _place(wrong: NDArray[np.bool_]) -> str:
    """Name the first entry that is wrong, counting from 1 as the other messages do."""
    index = [int(i) + 1 for i in np.argwhere(wrong)[0]]
    if len(index) == 2:
        return f"the value at row {index[0]}, column {index[1]}"
    return f"the value at ({', '.join(map(str, index))})"
