"""JSON instances: a bare matrix, an object with named arrays, a list of either, or one of them a line.

An object may say `problem`, `name`, the names of the items (`rows` and `columns`, or the problem's own words:
`cities`, `jobs`, `machines`) and `coordinates` for drawing; a matrix without a name may be called `matrix`.
"""

import json
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ..errors import InputError
from .cells import Number, shorten, to_array, too_large
from .drafts import BARE, Draft
from .tables import Names, reject_duplicates

_ROW_WORDS = ("rows", "jobs", "cities")
_COLUMN_WORDS = ("columns", "machines")
_WORDS = frozenset(["problem", "name", "comment", "solution", *_ROW_WORDS, *_COLUMN_WORDS])


def parse_json(text: str, name: str) -> list[Any]:
    """Return the documents of a JSON file, or of a file with one document a line."""
    if not text.strip():
        raise InputError(f"{name}: the file is empty")
    try:
        return [json.loads(text)]
    except RecursionError:
        raise InputError(f"{name}: the JSON is nested too deeply") from None
    except ValueError as error:
        first = error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    documents = []
    for number, line in lines:
        try:
            documents.append(json.loads(line))
        except RecursionError:
            raise InputError(f"{name}: line {number}: the JSON is nested too deeply") from None
        except ValueError as error:
            # where even the first line is not a document, the file was meant as one document
            place = first if not documents else error
            line_number = getattr(first, "lineno", 1) if not documents else number
            raise InputError(f"{name}: line {line_number}: this is not JSON ({_reason(place)})") from None
    return documents


def drafts_of_json(text: str, name: str) -> list[Draft]:
    """Return the instances of a JSON file."""
    documents = parse_json(text, name)
    if len(documents) == 1 and isinstance(documents[0], list):
        documents = _instances_of_list(documents[0], name)
    many = len(documents) > 1
    return [_draft(document, f"{name}[{i}]" if many else name) for i, document in enumerate(documents)]


def _instances_of_list(items: list[Any], name: str) -> list[Any]:
    """Tell a matrix from a list of instances."""
    if not items:
        raise InputError(f"{name}: the list is empty")
    if all(isinstance(item, dict) for item in items):
        return items
    if all(_is_matrix(item) for item in items):
        return items
    return [items]


def _is_matrix(item: Any) -> bool:
    return isinstance(item, list) and bool(item) and isinstance(item[0], list)


def _draft(document: Any, name: str) -> Draft:
    """Return one instance from a matrix or an object."""
    if isinstance(document, list):
        return Draft(name, {BARE: matrix_of_lists(document, name)})
    if not isinstance(document, dict):
        raise InputError(f"{name}: an instance must be a matrix or an object, got {_kind(document)}")
    problem = document.get("problem")
    if problem is not None and not isinstance(problem, str):
        raise InputError(f"{name}: 'problem' must be a name, got {_kind(problem)}")
    title = document.get("name")
    place = f"{name} ({title})" if isinstance(title, str) and title.isprintable() and title else name
    arrays = {}
    for key, value in document.items():
        if key not in _WORDS and isinstance(value, list):
            arrays[BARE if key == "matrix" else key] = matrix_of_lists(value, f"{name}: '{key}'")
    if not arrays:
        raise InputError(f"{name}: the object holds no matrix")
    rows = _names(document, _ROW_WORDS, name)
    columns = _names(document, _COLUMN_WORDS, name)
    return Draft(place, arrays, problem, rows, columns)


def matrix_of_lists(value: list[Any], where: str) -> NDArray[Any]:
    """Return an array of one or two axes from lists of numbers; integers stay exact."""
    if not value:
        raise InputError(f"{where}: the matrix is empty")
    if not isinstance(value[0], list):
        return to_array([[_number(item, f"{where}: entry {i}") for i, item in enumerate(value, 1)]]).reshape(-1)
    rows: list[list[Number]] = []
    for r, row in enumerate(value, 1):
        if not isinstance(row, list):
            raise InputError(f"{where}: row {r} must be a list of numbers, got {_kind(row)}")
        if len(row) != len(value[0]):
            raise InputError(f"{where}: row {r} has {len(row)} entries where row 1 has {len(value[0])}")
        rows.append([_number(item, f"{where}: row {r}, column {c}") for c, item in enumerate(row, 1)])
    return to_array(rows)


def _number(item: Any, where: str) -> Number:
    if isinstance(item, bool) or not isinstance(item, int | float):
        raise InputError(f"{where}: {_kind(item)} is not a number")
    if item != item or item in (float("inf"), float("-inf")):
        raise InputError(f"{where}: the number is not finite")
    if too_large(item):
        raise InputError(f"{where}: the number is too large")
    return item


def _names(document: dict[str, Any], words: Sequence[str], where: str) -> Names | None:
    """Return the names of the items, under whichever word the object has them."""
    for word in words:
        value = document.get(word)
        if isinstance(value, list):
            names = tuple(str(item) for item in value if isinstance(item, str | int))
            if len(names) != len(value):
                raise InputError(f"{where}: '{word}' must be a list of names")
            reject_duplicates(names, f"{where}: in '{word}' the name")
            return names
    return None


def _kind(value: Any) -> str:
    """Say what a JSON value is, in a word."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "a number"


def _reason(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else "a number has too many digits"
