"""Solutions as people see them: lines below an answer's heading, and pictures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..plots import new_figure, plot_bars, plot_gantt, plot_heatmap, plot_tour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .instance import Instance

_WIDTH = 100
"""Columns of a terminal that a printed answer keeps to."""
_BAR = 24
"""Characters of the longest bar of a printed schedule."""
_FEW = 60
"""Jobs up to which a sequence has a line for each."""

Bar = tuple[int, int | float, int | float, str, bool]
"""One thing that happens: machine, begin, end, name, and whether it is work (True) or a setup (False)."""


def schedule_lines(instance: Instance, choice: NDArray[np.int64]) -> list[str]:
    """Return a line for each machine: its load, as a number and a bar, and its jobs.

    The time for which a machine is busy with something else counts, and is shown as such: a light bar.
    """
    durations = instance.arrays["durations"]
    busy = _busy(instance)
    machines = instance.column_labels(range(durations.shape[1]))
    jobs = [np.flatnonzero(choice == machine) for machine in range(len(machines))]
    # Python's own integers: sums of narrow dtypes must not wrap
    loads = [sum(durations[mine, machine].tolist()) + busy[machine] for machine, mine in enumerate(jobs)]
    longest = max(loads)
    width = max(map(len, machines))
    load_width = max(len(number(load)) for load in loads)
    lines = []
    for name, load, taken, mine in zip(machines, loads, busy, jobs, strict=True):
        full = round(_BAR * load / longest) if longest else 0
        light = round(_BAR * taken / longest) if longest else 0
        bar = "░" * light + "█" * (full - light)
        prefix = f"  {instance.problem.column_words[0]} {name:<{width}}  {number(load):>{load_width}}  {bar:<{_BAR}}  "
        words = [f"(busy until {number(taken)})"] if taken else []
        lines += wrapped(prefix, " ".join([*words, *(instance.row_labels(mine.tolist()) or ["–"])]))
    return lines


def draw_schedule(instance: Instance, choice: NDArray[np.int64], bound: float | None) -> Figure:
    """Draw a Gantt chart, with the bound where it is one on the makespan."""
    durations = instance.arrays["durations"]
    figure = new_figure(11.0, 1.4 + 0.55 * durations.shape[1])
    ax = figure.subplots()
    busy = _busy(instance)
    bound = None if instance.weighs_changes else bound
    plot_gantt(durations, choice, jobs=instance.rows, machines=instance.columns, busy=busy, bound=bound, ax=ax)
    return figure


def _busy(instance: Instance) -> tuple[int | float, ...]:
    """Return until when each machine is busy with something else."""
    asked = None if instance.conditions is None else instance.conditions.busy
    return (0,) * instance.arrays["durations"].shape[1] if asked is None else asked


def tour_lines(instance: Instance, choice: NDArray[np.int64]) -> list[str]:
    """Return the tour in visiting order, back to where it begins unless it is open."""
    tour = instance.solution(choice)
    back = [] if _is_open(instance) else [tour[0]]
    return wrapped("  ", " → ".join(instance.row_labels([*tour, *back])))


def draw_tour(instance: Instance, choice: NDArray[np.int64]) -> Figure:
    """Draw the tour on its map, beside the matrix in the order of the tour."""
    figure = new_figure(12.0, 5.6)
    left, right = figure.subplots(1, 2)
    matrices, names, tour = instance.problem.cost_matrix(instance.batch()), instance.rows, instance.solution(choice)
    assert matrices is not None  # every problem whose solutions are tours says it
    matrix = matrices[0]
    if instance.forbidden is not None:  # left blank in the matrix, far apart on the map
        matrix = np.where(instance.forbidden, np.nan, matrix)
    near = np.where(np.isnan(matrix), np.nanmax(matrix), matrix)
    closed = not _is_open(instance)
    plot_tour(tour, coordinates=instance.coordinates, distances=near, names=names, closed=closed, ax=left)
    steps = np.where(choice == np.arange(len(choice)), -1, choice)  # the end of a path has no successor
    plot_heatmap(matrix, steps, rows=names, columns=names, order=tour, ignore_diagonal=True, ax=right)
    right.set_title(f"cost of every step, {instance.problem.row_words[1]} in the order of the tour")
    return figure


def _is_open(instance: Instance) -> bool:
    return instance.conditions is not None and instance.conditions.open


def sequence_lines(instance: Instance, order: list[int], words: list[str]) -> list[str]:
    """Return a line for each job of a sequence: its name, and the words that say when it is done."""
    names = instance.row_labels(order)
    width = max(map(len, names))
    lines = [f"  {name:<{width}}  {said}" for name, said in zip(names, words, strict=True)]
    if len(lines) > _FEW:
        lines = [*lines[: _FEW // 2], f"  … {len(lines) - _FEW} more …", *lines[-_FEW // 2 :]]
    return lines


def draw_bars(instance: Instance, bars: list[Bar], machines: list[str], bound: float | None) -> Figure:
    """Draw a Gantt chart of what happens on machines, with the bound where it is one on the makespan."""
    figure = new_figure(11.0, 1.4 + 0.55 * len(machines))
    bound = None if instance.weighs_changes else bound
    plot_bars(bars, machines=machines, bound=bound, ax=figure.subplots())
    return figure


def number(value: int | float) -> str:
    """Write integers exactly and reals to ten digits."""
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def counted(count: int, words: tuple[str, str]) -> str:
    """Write how many there are of something: "1 job", "3 jobs"."""
    return f"{count} {words[0] if count == 1 else words[1]}"


def wrapped(prefix: str, words: str) -> list[str]:
    """Break a long line; what follows is indented as far as the first line's beginning."""
    return textwrap.wrap(
        words,
        width=max(_WIDTH, len(prefix) + 40),
        initial_indent=prefix,
        subsequent_indent=" " * len(prefix),
        break_long_words=False,
        break_on_hyphens=False,
    )
