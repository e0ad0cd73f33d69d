"""Prices of leaving and of entering a city: what they leave of a step's cost tells good steps from bad ones.

Whatever the prices, a tour pays all of them and what its steps cost beyond them; so prices order the steps that are
worth looking at, change nothing about which tour is shortest, and give a lower bound.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..later import optimize

Numbers = NDArray[Any]
"""Costs: int64, or float64."""
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Prices:
    """Prices with the bound that they prove.

    leaving, entering : (n,), of the kind of the costs.
    excess : (n, n), what a step costs beyond all prices, those of leaving a group of cities as well.
    bound : no tour is shorter; whole for integers, lowered by all possible rounding for reals.
    """

    leaving: Numbers
    entering: Numbers
    excess: Numbers
    bound: float


def with_barriers(distances: Numbers, allowed: NDArray[np.bool_] | None = None) -> tuple[Numbers, Any]:
    """Return costs (n, n) in int64 or float64 whose forbidden steps cost more than any tour, and that cost.

    Staying in place is forbidden, and what `allowed` (n, n) says so. Integers so large that sums of them would
    not fit are turned into reals.
    """
    size = len(distances)
    usable = ~np.eye(size, dtype=bool) if allowed is None else allowed & ~np.eye(size, dtype=bool)
    if not usable.any():
        raise ValueError("every step is forbidden")
    largest = float(np.abs(distances[usable]).max())
    whole = np.issubdtype(distances.dtype, np.integer) and largest * 2 * size < 2.0**58
    costs = distances.astype(np.int64 if whole else np.float64)
    barrier: Any = np.array(largest * 2 * size + 1).astype(costs.dtype)[()]
    costs[~usable] = barrier
    return costs, barrier


def assignment(costs: Numbers, barrier: Any) -> tuple[Indices, Prices] | None:
    """Return the cheapest assignment (n,) of successors and its prices, or None if there is none without barriers.

    At these prices no step costs less than nothing beyond them, and the steps of the assignment cost nothing.
    """
    size = len(costs)
    try:
        chosen = optimize.linear_sum_assignment(np.where(costs >= barrier, np.inf, costs))[1]
    except ValueError:  # every assignment takes a forbidden step
        return None
    successor = chosen.astype(np.int64)
    own = costs[np.arange(size), successor]
    entering = np.zeros(size, costs.dtype)
    # Bellman and Ford: exchanging successors along any path must not pay; exact for integers
    for _ in range(size):
        lower = np.minimum(entering, (costs - (own - entering[successor])[:, None]).min(0))
        if (lower == entering).all():
            break
        entering = lower
    leaving = (costs - entering).min(1)
    bound = float(leaving.sum() + entering.sum()) - rounding(costs, float(np.abs(entering).max()), 2)
    return successor, Prices(leaving, entering, costs - leaving[:, None] - entering, bound)


def rounding(costs: Numbers, largest_price: float, terms: int) -> float:
    """Return how far a bound from prices may be off: each step less `terms` prices, summed over all cities.

    Nothing for integers.
    """
    if np.issubdtype(costs.dtype, np.integer):
        return 0.0
    size = len(costs)
    used = float(np.abs(np.where(costs >= costs[0, 0], 0, costs)).max())  # the diagonal is a barrier
    return 4 * float(np.finfo(np.float64).eps) * size * (size + terms) * (used + largest_price)


def patched(excess: Numbers, successor: Indices) -> Indices:
    """Join the cycles of an assignment into one tour: two cities swap successors where that costs least.

    In each pass every city names its best partner in another cycle; the swaps are made, cheapest first, as long as
    they join two cycles and neither city has swapped in this pass.
    """
    size, cities = len(excess), np.arange(len(excess))
    successor = successor.copy()
    while True:
        label = _cycles(successor)
        if label.max() == 0:
            return successor
        towards = excess[:, successor] - excess[cities, successor][:, None]
        extra = towards + towards.T
        extra[label[:, None] == label[None, :]] = np.iinfo(np.int64).max if extra.dtype == np.int64 else np.inf
        partner = extra.argmin(1)
        joined = list(range(size))
        swapped = np.zeros(size, dtype=bool)
        for city in np.argsort(extra[cities, partner], kind="stable").tolist():
            other = int(partner[city])
            one, two = _root(joined, int(label[city])), _root(joined, int(label[other]))
            if one != two and not swapped[city] and not swapped[other]:
                joined[one] = two
                swapped[city] = swapped[other] = True
                successor[city], successor[other] = successor[other], successor[city]


def _cycles(successor: Indices) -> Indices:
    """Return for each city the number of its cycle, from 0."""
    following, label, count = successor.tolist(), [-1] * len(successor), 0
    for start in range(len(label)):
        if label[start] < 0:
            city = start
            while label[city] < 0:
                label[city] = count
                city = following[city]
            count += 1
    return np.array(label)


def _root(joined: list[int], label: int) -> int:
    while joined[label] != label:
        label = joined[label]
    return label
