"""How much a search may spend: seconds, where somebody waits; numbers of steps, where the same must come out again."""

import os
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """What one part of a search may spend.

    seconds : None where only numbers count, so that the outcome depends on nothing but the seed.
    steps : kicks or exchanges of each search, where there are no seconds.
    searches : how many run side by side, from random numbers of their own.
    """

    seconds: float | None = None
    steps: int = 0
    searches: int = 1

    @property
    def limits(self) -> tuple[int | None, float | None]:
        """The steps, where they count, and the seconds."""
        if self.seconds is not None:
            return None, max(0.0, self.seconds)
        return self.steps, None

    @property
    def deadline(self) -> float:
        """When the seconds are over, by `time.perf_counter`; never, where there are none."""
        return float("inf") if self.seconds is None else time.perf_counter() + self.seconds

    def share(self, part: float) -> "Effort":
        """Return a part of it."""
        return Effort(None if self.seconds is None else part * self.seconds, round(part * self.steps), self.searches)


def cores() -> int:
    """Return how many cores to use: as many as OMP_NUM_THREADS says, else all that this process may run on."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
