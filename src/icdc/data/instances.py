"""Instances from any file: find the format, find the problem, check, and say clearly what is wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..files import STDIN, decode_text, read_bytes
from ..problem import Arrays, Problem
from ..problems import BUILT_IN, get_problem, problem_of_file
from .binary import drafts_of_numpy
from .documents import drafts_of_json
from .drafts import BARE, Draft, draft_of_table, draft_of_tsplib
from .tables import Names
from .tsplib import looks_like_tsplib


@dataclass(frozen=True)
class Instance:
    """One checked instance.

    name : where it came from: the file, with the instance's number in brackets where the file has several.
    problem : what it is an instance of.
    arrays : the problem's arrays, without a batch axis.
    rows, columns : names of the items, where the file gave any.
    coordinates : (n, 2) float64, where the file gave any; used to draw.
    """

    name: str
    problem: Problem
    arrays: Arrays
    rows: Names | None = None
    columns: Names | None = None
    coordinates: NDArray[np.float64] | None = None

    def batch(self) -> Arrays:
        """Return the arrays with a leading axis of one."""
        return {name: array[None] for name, array in self.arrays.items()}

    @property
    def integral(self) -> bool:
        """Whether every array holds integers, so that costs are exact."""
        return all(np.issubdtype(array.dtype, np.integer) for array in self.arrays.values())


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
    return [resolve(draft, problem) for draft in _drafts(content, name, problem)]


def resolve(draft: Draft, problem: Problem | None = None) -> Instance:
    """Decide which problem a draft is of, and check it."""
    problem = _problem_of(draft, problem)
    if BARE in draft.arrays and len(problem.arrays) > 1:
        needed = ", ".join(f"'{name}'" for name in problem.arrays)
        raise InputError(f"{draft.name}: the problem '{problem.name}' needs the arrays {needed}, not one matrix")
    chosen = {}
    for name in problem.arrays:
        if name not in draft.arrays and BARE not in draft.arrays:
            raise InputError(f"{draft.name}: the array '{name}' of the problem '{problem.name}' is missing")
        chosen[name] = draft.arrays.get(name, draft.arrays.get(BARE))
    try:
        checked = problem.check({name: np.asarray(array)[None] for name, array in chosen.items()})
    except InputError as error:
        raise InputError(f"{draft.name}: {error}") from None
    rows, columns = _names(draft, problem, problem.shape(problem.size(checked)))
    return Instance(
        draft.name,
        problem,
        {name: array[0] for name, array in checked.items()},
        rows,
        columns,
        _coordinates(draft, problem, problem.shape(problem.size(checked))[0]),
    )


def _drafts(content: bytes, name: str, problem: Problem | None) -> list[Draft]:
    """Read by the ending of the name or, where that says nothing, by the beginning of the content."""
    ending = Path(name).suffix.lower()
    if ending in (".npy", ".npz") or content.startswith((b"\x93NUMPY", b"PK\x03\x04")):
        return drafts_of_numpy(content, name, problem)
    text = decode_text(content, name)
    readers: dict[str, Callable[[str, str], list[Draft]]] = {
        ".atsp": draft_of_tsplib,
        ".tsp": draft_of_tsplib,
        ".tour": draft_of_tsplib,
        ".json": drafts_of_json,
        ".jsonl": drafts_of_json,
        ".csv": draft_of_table,
        ".tsv": draft_of_table,
    }
    if ending in readers:
        return readers[ending](text, name)
    if text.lstrip()[:1] in ("[", "{"):
        return drafts_of_json(text, name)
    if looks_like_tsplib(text):
        return draft_of_tsplib(text, name)
    return draft_of_table(text, name)


def _problem_of(draft: Draft, asked: Problem | None) -> Problem:
    """Return the problem that was asked for, or that the file is certain to be."""
    if draft.problem is not None:
        if asked is not None and draft.problem == asked.name:
            return asked
        return problem_of_file(draft.problem, asked, draft.name)
    if asked is not None:
        if draft.blank_diagonal and not asked.feature_sizes.same_items:
            raise InputError(f"{draft.name}: the diagonal is blank, but '{asked.name}' needs every entry")
        return asked
    if BARE in draft.arrays:
        return get_problem(_guess(draft))
    fitting = [cls for cls in BUILT_IN.values() if set(cls.arrays) <= set(draft.arrays)]
    if len(fitting) != 1:
        found = ", ".join(f"'{name}'" for name in draft.arrays)
        raise UsageError(f"{draft.name}: cannot tell the problem from the arrays {found}; give --problem")
    return fitting[0]()


def _guess(draft: Draft) -> str:
    """Name the problem of a bare matrix, where there is no doubt."""
    matrix = draft.arrays[BARE]
    if draft.blank_diagonal or (draft.rows is not None and draft.rows == draft.columns):
        return "atsp"  # from places to the same places
    if matrix.ndim == 2 and matrix.shape[0] != matrix.shape[1]:
        return "pmsp"
    if matrix.ndim != 2:
        raise InputError(f"{draft.name}: an instance must be a matrix, got an array with {matrix.ndim} axes")
    size = f"{matrix.shape[0]} × {matrix.shape[1]}"
    raise UsageError(
        f"{draft.name}: a square matrix ({size}) may be distances or processing times; "
        "say which with --problem atsp or --problem pmsp"
    )


def _names(draft: Draft, problem: Problem, shape: tuple[int, int]) -> tuple[Names | None, Names | None]:
    """Return the names of rows and columns, checked against the solution's shape."""
    rows, columns = draft.rows, draft.columns
    if problem.feature_sizes.same_items:
        if rows is not None and columns is not None and rows != columns and set(rows) == set(columns):
            place = next(i for i, (row, column) in enumerate(zip(rows, columns, strict=True), 1) if row != column)
            raise InputError(
                f"{draft.name}: rows and columns must be in the same order, "
                f"but row {place} is '{rows[place - 1]}' and column {place} is '{columns[place - 1]}'"
            )
        rows = columns = rows if rows is not None else columns
    for names, count, what in ((rows, shape[0], "rows"), (columns, shape[1], "columns")):
        if names is not None and len(names) != count:
            raise InputError(f"{draft.name}: there are {len(names)} names for {count} {what}")
    return rows, columns


def _coordinates(draft: Draft, problem: Problem, rows: int) -> NDArray[np.float64] | None:
    """Return the points of the items, where the file has them and the problem is about one set of items."""
    points: NDArray[Any] | None = draft.arrays.get("coordinates")
    if points is None or not problem.feature_sizes.same_items:
        return None
    if points.shape != (rows, 2):
        raise InputError(f"{draft.name}: 'coordinates' must be {rows} × 2, got {' × '.join(map(str, points.shape))}")
    return points.astype(np.float64)
