"""One machine whose setup for a job depends on the job before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, visible
from .arrays import LARGEST_INTEGER, checked_matrix, exact_numbers, reject_negative
from .base import Arrays, FeatureSizes, InTorch, Size
from .instance import Instance, RawInstance
from .present import Bar, counted, number
from .sequencing import Sequencing, named_item

in_torch = partial(InTorch, "icdc.problems.tours_torch")


class Setups(Sequencing):
    """Instances: `setups` (count, jobs, jobs), from the row's job to the column's; the diagonal is ignored.

    Two more arrays may be left out, and are 0 then: `durations` (count, jobs), how long each job takes, and `initial`
    (count, jobs), the setup of each job if it is the first.
    """

    name = "setups"
    arrays = ("setups", "durations", "initial")
    axes: ClassVar[Mapping[str, int]] = {"durations": 1, "initial": 1}
    entries = "setup times"
    feature_sizes = FeatureSizes(relations=6, raw_relations=1, same_items=True)
    structure = "tour"

    travel = in_torch("setups_travel")

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        jobs = size[0]
        setups = rng.integers(1, 100, size=(count, jobs, jobs), dtype=np.int64)
        setups[:, np.arange(jobs), np.arange(jobs)] = 0
        durations = rng.integers(1, 100, size=(count, jobs), dtype=np.int64)
        return {"setups": setups, "durations": durations, "initial": rng.integers(1, 100, size=(count, jobs))}

    def size(self, arrays: Mapping[str, Any]) -> Size:
        return (int(arrays["setups"].shape[1]),)

    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        setups = checked_matrix(arrays["setups"], "the matrix of setup times").copy()
        _, rows, columns = setups.shape
        if rows != columns:
            raise InputError(f"the matrix of setup times must be square, got {rows} rows and {columns} columns")
        setups[:, np.arange(rows), np.arange(rows)] = 0
        reject_negative(setups, "the matrix of setup times")
        checked = {"setups": setups}
        for name, what in (("durations", "the processing times"), ("initial", "the first setups")):
            values = np.asarray(arrays[name])
            if values.ndim != 2 or values.shape[1] != rows:
                raise InputError(f"{what} ('{name}') must be a list of {rows} numbers, one for each job")
            values = checked_matrix(values[:, None], what)
            reject_negative(values, what)
            checked[name] = values[:, 0]
        return checked

    def complete(self, raw: RawInstance) -> RawInstance:
        """Take a table apart: a row that is no column is the first setups, a column that is no row the durations."""
        arrays, marks = dict(raw.arrays), dict(raw.forbidden or {})
        notes, rows, columns = list(raw.notes), raw.rows, raw.columns
        if "" in arrays:
            arrays["setups"] = arrays.pop("")
            mark = marks.pop("", None)
            marks["setups"] = np.zeros(arrays["setups"].shape, dtype=bool) if mark is None else mark
            start, time = _extra_row(arrays["setups"], rows, columns), _extra_column(arrays["setups"], rows, columns)
            if start is not None and time is not None and rows is not None and columns is not None:
                _refuse_misspelt(rows, columns, (start, time), marks["setups"])
            if time is not None and "durations" not in arrays:
                arrays["durations"] = np.delete(arrays["setups"][:, time], [] if start is None else start)
                if np.delete(marks["setups"][:, time], [] if start is None else start).any():
                    raise InputError("a job has no processing time in the column of processing times")
                arrays["setups"] = np.delete(arrays["setups"], time, 1)
                marks["setups"] = np.delete(marks["setups"], time, 1)
                notes.append(f"{named_item(columns, time, 'column')} is the processing times")
                columns = None if columns is None else (*columns[:time], *columns[time + 1 :])
            if start is not None and "initial" not in arrays:
                arrays["initial"], marks["initial"] = arrays["setups"][start], marks["setups"][start]
                arrays["setups"] = np.delete(arrays["setups"], start, 0)
                marks["setups"] = np.delete(marks["setups"], start, 0)
                notes.append(f"{named_item(rows, start, 'row')} is the first setups")
                rows = None if rows is None else (*rows[:start], *rows[start + 1 :])
        for name in ("setups", "initial"):
            if name not in arrays:
                continue
            arrays[name], endless = _without_infinity(np.asarray(arrays[name]))
            marks[name] = endless | marks[name] if name in marks else endless
        if "setups" in arrays and arrays["setups"].ndim == 2:
            jobs = len(arrays["setups"])
            for name in ("durations", "initial"):
                arrays.setdefault(name, np.zeros(jobs, dtype=np.int64))
        return replace(
            raw, arrays=arrays, forbidden=_mask_of(arrays, marks), rows=rows, columns=columns, notes=tuple(notes)
        )

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return the setup of the column's job after the row's and its own time; back to the idle shop, nothing."""
        setups, durations, initial = (exact_numbers(arrays[name]) for name in self.arrays)
        count, jobs, _ = setups.shape
        kind = np.result_type(setups, durations, initial)
        costs = np.zeros((count, jobs + 1, jobs + 1), dtype=kind)
        costs[:, :jobs, :jobs] = setups + durations[:, None]
        costs[:, jobs, :jobs] = initial + durations
        costs[:, np.arange(jobs + 1), np.arange(jobs + 1)] = 0
        return costs

    def timetable(self, instance: Instance, choice: NDArray[np.int64]) -> dict[str, list[Any]]:
        """Return of each job of the sequence its setup, when it begins after that, and when it is done."""
        setups, durations, initial = (exact_numbers(instance.arrays[name]) for name in self.arrays)
        found: dict[str, list[Any]] = {"setup": [], "start": [], "end": []}
        now: int | float = 0
        before = None
        for job in self.solution(choice):
            setup = (initial[job] if before is None else setups[before, job]).item()
            begin = now + setup
            now = begin + durations[job].item()
            before = job
            for name, value in zip(found, (setup, begin, now), strict=True):
                found[name].append(value)
        return found

    def describe_size(self, size: Size) -> str:
        return f"{counted(size[0], self.row_words)} on one machine"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Return a line for each job, and how much of the makespan is setups."""
        total = sum(self.timetable(instance, choice)["setup"])
        return [*super().describe_solution(instance, choice), f"  setups take {number(total)} of it"]

    def in_words(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        columns = [list(map(number, values)) for values in self.timetable(instance, choice).values()]
        widths = [max(map(len, column)) for column in columns]
        return [
            f"setup {setup:>{widths[0]}}  starts {start:>{widths[1]}}  ends {end:>{widths[2]}}"
            for setup, start, end in zip(*columns, strict=True)
        ]

    def machine_labels(self, instance: Instance) -> list[str]:
        return ["machine"]

    def bars(self, instance: Instance, choice: NDArray[np.int64]) -> list[Bar]:
        table, order = self.timetable(instance, choice), self.solution(choice)
        found: list[Bar] = []
        for name, setup, start, end in zip(
            instance.row_labels(order), table["setup"], table["start"], table["end"], strict=True
        ):
            found += [(0, start - setup, start, "", False), (0, start, end, name, True)]
        return found


def _extra_row(matrix: NDArray[Any], rows: tuple[str, ...] | None, columns: tuple[str, ...] | None) -> int | None:
    """Return the row of a table that is no job: by its name, or the first where there is a row too many."""
    if matrix.ndim != 2:
        return None
    if rows is not None and columns is not None:
        others = [place for place, name in enumerate(rows) if name not in columns]
        return others[0] if len(others) == 1 and len(rows) > 1 else None
    return 0 if matrix.shape[0] == matrix.shape[1] + 1 else None


def _refuse_misspelt(
    rows: tuple[str, ...], columns: tuple[str, ...], place: tuple[int, int], forbidden: NDArray[np.bool_]
) -> None:
    """Refuse a row and a column that are no jobs where they may be one job whose name is written in two ways.

    place : of the row and of the column. First setups have no processing time: where theirs is the only empty cell of
        the diagonal, they are no job.
    """
    row, column = rows[place[0]], columns[place[1]]
    same_place = place[0] == place[1]
    alike = bool(get_close_matches(row.casefold(), [column.casefold()], 1, 0.5 if same_place else 0.6))
    corner = len(forbidden) > 2 and np.flatnonzero(forbidden.diagonal()).tolist() == [place[0]]
    numbered = same_place and len({_stem(name) for name in (*rows, column)}) == 1  # job 1, job 2, or a, b
    if (alike or numbered) and not (corner and not alike):
        raise InputError(
            f"row '{visible(row)}' is no column and column '{visible(column)}' no row: a job has one name; if they are "
            "the first setups and the processing times, put the row first and the column last"
        )


def _stem(name: str) -> str:
    """Return a name without the number or the letter that tells it from its like."""
    return re.sub(r"\d+|\b[^\W\d_]\b", "*", name.casefold())


def _extra_column(matrix: NDArray[Any], rows: tuple[str, ...] | None, columns: tuple[str, ...] | None) -> int | None:
    """Return the column of a table that is no job: by its name, or the last where there is a column too many."""
    if matrix.ndim != 2:
        return None
    if rows is not None and columns is not None:
        others = [place for place, name in enumerate(columns) if name not in rows]
        return others[0] if len(others) == 1 and len(columns) > 1 else None
    return matrix.shape[1] - 1 if matrix.shape[1] == matrix.shape[0] + 1 else None


def _without_infinity(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return numbers with 0 in place of infinity, which forbids a succession, and where it was."""
    endless = np.isposinf(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)
    if not endless.any():
        return array, endless
    rest = np.where(endless, 0.0, array)
    whole = np.isfinite(rest).all() and (rest == np.rint(rest)).all() and np.abs(rest).max() <= LARGEST_INTEGER
    return rest.astype(np.int64) if whole else rest, endless


def _mask_of(arrays: Arrays, marks: dict[str, NDArray[np.bool_]]) -> dict[str, NDArray[np.bool_]] | None:
    """Return the forbidden successions (jobs + 1, jobs + 1) that marks in the arrays mean, under "setups"."""
    if not any(mark.any() for mark in marks.values()):
        return None
    if "durations" in marks and marks["durations"].any():
        raise InputError("a job has no processing time")
    setups = marks.get("setups", np.zeros((0, 0), dtype=bool))
    if setups.ndim != 2 or setups.shape[0] != setups.shape[1]:
        return marks  # the check of the arrays says what is wrong
    jobs = len(arrays["setups"])
    mask = np.zeros((jobs + 1, jobs + 1), dtype=bool)
    mask[:jobs, :jobs] = setups if len(setups) else False
    if "initial" in marks:
        mask[jobs, :jobs] = marks["initial"]
    np.fill_diagonal(mask, False)
    return {"setups": mask} if mask.any() else None
