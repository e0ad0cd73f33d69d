"""The matrix as colours, with the solution on it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .style import INK, ORANGE, SEQUENTIAL, axes_or_new, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_TICKS = 60


def plot_heatmap(
    matrix: NDArray[Any],
    choice: Sequence[int] | NDArray[np.int64] | None = None,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    order: Sequence[int] | NDArray[np.int64] | None = None,
    ignore_diagonal: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a matrix with a frame around the column that each row chose.

    Parameters
    ----------
    matrix : (rows, columns).
    choice : (rows,), the column of each row; −1 for a row without one.
    rows, columns : names; numbers from 0 unless given.
    order : for square matrices, an order of the items; with a tour, the solution becomes a line beside the
        diagonal.
    ignore_diagonal : leave the diagonal out of the colours.
    ax : axes to draw on; new ones unless given.
    """
    values = np.asarray(matrix, dtype=np.float64).copy()
    count, width = values.shape
    row_names, column_names = shown(rows, count), shown(columns, width)
    if ignore_diagonal:
        np.fill_diagonal(values, np.nan)
    position = np.arange(width)
    if order is not None:
        places = np.asarray(order, dtype=np.int64)
        values = values[np.ix_(places, places)]
        row_names = [row_names[i] for i in places]
        column_names = [column_names[i] for i in places]
        position = np.argsort(places)
    ax = axes_or_new(ax, min(10.0, 2.5 + 0.25 * width), min(10.0, 1.5 + 0.25 * count))
    image = ax.imshow(values, cmap=SEQUENTIAL, aspect="equal" if count <= 3 * width else "auto")
    if choice is not None:
        chosen = np.asarray(choice, dtype=np.int64)
        if order is not None:
            chosen = chosen[np.asarray(order, dtype=np.int64)]
            chosen = np.where(chosen < 0, -1, position[chosen])
        _frames(ax, chosen, line=2.0 if max(count, width) <= 40 else 1.2)
    _ticks(ax, row_names, column_names)
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes always sit in a figure
    figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    return ax


def _frames(ax: "Axes", chosen: NDArray[np.int64], line: float) -> None:
    """Frame the chosen cells: orange on a dark edge, visible on every colour of the map."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    cells = [Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in enumerate(chosen) if column >= 0]
    for color, width in ((INK, 2 * line), ("white", 1.6 * line), (ORANGE, line)):
        ax.add_collection(PatchCollection(cells, facecolor="none", edgecolor=color, linewidth=width))


def _ticks(ax: "Axes", rows: list[str], columns: list[str]) -> None:
    """Name rows and columns, all of them if there is room and every so many otherwise."""
    for axis, names in ((ax.yaxis, rows), (ax.xaxis, columns)):
        every = -(-len(names) // _MOST_TICKS)
        places = range(0, len(names), every)
        axis.set_ticks(list(places), [names[i] for i in places], fontsize=8 if len(names) <= 30 else 5.5)
    if (max(map(len, columns)) > 2 and len(columns) > 6) or len(columns) > 30:
        ax.tick_params(axis="x", rotation=90)
    ax.tick_params(length=0)
