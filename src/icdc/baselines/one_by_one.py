"""Solvers that answer one instance at a time: sharing out the time limit, worker processes, fallbacks."""

import multiprocessing
import time
from abc import abstractmethod
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import UsageError
from ..solving.solver import Found, Request
from .heuristics import earliest_completion, insertion_tours, longest_first_order
from .support import ClassicalSolver, Deadline, cost_matrices, instance_keys

Matrix = NDArray[np.int64] | NDArray[np.float64]


class Single(NamedTuple):
    """One instance to answer.

    tour : whether `matrix` (rows, columns) is a matrix of steps rather than of processing times.
    start : (rows,) a feasible choice to begin with; also the answer if the solver finds none.
    limit : seconds it may take, or None.
    """

    tour: bool
    matrix: Matrix
    start: NDArray[np.int64]
    samples: int
    seed: int
    limit: float | None

    def deadline(self) -> Deadline:
        """Return when its time is over, if it begins now."""
        return Deadline(None if self.limit is None else time.perf_counter() + self.limit)


class SingleAnswer(NamedTuple):
    """A feasible choice (rows,), a lower bound on the optimum, and whether the choice is proven optimal.

    interrupted : whether Ctrl-C ended the search for it.
    """

    choice: NDArray[np.int64]
    bound: float = -np.inf
    proven: bool = False
    interrupted: bool = False


@dataclass(frozen=True)
class OneByOne(ClassicalSolver):
    """SingleAnswer instances one by one, in `processes` at once.

    The time limit is for the whole batch: an instance that starts gets its fair share of what is left.
    Where no time is left, and where nothing better is found in it, the answer is that of a quick heuristic.
    """

    processes: int = 1

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise UsageError(f"option 'processes' of solver '{self.name}' must be at least 1, got {self.processes}")

    @abstractmethod
    def answer(self, single: Single) -> SingleAnswer:
        """SingleAnswer one instance within its limit."""

    def load(self) -> None:
        """Import what `answer` needs, so that it is not counted as solving time."""
        return

    def search(self, request: Request) -> Found:
        matrices = cost_matrices(request)
        tour = request.problem.structure == "tour"
        self.load()
        with _Workers(self, min(self.processes, len(matrices))) as workers:
            started = time.perf_counter()
            starts = _starts(matrices, tour) if request.start is None else request.start
            limit = None if request.time_limit is None else started + request.time_limit - time.perf_counter()
            seeds = instance_keys(matrices, request.seed).tolist()
            singles = [
                Single(tour, matrix, start, request.samples, key & 0x7FFFFFFF, None)
                for matrix, start, key in zip(matrices, starts, seeds, strict=True)
            ]
            answers: list[SingleAnswer] = []
            interrupted = False
            try:
                for answer in workers.answers(singles, limit):
                    answers.append(answer)
                    if answer.interrupted:
                        raise KeyboardInterrupt
            except KeyboardInterrupt:  # what was not reached has its quick answer
                interrupted = True
                answers += [SingleAnswer(single.start) for single in singles[len(answers) :]]
            seconds = time.perf_counter() - started
        return Found(
            np.stack([answer.choice for answer in answers]),
            seconds,
            np.array([answer.bound for answer in answers], dtype=np.float64),
            np.array([answer.proven for answer in answers], dtype=bool),
            interrupted=interrupted,
        )


class _Workers:
    """Answers singles in order of their numbers, in this process or in several others."""

    def __init__(self, solver: OneByOne, processes: int) -> None:
        self.solver = solver
        self.processes = processes
        self.pool: ProcessPoolExecutor | None = None
        self.running: dict[Future[SingleAnswer], int] = {}

    def __enter__(self) -> "_Workers":
        if self.processes > 1:
            # a fresh interpreter each: forking a process whose libraries run threads can deadlock
            self.pool = ProcessPoolExecutor(self.processes, mp_context=multiprocessing.get_context("spawn"))
            wait([self.pool.submit(self.solver.load) for _ in range(self.processes)])
        return self

    def __exit__(self, *error: Any) -> None:
        if self.pool is not None:
            for process in self.pool._processes.values() if self.running else ():
                process.kill()  # after Ctrl-C: what they still work on nobody waits for
            self.pool.shutdown(wait=True, cancel_futures=True)

    def answers(self, singles: list[Single], time_limit: float | None) -> Iterator[SingleAnswer]:
        deadline = None if time_limit is None else time.perf_counter() + time_limit
        if self.pool is None:
            for index, single in enumerate(singles):
                yield _answer(self.solver, self._with_share(single, deadline, len(singles) - index))
            return
        running = self.running
        finished: dict[int, SingleAnswer] = {}
        begun = given = 0
        while given < len(singles):
            while begun < len(singles) and len(running) < self.processes:
                single = self._with_share(singles[begun], deadline, len(singles) - begun)
                running[self.pool.submit(_answer, self.solver, single)] = begun
                begun += 1
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                finished[running.pop(future)] = future.result()
            while given in finished:
                yield finished.pop(given)
                given += 1

    def _with_share(self, single: Single, deadline: float | None, left: int) -> Single:
        if deadline is None:
            return single
        rounds = -(-left // self.processes)
        return single._replace(limit=(deadline - time.perf_counter()) / rounds)


def _answer(solver: OneByOne, single: Single) -> SingleAnswer:
    if single.limit is not None and single.limit <= 0:
        return SingleAnswer(single.start)
    return solver.answer(single)


def _starts(matrices: Matrix, tour: bool) -> NDArray[np.int64]:
    """Return a quick feasible choice for every instance, (count, rows)."""
    costs = torch.from_numpy(matrices)
    if tour:
        first = torch.zeros(len(costs), 1, dtype=torch.long)
        return insertion_tours(costs, first, furthest=True)[:, 0].numpy()
    return earliest_completion(costs, longest_first_order(costs)).numpy()
