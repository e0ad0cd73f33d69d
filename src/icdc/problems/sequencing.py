"""Jobs one after the other: one machine with setups, and the flow shop in which no job waits.

Both are tours. The jobs are cities, and one city more stands for the idle shop: from there the first job is begun, and
there the last one leads. A choice (jobs + 1,) gives every job the next one, and the idle shop, its last entry, the
first. What a step costs is by how much it moves the end, so that the length of the tour is the makespan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, visible
from ..later import torch
from .atsp import Atsp
from .contract import Arrays, Features, FeatureSizes, Given, Instances, Size, Structure, exact_numbers
from .instance import Instance
from .matrices import LARGEST_INTEGER, checked_matrix, reject_negative
from .text import counted, number
from .tours import TourProblem

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

_FEW = 60
"""Jobs up to which an answer has a line for each."""


class Sequencing(TourProblem):
    """What problems share that put jobs into a sequence; the cost is the makespan."""

    size_names: ClassVar[tuple[str, ...]] = ("jobs",)
    objective = "makespan"
    row_words = column_words = ("job", "jobs")
    structure: ClassVar[Structure | None] = "tour"
    restated = True

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

    def features(self, instances: Instances) -> Features:
        """Those of the tour; see `Atsp.features`."""
        return Atsp().features({"distances": self.travel(instances)})

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

    def describe_size(self, size: Size) -> str:
        return f"sequence of {counted(size[0], self.row_words)}"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Return a line for each job, in the order in which they are done."""
        order = self.solution(choice)
        names = instance.row_labels(order)
        width = max(map(len, names))
        words = self.in_words(instance, choice)
        lines = [f"  {name:<{width}}  {said}" for name, said in zip(names, words, strict=True)]
        if len(lines) > _FEW:
            lines = [*lines[: _FEW // 2], f"  … {len(lines) - _FEW} more …", *lines[-_FEW // 2 :]]
        return lines

    @abstractmethod
    def in_words(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Say of each job of the sequence when it is done."""

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        """Draw a Gantt chart, with the bound where it is one on the makespan."""
        from matplotlib.figure import Figure

        from ..plots import plot_bars

        machines = self.machine_labels(instance)
        figure = Figure(figsize=(11.0, 1.4 + 0.55 * len(machines)), layout="constrained")
        bound = None if instance.weighs_changes else bound
        plot_bars(self.bars(instance, choice), machines=machines, bound=bound, ax=figure.subplots())
        return figure

    @abstractmethod
    def machine_labels(self, instance: Instance) -> list[str]:
        """Return what the machines are called."""


Bar = tuple[int, int | float, int | float, str, bool]
"""One thing that happens: machine, begin, end, name, and whether it is work (True) or a setup (False)."""


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

    def completed(self, given: Given) -> Given:
        """Refuse gaps: every job visits every machine."""
        for mask in (given.forbidden or {}).values():
            if mask.any():
                job, machine = np.argwhere(mask)[0]
                where = f"{_name(given.rows, job, 'job')} has none on {_name(given.columns, machine, 'machine')}"
                raise InputError(f"a job of a flow shop needs a time on every machine, 0 if it only passes: {where}")
        return given

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return how much later the column's job begins than the row's; back to the idle shop, how long a job takes.

        The next job j may begin as soon as it meets its predecessor i on no machine k: after the longest of what i
        needs up to the end of k less what j needs before k.
        """
        durations = exact_numbers(arrays["durations"])
        count, jobs, machines = durations.shape
        ended = durations.cumsum(2)
        begun = ended - durations
        costs = np.zeros((count, jobs + 1, jobs + 1), dtype=durations.dtype)
        for machine in range(machines):
            later = ended[:, :, None, machine] - begun[:, None, :, machine]
            np.maximum(costs[:, :jobs, :jobs], later, out=costs[:, :jobs, :jobs])
        costs[:, :jobs, jobs] = ended[:, :, -1]
        costs[:, np.arange(jobs + 1), np.arange(jobs + 1)] = 0
        return costs

    def travel(self, instances: Instances) -> Tensor:
        """Return `cost_matrix` of tensors, on their device."""
        durations = instances["durations"]
        ended = durations.cumsum(2)
        begun = ended - durations
        later = ended[:, :, None, 0] - begun[:, None, :, 0]
        for machine in range(1, durations.shape[2]):
            later = torch.maximum(later, ended[:, :, None, machine] - begun[:, None, :, machine])
        return _with_idle(later, torch.zeros_like(ended[:, :, -1]), ended[:, :, -1])

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

    def completed(self, given: Given) -> Given:
        """Take a table apart: a row that is no column is the first setups, a column that is no row the durations."""
        arrays, marks = dict(given.arrays), dict(given.forbidden or {})
        notes, rows, columns = list(given.notes), given.rows, given.columns
        if "" in arrays:
            arrays["setups"] = arrays.pop("")
            mark = marks.pop("", None)
            marks["setups"] = np.zeros(arrays["setups"].shape, dtype=bool) if mark is None else mark
            start, time = _extra_row(arrays["setups"], rows, columns), _extra_column(arrays["setups"], rows, columns)
            if time is not None and "durations" not in arrays:
                arrays["durations"] = np.delete(arrays["setups"][:, time], [] if start is None else start)
                if np.delete(marks["setups"][:, time], [] if start is None else start).any():
                    raise InputError("a job has no processing time in the column of processing times")
                arrays["setups"] = np.delete(arrays["setups"], time, 1)
                marks["setups"] = np.delete(marks["setups"], time, 1)
                notes.append(f"{_name(columns, time, 'column')} is the processing times")
                columns = None if columns is None else (*columns[:time], *columns[time + 1 :])
            if start is not None and "initial" not in arrays:
                arrays["initial"], marks["initial"] = arrays["setups"][start], marks["setups"][start]
                arrays["setups"] = np.delete(arrays["setups"], start, 0)
                marks["setups"] = np.delete(marks["setups"], start, 0)
                notes.append(f"{_name(rows, start, 'row')} is the first setups")
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
        return Given(arrays, _mask_of(arrays, marks), rows, columns, tuple(notes))

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

    def travel(self, instances: Instances) -> Tensor:
        """Return `cost_matrix` of tensors, on their device."""
        setups, durations, initial = (instances[name] for name in self.arrays)
        return _with_idle(setups + durations[:, None], initial + durations, torch.zeros_like(durations))

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


def _with_idle(between: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Return steps (batch, jobs, jobs) with one row of beginnings and one column of ends (batch, jobs) more."""
    steps = torch.cat([torch.cat([between, end[:, :, None]], 2), torch.nn.functional.pad(begin, (0, 1))[:, None]], 1)
    return steps.masked_fill(torch.eye(steps.shape[1], dtype=torch.bool, device=steps.device), 0)


def _extra_row(matrix: NDArray[Any], rows: tuple[str, ...] | None, columns: tuple[str, ...] | None) -> int | None:
    """Return the row of a table that is no job: by its name, or the first where there is a row too many."""
    if matrix.ndim != 2:
        return None
    if rows is not None and columns is not None:
        others = [place for place, name in enumerate(rows) if name not in columns]
        return others[0] if len(others) == 1 and len(rows) > 1 else None
    return 0 if matrix.shape[0] == matrix.shape[1] + 1 else None


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


def _name(names: tuple[str, ...] | None, item: Any, word: str) -> str:
    return f"{word} {int(item) + 1}" if names is None else f"{word} '{visible(names[int(item)])}'"
