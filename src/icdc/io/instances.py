"""Instances from any file: find the format, find the problem, check, and say clearly what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..problems.contract import Problem
from ..problems.instance import Instance, Names
from ..problems.registry import BUILT_IN, problem_of_file, problems_of_matrix
from .dataset import raw_from_numpy
from .documents import raw_from_json
from .files import STDIN, decode_text, read_bytes
from .raw import BARE, RawInstance
from .tables import raw_from_table
from .tsplib import looks_like_tsplib, raw_from_tsplib

_TSPLIB, _JSON, _TABLES = (".atsp", ".tsp", ".tour"), (".json", ".jsonl"), (".csv", ".tsv")


def read_instances(source: str | Path, problem: Problem | None = None) -> list[Instance]:
    """Read every instance of a file ("-" for standard input).

    Parameters
    ----------
    source : path of a TSPLIB, CSV, TSV, JSON, NPY or NPZ file. An unknown ending is recognised by content.
    problem : what the instances are of; needed only where the file leaves it open.

    Raises
    ------
    InputError
        If the file is not a valid instance; the sentence names the file and the entry.
    UsageError
        If the problem cannot be told from the file and is not given.
    """
    name = "stdin" if str(source) == STDIN else str(source)
    content = read_bytes(source)
    return [_checked(raw, problem) for raw in _raw_instances(content, name, problem)]


def _checked(raw: RawInstance, problem: Problem | None) -> Instance:
    """Decide which problem an instance is of, and check it."""
    problem = _problem_of(raw, problem)
    if BARE in raw.arrays and len(problem.arrays) > 1:
        needed = ", ".join(f"'{name}'" for name in problem.arrays)
        raise InputError(f"{raw.name}: the problem '{problem.name}' needs the arrays {needed}, not one matrix")
    chosen = {}
    for name in problem.arrays:
        if name not in raw.arrays and BARE not in raw.arrays:
            raise InputError(f"{raw.name}: the array '{name}' of the problem '{problem.name}' is missing")
        chosen[name] = raw.arrays.get(name, raw.arrays.get(BARE))
    try:
        checked = problem.check({name: np.asarray(array)[None] for name, array in chosen.items()})
    except InputError as error:
        raise InputError(f"{raw.name}: {error}") from None
    rows, columns = _names(raw, problem, problem.shape(problem.size(checked)))
    return Instance(
        raw.name,
        problem,
        {name: array[0] for name, array in checked.items()},
        rows,
        columns,
        _coordinates(raw, problem, problem.shape(problem.size(checked))[0]),
    )


def _raw_instances(content: bytes, name: str, problem: Problem | None) -> list[RawInstance]:
    """Read by the ending of the name or, where that says nothing, by the beginning of the content."""
    ending = Path(name).suffix.lower()
    if ending in (".npy", ".npz") or content.startswith((b"\x93NUMPY", b"PK\x03\x04")):
        return raw_from_numpy(content, name, problem)
    text = decode_text(content, name)
    known = ending in _TSPLIB + _JSON + _TABLES
    if ending in _JSON or (not known and text.lstrip()[:1] in ("[", "{")):
        return raw_from_json(text, name, problem)
    if ending in _TSPLIB or (not known and looks_like_tsplib(text)):
        return [raw_from_tsplib(text, name)]
    return [raw_from_table(text, name)]


def _problem_of(raw: RawInstance, asked: Problem | None) -> Problem:
    """Return the problem that was asked for, or that the file is certain to be."""
    if raw.problem is not None:
        if asked is not None and raw.problem == asked.name:
            return asked
        return problem_of_file(raw.problem, asked, raw.name)
    if asked is not None:
        if raw.blank_diagonal and not asked.feature_sizes.same_items:
            raise InputError(f"{raw.name}: the diagonal is blank, but '{asked.name}' needs every entry")
        return asked
    if BARE in raw.arrays:
        return _problem_of_matrix(raw)
    fitting = [cls for cls in BUILT_IN.values() if set(cls.arrays) <= set(raw.arrays)]
    if len(fitting) != 1:
        found = ", ".join(f"'{name}'" for name in raw.arrays)
        raise UsageError(f"{raw.name}: cannot tell the problem from the arrays {found}; give --problem")
    return fitting[0]()


def _problem_of_matrix(raw: RawInstance) -> Problem:
    """Return the problem of a nameless matrix, where there is no doubt."""
    shape = raw.arrays[BARE].shape
    same_items = raw.blank_diagonal or (raw.rows is not None and raw.rows == raw.columns)
    fitting = problems_of_matrix(shape, same_items)
    if len(fitting) == 1:
        return fitting[0]()
    if not fitting:  # every matrix fits some problem that ships
        raise InputError(f"{raw.name}: an instance must be a matrix, got an array with {len(shape)} axes")
    square = "square " if shape[0] == shape[1] else ""
    raise UsageError(
        f"{raw.name}: a {square}matrix ({shape[0]} × {shape[1]}) may be {' or '.join(c.entries for c in fitting)}; "
        f"say which with {' or '.join(f'--problem {cls.name}' for cls in fitting)}"
    )


def _names(raw: RawInstance, problem: Problem, shape: tuple[int, int]) -> tuple[Names | None, Names | None]:
    """Return the names of rows and columns, checked against the solution's shape."""
    rows, columns = raw.rows, raw.columns
    if problem.feature_sizes.same_items:
        if rows is not None and columns is not None and rows != columns and set(rows) == set(columns):
            place = next(i for i, (row, column) in enumerate(zip(rows, columns, strict=True), 1) if row != column)
            raise InputError(
                f"{raw.name}: rows and columns must be in the same order, "
                f"but row {place} is '{rows[place - 1]}' and column {place} is '{columns[place - 1]}'"
            )
        rows = columns = rows if rows is not None else columns
    for names, count, what in ((rows, shape[0], "rows"), (columns, shape[1], "columns")):
        if names is not None and len(names) != count:
            raise InputError(f"{raw.name}: there are {len(names)} names for {count} {what}")
    return rows, columns


def _coordinates(raw: RawInstance, problem: Problem, rows: int) -> NDArray[np.float64] | None:
    """Return the points of the items, where the file has them and the problem is about one set of items."""
    points: NDArray[Any] | None = raw.arrays.get("coordinates")
    if points is None or not problem.feature_sizes.same_items:
        return None
    if points.shape != (rows, 2):
        raise InputError(f"{raw.name}: 'coordinates' must be {rows} × 2, got {' × '.join(map(str, points.shape))}")
    return points.astype(np.float64)
