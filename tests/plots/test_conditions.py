"""Pictures of what was asked: busy machines before their jobs, paths that do not return."""

import numpy as np
from matplotlib.figure import Figure

from icdc.plots import plot_gantt, plot_heatmap, plot_tour

RNG = np.random.default_rng(0)
DURATIONS = RNG.integers(2, 20, (12, 3))
MACHINE_OF = RNG.integers(3, size=12)
POINTS = RNG.random((3, 2))
DISTANCES = np.hypot(*(POINTS[:, None] - POINTS[None]).transpose(2, 0, 1))


def test_gantt_shows_busy_time_as_such() -> None:
    ax = plot_gantt(DURATIONS, MACHINE_OF, busy=[0, 7.5, 40], ax=Figure(figsize=(11, 4)).subplots())
    loads = [int(DURATIONS[m == MACHINE_OF, m].sum()) + wait for m, wait in enumerate([0, 7.5, 40])]
    hatched = {(round(bar.get_y() + bar.get_height() / 2), bar.get_width()) for bar in ax.patches if bar.get_hatch()}
    assert hatched == {(1, 7.5), (2, 40)}
    for machine, load in enumerate(loads):
        mine = [bar for bar in ax.patches if round(bar.get_y() + bar.get_height() / 2) == machine]
        assert min(bar.get_x() for bar in mine) == 0
        assert sum(bar.get_width() for bar in mine) == load
        assert max(bar.get_x() + bar.get_width() for bar in mine) == load
    assert ax.get_title() == f"makespan {max(loads):g}"
    assert [text.get_text() for text in ax.texts].count("busy") == 2


def test_a_path_does_not_return() -> None:
    ax = plot_tour([2, 0, 1], distances=DISTANCES[:3, :3], closed=False, ax=Figure().subplots())
    assert len(ax.patches) == 2
    length = DISTANCES[2, 0] + DISTANCES[0, 1]
    assert ax.get_title() == f"path through 3 cities, length {length:.10g}"
    framed = plot_heatmap(DISTANCES[:3, :3], [1, -1, 0], order=[2, 0, 1], ax=Figure().subplots())
    (cells,) = {tuple(map(tuple, path.get_extents().get_points())) for path in framed.collections[0].get_paths()} - {
        ((0.5, -0.5), (1.5, 0.5))
    }
    assert cells == ((1.5, 0.5), (2.5, 1.5))
