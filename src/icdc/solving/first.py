"""An answer at once: what there is to say when a search is stopped before it found anything."""

import numpy as np
from numpy.typing import NDArray

from ..problems.base import Arrays, Problem
from ..search.structures import structure_of


def first_choice(problem: Problem, arrays: Arrays) -> NDArray[np.int64]:
    """Return a choice (count, rows) for every instance: its rule follows the cheapest pairs, in its own order.

    Nearest neighbours for tours, the shortest processing time of each job for schedules, and both without torch, which
    would have to be imported first; any pairs where no matrix says what they cost. It need not be feasible where a
    problem forbids more than its rule knows.
    """
    costs = problem.cost_matrix(arrays)
    if costs is not None and problem.structure is not None:
        return structure_of(problem.structure).first_choice(costs)
    import torch

    from ..problems.tensors import to_tensors

    rows, columns = problem.shape(problem.size(arrays))
    count = len(next(iter(arrays.values())))
    scores = torch.zeros(count, rows, columns)
    if costs is not None:
        scores = -torch.from_numpy(np.array(costs, dtype=np.float32))
    mask = problem.mask(to_tensors(arrays))
    choice = problem.rule.follow(scores, torch.zeros(count, dtype=torch.long), mask)
    return np.asarray(choice.numpy(), dtype=np.int64)
