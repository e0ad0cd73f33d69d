"""Watching a solver at work: a live line with the best so far, for people on a terminal."""

import sys
import time
from datetime import timedelta
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from ..errors import visible
from ..solving.jobs import Job, Observer
from ..solving.solver import Improvement
from .explain import Asked, explained

BAR = 24


class Watch(Observer):
    """Shows notes, improvements and progress.

    Parameters
    ----------
    stream : where words go, stderr unless given; nothing but notes is shown unless it is a terminal.
    total : how many instances there are; the line begins with a progress bar if they are several.
    explain : what the options named, where the solver and the model of every job are to be explained.
    """

    def __init__(self, stream: TextIO | None = None, total: int = 1, explain: Asked | None = None) -> None:
        self._explain = explain
        self._stream = sys.stderr if stream is None else stream
        self._total, self._done, self._before = total, 0, 0
        self._begun = time.perf_counter()
        self._shown = False
        self._words = ""
        self._bound: float | None = None

    def note(self, sentence: str) -> None:
        """Say something in a line of its own."""
        self.clear()
        print(f"icdc: {visible(sentence)}", file=self._stream)

    def begin(self, job: Job, bound: NDArray[np.float64]) -> None:
        """Say what is being solved from now on."""
        for line in [] if self._explain is None else explained(job, self._explain):
            self.note(line)
        single = len(job.instances) == 1
        first = job.meant[0]
        self._words = visible(first.name) if single else f"{len(job.instances)} × {first.problem.name}"
        self._bound = float(bound[0]) if single and np.isfinite(bound[0]) else None

    def improved(self, improvement: Improvement) -> None:
        """Show an improvement."""
        self._show(self._line(improvement))

    def finished(self, count: int, before: bool = False) -> None:
        """Count instances that are answered, `before` this call or in it, and show how far it is."""
        self._done += count
        self._before += count if before else 0
        if self._total > 1:
            self._show("")

    def clear(self) -> None:
        """Remove the live line, so that other words can follow."""
        if self._shown:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._shown = False

    def _show(self, words: str) -> None:
        if self._stream.isatty():
            bar = self._bar() if self._total > 1 else ""
            print(f"\r\x1b[K{bar}{words}", end="", file=self._stream, flush=True)
            self._shown = True

    def _bar(self) -> str:
        """Return the bar, and the time that is left if the rest goes as fast as what was done in this call."""
        full = BAR * self._done // self._total
        line = f"{'━' * full}{'─' * (BAR - full)} {self._done}/{self._total}  "
        fresh = self._done - self._before
        if fresh:
            left = (time.perf_counter() - self._begun) / fresh * (self._total - self._done)
            line += f"{timedelta(seconds=round(left))} left  "
        return line

    def _line(self, improvement: "Improvement") -> str:
        """Return what the live line says: the best cost with bound and gap, or the mean over a batch."""
        mean = float(improvement.cost.mean())
        if not np.isfinite(mean):
            return f"{self._words}: nothing feasible yet, {improvement.seconds:.1f} s"
        best = f"best {mean:.10g}" if len(improvement.cost) == 1 else f"mean of the best {mean:.6g}"
        if len(improvement.cost) == 1 and improvement.bound is not None and np.isfinite(improvement.bound[0]):
            self._bound = float(improvement.bound[0])
        if self._bound:
            gap = max(0.0, (mean - self._bound) / abs(self._bound))
            best += f", bound {self._bound:.10g}, gap {100 * gap:.2f} %"
        return f"{self._words}: {best}, {improvement.seconds:.1f} s"
