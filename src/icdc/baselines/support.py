"""What classical solvers share: which problems they answer, optional packages, integers, and quiet libraries."""

import ctypes
import importlib.util
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import MissingExtraError
from ..kernels import fold, root_key
from ..problems.contract import Problem, Structure
from ..solving.solver import Request, Solver

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
    content = [zlib.crc32(np.ascontiguousarray(matrix, dtype=np.float64).tobytes()) for matrix in matrices]
    return fold(root_key(seed), torch.tensor(content, dtype=torch.int64))


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
