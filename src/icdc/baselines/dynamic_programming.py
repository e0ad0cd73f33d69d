"""Dynamic programming over machine loads: exact makespans for few machines and small whole durations."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..search.schedule_tables import load_tables, read_schedule
from .one_by_one import Matrix, OneByOne, Single, SingleAnswer


@dataclass(frozen=True)
class DynamicProgram(OneByOne):
    """Tabulate, job by job, the least load of the last machine for every combination of loads of the others.

    Only loads below the makespan of a quick heuristic are kept, since only such schedules are better: the
    table has makespan^(machines − 1) entries, and one is kept for every job to read the schedule back.
    `cells` is how many entries there may be in all; durations are counted in their greatest common divisor.
    """

    name = "dp"
    structures = ("makespan",)

    cells: int = 2**27

    def answer(self, single: Single) -> SingleAnswer:
        deadline = np.inf if single.limit is None else time.perf_counter() + single.limit
        times, unit = self._in_units(single.matrix)
        jobs, machines = times.shape
        makespan = _makespan(times, single.start)
        # the linear-programming bound would cost more time than the tables do
        shortest = times.min(1)
        least = max(int(shortest.max()), -(-int(shortest.sum()) // machines))
        if makespan <= least:
            return SingleAnswer(single.start, float(least * unit), True)
        self._check_size(jobs, machines, makespan)
        tables = load_tables(times, makespan, deadline)
        if tables is None:
            return SingleAnswer(single.start, float(least * unit))
        choice = read_schedule(times, tables, makespan)
        if choice is None:
            return SingleAnswer(single.start, float(makespan * unit), True)
        return SingleAnswer(choice, float(_makespan(times, choice) * unit), True)

    def _in_units(self, durations: Matrix) -> tuple[NDArray[np.int64], int]:
        """Return durations (jobs, machines) as multiples of their greatest common divisor, and that."""
        times = np.rint(durations).astype(np.int64)
        if not np.array_equal(times, durations):
            raise UsageError(f"the solver '{self.name}' needs durations that are whole numbers; try 'cpsat'")
        unit = max(1, int(np.gcd.reduce(times, axis=None)))
        return times // unit, unit

    def _check_size(self, jobs: int, machines: int, makespan: int) -> None:
        needed = jobs * makespan ** (machines - 1)
        if needed > self.cells:
            raise UsageError(
                f"the solver '{self.name}' would need {jobs} × {makespan}^{machines - 1} = {needed:,} table entries "
                f"for {jobs} jobs on {machines} machines, more than its limit cells={self.cells}; try 'cpsat'"
            )


def _makespan(times: NDArray[np.int64], choice: NDArray[np.int64]) -> int:
    loads = np.zeros(times.shape[1], dtype=np.int64)
    np.add.at(loads, choice, times[np.arange(len(times)), choice])
    return int(loads.max())
