"""Pictures of solutions as files, each written whole or not at all."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..problems.base import Instance
from .files import write_atomically

if TYPE_CHECKING:
    from ..plots import Frame

IMAGES = (".png", ".svg", ".pdf")


def save_solution(path: str | Path, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> None:
    """Draw a solution as its problem does (`Problem.draw_solution`) and write the picture.

    Tours are drawn on their map beside the matrix in the tour's order, schedules as a Gantt chart, anything
    else as frames on its matrix unless it has a picture of its own.

    Parameters
    ----------
    path : the file, with one of the endings `IMAGES`.
    instance : what is solved.
    choice : (rows,), the column of each row.
    bound : a proven lower bound on the cost, where one is known.
    """
    path = Path(path)
    ending = path.suffix.lower()
    buffer = io.BytesIO()
    # a date inside the file would make two equal pictures differ
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(ending)
    figure = instance.problem.draw_solution(instance, choice, bound)
    figure.savefig(buffer, format=ending[1:], dpi=150, metadata=metadata)
    write_atomically(path, buffer.getvalue())


def save_animation(
    path: str | Path,
    frames: "Sequence[Frame]",
    *,
    order: Sequence[int] | NDArray[np.int64] | None = None,
    final: NDArray[Any] | None = None,
    seconds: float = 6.0,
) -> None:
    """Write the moments of a trajectory as a GIF; the parameters are those of `icdc.plots.animate`."""
    from ..plots import animate

    if not frames:
        raise UsageError(f"{path}: there is no step to animate")
    write_atomically(path, animate(frames, order=order, final=final, seconds=seconds))
