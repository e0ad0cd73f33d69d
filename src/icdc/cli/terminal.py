"""What a terminal shows of work in progress: the best so far of a search, bars, training, and what --explain says."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

import numpy as np
from numpy.typing import NDArray

from ..errors import IcdcError, visible
from ..models.catalogue import card_of, default_for
from ..problems import problem_path
from ..problems.conditions import in_words
from ..problems.present import counted
from ..solving.answer import subject
from ..solving.anytime import AnytimeSolver
from ..solving.jobs import Job, Observer
from ..solving.solver import Improvement

if TYPE_CHECKING:
    from ..training import Progress as TrainingProgress

BAR = 24


class Watch(Observer):
    """Shows notes, improvements and progress.

    Parameters
    ----------
    stream : where words go, stderr unless given; nothing but notes is shown unless it is a terminal.
    total : how many instances there are; the line begins with a progress bar if they are several.
    explain : returns lines about every job before it begins.
    """

    def __init__(
        self, stream: TextIO | None = None, total: int = 1, explain: Callable[[Job], list[str]] = lambda job: []
    ) -> None:
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
        for line in self._explain(job):
            self.note(line)
        single = len(job.originals) == 1
        first = job.originals[0]
        self._words = visible(first.name) if single else f"{len(job.originals)} × {first.problem.name}"
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

    def _line(self, improvement: Improvement) -> str:
        """Return what the live line says: the best cost with bound and gap, or the mean over a batch."""
        mean = float(improvement.cost.mean())
        if not np.isfinite(mean):
            return f"{self._words}: nothing feasible yet, {improvement.seconds:.1f} s"
        best = f"best {mean:.10g}" if len(improvement.cost) == 1 else f"mean of the best {mean:.6g}"
        if len(improvement.cost) == 1 and np.isfinite(improvement.bound[0]):
            self._bound = float(improvement.bound[0])
        if self._bound:
            gap = max(0.0, (mean - self._bound) / abs(self._bound))
            best += f", bound {self._bound:.10g}, gap {100 * gap:.2f} %"
        return f"{self._words}: {best}, {improvement.seconds:.1f} s"


def explained(job: Job, named_solver: bool, named_model: bool) -> list[str]:
    """Return lines about a job: its instances as they were understood, the solver, the model and the effort.

    named_solver, named_model : whether the options name the solver, and the model.
    """
    solver, first, solved, count = job.solver, job.originals[0], job.instances[0], len(job.originals)
    names = solved.name if count == 1 else f"{solved.name} and {count - 1} more"
    numbers = "whole numbers" if first.integral else "real numbers"
    lines = [f"read: {names}, {subject(first)} ({first.problem.name}), {numbers}"]
    if first.rows is not None:
        lines[0] += f"; rows are named, the first '{first.rows[0]}'"
    if first.columns is not None:
        lines[0] += f"; columns are named, the first '{first.columns[0]}'"
    if (words := in_words(first)) is not None:
        lines.append(f"asked for: {words}")
    if solved is not first:
        pairs = 0 if solved.forbidden is None else int(solved.forbidden.sum())
        forbidden = f", {counted(pairs, ('forbidden pair', 'forbidden pairs'))}" if pairs else ""
        lines.append(f"solved as: {subject(solved)} ({solved.problem.name}){forbidden}")
    why = "asked for" if named_solver else "the default"
    tries = "1 sample" if job.samples == 1 else f"{job.samples} samples"
    lines.append(f"solver: {solver.name} ({why}), {tries}, seed {job.seed}, device {solver.runs_on}")
    if solver.model_name is not None:
        lines.append(f"model: {solver.model_name} ({_why_this_model(solver.model_name, named_model)})")
    elif isinstance(solver, AnytimeSolver):
        if solver.network_helps(job.problem, solved.shape):
            name = default_for(problem_path(job.problem), solved.size)
            lines.append(f"model: {name} ({_why_this_model(name, False)}), for what search and proofs leave open")
        else:
            lines.append(
                "model: none (search and proofs alone: there is none for this problem, or it could not help in time)"
            )
    return lines


def _why_this_model(name: str, named: bool) -> str:
    """Say why a model was taken, and the sizes it was trained on."""
    try:
        sizes = card_of(name).get("sizes", [])
    except IcdcError:  # made in Python, and never written
        sizes = []
    why = "asked for" if named else "of those that ship the one that knows the nearest size"
    words = ["×".join(map(str, size)) for size in sizes]
    if not words:
        return why
    return f"{why}; trained on {words[0] if len(words) == 1 else f'{len(words)} sizes from {words[0]} to {words[-1]}'}"


@contextmanager
def progress(words: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while the block runs; call what it yields with (done, of how many). Only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=None)
        yield lambda done, count: bar.update(task, completed=done, total=count)


def show_training(progress: "TrainingProgress") -> None:
    """Write how training goes: in place on a terminal, a line each time elsewhere."""
    metrics = progress.metrics
    line = f"{100 * progress.fraction:5.1f} %  {progress.seconds:6.0f} s  round {progress.round}"
    for name, words in (("loss", "loss"), ("cost", "mean cost"), ("target", "best cost")):
        if name in metrics:
            line += f"  {words} {metrics[name]:.4f}"
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)
