"""All of the classical search for one tour within a time limit: construct, improve, price, prove, improve again."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tour_bounds import prove, subtour_prices
from .tour_prices import Indices
from .tours import construct, improve, iterate, length, survey

STEPS = 6
"""A proof is tried where no more steps a city than this could be part of a shorter tour."""


@dataclass(frozen=True)
class Found:
    """The best tour (n,), a bound that no tour is below, and whether the two were shown to meet."""

    successor: Indices
    bound: float
    proven: bool


def search(
    distances: NDArray[Any], seconds: float, seed: int, allowed: NDArray[np.bool_] | None = None
) -> Found | None:
    """Return a short tour within about `seconds`; None if forbidden steps leave no tour that could be found.

    A tenth of the time goes to kicks at assignment prices, up to 40 % of the rest to the subtour relaxation, a tenth of
    the rest to kicks at its prices. Where a proof is likely it gets up to half of the time that is left then.
    """
    deadline = time.perf_counter() + seconds

    def left(share: float) -> float:
        return share * max(0.0, deadline - time.perf_counter())

    start = construct(distances, allowed)
    if start is None:
        return None
    costs, bound = start.costs, start.prices.bound
    terrain = survey(costs, start.prices)
    tour = improve(terrain, start.successor)
    tour = iterate(terrain, tour, seed=seed, seconds=left(0.1), target=bound)
    if length(costs, tour) > bound:
        relaxation = subtour_prices(costs, start.prices, tour, left(0.4))
        bound = relaxation.prices.bound
        terrain = survey(costs, relaxation.prices)
        tour = iterate(terrain, tour, seed=seed + 1, seconds=left(0.1), target=bound)
        useful = relaxation.prices.excess <= float(length(costs, tour)) - bound
        if bound < length(costs, tour) and np.count_nonzero(useful) <= STEPS * len(costs):
            tour, proven = prove(costs, tour, relaxation, left(0.5))
            if proven:
                return _checked(start.barrier, Found(tour, float(length(costs, tour)), True), costs)
        tour = iterate(terrain, tour, seed=seed + 2, seconds=left(1.0), target=bound)
    return _checked(start.barrier, Found(tour, bound, bool(length(costs, tour) <= bound)), costs)


def _checked(barrier: Any, found: Found, costs: NDArray[Any]) -> Found | None:
    """Return what was found unless its tour takes a forbidden step."""
    return found if (costs[np.arange(len(costs)), found.successor] < barrier).all() else None
