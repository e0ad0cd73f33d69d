"""What classical solvers share: which problems they answer, optional packages, integers, and quiet libraries."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError
from ..problems.base import Problem, Structure
from ..solving.solver import Improvement, Request, Solver

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise

T = TypeVar("T")
_GRACE, _PATIENCE = 0.2, 0.6
"""Seconds after its limit when an engine is asked to end, and after that when it is abandoned."""
_WORDS: dict[Structure, str] = {"tour": "tours", "makespan": "schedules"}


class ClassicalSolver(Solver):
    """A solver of problems whose structure it knows.

    structures : the structures it knows: shortest tours, schedules with the makespan as cost, or both.
    """

    structures: ClassVar[tuple[Structure, ...]]

    def refusal(self, problem: Problem) -> str | None:
        if problem.structure in self.structures:
            return None
        known = " and ".join(_WORDS[structure] for structure in self.structures)
        return f"the solver '{self.name}' is for {known}: it cannot answer '{problem.name}'"


def cost_matrices(request: Request) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return what solvers work on, (count, rows, columns): processing times, or the cost of every step."""
    matrices = request.problem.cost_matrix(request.arrays)
    assert matrices is not None  # a problem that declares its structure has one
    return matrices


def instance_keys(matrices: NDArray[np.generic], seed: int) -> Tensor:
    """Return a key (count,) for every instance, from the seed and the instance itself.

    An instance so gets the same random numbers in any batch and in any chunk.
    """
    import torch

    from ..kernels import fold, root_key

    content = [zlib.crc32(np.ascontiguousarray(matrix, dtype=np.float64).tobytes()) for matrix in matrices]
    return fold(root_key(seed), torch.tensor(content, dtype=torch.int64))


def sample_noise(keys: Tensor, begin: int, end: int) -> Noise:
    """Return the noise of samples begin … end − 1 of every key (count,), item-major: the same in whatever parts."""
    import torch

    from ..kernels import Noise, fold

    number = torch.arange(begin, end, device=keys.device)
    return Noise(fold(fold(keys, 1)[:, None], number[None, :]).flatten())


class Incumbents:
    """The best of every instance of a request so far, told to it as soon as it is found, so that Ctrl-C loses nothing.

    Attributes
    ----------
    choice : (count, rows) int64, −1 where there is none yet.
    stopped : whether who asked has had enough.
    """

    def __init__(self, request: Request) -> None:
        self.request, self.began = request, time.perf_counter()
        self.choice = np.full((request.count, request.shape[0]), -1, dtype=np.int64)
        self.cost = np.full(request.count, np.inf)
        self.stopped = False

    def take(self, part: slice, choice: Tensor, cost: Tensor) -> None:
        """Keep what is better of K choices (n, K, rows), and their costs (n, K), of n instances."""
        from ..diffusion.sampler import best_of

        best, lowest = best_of(choice, cost)
        found, paid = best.cpu().numpy(), lowest.double().cpu().numpy()
        better = paid < self.cost[part]
        if better.any():
            self.choice[part] = np.where(better[:, None], found, self.choice[part])
            self.cost[part] = np.where(better, paid, self.cost[part])
            told = Improvement(time.perf_counter() - self.began, self.cost.copy(), self.choice.copy())
            self.stopped |= self.request.tell(told)


class OutOfTime(Exception):
    """The time was over before an engine could begin."""


@dataclass(frozen=True)
class Deadline:
    """When the time of an instance is over, by `time.perf_counter`; None for never."""

    at: float | None

    def left(self) -> float | None:
        """Return the seconds that are left, negative where it is over."""
        return None if self.at is None else self.at - time.perf_counter()

    def check(self) -> None:
        """Raise OutOfTime where it is over; for the loops that build what engines take."""
        if self.at is not None and time.perf_counter() >= self.at:
            raise OutOfTime


class Abandoned(Exception):
    """An engine did not end when it was asked to; what it still does, nobody waits for.

    interrupted : whether it was asked to because of Ctrl-C.
    """

    def __init__(self, interrupted: bool) -> None:
        super().__init__()
        self.interrupted = interrupted


def interruptible(work: Callable[[], T], stop: Callable[[], object], deadline: Deadline) -> tuple[T, bool]:
    """Run an engine so that Ctrl-C is heard: in a thread of its own, since native code keeps signals waiting.

    After Ctrl-C, and where it goes on after the deadline, `stop` asks the engine to end, and soon after that it is
    abandoned. Returns what the engine returned, and whether Ctrl-C was pressed.
    """
    if threading.current_thread() is not threading.main_thread():
        return work(), False  # nobody interrupts another thread
    running: Future[T] = Future()

    def run() -> None:
        try:
            running.set_result(work())
        except BaseException as error:
            running.set_exception(error)

    # a daemon: whoever is asked to end must not wait for an engine that does not
    threading.Thread(target=run, daemon=True).start()
    interrupted = asked = False
    while True:
        left = None if deadline.at is None else max(0.0, deadline.at - time.perf_counter()) + _GRACE
        try:
            return running.result(_PATIENCE if asked else left), interrupted
        except TimeoutError:
            if running.done():
                raise  # its own
            if asked:
                raise Abandoned(interrupted) from None
        except KeyboardInterrupt:
            interrupted = True
        stop()
        asked = True


@dataclass
class Share:
    """The time of a part of a batch: its share of what is left, by numbers of instances.

    deadline : by `time.perf_counter`, or None.
    """

    deadline: float | None

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return self.deadline is not None and time.perf_counter() >= self.deadline

    @staticmethod
    def of(request: Request, started: float, part: int, left: int) -> Share:
        """Return the share of `part` instances of the `left` ones that are not done yet."""
        if request.time_limit is None:
            return Share(None)
        now = time.perf_counter()
        return Share(now + (started + request.time_limit - now) * part / left)


def require(package: str, extra: str, solver: str) -> None:
    """Raise MissingExtraError, with the pip line that helps, unless `package` can be imported."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(
            f"the solver '{solver}' needs the package '{package}'; add it with: pip install 'icdc[{extra}]'"
        )


@contextmanager
def silent_stdout() -> Iterator[None]:
    """Send what native code writes to standard output while the block runs to nowhere: stdout belongs to the data.

    HiGHS prints lines of its own there that no option turns off. The descriptor itself is redirected, since
    such output does not pass through Python; C's buffers are emptied on both sides, lest they spill later.
    """
    sys.stdout.flush()
    _flush_c_buffers()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        yield
    finally:
        _flush_c_buffers()
        os.dup2(kept, 1)
        os.close(kept)


def _flush_c_buffers() -> None:
    """Call C's fflush(NULL), where there is a C library to be found."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


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


def as_integers(
    matrix: NDArray[np.int64] | NDArray[np.float64], largest: int = 10**9, *, tour: bool = False
) -> IntegerMatrix:
    """Write a matrix (rows, columns) as integers of at most `largest`.

    Integers stay as they are if they fit. Reals with few decimals are scaled by a power of ten, all others so
    that the greatest becomes `largest`. For tours the smallest entry off the diagonal is taken off each row
    first, which every tour pays whatever it does, and the diagonal is set to zero.
    """
    rows = len(matrix)
    shift = matrix.dtype.type(0)
    if tour:
        diagonal = np.eye(rows, dtype=bool)
        least = np.where(diagonal, matrix.max(), matrix).min(1, keepdims=True)
        matrix = np.where(diagonal, 0, matrix - least)
        shift = least.sum()
    top = float(matrix.max(initial=0))
    if np.issubdtype(matrix.dtype, np.integer) and top <= largest:
        return IntegerMatrix(matrix.astype(np.int64), 1.0, float(shift), 0.0)
    scale = largest / top if top > 0 else 1.0
    for decimals in range(10):
        scaled = matrix * 10.0**decimals
        if float(scaled.max(initial=0)) > largest:
            break
        if np.abs(scaled - np.rint(scaled)).max(initial=0.0) < 1e-6:
            scale = 10.0**decimals
            break
    values = np.rint(matrix * scale)
    # what rounding to integers hides, and what sums of float64 in any order may add to it
    error = rows * float(np.abs(matrix - values / scale).max(initial=0.0) + 4 * np.finfo(np.float64).eps * top)
    return IntegerMatrix(values.astype(np.int64), scale, float(shift), error)
