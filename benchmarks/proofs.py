"""The integer program of the search by HiGHS, which SciPy brings, beside the same one by CP-SAT: who ends it sooner?

    python -m benchmarks.proofs --sets pmsp-uniform-100-100x20 pmsp-machine-correlated-100x20 --seconds 10

Each instance is constructed and searched for some steps; where that is no proof, both get the same pairs of job and
machine (all that can be in a better schedule), the same bounds and one thread, one after the other, CP-SAT the best
schedule as a hint. Processor time is what counts: both may run beside other work.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.markdown import table
from icdc.errors import IcdcError
from icdc.io.datasets import standard_instances
from icdc.search.run import Budget
from icdc.search.schedule_mip import restricted_mip
from icdc.search.schedule_prices import most_jobs
from icdc.search.schedule_search import ScheduleSearch

SETS = ("pmsp-50x5", "pmsp-uniform-100-100x20", "pmsp-machine-correlated-100x20", "pmsp-job-correlated-100x10")


def by_cpsat(durations: NDArray[np.int64], parts: ScheduleSearch, seconds: float) -> tuple[int, bool]:
    """Return the makespan that CP-SAT ends with, and whether it has proven it."""
    from ortools.sat.python import cp_model

    value, prices = int(parts.cost), parts.prices
    pairs = (durations < value) & ((prices.level + prices.given) * (1 - 1e-9) <= value - 1)
    if not pairs.any(1).all():
        return value, True
    model = cp_model.CpModel()
    end = model.new_int_var(int(parts.bound), value - 1, "end")
    takes: dict[tuple[int, int], Any] = {
        (int(job), int(machine)): model.new_bool_var("") for job, machine in zip(*np.nonzero(pairs), strict=True)
    }
    for (job, machine), variable in takes.items():
        model.add_hint(variable, int(parts.choice[job]) == machine)
    for job in range(len(durations)):
        model.add_exactly_one(takes[job, machine] for machine in np.flatnonzero(pairs[job]).tolist())
    for machine, most in enumerate(most_jobs(durations, value - 1).tolist()):
        jobs = np.flatnonzero(pairs[:, machine]).tolist()
        model.add(sum(int(durations[job, machine]) * takes[job, machine] for job in jobs) <= end)
        if len(jobs) > most:
            model.add(sum(takes[job, machine] for job in jobs) <= most)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return int(solver.objective_value), bool(status == cp_model.OPTIMAL)
    return value, bool(status == cp_model.INFEASIBLE)


def by_highs(durations: NDArray[np.int64], parts: ScheduleSearch, seconds: float) -> tuple[int, bool]:
    """Return the makespan that HiGHS ends with, and whether it has proven it."""
    found = restricted_mip(durations, parts.prices, parts.choice, seconds, durations.shape[1])
    return int(found.makespan), found.optimal


WAYS = {"HiGHS": by_highs, "CP-SAT": by_cpsat}


def measure(name: str, instances: int, seconds: float, steps: int) -> list[list[str]]:
    """Return a line for each way: the set, the way, open instances, those it made better, proved, and its seconds."""
    outcomes: dict[str, list[tuple[bool, bool, float]]] = {way: [] for way in WAYS}
    for given in standard_instances(name)["durations"][:instances]:
        durations = given.astype(np.int64)
        parts = ScheduleSearch(durations, 0)
        parts.construct(Budget())
        parts.search(Budget(steps=steps))
        if not parts.unproven:
            continue
        for way, run in WAYS.items():
            begun = time.process_time()
            makespan, proven = run(durations, parts, seconds)
            outcomes[way].append((makespan < parts.cost, proven, time.process_time() - begun))
    lines = []
    for way, each in outcomes.items():
        better, proven, spent = (sum(part) for part in zip(*each, strict=True)) if each else (0, 0, 0.0)
        lines.append([name, way, str(len(each)), str(better), str(proven), f"{spent / max(1, len(each)):.2f}"])
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, help="standard sets of schedules")
    parser.add_argument("--instances", type=int, default=10, help="the first so many of each set")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each, by the clock")
    parser.add_argument("--steps", type=int, default=3000, help="of the search before")
    options = parser.parse_args(arguments)
    try:
        lines = [
            line for name in options.sets for line in measure(name, options.instances, options.seconds, options.steps)
        ]
    except IcdcError as error:
        print(f"proofs: {error}", file=sys.stderr)
        return error.exit_code
    print(table(["set", "by", "open instances", "made better", "proven", "processor s each"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
