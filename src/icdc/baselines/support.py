"""What classical solvers share: the problems they answer, random numbers of instances, and samples part by part."""

import zlib
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..diffusion.sampler import best_of
from ..kernels import Noise, fold, root_key
from ..problems.base import Problem
from ..search.run import Budget
from ..search.structures import structure_of
from ..solving.solver import Request, Solver

Matrices = NDArray[np.int64] | NDArray[np.float64]


class ClassicalSolver(Solver):
    """A solver of problems whose structure it knows.

    structures : the structures it knows: shortest tours, schedules with the makespan as cost, or both.
    """

    structures: ClassVar[tuple[str, ...]]

    def refusal(self, problem: Problem) -> str | None:
        if problem.structure in self.structures:
            return None
        words = " and ".join(structure_of(structure).words for structure in self.structures)
        return f"the solver '{self.name}' is for {words}: it cannot answer '{problem.name}'"


def cost_matrices(request: Request) -> Matrices:
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


def sample_noise(keys: Tensor, samples: range) -> Noise:
    """Return the noise of some samples of every key (count,), item-major: the same in whatever parts."""
    number = torch.arange(samples.start, samples.stop, device=keys.device)
    return Noise(fold(fold(keys, 1)[:, None], number[None, :]).flatten())


def parts(request: Request, cells: int, most: int) -> Iterator[tuple[slice, range, Budget]]:
    """Yield which instances and samples of a request come next, and the time they have; one sample of each in any case.

    cells : numbers that a sample of an instance takes; at most `most` of them are worked on at once.
    """
    count, samples = request.count, request.samples
    together = max(1, min(samples, most // cells))
    size, fewest = max(1, most // (together * cells)), samples
    for begin in range(0, count, size):
        part = slice(begin, min(begin + size, count))
        budget, start = request.budget.share((part.stop - begin) / (count - begin)), 0
        while start < samples and not (start and (budget.over or request.stopped(part))):
            numbers = range(start, min(start + together, samples))
            yield part, numbers, budget
            start = numbers.stop
        fewest = min(fewest, start)
    request.result.samples = fewest


def offer_best(request: Request, part: slice, choice: Tensor, cost: Tensor) -> None:
    """Offer the best of K choices (n, K, rows), by their costs (n, K), of the n instances of a part."""
    best, lowest = best_of(choice, cost)
    request.offer(best.cpu().numpy(), lowest.double().cpu().numpy(), places=part)
