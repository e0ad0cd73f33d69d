"""Schedules whose durations are decimals, such as 1.25: searched and proven in whole numbers of their last digit.

Tables, knapsacks and integer programs prove makespans of whole durations only. Numbers from a file rarely have more
than a few digits, so that nothing is lost when they are counted in hundredths.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .run import Budget, Incumbent, InstanceSearch
from .schedule_search import ScheduleSearch
from .schedules import Choice, makespan

MOST_DIGITS = 15
"""Digits behind the point that are looked for."""
LARGEST = 2.0**43
"""What all whole durations of a machine stay below: reals that are no decimals are hardly ever so near to one then."""
ROUNDING = 2.0**-50
"""How far, as a part of it, a number may be from its decimal: a few operations such as 3 × 0.1 are rounded by less."""


def whole_units(durations: NDArray[Any]) -> tuple[NDArray[np.int64], float] | None:
    """Return real durations (jobs, machines) as whole numbers, and how many of them make 1; None if they are others."""
    if np.issubdtype(durations.dtype, np.integer):
        return None
    longest = float(durations.max(initial=0.0)) * len(durations)
    for digits in range(MOST_DIGITS + 1):
        scale = 10.0**digits
        if not longest * scale < LARGEST:
            return None
        whole = np.rint(durations * scale)
        if (np.abs(whole / scale - durations) <= ROUNDING * durations).all():
            return whole.astype(np.int64), scale
    return None


class DecimalScheduleSearch(InstanceSearch):
    """The search for one short schedule in whole units; its incumbent counts in the units of the durations.

    Parameters
    ----------
    durations : (jobs, machines) reals.
    units, scale : the same as whole numbers, and how many of them make 1 (`whole_units`).
    seed, start, incumbent : as in `InstanceSearch`.
    """

    def __init__(
        self,
        durations: NDArray[Any],
        units: NDArray[np.int64],
        scale: float,
        seed: int,
        start: Choice | None = None,
        incumbent: Incumbent | None = None,
    ) -> None:
        super().__init__(np.asarray(durations, dtype=np.float64), seed, start, incumbent)
        self.inner, self.scale = ScheduleSearch(units, seed, start=start), scale

    @property
    def kind(self) -> type[np.int64]:
        """The numbers that it computes with."""
        return np.int64

    @property
    def likely(self) -> bool:
        """Whether an integer program is worth trying."""
        return self.inner.likely

    @property
    def hopeful(self) -> bool:
        """Whether an integer program is likely to be done soon."""
        return self.inner.hopeful

    def construct(self, budget: Budget) -> None:
        """Make a first schedule, and a bound."""
        self.inner.construct(budget)
        self._offer_inner()

    def prove(self, budget: Budget, brief: bool = False) -> None:
        """Raise the bound, or look for a better schedule among all that could be better."""
        self.inner.prove(budget, brief)
        self._offer_inner()

    def search(self, budget: Budget) -> None:
        """Make exchanges, from where it stopped the last time."""
        self.inner.search(budget)
        self._offer_inner()

    def search_from(self, choice: Choice, found_by: str, budget: Budget) -> None:
        """Take a schedule (jobs,) that another method proposes, and search on from it for a while."""
        self.inner.search_from(choice, found_by, budget)
        self._offer_inner()

    def cost_of(self, choice: Choice) -> Any:
        """Return the makespan of a schedule (jobs,)."""
        return makespan(self.matrix, choice)

    def _offer_inner(self) -> None:
        """Offer the best schedule in whole units; its bound less what rounding, adding and dividing may have added."""
        self.offer(self.inner.choice, str(self.inner.incumbent.found_by[0]))
        bound = self.inner.bound / self.scale
        if np.isfinite(bound):
            bound -= bound * (2 * ROUNDING + len(self.matrix) * 2.0**-53)
        self.incumbent.raise_bound(bound)
