"""From noise to solution: the reverse process as an animated GIF."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .style import INK, SEQUENTIAL

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..diffusion.sampler import ReverseStep

_INCHES, _DPI = (7.0, 4.0), 90


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

    def __call__(self, step: "ReverseStep") -> None:
        """Keep a step, until the first trajectory is over."""
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
