"""Tables over the loads of machines: exact makespans for few machines and small whole durations."""

import time

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.unsignedinteger]


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
