"""Searches side by side, on one core each, that look at the clock and can be called off."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

_SLICE = 0.02
"""Seconds between two looks at the clock."""


class Search(Protocol):
    """What can be run in slices."""

    def run(self, steps: int) -> None:
        """Make `steps` more steps, or fewer if the goal is reached."""

    @property
    def done(self) -> bool:
        """Whether the goal is reached."""
        ...


def run_all(
    searches: Sequence[Search],
    steps: int | None,
    seconds: float | None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run every search for `steps` steps or `seconds`, whichever is first, each in a thread of its own.

    Without `seconds` each makes its steps whatever the others do, so that the outcome depends on nothing but them; with
    `seconds` all end when one is done. Compiled searches hold no interpreter lock. Ctrl-C calls all of them off.
    """
    if steps is None and seconds is None:
        raise ValueError("a search needs a limit: seconds, iterations or both")
    until = float("inf") if seconds is None else clock() + seconds
    off: list[bool] = []

    def run(search: Search) -> None:
        piece, before = 1, clock()
        left = float("inf") if steps is None else steps
        while left > 0 and before < until and not search.done and not off:
            if seconds is not None and any(other.done for other in searches):
                return
            piece = int(min(piece, left))
            search.run(piece)
            left, now = left - piece, clock()
            # as many steps as fit into a slice of time, growing slowly: the first steps tell little
            piece = max(1, min(2 * piece, int(piece * _SLICE / max(now - before, 1e-6))))
            before = now

    if len(searches) == 1:
        run(searches[0])
        return
    with ThreadPoolExecutor(len(searches)) as pool:
        try:
            list(pool.map(run, searches))
        except BaseException:
            off.append(True)
            raise
