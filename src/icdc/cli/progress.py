"""Progress on stderr: bars only where somebody is looking, lines of a training run everywhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..training import Progress as TrainingProgress


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
