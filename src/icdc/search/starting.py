"""Which search an instance needs, and having it compiled while something else goes on."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..jit import SEARCH, in_background
from .decimal_schedules import DecimalScheduleSearch, whole_units
from .run import Budget, Incumbent, InstanceSearch
from .schedule_bound import knapsack_bound
from .schedule_search import ScheduleSearch
from .tour_search import TourSearch


def search_of(
    structure: Literal["tour", "makespan"],
    matrix: NDArray[Any],
    seed: int,
    start: NDArray[np.int64] | None = None,
    incumbent: Incumbent | None = None,
) -> InstanceSearch:
    """Return the search for an instance: a tour through a matrix of steps, or a schedule by a matrix of durations."""
    if structure == "tour":
        return TourSearch(matrix, seed, start=start, incumbent=incumbent)
    if (whole := whole_units(matrix)) is not None:
        return DecimalScheduleSearch(matrix, *whole, seed, start, incumbent)
    return ScheduleSearch(matrix, seed, start=start, incumbent=incumbent)


def compile_ahead(search: InstanceSearch, wait: float = 0.0) -> None:
    """Compile in the background what a search will call, with a tiny instance of the same kind of numbers.

    wait : seconds to wait for it: from numba's cache it takes half a second, and longer beside other Python code.
    """
    tour = isinstance(search, TourSearch)
    matrix = search.inner.matrix if isinstance(search, DecimalScheduleSearch) else search.matrix
    kind = np.int64 if np.issubdtype(matrix.dtype, np.integer) else np.float64
    thread = in_background((SEARCH, tour, kind), lambda: try_out(tour, kind))
    if wait > 0:
        thread.join(wait)


def try_out(tour: bool, kind: type[np.int64] | type[np.float64]) -> None:
    """Call everything that is compiled for one kind of instance and number once."""
    rng = np.random.default_rng(0)
    if tour:
        trial: InstanceSearch = TourSearch(rng.integers(1, 100, (50, 50)).astype(kind), 0)
    else:
        # times so long that no table over loads ends it before anything compiled is called
        trial = ScheduleSearch(rng.integers(1, 1000, (12, 4)).astype(kind), 0)
    trial.construct(Budget())
    if trial.solved:
        trial.search_from(trial.choice, "search", Budget(steps=10))
    if isinstance(trial, ScheduleSearch) and trial.solved:
        knapsack_bound(trial.durations, trial.prices, int(trial.cost))
