"""Dynamic programming over machine loads: exact makespans for few machines and small whole durations."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..solving.solver import Abilities
from .one_by_one import Matrix, OneByOne, Single, SingleAnswer

Table = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class DynamicProgram(OneByOne):
    """Tabulate, job by job, the least load of the last machine for every combination of loads of the others.

    Only loads below the makespan of a quick heuristic are kept, since only such schedules are better: the
    table has makespan^(machines − 1) entries, and one is kept for every job to read the schedule back.
    `cells` is how many entries there may be in all; durations are counted in their greatest common divisor.
    """

    name = "dp"
    structures = ("makespan",)
    abilities = Abilities(proof=True, start=True)

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


def load_tables(times: NDArray[np.int64], limit: int, deadline: float = np.inf) -> list[Table] | None:
    """Return the tables before the first job and after every job, each (limit,) × (machines − 1).

    An entry is the least load of the last machine when the others have the loads of its index, and `limit`
    where that load cannot be below `limit`. None if the deadline (of `time.perf_counter`) passes first.

    times : (jobs, machines) non-negative.
    """
    machines = times.shape[1]
    kind = np.min_scalar_type(2 * limit).type  # sums of two entries fit, and small entries are fast
    table = np.full((limit,) * (machines - 1), limit, dtype=kind)
    table[(0,) * (machines - 1)] = 0
    tables = [table]
    for *others, last in np.minimum(times, limit).tolist():
        if time.perf_counter() > deadline:
            return None
        after = np.minimum(table + kind(last), kind(limit))
        for axis, duration in enumerate(others):
            ahead = (slice(None),) * axis
            longer = after[(*ahead, slice(duration, None))]
            np.minimum(longer, table[(*ahead, slice(None, limit - duration))], out=longer)
        tables.append(after)
        table = after
    return tables


def read_schedule(times: NDArray[np.int64], tables: list[Table], limit: int) -> NDArray[np.int64] | None:
    """Return the machine of each job (jobs,) in the best schedule of `load_tables`; None if there is none."""
    jobs, machines = times.shape
    makespan = tables[-1].copy()
    for axis in range(machines - 1):
        load = np.arange(limit, dtype=makespan.dtype).reshape(-1, *(1,) * (machines - 2 - axis))
        np.maximum(makespan, load, out=makespan)
    best = int(makespan.argmin())
    if makespan.flat[best] >= limit:
        return None
    loads = [int(load) for load in np.unravel_index(best, makespan.shape)]
    last = int(tables[-1][tuple(loads)])
    choice = np.full(jobs, machines - 1, dtype=np.int64)
    for job in reversed(range(jobs)):
        before, (*others, duration) = tables[job], times[job].tolist()
        if last >= duration and before[tuple(loads)] == last - duration:
            last -= duration
            continue
        for machine, took in enumerate(others):
            earlier = loads.copy()
            earlier[machine] -= took
            if earlier[machine] >= 0 and before[tuple(earlier)] == last:
                loads, choice[job] = earlier, machine
                break
    return choice


def _makespan(times: NDArray[np.int64], choice: NDArray[np.int64]) -> int:
    loads = np.zeros(times.shape[1], dtype=np.int64)
    np.add.at(loads, choice, times[np.arange(len(times)), choice])
    return int(loads.max())
