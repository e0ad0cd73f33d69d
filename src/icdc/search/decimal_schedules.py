"""Schedules whose durations are decimals, such as 1.25: searched and proven in whole numbers of their last digit.

Tables, knapsacks and integer programs prove makespans of whole durations only. Numbers from a file rarely have more
than a few digits, so that nothing is lost when they are counted in hundredths.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .effort import Effort
from .incumbent import Incumbent
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


class DecimalScheduleSearch:
    """The search for one short schedule in whole units; what it has found is told in the units of the durations.

    Parameters
    ----------
    durations : (jobs, machines) reals.
    units, scale : the same as whole numbers, and how many of them make 1 (`whole_units`).
    seed, start : as in `ScheduleSearch`.
    """

    def __init__(
        self, durations: NDArray[Any], units: NDArray[np.int64], scale: float, seed: int, start: Choice | None = None
    ) -> None:
        self.given, self.scale = np.asarray(durations, dtype=np.float64), scale
        self.inner = ScheduleSearch(units, seed, start=start)

    @property
    def durations(self) -> NDArray[Any]:
        """The numbers that are computed with."""
        return self.inner.durations

    @property
    def best(self) -> Incumbent | None:
        """The best schedule so far with its bound; None before `construct`.

        The bound is lowered by what rounding the durations, adding them up and dividing may have added to it.
        """
        best = self.inner.best
        if best is None:
            return None
        bound = best.bound / self.scale
        if np.isfinite(bound):
            bound -= bound * (2 * ROUNDING + len(self.given) * 2.0**-53)
        return Incumbent(best.choice, makespan(self.given, best.choice).item(), bound, best.found_by)

    @property
    def likely(self) -> bool:
        """Whether an integer program is worth trying."""
        return self.inner.likely

    @property
    def hopeful(self) -> bool:
        """Whether an integer program is likely to be done soon."""
        return self.inner.hopeful

    def construct(self, effort: Effort) -> None:
        """Make a first schedule, and a bound."""
        self.inner.construct(effort)

    def prove(self, effort: Effort, brief: bool = False) -> None:
        """Raise the bound, or look for a better schedule among all that could be better."""
        self.inner.prove(effort, brief)

    def search(self, effort: Effort) -> None:
        """Make exchanges, from where it stopped the last time."""
        self.inner.search(effort)

    def take_up(self, choice: Choice, by: str, effort: Effort) -> None:
        """Take a schedule (jobs,) that somebody else proposes, and search on from it for a while."""
        self.inner.take_up(choice, by, effort)
