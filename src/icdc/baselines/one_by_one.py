"""Solvers that answer one instance at a time: sharing out the time limit, worker processes, numbers as integers."""

import importlib.util
import multiprocessing
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import MissingExtraError, UsageError
from ..problems.arrays import LARGEST_INTEGER, highest_sums
from ..search.run import Budget
from ..solving.answer import judge
from ..solving.solver import Request
from .heuristics import earliest_completion, insertion_tours, longest_first_order
from .support import ClassicalSolver, Matrices, cost_matrices, instance_keys

T = TypeVar("T")
_GRACE, _PATIENCE = 0.2, 0.6
"""Seconds after its limit when an engine is asked to end, and after that when it is abandoned."""
LARGEST_EXACT = 2**62
"""What sums of integers in an engine stay below."""


class Single(NamedTuple):
    """One instance to answer.

    tour : whether `matrix` (rows, columns) is a matrix of steps rather than of processing times.
    start : (rows,) a feasible choice to begin with; also the answer if the solver finds none.
    limit : seconds it may take, or None.
    """

    tour: bool
    matrix: Matrices
    start: NDArray[np.int64]
    samples: int
    seed: int
    limit: float | None

    @property
    def whole(self) -> bool:
        """Whether its numbers are integers."""
        return bool(np.issubdtype(self.matrix.dtype, np.integer))

    @property
    def provable(self) -> bool:
        """Whether costs are exact in the floating-point numbers in which engines state their bounds."""
        return not self.whole or bool(highest_sums(self.matrix[None])[0] <= LARGEST_INTEGER)


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
    """Answers instances one by one, in `processes` at once.

    The time limit is for the whole batch: an instance that starts gets its fair share of what is left.
    Where no time is left, and where nothing better is found in it, the answer is that of a quick heuristic.
    """

    processes: int = 1

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise UsageError(f"option 'processes' of solver '{self.name}' must be at least 1, got {self.processes}")

    @abstractmethod
    def answer(self, single: Single) -> SingleAnswer:
        """Answer one instance within its limit."""

    def load(self) -> None:
        """Import what `answer` needs, so that it is not counted as solving time."""
        return

    def search(self, request: Request) -> None:
        matrices = cost_matrices(request)
        tour = request.problem.structure == "tour"
        self.load()
        with _Workers(self, min(self.processes, len(matrices))) as workers:
            request.start_clock()
            starts = _starts(matrices, tour) if request.start is None else request.start
            seeds = instance_keys(matrices, request.seed).tolist()
            singles = [
                Single(tour, matrix, start, request.samples, key & 0x7FFFFFFF, None)
                for matrix, start, key in zip(matrices, starts, seeds, strict=True)
            ]
            try:
                for place, answer in enumerate(workers.answers(singles, request.budget)):
                    choice = answer.choice[None]
                    cost = judge(request.problem, request.part([place]), choice)[1]
                    request.offer(choice, cost, places=[place])
                    request.result.raise_bound(cost if answer.proven else [answer.bound], [place])
                    if answer.interrupted:
                        raise KeyboardInterrupt
            except KeyboardInterrupt:  # what was not reached has its quick answer
                rest = np.flatnonzero(~request.result.solved)
                request.offer(starts[rest], places=rest)
                raise


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
                process.kill()  # after Ctrl-C their work is of no use
            self.pool.shutdown(wait=True, cancel_futures=True)

    def answers(self, singles: list[Single], budget: Budget) -> Iterator[SingleAnswer]:
        if self.pool is None:
            for index, single in enumerate(singles):
                yield _answer(self.solver, self._with_share(single, budget, len(singles) - index))
            return
        running = self.running
        finished: dict[int, SingleAnswer] = {}
        next_begin = next_answer = 0
        while next_answer < len(singles):
            while next_begin < len(singles) and len(running) < self.processes:
                single = self._with_share(singles[next_begin], budget, len(singles) - next_begin)
                running[self.pool.submit(_answer, self.solver, single)] = next_begin
                next_begin += 1
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                finished[running.pop(future)] = future.result()
            while next_answer in finished:
                yield finished.pop(next_answer)
                next_answer += 1

    def _with_share(self, single: Single, budget: Budget, left: int) -> Single:
        rounds = -(-left // self.processes)
        return single._replace(limit=budget.left / rounds) if budget.timed else single


def _answer(solver: OneByOne, single: Single) -> SingleAnswer:
    if single.limit is not None and single.limit <= 0:
        return SingleAnswer(single.start)
    answer = solver.answer(single)
    return answer if single.provable else answer._replace(bound=-np.inf, proven=False)


def _starts(matrices: Matrices, tour: bool) -> NDArray[np.int64]:
    """Return a quick feasible choice for every instance, (count, rows)."""
    costs = torch.from_numpy(matrices)
    if tour:
        first = torch.zeros(len(costs), 1, dtype=torch.long)
        return insertion_tours(costs, first, furthest=True)[:, 0].numpy()
    return earliest_completion(costs, longest_first_order(costs)).numpy()


class Abandoned(Exception):
    """An engine did not end when it was asked to; its result is not waited for.

    interrupted : whether it was asked to because of Ctrl-C.
    """

    def __init__(self, interrupted: bool) -> None:
        super().__init__()
        self.interrupted = interrupted


def interruptible(work: Callable[[], T], stop: Callable[[], object], budget: Budget) -> tuple[T, bool]:
    """Run an engine so that Ctrl-C is heard: in a thread of its own, since native code keeps signals waiting.

    After Ctrl-C, and where it goes on after its time, `stop` asks the engine to end, and soon after that it is
    abandoned. Returns what the engine returned, and whether Ctrl-C was pressed.
    """
    if threading.current_thread() is not threading.main_thread():
        return work(), False  # signals reach the main thread alone
    running: Future[T] = Future()

    def run() -> None:
        try:
            running.set_result(work())
        except BaseException as error:
            running.set_exception(error)

    # a daemon: the end of the program must not wait for an engine that does not end
    threading.Thread(target=run, daemon=True).start()
    interrupted = stopping = False
    while True:
        left = budget.left + _GRACE if budget.timed else None
        try:
            return running.result(_PATIENCE if stopping else left), interrupted
        except TimeoutError:
            if running.done():
                raise  # its own
            if stopping:
                raise Abandoned(interrupted) from None
        except KeyboardInterrupt:
            interrupted = True
        stop()
        stopping = True


def require(package: str, extra: str, solver: str) -> None:
    """Raise MissingExtraError, with the pip line that helps, unless `package` can be imported."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(
            f"the solver '{solver}' needs the package '{package}'; add it with: pip install 'icdc[{extra}]'"
        )


@dataclass(frozen=True)
class IntegerMatrix:
    """A matrix of integers that stands for a matrix of numbers.

    values : (rows, columns) int64, non-negative: round((matrix − offset of its row) · scale).
    scale : units of `values` per unit of the matrix.
    shift : what the offsets add up to over a whole solution, in units of the matrix.
    error : how far the cost of a whole solution may be off through rounding, in units of the matrix.
    """

    values: NDArray[np.int64]
    scale: float
    shift: float
    error: float

    def cost(self, value: float) -> float:
        """Return what a sum of `values` means in the units of the matrix."""
        return value / self.scale + self.shift

    def bound(self, value: float) -> float:
        """Return a lower bound in the units of the matrix from one on sums of `values`."""
        return value / self.scale + self.shift - self.error


def as_integers(matrix: Matrices, largest: int = 10**9, *, tour: bool = False) -> IntegerMatrix:
    """Write a matrix (rows, columns) as integers of at most `largest`.

    Integers stay as they are if they fit. Reals with few decimals are scaled by a power of ten, all others so
    that the greatest becomes `largest`. For tours the smallest entry off the diagonal is taken off each row
    first, which every tour pays whatever it does, and the diagonal is set to zero.
    """
    rows = len(matrix)
    shift = matrix.dtype.type(0)
    magnitude = float(np.abs(matrix).max(initial=0))
    if tour:
        diagonal = np.eye(rows, dtype=bool)
        magnitude = float(np.abs(matrix[~diagonal]).max(initial=0))
        least = np.where(diagonal, matrix.max(), matrix).min(1, keepdims=True)
        matrix = np.where(diagonal, 0, matrix - least)
        shift = least.sum()
    top = float(matrix.max(initial=0))
    if np.issubdtype(matrix.dtype, np.integer) and top <= largest:
        return IntegerMatrix(matrix.astype(np.int64), 1.0, float(shift), 0.0)
    scale = largest / top if top > 0 else 1.0
    # numbers with few decimals are multiples of a power of ten up to the rounding of floats, whatever their unit
    rounding = 4 * float(np.finfo(np.float64).eps) * magnitude
    for power in (10.0**decimals for decimals in range(16)):
        if top * power > largest:
            break
        if np.abs(matrix - np.rint(matrix * power) / power).max(initial=0.0) <= rounding:
            scale = power
            break
    values = np.rint(matrix * scale)
    # what rounding to integers hides, and what sums of float64 in any order may add to it
    error = rows * (float(np.abs(matrix - values / scale).max(initial=0.0)) + rounding)
    return IntegerMatrix(values.astype(np.int64), scale, float(shift), error)
