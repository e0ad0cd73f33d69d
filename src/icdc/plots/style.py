"""What the pictures share: axes, colours, and how large a word may be."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, INK, FAINT = "#0072B2", "#D55E00", "#009E73", "#222222", "#BBBBBB"
"""From the Okabe-Ito palette, safe for every kind of colour vision."""

SEQUENTIAL = "cividis"
"""A colour map that reads the same with and without red-green vision, and in grey."""


def new_figure(width: float, height: float) -> "Figure":
    """Return a figure of that size in inches, which needs no display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def axes_or_new(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return the given axes, or those of a new figure of that size in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def shown(names: Sequence[str] | None, count: int) -> list[str]:
    """Return the names of `count` items as they are to be drawn, numbers from 0 unless given.

    Matplotlib takes what stands between dollar signs for formulas; and some characters no font can draw.
    """
    if names is None:
        return [str(number) for number in range(count)]
    return [visible(name).replace("$", r"\$") for name in names]


def label_size(ax: "Axes", span: float, words: Sequence[str], largest: float = 9.0) -> float:
    """Return a font size in points at which the longest of `words` fits into `span` units of the x axis."""
    points = span * _points_per_unit(ax)
    longest = max((len(word) for word in words), default=1)
    return min(largest, points / (0.62 * max(1, longest)))


def _points_per_unit(ax: "Axes") -> float:
    """Return how many points one unit of the x axis is wide."""
    left, right = ax.get_xlim()
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes always sit in a figure
    return ax.get_position().width * figure.get_figwidth() * 72 / (right - left)
