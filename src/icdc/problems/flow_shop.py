"""The no-wait flow shop: every job visits all machines in the same order, and never waits in between."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .arrays import checked_matrix, exact_numbers, reject_negative
from .base import Arrays, FeatureSizes, InTorch, Size
from .instance import Instance, RawInstance
from .present import Bar, counted, number
from .sequencing import Sequencing, named_item

in_torch = partial(InTorch, "icdc.problems.tours_torch")


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
        begun = ended - durations
        costs = np.zeros((count, jobs + 1, jobs + 1), dtype=durations.dtype)
        for machine in range(machines):
            later = ended[:, :, None, machine] - begun[:, None, :, machine]
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
