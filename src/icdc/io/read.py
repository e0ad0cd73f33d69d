"""Instances from any file: find the format, find the problem, check, and say clearly what is wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..options import mention
from ..problems import BUILT_IN, problem_of_file, problems_of_matrix
from ..problems.arrays import without_infinity
from ..problems.base import Problem
from ..problems.forbidden import huge_numbers, may_forbid, with_stand_ins
from ..problems.instance import BARE, Instance, Names, RawInstance
from ..problems.present import counted
from .cells import DEFAULTS, HINT, ReadOptions, shorten
from .csv import raw_from_table
from .datasets import members_of, raw_from_numpy
from .files import STDIN, decoded, read_bytes, unpacked
from .json import FORBIDDEN, raw_from_json
from .points import raw_from_points
from .table import raw_from_grid
from .tsplib import looks_like_tsplib, raw_from_tsplib
from .workbook import grid_from_workbook, is_workbook

_TSPLIB, _JSON, _TABLES = (".atsp", ".tsp", ".tour"), (".json", ".jsonl"), (".csv", ".tsv")
_OLD_WORKBOOK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def read_instances(
    source: str | Path, problem: Problem | None = None, options: ReadOptions = DEFAULTS
) -> list[Instance]:
    """Read every instance of a file ("-" for standard input).

    Parameters
    ----------
    source : path of a TSPLIB, CSV, TSV, JSON, XLSX, NPY or NPZ file, any of them packed by gzip or not. An unknown
        ending is recognised by content.
    problem : what the instances are of; needed only where the file leaves it open.
    options : answers to whatever else a file may leave open.

    Raises
    ------
    InputError
        If the file is not a valid instance; the sentence names the file and the entry.
    UsageError
        If the file leaves open what is meant; the sentence names the option that decides.
    """
    return instances_of(read_bytes(source), "stdin" if str(source) == STDIN else str(source), problem, options)


def instances_of(
    content: bytes,
    name: str,
    problem: Problem | None = None,
    options: ReadOptions = DEFAULTS,
    *,
    ending: str | None = None,
) -> list[Instance]:
    """Read every instance of a file's content; nothing else is looked at. Otherwise like `read_instances`.

    name : the word for it in messages.
    ending : of files of its format, such as ".csv"; "" recognises it by content, None goes by the name.
    """
    return [instance_of(raw, problem, options) for raw in _raw_instances(content, name, problem, options, ending)]


def instance_of(raw: RawInstance, problem: Problem | None, options: ReadOptions = DEFAULTS) -> Instance:
    """Decide which problem an instance is of, and check it."""
    if options.skip and not raw.is_table:
        raise UsageError(
            f"{raw.name}: only tables of cells (.csv, .tsv, .xlsx, records, frames) have parts to {mention('skip')}"
        )
    raw = _turned(raw, options)
    problem = _problem_of(raw, problem)
    try:
        raw = problem.complete(raw)
    except InputError as error:
        raise InputError(f"{raw.name}: {error}") from None
    if BARE in raw.arrays and len(problem.arrays) > 1:
        needed = ", ".join(f"'{name}'" for name in problem.arrays)
        raise InputError(f"{raw.name}: the problem '{problem.name}' needs the arrays {needed}, not one matrix")
    chosen, marked = {}, {}
    for name in problem.arrays:
        if name not in raw.arrays and BARE not in raw.arrays:
            raise InputError(f"{raw.name}: the array '{name}' of the problem '{problem.name}' is missing")
        key = name if name in raw.arrays else BARE
        chosen[name] = np.asarray(raw.arrays[key])
        if raw.forbidden is not None and key in raw.forbidden:
            marked[name] = raw.forbidden[key]
        elif may_forbid(problem) and chosen[name].ndim == 2:
            chosen[name], infinite = without_infinity(chosen[name], options.nan_forbidden)
            marked |= {name: infinite} if infinite.any() else {}
    try:
        checked = problem.check({name: array[None] for name, array in chosen.items()})
        arrays = {name: array[0] for name, array in checked.items()}
        shape = problem.shape(problem.size(checked))
        forbidden, notes = _forbidden(raw, problem, arrays, marked, shape)
        if forbidden is not None:
            arrays = with_stand_ins(problem, arrays, forbidden)
    except InputError as error:
        hint = f"; {HINT}" if "not finite" in str(error) else ""
        raise InputError(f"{raw.name}: {error}{hint}") from None
    named = problem.named(problem.size(checked))
    rows, columns = _names(raw, problem, named)
    return Instance(
        raw.name,
        problem,
        arrays,
        rows,
        columns,
        _coordinates(raw, problem, shape[0]),
        forbidden,
        "; ".join([_sizes(problem, named), *raw.notes, *notes, *_unused(raw, problem)]),
    )


def _turned(raw: RawInstance, options: ReadOptions) -> RawInstance:
    """Let rows and columns of a matrix change places, where that is asked for."""
    if not options.transpose:
        return raw
    if set(raw.arrays) != {BARE} or raw.arrays[BARE].ndim != 2:
        raise UsageError(f"{raw.name}: {mention('transpose', True)} is for a table, or for one matrix without a name")
    marked = None if raw.forbidden is None else {name: mask.T for name, mask in raw.forbidden.items()}
    matrix = np.ascontiguousarray(raw.arrays[BARE].T)
    notes = (*raw.notes, "rows and columns changed places")
    return replace(raw, arrays={BARE: matrix}, rows=raw.columns, columns=raw.rows, forbidden=marked, notes=notes)


def _raw_instances(
    content: bytes, name: str, problem: Problem | None, options: ReadOptions, ending: str | None = None
) -> list[RawInstance]:
    """Read by the ending, of the name if none is given, or, where that says nothing, by the content's beginning."""
    content, inner = unpacked(content, name)
    ending = Path(inner).suffix.lower() if ending is None else ending
    if content.startswith(_OLD_WORKBOOK):
        raise InputError(f"{name}: this is a workbook of an old format, or one with a password; save it as .xlsx")
    if ending == ".xlsx" or (content.startswith(b"PK") and is_workbook(members_of(content, name))):
        return [raw_from_grid(grid_from_workbook(content, name, options), options, problem)]
    for value, option in ((options.sheet, "sheet"), (options.range, "range"), (options.hidden, "hidden")):
        if value is not None:
            raise UsageError(f"{name}: {mention(option)} is for workbooks (.xlsx)")
    if ending in (".npy", ".npz") or content.startswith((b"\x93NUMPY", b"PK\x03\x04")):
        return [_with_metric(raw, options) for raw in raw_from_numpy(content, name, problem)]
    text, guessed = decoded(content, name)
    by_ending = ending in _TSPLIB + _JSON + _TABLES
    if ending in _JSON or (not by_ending and text.lstrip()[:1] in ("[", "{")):
        raws = raw_from_json(text, name, options, problem)
    elif ending in _TSPLIB or (not by_ending and looks_like_tsplib(text)):
        if options.metric is not None:
            raise UsageError(
                f"{name}: a TSPLIB file says itself how distances are taken; leave out {mention('metric')}"
            )
        raws = [raw_from_tsplib(text, name)]
    else:
        raws = [raw_from_table(text, name, options, problem)]
    note = () if guessed is None else (f"read as {guessed}",)
    return [replace(raw, notes=(*raw.notes, *note)) for raw in raws]


def _with_metric(raw: RawInstance, options: ReadOptions) -> RawInstance:
    """Take distances between the points of an array, where that is asked for."""
    if options.metric is None:
        return raw
    points = raw.arrays.get("coordinates", raw.arrays.get(BARE))
    if points is None:
        raise InputError(
            f"{raw.name}: {mention('metric')} takes distances between 'coordinates', which the file does not have"
        )
    marked = None if raw.forbidden is None else raw.forbidden.get("coordinates", raw.forbidden.get(BARE))
    return raw_from_points(points, marked, None, options.metric, raw.name, raw.rows, raw.notes)


def _problem_of(raw: RawInstance, problem: Problem | None) -> Problem:
    """Return the problem that was asked for, or that the file is certain to be."""
    if raw.problem is not None:
        if problem is not None and raw.problem == problem.name:
            return problem
        return problem_of_file(raw.problem, problem, raw.name)
    if problem is not None:
        return problem
    if BARE in raw.arrays:
        return _problem_of_matrix(raw)
    fitting = [cls for cls in BUILT_IN.values() if set(cls.arrays) <= set(raw.arrays)]
    if len(fitting) != 1:
        names = ", ".join(f"'{name}'" for name in raw.arrays)
        metric = f"; {mention('metric')} takes distances between coordinates"
        points = metric if list(raw.arrays) == ["coordinates"] else ""
        raise UsageError(
            f"{raw.name}: cannot tell the problem from the arrays {names}; give {mention('problem')}{points}"
        )
    return fitting[0]()


def _problem_of_matrix(raw: RawInstance) -> Problem:
    """Return the problem of a nameless matrix, where there is no doubt."""
    shape = raw.arrays[BARE].shape
    named = raw.rows is not None and raw.columns is not None
    same_items = raw.blank_diagonal or (named and raw.rows == raw.columns)
    fitting = problems_of_matrix(shape, same_items)
    beside, above = ({_folded(name) for name in names or ()} for names in (raw.rows, raw.columns))
    if named and len(fitting) == 1 and not same_items and _is_part_of_distances(raw):
        raise UsageError(
            f"{raw.name}: some names stand both above and beside the matrix ({shape[0]} × {shape[1]}), with nothing "
            "between an item and itself: part of a matrix of distances? "
            f"say {mention('problem', 'pmsp')} if it holds processing times"
        )
    if named and not beside & above:
        # other names above than beside: other items
        fitting = [cls for cls in fitting if not cls.feature_sizes.same_items]
    if len(fitting) == 1:
        return fitting[0]()
    if not fitting:  # every matrix fits some problem that ships
        raise InputError(f"{raw.name}: an instance must be a matrix, got an array with {len(shape)} axes")
    square = "square " if shape[0] == shape[1] else ""
    raise UsageError(
        f"{raw.name}: a {square}matrix ({shape[0]} × {shape[1]}) may be {' or '.join(c.entries for c in fitting)}; "
        f"say which with {' or '.join(mention('problem', cls.name) for cls in fitting)}"
    )


def _folded(name: str) -> str:
    """Return a name without what may be written in several ways: capitals, and blanks of all kinds."""
    return " ".join(name.casefold().split())


def _is_part_of_distances(raw: RawInstance) -> bool:
    """Tell whether rows and columns share names, and all entries from an item to itself are zero or nothing."""
    assert raw.rows is not None
    assert raw.columns is not None
    places = {_folded(name): place for place, name in enumerate(raw.columns)}
    shared = [(row, places[name]) for row, name in enumerate(map(_folded, raw.rows)) if name in places]
    return len(shared) > 1 and not any(raw.arrays[BARE][place] for place in shared)


def _names(raw: RawInstance, problem: Problem, shape: tuple[int, int]) -> tuple[Names | None, Names | None]:
    """Return the names of rows and columns, checked against the solution's shape."""
    rows, columns = raw.rows, raw.columns
    if problem.feature_sizes.same_items:
        if rows is not None and columns is not None and rows != columns:
            _refuse_other_names(raw.name, rows, columns, problem)
        rows = columns = rows if rows is not None else columns
    for names, count, what in ((rows, shape[0], "rows"), (columns, shape[1], "columns")):
        if names is not None and len(names) != count:
            raise InputError(f"{raw.name}: there are {len(names)} names for {count} {what}")
    return rows, columns


def _refuse_other_names(name: str, rows: Names, columns: Names, problem: Problem) -> None:
    """Refuse a matrix from items to the same items whose names above and beside are not the same."""
    if set(rows) == set(columns):
        place = next(i for i, (row, column) in enumerate(zip(rows, columns, strict=True), 1) if row != column)
        raise InputError(
            f"{name}: rows and columns must be in the same order, "
            f"but row {place} is {shorten(rows[place - 1])} and column {place} is {shorten(columns[place - 1])}"
        )
    beside = [row for row in rows if row not in columns] or list(rows)
    above = [column for column in columns if column not in rows] or list(columns)
    raise InputError(
        f"{name}: '{problem.name}' needs the same {problem.row_words[1]} above and beside the matrix, "
        f"but the rows have {shorten(beside[0])} and the columns {shorten(above[0])}"
    )


def _forbidden(
    raw: RawInstance,
    problem: Problem,
    arrays: dict[str, NDArray[Any]],
    marked: dict[str, NDArray[np.bool_]],
    shape: tuple[int, int],
) -> tuple[NDArray[np.bool_] | None, list[str]]:
    """Return the forbidden pairs of an instance, if it has any, and what to say about them."""
    same_items = problem.feature_sizes.same_items
    pairs = np.zeros(shape, dtype=bool)
    if FORBIDDEN in raw.arrays and FORBIDDEN not in problem.arrays:
        marked = {**marked, FORBIDDEN: raw.arrays[FORBIDDEN]}
    for name, mask in marked.items():
        if mask.shape != shape or mask.dtype != bool:
            what = f"the array '{name}'" if name in problem.arrays else f"'{name}'"
            raise InputError(f"{what} can forbid pairs only as a matrix of {shape[0]} × {shape[1]}")
        pairs |= mask
    if same_items:
        np.fill_diagonal(pairs, False)
    if pairs.any():
        return pairs, [counted(int(pairs.sum()), ("forbidden pair", "forbidden pairs"))]
    if may_forbid(problem):
        (matrix,) = arrays.values()
        huge = huge_numbers(matrix, ignore_diagonal=same_items)
        if huge is not None:
            times = counted(int(huge.sum()), ("time", "times"))
            return None, [f"{matrix[huge][0]} stands there {times}: if it means forbidden, write '-' instead"]
    return None, []


def _sizes(problem: Problem, shape: tuple[int, int]) -> str:
    """Say how many rows and columns there are, in the problem's words."""
    rows, columns = counted(shape[0], problem.row_words), counted(shape[1], problem.column_words)
    return rows if problem.feature_sizes.same_items else f"{rows} × {columns}"


def _unused(raw: RawInstance, problem: Problem) -> list[str]:
    """Say which entries of a file are not used, since their author may think that they are."""
    used = {*problem.arrays, FORBIDDEN, "coordinates"}
    if BARE in raw.arrays and set(problem.arrays) & set(raw.arrays):
        raise InputError(f"{raw.name}: there is a 'matrix' and an array '{problem.arrays[0]}': which one is meant?")
    others = [*raw.unused, *(name for name in raw.arrays if name not in used and name != BARE)]
    return [f"{', '.join(map(shorten, others[:8]))} not used"] if others else []


def _coordinates(raw: RawInstance, problem: Problem, rows: int) -> NDArray[np.float64] | None:
    """Return the points of the items, where the file has them and the problem is about one set of items."""
    points: NDArray[Any] | None = raw.arrays.get("coordinates")
    if points is None or not problem.feature_sizes.same_items:
        return None
    if raw.forbidden is not None and "coordinates" in raw.forbidden:
        raise InputError(f"{raw.name}: 'coordinates' lack a number")
    if points.shape != (rows, 2):
        raise InputError(f"{raw.name}: 'coordinates' must be {rows} × 2, got {' × '.join(map(str, points.shape))}")
    return points.astype(np.float64)
