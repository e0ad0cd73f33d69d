"""Problems that put jobs into a sequence: the flow shop in which no job waits, and one machine with setups.

They are tours. The jobs are cities, and one city more stands for the idle shop: from there the first job is begun, and
there the last one leads. A choice (jobs + 1,) gives every job the next one, and the idle shop, its last entry, the
first. What a step costs is by how much it moves the end, so that the length of the tour is the makespan.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, visible
from .arrays import checked_matrix, exact_numbers, reject_negative, without_infinity
from .base import Arrays, FeatureSizes, InTorch, Size
from .instance import Instance, RawInstance
from .present import Bar, counted, draw_bars, number, sequence_lines
from .tours import TourProblem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

in_torch = partial(InTorch, "icdc.problems.tours_torch")


class Sequencing(TourProblem):
    """What problems share that put jobs into a sequence; the cost is the makespan."""

    size_names: ClassVar[tuple[str, ...]] = ("jobs",)
    objective = "makespan"
    row_words = column_words = ("job", "jobs")
    structure: ClassVar[str | None] = "tour"
    restated = True

    features = in_torch("sequence_features")

    @abstractmethod
    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return by how much the end moves if the column's job follows the row's, (count, jobs + 1, jobs + 1)."""

    @abstractmethod
    def bars(self, instance: Instance, choice: NDArray[np.int64]) -> list[Bar]:
        """Return what happens when, in the order of the sequence."""

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0] + 1, size[0] + 1

    def named(self, size: Size) -> tuple[int, int]:
        return size[0], size[0]

    def density(self, size: Size) -> float:
        return 1.0 / (size[0] + 1)

    def solution(self, choice: NDArray[np.int64]) -> list[int]:
        """Return the jobs in the order in which they are done."""
        idle = len(choice) - 1
        order: list[int] = []
        job = int(choice[idle])
        while job != idle and len(order) <= idle:
            order.append(job)
            job = int(choice[job])
        return order

    def choice(self, solution: list[int]) -> NDArray[np.int64]:
        try:
            return super().choice([*solution, len(solution)])
        except InputError as error:
            reason = str(error)
            if reason.startswith("a tour"):
                reason = "a sequence must name every job from 0 to n-1 exactly once"
            raise InputError(reason) from None

    def solution_header(self) -> tuple[str, str]:
        return "position", "job"

    def describe_pair(self, instance: Instance, pair: tuple[int, int]) -> str:
        """Name a succession: "job 'b' after job 'a'"; the idle shop, which comes before and after all, is no job."""
        idle = instance.size[0]
        row, column = pair
        if row == idle:
            return f"{instance.row_text(column)} first"
        if column == idle:
            return f"{instance.row_text(row)} last"
        return f"{instance.row_text(column)} after {instance.row_text(row)}"

    def describe_size(self, size: Size) -> str:
        return f"sequence of {counted(size[0], self.row_words)}"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        return sequence_lines(instance, self.solution(choice), self.in_words(instance, choice))

    @abstractmethod
    def in_words(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Say of each job of the sequence when it is done."""

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        return draw_bars(instance, self.bars(instance, choice), self.machine_labels(instance), bound)

    @abstractmethod
    def machine_labels(self, instance: Instance) -> list[str]:
        """Return what the machines are called."""


class FlowShop(Sequencing):
    """Instances: `durations` (count, jobs, machines), in the order in which every job visits the machines.

    A job that was begun goes on without waiting until its last machine, so that all its times follow from its begin.
    """

    name = "flow-shop"
    arrays = ("durations",)
    size_names = ("jobs", "machines")
    column_words = ("machine", "machines")
    entries = "processing times in the order of the machines"
    feature_sizes = FeatureSizes(relations=6, raw_relations=1)
    structure = "tour"

    travel = in_torch("flow_shop_travel")

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        jobs, machines = size
        return {"durations": rng.integers(1, 100, size=(count, jobs, machines), dtype=np.uint8)}

    def size(self, arrays: Mapping[str, Any]) -> Size:
        return int(arrays["durations"].shape[1]), int(arrays["durations"].shape[2])

    def named(self, size: Size) -> tuple[int, int]:
        return size[0], size[1]

    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        durations = checked_matrix(arrays["durations"], "the matrix of processing times")
        reject_negative(durations, "the matrix of processing times")
        return {"durations": durations}

    def complete(self, raw: RawInstance) -> RawInstance:
        """Refuse gaps: every job visits every machine."""
        for mask in (raw.forbidden or {}).values():
            if mask.any():
                job, machine = np.argwhere(mask)[0]
                where = f"{named_item(raw.rows, job, 'job')} has none on {named_item(raw.columns, machine, 'machine')}"
                raise InputError(f"a job of a flow shop needs a time on every machine, 0 if it only passes: {where}")
        return raw

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return how much later the column's job begins than the row's; back to the idle shop, how long a job takes.

        The next job j may begin as soon as it meets its predecessor i on no machine k: after the longest of what i
        needs up to the end of k less what j needs before k.
        """
        durations = exact_numbers(arrays["durations"])
        count, jobs, machines = durations.shape
        ended = durations.cumsum(2)
        before = ended - durations  # what each job needs before a machine
        costs = np.zeros((count, jobs + 1, jobs + 1), dtype=durations.dtype)
        for machine in range(machines):
            later = ended[:, :, None, machine] - before[:, None, :, machine]
            np.maximum(costs[:, :jobs, :jobs], later, out=costs[:, :jobs, :jobs])
        costs[:, :jobs, jobs] = ended[:, :, -1]
        costs[:, np.arange(jobs + 1), np.arange(jobs + 1)] = 0
        return costs

    def begins(self, instance: Instance, choice: NDArray[np.int64]) -> list[list[Any]]:
        """Return when each job of the sequence begins on each machine, by walking through the shop.

        A job begins as early as it can without waiting anywhere; machines are free from 0.
        """
        times = [exact_numbers(instance.arrays["durations"])[job].tolist() for job in self.solution(choice)]
        free: list[Any] = [0] * len(times[0])
        begun, earliest = [], 0
        for mine in times:
            offsets = [sum(mine[:place]) for place in range(len(mine))]
            begin = max(earliest, *(ready - offset for ready, offset in zip(free, offsets, strict=True)))
            begun.append([begin + offset for offset in offsets])
            free = [begin + offset + time for offset, time in zip(offsets, mine, strict=True)]
            earliest = begin
        return begun

    def timetable(self, instance: Instance, choice: NDArray[np.int64]) -> dict[str, list[Any]]:
        """Return when each job of the sequence begins on every machine, and when it is done."""
        totals = exact_numbers(instance.arrays["durations"]).sum(1).tolist()
        begins = self.begins(instance, choice)
        ends = [begin[0] + totals[job] for begin, job in zip(begins, self.solution(choice), strict=True)]
        return {"start": begins, "end": ends}

    def describe_size(self, size: Size) -> str:
        return f"flow shop of {counted(size[0], self.row_words)} on {counted(size[1], self.column_words)}"

    def in_words(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        table = self.timetable(instance, choice)
        rows = [[*map(number, begins), number(end)] for begins, end in zip(table["start"], table["end"], strict=True)]
        if len(rows[0]) > 12:  # too many machines for a line
            rows = [[row[0], row[-1]] for row in rows]
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        padded = [[f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)] for row in rows]
        return [f"starts {' '.join(row[:-1])}  ends {row[-1]}" for row in padded]

    def machine_labels(self, instance: Instance) -> list[str]:
        return instance.column_labels(range(instance.arrays["durations"].shape[1]))

    def bars(self, instance: Instance, choice: NDArray[np.int64]) -> list[Bar]:
        order = self.solution(choice)
        times = exact_numbers(instance.arrays["durations"])
        return [
            (machine, begin, begin + times[job, machine].item(), name, True)
            for job, name, begins in zip(order, instance.row_labels(order), self.begins(instance, choice), strict=True)
            for machine, begin in enumerate(begins)
        ]


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
            start, time = (_extra(arrays["setups"], axis, (rows, columns)) for axis in (0, 1))
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
            arrays[name], endless = without_infinity(np.asarray(arrays[name]))
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
        table: dict[str, list[Any]] = {"setup": [], "start": [], "end": []}
        now: int | float = 0
        before = None
        for job in self.solution(choice):
            setup = (initial[job] if before is None else setups[before, job]).item()
            begin = now + setup
            now = begin + durations[job].item()
            before = job
            for name, value in zip(table, (setup, begin, now), strict=True):
                table[name].append(value)
        return table

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
        bars: list[Bar] = []
        for name, setup, start, end in zip(
            instance.row_labels(order), table["setup"], table["start"], table["end"], strict=True
        ):
            bars += [(0, start - setup, start, "", False), (0, start, end, name, True)]
        return bars


def _extra(matrix: NDArray[Any], axis: int, names: tuple[tuple[str, ...] | None, tuple[str, ...] | None]) -> int | None:
    """Return the row (axis 0) or column (axis 1) of a table that is no job, where there is one.

    By its name, which no column or row has; without names the first row or the last column, if there is one too many.
    """
    if matrix.ndim != 2:
        return None
    mine, others = names[axis], names[1 - axis]
    if mine is not None and others is not None:
        places = [place for place, name in enumerate(mine) if name not in others]
        return places[0] if len(places) == 1 and len(mine) > 1 else None
    if matrix.shape[axis] != matrix.shape[1 - axis] + 1:
        return None
    return 0 if axis == 0 else matrix.shape[1] - 1


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


def named_item(names: tuple[str, ...] | None, item: Any, word: str) -> str:
    return f"{word} {int(item) + 1}" if names is None else f"{word} '{visible(names[int(item)])}'"
