"""Instances from Python: lists and arrays, data frames, mappings of named arrays, paths, and instances themselves."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..problems.arrays import LARGEST_INTEGER
from ..problems.base import Problem
from ..problems.instance import BARE, Instance, RawInstance
from .cells import DEFAULTS, Grid, Number, Plain, ReadOptions, Style, cell_of, read_number
from .json import raw_from_mapping
from .points import raw_from_points
from .read import instance_of, read_instances
from .table import raw_from_grid


def instances_from(value: Any, problem: Problem | None, name: str, options: ReadOptions = DEFAULTS) -> list[Instance]:
    """Return the checked instances that a Python object holds: those of a file for a path, else one.

    Parameters
    ----------
    value : a matrix (nested lists, an array, a pandas or polars frame), a mapping of a problem's named arrays, an
        `Instance`, or the path of a file.
    problem : what it is an instance of; None where it says so itself.
    name : what it is called in messages and answers.
    """
    if isinstance(value, Instance):
        if problem is not None and type(problem) is not type(value.problem):
            raise UsageError(f"{value.name} is an instance of '{value.problem.name}', not of '{problem.name}'")
        return [value]
    if isinstance(value, str | Path):
        return read_instances(value, problem, options)
    return [instance_of(_raw(value, problem, name, options), problem, options)]


def _raw(value: Any, problem: Problem | None, name: str, options: ReadOptions) -> RawInstance:
    if _is_frame(value):
        return raw_from_grid(_grid_of_frame(value, name), options, problem)
    if isinstance(value, Mapping):
        document = {str(key): entry for key, entry in value.items()}
        return raw_from_mapping(document, name, options, problem, _array_of, only_known=True)
    array, forbidden = _array(value, "the instance" if problem is None else f"'{problem.arrays[0]}'")
    if options.metric is not None:
        return raw_from_points(array, forbidden, None, options.metric, name, None, ())
    return RawInstance(name, {BARE: array}, forbidden=None if forbidden is None else {BARE: forbidden})


def _array_of(
    value: Any, where: str, options: ReadOptions, problem: Problem | None
) -> tuple[NDArray[Any], NDArray[np.bool_] | None] | None:
    return None if isinstance(value, str | int | float) else _array(value, where.partition(": ")[2])


def _is_frame(value: Any) -> bool:
    """Tell whether something is a data frame of pandas or polars, without importing either."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] in ("pandas", "polars")


def _grid_of_frame(frame: Any, name: str) -> Grid:
    """Return the cells of a data frame under its header; an index that does more than count holds names."""
    columns = list(frame.columns)
    if not columns:
        raise InputError(f"{name}: the frame has no columns")
    rows = [["" if column is None else str(column).strip() for column in columns]]
    index: Sequence[Any] | None = None
    if hasattr(frame, "iloc"):  # pandas
        if list(frame.index) != list(range(len(frame))):
            index = list(frame.index)
        lists = [frame.iloc[:, place].tolist() for place in range(len(columns))]
    else:
        lists = [frame[column].to_list() for column in columns]
    for number, values in enumerate(zip(*lists, strict=True), 1):
        rows.append([_cell(value, f"{name}: row {number}, column {c}") for c, value in enumerate(values, 1)])
    if index is not None:
        rows = [["", *rows[0]]] + [[str(label), *row] for label, row in zip(index, rows[1:], strict=True)]
    return Grid(
        name,
        rows,
        list(range(len(rows))),
        "row",
        first_column=1 if index is None else 0,
        header=True,
        labels=None if index is None else True,
    )


def _cell(value: Any, place: str) -> str:
    """Return the cell of a value of a frame; pandas' own word for a missing one is NaN, too."""
    return Plain("nan") if type(value).__name__ in ("NAType", "NaTType") else cell_of(value, place)


def _array(values: Any, what: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return nested lists as an array, and which entries are None; or say which row does not fit."""
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(
            f"{what} is a masked array, and its mask may mean many things; fill it, with inf for forbidden pairs"
        )
    if hasattr(values, "toarray") and not isinstance(values, np.ndarray):
        raise InputError(f"{what} is a sparse matrix, and its gaps may mean many things; give a full array")
    try:
        array = np.asarray(_detached(values) if hasattr(values, "detach") else values)
    except ValueError:
        raise InputError(f"{what} must be a matrix: {_ragged(list(values))}") from None
    except Exception as error:  # whatever an object raises that cannot be an array
        reason = " ".join(str(error).split())[:80]
        raise InputError(f"{what}: a {type(values).__name__} cannot be read as numbers ({reason})") from None
    if array.ndim in (1, 2) and array.size and isinstance(values, Sequence) and _loses_values(values, array):
        array = np.array(values, dtype=object)
    if array.dtype != object or array.ndim not in (1, 2) or not array.size:
        return array, None
    return _numbers(array, what)


def _detached(tensor: Any) -> Any:
    """Return a tensor without its gradient, on the host and in a type that NumPy has."""
    tensor = tensor.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def _loses_values(rows: Sequence[Any], array: NDArray[Any]) -> bool:
    """Tell whether truth values among numbers became 0 and 1, or integers beside reals were rounded."""
    flat = list(chain.from_iterable(rows)) if array.ndim == 2 else rows
    kinds = set(map(type, flat))
    rounded = array.dtype.kind == "f" and bool((np.abs(array) >= LARGEST_INTEGER).any())
    return bool(kinds & {bool, np.bool_} and kinds - {bool, np.bool_}) or (rounded and bool(kinds - {float}))


def _ragged(rows: list[Any]) -> str:
    """Say which row of nested lists keeps them from being an array."""
    lengths = [len(row) if isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) else 0 for row in rows]
    for number, length in enumerate(lengths, 1):
        if length != lengths[0]:
            return f"row {number} has {length} entries where row 1 has {lengths[0]}"
    deep = next((r for r, row in enumerate(rows, 1) if any(isinstance(x, Sequence | np.ndarray) for x in row)), 1)
    return f"row {deep} holds lists where numbers are needed"


def _numbers(objects: NDArray[Any], what: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return an array of Python objects as numbers; None is a forbidden pair."""
    values: list[Number] = []
    forbidden = np.zeros(objects.shape, dtype=bool)
    for place, value in np.ndenumerate(objects):
        where = f"{what} at {_place(place)}"
        if value is None and objects.ndim == 2:
            forbidden[place] = True
            values.append(0)
            continue
        if value is None or isinstance(value, str | bytes | Sequence | np.ndarray):
            raise InputError(f"{where} holds {type(value).__name__}, not a number")
        text = cell_of(value, where)
        try:
            number = float(text) if text in ("inf", "-inf", "nan") else read_number(text, Style("."))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        values.append(number)
    exact = all(isinstance(value, int) for value in values)
    array: NDArray[Any] = np.array(values, dtype=np.int64 if exact else np.float64).reshape(objects.shape)
    if forbidden.any() and not exact:
        forbidden |= np.isposinf(array)
        array = np.where(forbidden, 0.0, array)
    return array, forbidden if forbidden.any() else None


def _place(place: tuple[int, ...]) -> str:
    return f"row {place[0] + 1}, column {place[1] + 1}" if len(place) == 2 else f"entry {place[0] + 1}"
