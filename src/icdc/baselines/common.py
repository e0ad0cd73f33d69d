"""What the baselines share: which problems they answer, keys of instances, and how answers are scored."""

import zlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import UsageError
from ..noise import fold, root_key
from ..problem import Arrays, Problem, to_tensors
from ..problems.pmsp import Pmsp
from ..problems.tours import TourProblem
from ..solver import Results


def is_scheduling(problem: Problem) -> bool:
    """Tell whether a problem is machine scheduling with the makespan as cost and nothing forbidden."""
    cls = type(problem)
    return isinstance(problem, Pmsp) and cls.cost is Pmsp.cost and cls.mask is Problem.mask


def is_tour(problem: Problem) -> bool:
    """Tell whether a problem asks for the shortest tour through a matrix with nothing forbidden."""
    cls = type(problem)
    return isinstance(problem, TourProblem) and cls.cost is TourProblem.cost and cls.mask is Problem.mask


def cost_matrices(problem: Problem, arrays: Arrays) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return what solvers work on, (count, rows, columns): processing times, or the cost of every step."""
    instances = to_tensors(arrays)
    if isinstance(problem, TourProblem):
        return problem.travel(instances).numpy()
    if isinstance(problem, Pmsp):
        return instances["durations"].numpy()
    raise UsageError(f"this solver knows scheduling and tours, not the problem '{problem.name}'")


def instance_keys(matrices: NDArray[np.generic], seed: int) -> Tensor:
    """Return a key (count,) for every instance, from the seed and the instance itself.

    An instance so gets the same random numbers in any batch and in any chunk.
    """
    content = [zlib.crc32(np.ascontiguousarray(matrix, dtype=np.float64).tobytes()) for matrix in matrices]
    return fold(root_key(seed), torch.tensor(content, dtype=torch.int64))


def results(
    problem: Problem,
    arrays: Arrays,
    choice: NDArray[np.int64],
    seconds: float,
    bound: NDArray[np.float64] | None = None,
    proven: NDArray[np.bool_] | None = None,
) -> Results:
    """Score choices (count, rows) with the problem's own cost and make them results.

    A cost that its lower bound reaches is proven optimal, whoever found the two.
    """
    count = len(choice)
    bound = np.full(count, -np.inf) if bound is None else bound
    proven = np.zeros(count, dtype=bool) if proven is None else proven
    cost = problem.cost(to_tensors(arrays), torch.from_numpy(choice)[:, None]).squeeze(1).double().numpy()
    return Results(
        choice=choice,
        cost=cost,
        bound=bound,
        proven=proven | (bound >= cost),
        seconds=seconds,
    )


def best_of(choice: Tensor, cost: Tensor) -> Tensor:
    """Return the cheapest (count, rows) of choices (count, samples, rows) with costs (count, samples)."""
    best = cost.argmin(1)[:, None, None].expand(-1, 1, choice.shape[2])
    return choice.gather(1, best).squeeze(1)
