"""Single runs of any solver on one instance, watched: how good its best answer was after so many seconds.

Runs go side by side on pairs of cores of their own, and each is written to a CSV file when it ends: a line for every
limit. What is in the file is not run again.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from experiments.csvfiles import append_rows, read_rows
from icdc.errors import UsageError
from icdc.io.datasets import STANDARD_SETS, standard_instances
from icdc.problems import get_problem
from icdc.problems.families import sample_family
from icdc.solvers import make_solver
from icdc.solving.solver import Solver

COLUMNS = ("solver", "set", "instance", "seed", "limit", "cost", "proven", "seconds")
CORES = 2
"""Of every run."""
LATE = 30.0
"""Seconds that a run may be late before it is given up."""


T = TypeVar("T")
THREADS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What tells libraries how many threads to use."""


class Run(NamedTuple):
    """A solver on one instance of a standard set, with one seed, judged at some limits in seconds."""

    solver: str
    set: str
    instance: int
    seed: int
    limits: tuple[float, ...]


class Reached(NamedTuple):
    """The best cost a solver had after `limit` seconds, whether it had proven it, and when its run ended."""

    limit: float
    cost: float
    proven: bool
    seconds: float


def run_all(runs: Iterable[Run], out: Path, pairs: int, minutes: float) -> int:
    """Do the runs that the file lacks, in order, `pairs` at a time, and return how many are left when time is up."""
    deadline = time.monotonic() + 60.0 * minutes
    done = {_key(row) for row in read_rows(out)}
    todo = [run for run in runs if not {(*run[:4], limit) for limit in run.limits} <= done]
    drawn: dict[str, Any] = {}
    running: dict[Future[list[Reached]], Run] = {}
    left = len(todo)
    with PinnedWorkers(pairs, CORES) as workers:
        while (todo or running) and time.monotonic() < deadline + LATE:
            # the next that can end in time; the last ones may be shorter than those before them
            while len(running) < pairs and (
                fitting := [r for r in todo if time.monotonic() + max(r.limits) < deadline]
            ):
                run = fitting[0]
                todo.remove(run)
                if run.set not in drawn:
                    drawn[run.set] = standard_instances(run.set)
                one = {name: array[run.instance : run.instance + 1] for name, array in drawn[run.set].items()}
                running[workers.submit(watched, run.solver, run.set, one, run.limits, run.seed)] = run
            if not running:
                break
            for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                run = running.pop(future)
                about = {"solver": run.solver, "set": run.set, "instance": run.instance, "seed": run.seed}
                reached = future.result()
                append_rows(out, COLUMNS, [about | each._asdict() for each in reached])
                left -= 1
                words = ", ".join(f"{each.cost:g} at {each.limit:g} s" for each in reached)
                print(f"{run.solver} {run.set}[{run.instance}]: {words}", file=sys.stderr, flush=True)
    print(f"{left} runs are left to do" if left else "all runs are done", file=sys.stderr)
    return left


def _key(row: Mapping[str, str]) -> tuple[str, str, int, int, float]:
    return row["solver"], row["set"], int(row["instance"]), int(row["seed"]), float(row["limit"])


def watched(spec: str, name: str, arrays: Any, limits: Sequence[float], seed: int) -> list[Reached]:
    """Run a solver on one instance of a standard set (leading axis 1) once for each limit, and say how far it came.

    A search shares out the time it is given: what a long one has after a second is not what a short one gives. Time is
    that of the whole call, after one call on another instance of the size, which loads and compiles.
    """
    solver = _ready(spec, name)
    return [_run(solver, name, arrays, limit, seed) for limit in limits]


def _run(solver: Solver, name: str, arrays: Any, limit: float, seed: int) -> Reached:
    began = time.perf_counter()
    problem = get_problem(STANDARD_SETS[name].problem)
    results = solver.solve(problem, arrays, samples=solver.default_samples, seed=seed, time_limit=limit)
    seconds = round(time.perf_counter() - began, 3)
    return Reached(limit, float(results.cost[0]), bool(results.proven[0]), seconds)


@cache
def _ready(spec: str, name: str) -> Solver:
    """Return a solver that has loaded and compiled what it needs for instances of a set."""
    problem, known = get_problem(STANDARD_SETS[name].problem), STANDARD_SETS[name]
    solver = make_solver(spec)
    other = sample_family(problem, known.family, 1, known.size, np.random.default_rng(0))
    solver.solve(problem, other, seed=0, time_limit=1.0)
    return solver


def groups_of_cores(workers: int, each: int) -> list[list[int]]:
    """Return `workers` disjoint groups of `each` of the cores this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    if workers < 1 or workers * each > len(cores):
        raise UsageError(f"{workers} workers with {each} cores each do not fit on {len(cores)} cores")
    return [cores[number * each : (number + 1) * each] for number in range(workers)]


class PinnedWorkers:
    """`workers` fresh interpreters with `each` cores and as many threads each; a context manager."""

    def __init__(self, workers: int, each: int = 1) -> None:
        self.groups, self.each = groups_of_cores(workers, each), each

    def __enter__(self) -> "PinnedWorkers":
        self.before = {name: os.environ.get(name) for name in THREADS}
        os.environ.update(dict.fromkeys(THREADS, str(self.each)))  # inherited before a worker loads any library
        context = multiprocessing.get_context("spawn")
        free = context.SimpleQueue()
        for group in self.groups:
            free.put(group)
        self.pool = ProcessPoolExecutor(len(self.groups), mp_context=context, initializer=_pin, initargs=(free,))
        return self

    def __exit__(self, *error: Any) -> None:
        # what counts is on disk already: a run that has not ended by now is not waited for
        processes = list((self.pool._processes or {}).values())
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for name, value in self.before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Run a function of a module on the next worker that is free."""
        return self.pool.submit(function, *arguments)


def _pin(free: Any) -> None:
    group = free.get()
    os.sched_setaffinity(0, group)
    import torch

    torch.set_num_threads(len(group))
