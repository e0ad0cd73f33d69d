"""The clock of a run: seconds of training, with pauses left out, and what breaks off a step when they are over."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class TimeIsOver(Exception):
    """The time limit was met within a step."""


class Clock:
    """Seconds of training, with pauses left out."""

    def __init__(self, before: float = 0.0) -> None:
        self._start = time.perf_counter() - before

    def seconds(self) -> float:
        """Return the seconds so far."""
        return time.perf_counter() - self._start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time that is spent inside."""
        begin = time.perf_counter()
        yield
        self._start += time.perf_counter() - begin
