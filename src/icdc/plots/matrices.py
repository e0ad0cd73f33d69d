"""Matrices as colours: with the solution on them, and the way from noise to a solution as an animated GIF."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .style import INK, ORANGE, SEQUENTIAL, axes_or_new, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

_MOST_TICKS = 60
_INCHES, _DPI = (7.0, 4.0), 90


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


@dataclass(frozen=True)
class Frame:
    """One moment of a trajectory.

    t : the diffusion step, T at the beginning and 0 at the end.
    x : (rows, columns), the noisy matrix X_t.
    predicted : (rows, columns) in [0, 1], the network's belief in a 1 at each place of X_0.
    cost : of the solution decoded here, where there is one.
    """

    t: int
    x: NDArray[Any]
    predicted: NDArray[Any]
    cost: float | None = None


class Recorder:
    """A callback of the reverse process that keeps the frames of one trajectory.

    It never asks to stop.

    Parameters
    ----------
    trajectory : which of those that run together.
    """

    def __init__(self, trajectory: int = 0) -> None:
        self.frames: list[Frame] = []
        self._trajectory = trajectory
        self._finished = False

    def __call__(self, step: Any) -> None:
        """Keep a step (`diffusion.sampler.ReverseStep`), until the first trajectory is over."""
        if self._finished:
            return
        which = self._trajectory
        cost = None if step.cost is None else float(step.cost.flatten()[which])
        x, predicted = step.x.float(), step.log_odds.float().sigmoid()
        if step.candidates is not None:  # elsewhere there is nothing, and nothing is expected
            x, predicted = step.candidates.spread(x), step.candidates.spread(predicted)
        self.frames.append(Frame(step.t, x[which].cpu().numpy(), predicted[which].cpu().numpy(), cost))
        self._finished = step.s == 0


def animate(
    frames: Sequence[Frame],
    *,
    order: Sequence[int] | NDArray[np.int64] | None = None,
    final: NDArray[Any] | None = None,
    seconds: float = 6.0,
) -> bytes:
    """Return a GIF: X_t on the left, what the network believes X_0 to be on the right.

    Parameters
    ----------
    frames : the moments, in order; at least one.
    order : for square matrices, an order of the items, such as the tour that was found: the solution then
        appears as a line beside the diagonal.
    final : (rows, columns), the solution matrix, shown last and longest.
    seconds : how long one round takes.
    """
    shown = list(frames)
    if final is not None:
        last = np.asarray(final, dtype=np.float64)
        shown.append(Frame(0, last, last, frames[-1].cost))
    images = [_draw(frame, order) for frame in shown]
    pause = 1.5 if len(images) > 1 else seconds
    each = max(0.04, (seconds - pause) / max(1, len(images) - 1))
    buffer = io.BytesIO()
    durations = [round(1000 * each)] * (len(images) - 1) + [round(1000 * pause)]
    images[0].save(
        buffer,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=durations,
        loop=0,
        optimize=True,
    )
    return buffer.getvalue()


def _draw(frame: Frame, order: Sequence[int] | NDArray[np.int64] | None) -> "Image":
    """Return one frame as an image with a small palette."""
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=_INCHES, layout="constrained")
    pictures = (("$X_t$", frame.x), ("predicted $X_0$", frame.predicted))
    for ax, (title, matrix) in zip(figure.subplots(1, 2), pictures, strict=True):
        values = np.asarray(matrix, dtype=np.float64)
        if order is not None:
            values = values[np.ix_(np.asarray(order), np.asarray(order))]
        rows, columns = values.shape
        ax.imshow(values, vmin=0.0, vmax=1.0, cmap=SEQUENTIAL, aspect="equal" if rows <= 3 * columns else "auto")
        ax.set_title(title, color=INK)
        ax.set_xticks([])
        ax.set_yticks([])
    cost = "" if frame.cost is None else f"     cost {frame.cost:.8g}"
    figure.suptitle(f"t = {frame.t}{cost}", family="monospace", color=INK)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="rgba", dpi=_DPI)
    width, height = (round(_DPI * inches) for inches in _INCHES)
    picture = Image.frombytes("RGBA", (width, height), buffer.getvalue()).convert("RGB")
    return picture.quantize(colors=64)
