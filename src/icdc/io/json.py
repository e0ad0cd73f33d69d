"""JSON instances: a bare matrix, an object with named arrays, a list of either, or one of them a line.

An object may say `problem`, `name`, the names of the items (`rows` and `columns`, or the problem's own words:
`cities`, `jobs`, `machines`), `coordinates` for drawing and `forbidden` pairs; a matrix without a name may be called
`matrix`. Tables as programs export them are read, too: a list of records, or an object of `columns`, `index` and
`data`. A null is a forbidden pair; numbers may be written as strings.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..options import mention
from ..problems import BUILT_IN, SHIPPED
from ..problems.base import Problem
from ..problems.instance import BARE, Names, RawInstance
from .cells import (
    DEFAULTS,
    Grid,
    Number,
    ReadOptions,
    cell_of,
    is_word,
    reject_duplicates,
    shorten,
    tidy,
    to_array,
    too_large,
)
from .files import too_much
from .points import raw_from_points
from .table import raw_from_grid

LARGEST_DOCUMENT = 2**26
"""Characters of the largest JSON that is read: its parts take many times as much memory."""
FORBIDDEN = "forbidden"
"""The entry of an object or an archive that marks forbidden pairs."""


def parse_json(text: str, name: str) -> list[Any]:
    """Return the documents of a JSON file, or of a file with one document a line."""
    if not text.strip():
        raise InputError(f"{name}: the file is empty")
    if len(text) > LARGEST_DOCUMENT:
        raise InputError(f"{name}: {too_much(LARGEST_DOCUMENT)} of JSON; write the matrix as .npy")
    try:
        return [_loads(text)]
    except RecursionError:
        raise InputError(f"{name}: the JSON is nested too deeply") from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except ValueError as error:
        first = error
    # a text may hold other line breaks than this one, as it may in any JSON
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    documents = []
    for number, line in lines:
        try:
            documents.append(_loads(line))
        except RecursionError:
            raise InputError(f"{name}: line {number}: the JSON is nested too deeply") from None
        except InputError as error:
            raise InputError(f"{name}: line {number}: {error}") from None
        except ValueError as error:
            # where even the first line is not a document, the file was meant as one document
            place = first if not documents else error
            line_number = getattr(first, "lineno", 1) if not documents else number
            raise InputError(f"{name}: line {line_number}: this is not JSON ({_reason(place)})") from None
    return documents


def raw_from_json(
    text: str, name: str, options: ReadOptions = DEFAULTS, own: Problem | None = None
) -> list[RawInstance]:
    """Return the instances of a JSON file; `own` is a problem of your own, for its words of rows and columns."""
    documents = parse_json(text, name)
    listed = len(documents) == 1 and isinstance(documents[0], list)
    if listed:
        documents = _instances_of_list(documents[0], name)
    if (listed or len(documents) > 1) and all(_is_record(document) for document in documents):
        return [raw_from_grid(_records(documents, name), options, own)]
    many = len(documents) > 1
    return [_instance(document, f"{name}[{i}]" if many else name, options, own) for i, document in enumerate(documents)]


def _loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_Constant)


class _Constant(float):
    """`NaN` and `Infinity` as they are written; an infinity that is none of these is a number with too many digits."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, refusing one that says a thing twice."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        raise InputError(f"the entry {shorten(next(k for k in keys if keys.count(k) > 1))} occurs twice in an object")
    return entries


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


def _is_record(item: Any) -> bool:
    """Tell whether an object is a row of a table: values under the names of its columns."""
    if not isinstance(item, dict) or not item or "problem" in item:
        return False
    return not any(isinstance(value, list | dict) for value in item.values())


def _records(records: list[dict[str, Any]], name: str) -> Grid:
    """Return the table that records are the rows of."""
    columns = list(records[0])
    rows = [[tidy(column).strip() for column in columns]]
    for number, record in enumerate(records, 1):
        if set(record) != set(columns):
            other = next(key for key in (*columns, *record) if (key in record) != (key in columns))
            word = "also has" if other in record else "lacks"
            raise InputError(f"{name}: record {number} {word} {shorten(other)}, unlike record 1")
        rows.append([cell_of(record[key], f"{name}: record {number}, {shorten(key)}") for key in columns])
    return Grid(name, rows, list(range(len(rows))), "record", header=True)


def _split_table(document: dict[str, Any], name: str) -> Grid:
    """Return the table of an object of `columns`, `data` and, perhaps, `index`."""
    columns, data = document["columns"], document["data"]
    index = document.get("index")
    if isinstance(index, list) and index == list(range(len(index))):
        index = None  # it only counts
    cells = _grid(data, name).rows
    if len(columns) != len(data[0]):
        raise InputError(f"{name}: 'columns' has {len(columns)} names where row 1 of 'data' has {len(data[0])} entries")
    rows = [[cell_of(column, f"{name}: 'columns'") for column in columns], *cells]
    if isinstance(index, list):
        if len(index) != len(data):
            raise InputError(f"{name}: 'index' has {len(index)} entries for {len(data)} rows of 'data'")
        rows = [["", *rows[0]]] + [
            [cell_of(label, f"{name}: 'index'"), *row] for label, row in zip(index, rows[1:], strict=True)
        ]
    labels = True if isinstance(index, list) else None
    return Grid(name, rows, list(range(len(rows))), "row", "entries", header=True, labels=labels)


def _instance(document: Any, name: str, options: ReadOptions, own: Problem | None) -> RawInstance:
    """Return one instance from a matrix or an object."""
    if isinstance(document, list):
        return _bare(document, name, options, own)
    if not isinstance(document, dict):
        raise InputError(f"{name}: an instance must be a matrix or an object, got {_kind(document)}")
    if isinstance(document.get("columns"), list) and _is_matrix(document.get("data")) and "problem" not in document:
        return raw_from_grid(_split_table(document, name), options, own)
    return raw_from_mapping(document, name, options, own, _array_of)


def _array_of(
    value: Any, where: str, options: ReadOptions, own: Problem | None
) -> tuple[NDArray[Any], NDArray[np.bool_] | None] | None:
    return _matrix(value, where, options, own) if isinstance(value, list) else None


ReadArray = Callable[[Any, str, ReadOptions, Problem | None], tuple[NDArray[Any], NDArray[np.bool_] | None] | None]
"""Reads the value of a key: an array and the entries of it that are forbidden pairs; None for what is no array."""


def raw_from_mapping(
    document: Mapping[str, Any],
    name: str,
    options: ReadOptions,
    own: Problem | None,
    read: ReadArray,
    only_known: bool = False,
) -> RawInstance:
    """Return an instance of named arrays and what is said about them.

    only_known : a key that means nothing is refused; otherwise only one that seems to be misspelt.
    """
    problem = document.get("problem")
    if problem is not None and not isinstance(problem, str):
        raise InputError(f"{name}: 'problem' must be a name, got {_kind(problem)}")
    title = document.get("name")
    place = f"{name} ({title})" if isinstance(title, str) and title.isprintable() and title else name
    row_words, column_words = _words_for_items(own)
    about = {"problem", "name", "comment", "solution", *row_words, *column_words}
    _refuse_unknown(name, document, {*about, *_array_names(own)}, only_known)
    arrays, forbidden, others = {}, {}, []
    for key, value in document.items():
        if key in about or value is None:
            continue
        array = read(value, f"{name}: '{key}'", options, own)
        if array is None:
            others.append(key)
            continue
        arrays[BARE if key == "matrix" else key], marked = array
        if marked is not None:
            forbidden[BARE if key == "matrix" else key] = marked
    if not arrays:
        nested = any(isinstance(value, dict) for value in document.values())
        hint = " (a table is written as a list of records, or as columns, index and data)" if nested else ""
        raise InputError(f"{name}: the object holds no matrix{hint}")
    rows = _names(document, row_words, name)
    columns = _names(document, column_words, name)
    if options.metric is not None:
        if "coordinates" not in arrays:
            raise InputError(
                f"{name}: {mention('metric')} takes distances between 'coordinates', which the object does not have"
            )
        return raw_from_points(
            arrays["coordinates"], forbidden.get("coordinates"), None, options.metric, place, rows, ()
        )
    if document.get(FORBIDDEN) is not None and FORBIDDEN not in arrays:
        raise InputError(f"{name}: '{FORBIDDEN}' must be a matrix of true and false, got {_kind(document[FORBIDDEN])}")
    return RawInstance(place, arrays, problem, rows, columns, forbidden=forbidden or None, unused=tuple(others))


def _array_names(own: Problem | None) -> set[str]:
    """Return the keys under which arrays are looked for."""
    problems = [*BUILT_IN.values(), *SHIPPED.values()] if own is None else [type(own)]
    return {"matrix", "coordinates", FORBIDDEN, *(array for problem in problems for array in problem.arrays)}


def _refuse_unknown(name: str, document: Mapping[str, Any], keys: set[str], only_known: bool) -> None:
    """Refuse a key that looks like a misspelt known key, or, with `only_known`, any unknown key."""
    for key in document:
        if key in keys:
            continue
        near = get_close_matches(key.casefold(), sorted(keys if only_known else keys - set(document)), 1, 0.8)
        if near or only_known:
            choices = "known are " + ", ".join(f"'{word}'" for word in sorted(keys))
            raise InputError(f"{name}: {shorten(key)} is not known; " + (f"'{near[0]}' is" if near else choices))


def _words_for_items(own: Problem | None) -> tuple[list[str], list[str]]:
    """Return the keys under which an object may name its rows, and its columns where they are other items."""
    problems = list(BUILT_IN.values()) if own is None else [type(own), *BUILT_IN.values()]
    rows = ["rows", *(problem.row_words[1] for problem in problems)]
    columns = ["columns", *(problem.column_words[1] for problem in problems)]
    return rows, [word for word in columns if word not in rows]


def _bare(value: list[Any], name: str, options: ReadOptions, own: Problem | None) -> RawInstance:
    """Return the instance of a matrix without a name, which may have names of its items in its first row and column."""
    texts = [cell.strip() for row in value if isinstance(row, list) for cell in row if isinstance(cell, str)]
    if any(map(is_word, texts)) or options.metric is not None or options.labels:
        return raw_from_grid(_grid(value, name), options, own)
    if not _is_matrix(value):
        return RawInstance(name, {BARE: _vector(value, name)})
    if texts and all(value) and (_are_texts(row[:1] for row in value) or _are_texts(value[:1])):
        return raw_from_grid(_grid(value, name), options, own)
    return _lists(value, name, options, own)


def _are_texts(rows: Iterable[Any]) -> bool:
    """Tell whether all cells are texts: beside numbers they may be names, even if they are digits."""
    return all(isinstance(cell, str) for row in rows for cell in row)


def _lists(value: list[Any], where: str, options: ReadOptions, own: Problem | None) -> RawInstance:
    """Return the matrix of lists of numbers, exact integers; those that are no plain numbers are read as cells."""
    grid = _grid(value, where)
    plain = all(type(cell) is int or (type(cell) is float and math.isfinite(cell)) for row in value for cell in row)
    if not plain or len({len(row) for row in value}) > 1:
        grid.header = grid.labels = False
        return raw_from_grid(grid, options, own)
    for r, row in enumerate(value, 1):
        for c, cell in enumerate(row, 1):
            if too_large(cell):
                raise InputError(f"{where}: row {r}, column {c}: the number is too large")
    return RawInstance(where, {BARE: to_array(value)})


def _matrix(
    value: list[Any], where: str, options: ReadOptions, own: Problem | None
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return an array of one or two axes, and which of its entries are forbidden pairs."""
    if not value:
        raise InputError(f"{where}: the matrix is empty")
    if not isinstance(value[0], list):
        return _vector(value, where), None
    if where.endswith(f"'{FORBIDDEN}'") and all(
        type(cell) is bool or cell in (0, 1) for row in value if isinstance(row, list) for cell in row
    ):
        return _mask(value, where), None
    raw = _lists(value, where, ReadOptions(decimal=options.decimal, nan_forbidden=options.nan_forbidden), own)
    return raw.arrays[BARE], None if raw.forbidden is None else raw.forbidden[BARE]


def _mask(value: list[Any], where: str) -> NDArray[np.bool_]:
    """Return a matrix of true and false, which may be written as 1 and 0."""
    for r, row in enumerate(value, 1):
        if not isinstance(row, list) or len(row) != len(value[0]):
            raise InputError(f"{where}: row {r} must be a list of {len(value[0])} entries, as row 1")
    mask = np.array(value)
    if mask.shape[1] == 2 and mask.dtype != bool:
        raise InputError(f"{where} may be a mask or a list of pairs; write true and false for each pair")
    return mask.astype(bool)


def _grid(rows: list[Any], where: str) -> Grid:
    """Return the cells of lists of JSON values."""
    for r, row in enumerate(rows, 1):
        if not isinstance(row, list):
            raise InputError(f"{where}: row {r} must be a list of numbers, got {_kind(row)}")
    if not any(rows):
        raise InputError(f"{where}: the matrix is empty")
    cells = [_cells(row, number, where) for number, row in enumerate(rows, 1)]
    return Grid(where, cells, list(range(1, len(rows) + 1)), "row", "entries")


def _cells(row: list[Any], number: int, where: str) -> list[str]:
    """Return the cells of a row of JSON values."""
    cells = []
    for c, value in enumerate(row, 1):
        if isinstance(value, list | dict):
            raise InputError(f"{where}: row {number}, column {c}: {_kind(value)} is not a number")
        if type(value) is float and math.isinf(value):
            raise InputError(f"{where}: row {number}, column {c}: the number is too large")
        cells.append(cell_of(value, f"{where}: row {number}, column {c}"))
    return cells


def _vector(value: list[Any], where: str) -> NDArray[Any]:
    """Return a list of numbers as an array of one axis."""
    numbers: list[Number] = []
    for i, item in enumerate(value, 1):
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise InputError(f"{where}: entry {i}: {_kind(item)} is not a number")
        if isinstance(item, float) and not math.isfinite(item):
            raise InputError(f"{where}: entry {i}: the number is not finite")
        if too_large(item):
            raise InputError(f"{where}: entry {i}: the number is too large")
        numbers.append(item)
    return to_array([numbers]).reshape(-1)


def _names(document: Mapping[str, Any], words: Sequence[str], where: str) -> Names | None:
    """Return the names of the items, under whichever word the object has them."""
    for word in words:
        value = document.get(word)
        if value is not None and type(value) is not int:  # which only counts them
            listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
            items = list(value) if listed else [None]
            names = tuple(tidy(str(item)) for item in items if _is_name(item))
            if len(names) != len(items):
                raise InputError(f"{where}: '{word}' must be a list of names")
            reject_duplicates(names, f"{where}: in '{word}' the name")
            return names
    return None


def _is_name(item: Any) -> bool:
    return isinstance(item, str | int | np.integer) and not isinstance(item, bool | np.timedelta64)


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
