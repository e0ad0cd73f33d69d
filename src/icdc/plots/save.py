"""The picture of a solution as a file."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..data import Instance
from ..files import write_atomically
from ..problem import to_tensors
from ..problems.pmsp import Pmsp
from ..problems.tours import TourProblem
from .gantt import plot_gantt
from .heatmap import plot_heatmap
from .tour import plot_tour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = (".png", ".svg", ".pdf")


def save_solution(path: str | Path, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> None:
    """Draw a solution as suits its problem and write it; the file appears whole or not at all.

    Tours are drawn on their map beside the matrix in the tour's order, schedules as a Gantt chart, anything
    else as marks on its first matrix.
    """
    path = Path(path)
    buffer = io.BytesIO()
    # a date inside the file would make two equal pictures differ
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    draw_solution(instance, choice, bound).savefig(buffer, format=path.suffix.lower()[1:], dpi=150, metadata=metadata)
    write_atomically(path, buffer.getvalue())


def draw_solution(instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> "Figure":
    """Return the figure that `save_solution` writes; it needs no display."""
    from matplotlib.figure import Figure

    problem = instance.problem
    if isinstance(problem, TourProblem):
        figure = Figure(figsize=(12.0, 5.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        matrix = problem.travel(to_tensors(instance.batch()))[0].numpy()
        tour = problem.solution(choice)
        plot_tour(tour, coordinates=instance.coordinates, distances=matrix, names=instance.rows, ax=left)
        names = instance.rows
        plot_heatmap(matrix, choice, rows=names, columns=names, order=tour, ignore_diagonal=True, ax=right)
        right.set_title("cost of every step, cities in the order of the tour")
    elif isinstance(problem, Pmsp):
        durations = instance.arrays["durations"]
        figure = Figure(figsize=(11.0, 1.4 + 0.55 * durations.shape[1]), layout="constrained")
        plot_gantt(
            durations,
            choice,
            jobs=instance.rows,
            machines=instance.columns,
            bound=bound,
            ax=figure.subplots(),
        )
    else:
        figure = Figure(figsize=(8.0, 7.0), layout="constrained")
        shape = problem.shape(problem.size(instance.batch()))
        matrices = [array for array in instance.arrays.values() if array.shape == shape]
        matrix = matrices[0] if matrices else np.zeros(shape)
        plot_heatmap(matrix, choice, rows=instance.rows, columns=instance.columns, ax=figure.subplots())
    return figure
