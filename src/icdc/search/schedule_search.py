"""All of the classical search for one schedule within a time limit: construct, search, prove, search again."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .schedule_bound import knapsack_bound
from .schedules import Choice, construct, iterate


@dataclass(frozen=True)
class Found:
    """The best schedule (jobs,), a bound that no makespan is below, and whether the two were shown to meet."""

    choice: Choice
    bound: float
    proven: bool


def search(
    durations: NDArray[Any],
    seconds: float,
    seed: int,
    allowed: NDArray[np.bool_] | None = None,
    start: Choice | None = None,
) -> Found:
    """Return a short schedule within about `seconds`.

    A tenth of the time goes to search from the best of the constructions and of the given start (jobs,), up to a fifth
    to a better bound, which may end it, and the rest to search.
    """
    begun = time.monotonic()

    def left(share: float) -> float:
        return share * seconds - (time.monotonic() - begun)

    starts = construct(durations, allowed, seconds=0.5 * seconds)
    choice, prices, value, bound = starts.choices[0], starts.prices, starts.makespans[0], starts.prices.bound
    if start is not None:
        given = iterate(durations, start, allowed, prices=prices, bound=bound, iterations=1, seed=seed)
        if given.makespan < value:
            choice, value = given.choice, given.makespan
    for turn, share in enumerate((0.1, 1.0)):
        if value <= bound:
            break
        if turn and left(1.0) > 0:
            bound = max(bound, knapsack_bound(durations, prices, value, seconds=min(0.2 * seconds, left(1.0))))
        found = iterate(
            durations, choice, allowed, prices=prices, bound=bound, seconds=max(0.0, left(share)), seed=2 * seed + turn
        )
        choice, value = found.choice, found.makespan
    return Found(choice, float(bound), bool(value <= bound))
