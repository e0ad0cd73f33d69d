"""An answer at once: what there is to say when a search is stopped before it found anything."""

import numpy as np
from numpy.typing import NDArray

from ..problems.base import Arrays, Problem


def first_choice(problem: Problem, arrays: Arrays) -> NDArray[np.int64]:
    """Return a choice (count, rows) for every instance: its rule follows the cheapest pairs, in its own order.

    Nearest neighbours for tours, the shortest processing time of each job for schedules, and both without torch, which
    would have to be imported first; any pairs where no matrix says what they cost. It need not be feasible where a
    problem forbids more than its rule knows.
    """
    costs = problem.cost_matrix(arrays)
    if costs is not None and problem.structure == "makespan":
        return np.asarray(np.asarray(costs).argmin(2), dtype=np.int64)
    if costs is not None and problem.structure == "tour":
        return _nearest_neighbours(np.asarray(costs))
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


def _nearest_neighbours(costs: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return the tours from city 0, by the successor of every city (count, cities), that go to the nearest city left.

    costs : (count, cities, cities).
    """
    count, cities = costs.shape[:2]
    every, here = np.arange(count), np.zeros(count, dtype=np.int64)
    left = np.ones((count, cities), dtype=bool)
    following = np.zeros((count, cities), dtype=np.int64)
    for _ in range(cities - 1):
        left[every, here] = False
        nearest = np.where(left, costs[every, here].astype(np.float64), np.inf).argmin(1)
        # where all that is left is infinitely far, any city that is left will do
        nearest = np.where(left[every, nearest], nearest, left.argmax(1))
        following[every, here] = nearest
        here = nearest
    return following
