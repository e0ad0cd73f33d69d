"""How problems and solutions are written and drawn: words, lines below an answer's heading, and pictures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..plots import new_figure, plot_bars, plot_gantt, plot_heatmap, plot_tour
from .arrays import integers_of

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


class Presentation:
    """How instances and solutions of a problem are written and drawn; `Problem` is one.

    name, size_names : see `Problem`.

    What has a default:

    objective : what the cost is called in answers, e.g. "makespan".
    row_words, column_words : what one row, and several, are called, e.g. ("job", "jobs"); in answers, in files of
        solutions and, for the lists of names, in JSON instances.
    entries : what the numbers of an instance's matrix are, e.g. "processing times".
    solution_is_tour : whether `solution` lists the items in the order of a closed tour, instead of the column of
        each row; such solutions can be written as TSPLIB tours.
    """

    name: ClassVar[str]
    size_names: ClassVar[tuple[str, ...]]

    objective: ClassVar[str] = "objective"
    row_words: ClassVar[tuple[str, str]] = ("row", "rows")
    column_words: ClassVar[tuple[str, str]] = ("column", "columns")
    entries: ClassVar[str] = "numbers"
    solution_is_tour: ClassVar[bool] = False

    def solution(self, choice: NDArray[np.int64]) -> list[int]:
        """Write one choice (rows,) as people read it (the default: the column of each row)."""
        return [int(column) for column in choice]

    def choice(self, solution: list[int]) -> NDArray[np.int64]:
        """Read what `solution` writes; raise InputError if it cannot be a solution."""
        return integers_of(solution)

    def solution_header(self) -> tuple[str, str]:
        """Return the header of a table of a solution; each line is an entry of `solution` and where it stands."""
        return "position" if self.solution_is_tour else self.row_words[0], self.column_words[0]

    def describe_size(self, size: tuple[int, ...]) -> str:
        """Say what is solved, for the heading of an answer: "20 jobs on 4 machines"."""
        return f"{self.name} of " + ", ".join(f"{n} {what}" for n, what in zip(size, self.size_names, strict=True))

    def describe_pair(self, instance: Instance, pair: tuple[int, int]) -> str:
        """Name a pair (row, column) in a sentence: "job 'paint' with machine 'M2'", "from city 3 to city 5"."""
        row, column = instance.row_text(pair[0]), instance.column_text(pair[1])
        return f"from {row} to {column}" if instance.problem.feature_sizes.same_items else f"{row} with {column}"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Return the lines that show a choice (rows,) below the heading of an answer."""
        return wrapped("  ", " ".join(instance.column_labels(self.solution(choice))))

    def timetable(self, instance: Instance, choice: NDArray[np.int64]) -> dict[str, list[Any]]:
        """Return what else a choice (rows,) says of each entry of `solution`, by name: when it begins and ends.

        The default is nothing. It stands in JSON and, entry by entry, in tables beside the solution.
        """
        return {}

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        """Return a picture of a choice (rows,): by default, frames on the matrix of the instance.

        `bound` is a proven lower bound on the cost, where one is known. The figure needs no display.
        """
        matrix = instance.matrix()
        matrix = np.zeros(instance.shape) if matrix is None else matrix
        figure = new_figure(8.0, 7.0)
        ax = plot_heatmap(matrix, choice, rows=instance.rows, columns=instance.columns, ax=figure.subplots())
        ax.set_xlabel(self.column_words[0])
        ax.set_ylabel(self.row_words[0])
        return figure


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
    for name, load, wait, mine in zip(machines, loads, busy, jobs, strict=True):
        full = round(_BAR * load / longest) if longest else 0
        light = round(_BAR * wait / longest) if longest else 0
        bar = "░" * light + "█" * (full - light)
        prefix = f"  {instance.problem.column_words[0]} {name:<{width}}  {number(load):>{load_width}}  {bar:<{_BAR}}  "
        words = [f"(busy until {number(wait)})"] if wait else []
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
    busy = None if instance.conditions is None else instance.conditions.busy
    return (0,) * instance.arrays["durations"].shape[1] if busy is None else busy


def tour_lines(instance: Instance, choice: NDArray[np.int64]) -> list[str]:
    """Return the tour in visiting order, back to where it begins unless it is open."""
    tour = instance.solution(choice)
    end = [] if _is_open(instance) else [tour[0]]
    return wrapped("  ", " → ".join(instance.row_labels([*tour, *end])))


def draw_tour(instance: Instance, choice: NDArray[np.int64]) -> Figure:
    """Draw the tour on its map, beside the matrix in the order of the tour."""
    figure = new_figure(12.0, 5.6)
    left, right = figure.subplots(1, 2)
    matrix, names, tour = instance.matrix(), instance.rows, instance.solution(choice)
    assert matrix is not None  # every problem whose solutions are tours says it
    near = np.where(np.isnan(matrix), np.nanmax(matrix), matrix)  # what is forbidden is far apart on the map
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
    lines = [f"  {name:<{width}}  {text}" for name, text in zip(names, words, strict=True)]
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
