"""A tour on the map, or on the map that fits its distances best."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .style import BLUE, INK, ORANGE, SEQUENTIAL, axes_or_new, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_tour(
    tour: Sequence[int] | NDArray[np.int64],
    *,
    coordinates: NDArray[Any] | None = None,
    distances: NDArray[Any] | None = None,
    names: Sequence[str] | None = None,
    closed: bool = True,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a tour with an arrow for each step, dark at its beginning and light at its end.

    Parameters
    ----------
    tour : the cities in visiting order, from 0.
    coordinates : (n, 2), where the cities lie. Without them they are placed by `scaled_positions`.
    distances : (n, n), from row to column; needed where there are no coordinates, and for the length.
    names : of the cities; numbers from 0 unless given.
    closed : whether the last step leads back to the first city; otherwise the tour is a path.
    ax : axes to draw on; new ones unless given.
    """
    from matplotlib import colormaps
    from matplotlib.patches import FancyArrowPatch

    if coordinates is None and distances is None:
        raise ValueError("plot_tour needs coordinates or distances")
    cities = np.asarray(tour, dtype=np.int64)
    points = scaled_positions(np.asarray(distances)) if coordinates is None else np.asarray(coordinates)
    labels = shown(names, len(points))
    ax = axes_or_new(ax, 6.5, 6.0)
    few = len(cities) <= 40
    steps = list(zip(cities, np.roll(cities, -1), strict=True))
    steps = steps if closed else steps[:-1]
    for place, (here, there) in enumerate(steps):
        color = colormaps[SEQUENTIAL](0.9 * place / max(1, len(cities) - 1))
        ax.add_patch(
            FancyArrowPatch(
                tuple(points[here]),
                tuple(points[there]),
                arrowstyle="-|>",
                mutation_scale=9 if few else 6,
                linewidth=1.5 if few else 0.9,
                color=color,
                shrinkA=6 if few else 2,
                shrinkB=6 if few else 2,
                zorder=1,
            )
        )
    ax.scatter(
        points[:, 0],
        points[:, 1],
        s=110 if few else 14,
        color="white",
        edgecolor=BLUE,
        linewidth=1.2,
        zorder=2,
    )
    first = points[cities[0]]
    ax.scatter(first[0], first[1], s=150 if few else 40, color=ORANGE, edgecolor="white", linewidth=1.0, zorder=3)
    _name(ax, points, labels, few)
    _frame(ax, points)
    title = f"{'tour of' if closed else 'path through'} {len(cities)} cities"
    if distances is not None:
        length = sum(np.asarray(distances)[here, there].item() for here, there in steps)
        title += f", length {length:.10g}"
    ax.set_title(title)
    if coordinates is None:
        ax.set_xlabel("placed by multidimensional scaling: near is near, as far as a plane allows", fontsize=8)
    return ax


def scaled_positions(distances: NDArray[Any]) -> NDArray[np.float64]:
    """Place items in the plane by classical multidimensional scaling.

    Parameters
    ----------
    distances : (n, n); the mean of both directions is what the plane is to show, the diagonal is ignored.

    Returns
    -------
    (n, 2) positions, centred. Exact, up to turning and mirroring, for the distances of points in a plane.
    """
    matrix = np.array(distances, dtype=np.float64)
    np.fill_diagonal(matrix, 0.0)
    squared = np.square((matrix + matrix.T) / 2)
    centred = squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    # eigh sorts upwards; what a plane cannot show has smaller or even negative eigenvalues
    axes = vectors[:, ::-1][:, :2] * np.sqrt(np.clip(values[::-1][:2], 0.0, None))
    if axes.shape[1] < 2:
        axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
    # the sign of an eigenvector is arbitrary; fix it, so that the picture is the same everywhere
    signs = np.sign(axes[np.abs(axes).argmax(0), [0, 1]])
    return np.asarray(axes * np.where(signs == 0, 1.0, signs), dtype=np.float64)


def _name(ax: "Axes", points: NDArray[Any], labels: list[str], few: bool) -> None:
    """Write the cities' names: into the markers where they are short, beside them where not."""
    short = few and max(map(len, labels)) <= 2
    for point, label in zip(points, labels, strict=True):
        ax.annotate(
            label,
            tuple(point),
            xytext=(0, -0.5) if short else (4, 4),
            textcoords="offset points",
            ha="center" if short else "left",
            va="center" if short else "bottom",
            fontsize=6.5 if short else (7.5 if few else 5.5),
            color=INK,
            zorder=4,
        )


def _frame(ax: "Axes", points: NDArray[Any]) -> None:
    """Leave a margin around the points and nothing else: positions have no units worth showing."""
    low, high = points.min(0), points.max(0)
    # a square: equal scales on both axes without moving anything later
    middle, half = (low + high) / 2, 0.56 * max(float((high - low).max()), 1e-9)
    ax.set_xlim(middle[0] - half, middle[0] + half)
    ax.set_ylim(middle[1] - half, middle[1] + half)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ("top", "right", "left", "bottom"):
        ax.spines[side].set_visible(False)
