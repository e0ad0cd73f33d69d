"""One instance of a family as a bare matrix, for what measures or tests the search without the rest of the package."""

import numpy as np
from numpy.typing import NDArray

from icdc.problems import Atsp, Pmsp
from icdc.problems.families import sample_family

SCHEDULES, TOURS = tuple(Pmsp.families), tuple(Atsp.families)
"""The names of the families."""


def durations_of(family: str, jobs: int, machines: int, seed: int) -> NDArray[np.int64]:
    """Return the processing times (jobs, machines) that a seed stands for."""
    drawn = sample_family(Pmsp(), family, 1, (jobs, machines), np.random.default_rng(seed))
    return drawn["durations"][0].astype(np.int64)


def distances_of(family: str, cities: int, seed: int) -> NDArray[np.int64]:
    """Return the distances (cities, cities) that a seed stands for."""
    drawn = sample_family(Atsp(), family, 1, (cities,), np.random.default_rng(seed))
    return drawn["distances"][0].astype(np.int64)
