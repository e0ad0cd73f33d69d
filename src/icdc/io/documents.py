"""JSON instances: a bare matrix, an object with named arrays, a list of either, or one of them a line.

An object may say `problem`, `name`, the names of the items (`rows` and `columns`, or the problem's own words:
`cities`, `jobs`, `machines`) and `coordinates` for drawing; a matrix without a name may be called `matrix`.
"""

import json
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ..errors import InputError
from ..problems.contract import Problem
from ..problems.instance import Names
from ..problems.registry import BUILT_IN
from .raw import BARE, Number, RawInstance, reject_duplicates, shorten, to_array, too_large


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


def raw_from_json(text: str, name: str, given: Problem | None = None) -> list[RawInstance]:
    """Return the instances of a JSON file; a problem of your own is `given`, for its words of rows and columns."""
    documents = parse_json(text, name)
    if len(documents) == 1 and isinstance(documents[0], list):
        documents = _instances_of_list(documents[0], name)
    many = len(documents) > 1
    return [_instance(document, f"{name}[{i}]" if many else name, given) for i, document in enumerate(documents)]


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


def _instance(document: Any, name: str, given: Problem | None) -> RawInstance:
    """Return one instance from a matrix or an object."""
    if isinstance(document, list):
        return RawInstance(name, {BARE: _matrix(document, name)})
    if not isinstance(document, dict):
        raise InputError(f"{name}: an instance must be a matrix or an object, got {_kind(document)}")
    problem = document.get("problem")
    if problem is not None and not isinstance(problem, str):
        raise InputError(f"{name}: 'problem' must be a name, got {_kind(problem)}")
    title = document.get("name")
    place = f"{name} ({title})" if isinstance(title, str) and title.isprintable() and title else name
    row_words, column_words = _words_for_items(given)
    about = {"problem", "name", "comment", "solution", *row_words, *column_words}
    arrays = {}
    for key, value in document.items():
        if key not in about and isinstance(value, list):
            arrays[BARE if key == "matrix" else key] = _matrix(value, f"{name}: '{key}'")
    if not arrays:
        raise InputError(f"{name}: the object holds no matrix")
    rows = _names(document, row_words, name)
    columns = _names(document, column_words, name)
    return RawInstance(place, arrays, problem, rows, columns)


def _words_for_items(given: Problem | None) -> tuple[list[str], list[str]]:
    """Return the keys under which an object may name its rows, and its columns where they are other items."""
    problems = list(BUILT_IN.values()) if given is None else [type(given), *BUILT_IN.values()]
    rows = ["rows", *(problem.row_words[1] for problem in problems)]
    columns = ["columns", *(problem.column_words[1] for problem in problems)]
    return rows, [word for word in columns if word not in rows]


def _matrix(value: list[Any], where: str) -> NDArray[Any]:
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
