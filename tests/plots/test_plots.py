"""Pictures: what is drawn, where, and in which words."""

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from icdc.plots import (
    Recorder,
    plot_gantt,
    plot_heatmap,
    plot_tour,
    scaled_positions,
)
from icdc.problems.atsp import Atsp

matplotlib.use("Agg")

RNG = np.random.default_rng(0)
DURATIONS = RNG.integers(2, 20, (12, 3))
MACHINE_OF = RNG.integers(0, 3, 12)
POINTS = RNG.random((9, 2))
DISTANCES = np.hypot(*(POINTS[:, None] - POINTS[None]).transpose(2, 0, 1))


def texts(ax: matplotlib.axes.Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_gantt_shows_every_job_and_every_load() -> None:
    ax = plot_gantt(DURATIONS, MACHINE_OF, machines=["saw", "mill", "lathe"], bound=20.0)
    loads = [int(DURATIONS[m == MACHINE_OF, m].sum()) for m in range(3)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["saw", "mill", "lathe"]
    assert {str(load) for load in loads} <= set(texts(ax))
    assert {str(j) for j in range(12)} <= set(texts(ax))
    assert ax.get_title() == f"makespan {max(loads)}, bound 20"
    bars = ax.patches
    assert len(bars) == 12
    for machine, load in enumerate(loads):
        mine = [bar for bar in bars if round(bar.get_y() + bar.get_height() / 2) == machine]
        assert sum(bar.get_width() for bar in mine) == load
        assert max((bar.get_x() + bar.get_width() for bar in mine), default=0) == load
    matplotlib.pyplot.close("all")


def test_gantt_of_a_hundred_jobs_keeps_their_names() -> None:
    rng = np.random.default_rng(1)
    durations = rng.integers(2, 20, (100, 5))
    ax = Figure(figsize=(11, 4)).subplots()
    plot_gantt(durations, durations.argmin(1), ax=ax)
    assert {str(j) for j in range(100)} <= set(texts(ax))
    assert min(text.get_fontsize() for text in ax.texts) >= 4.5


def test_names_are_drawn_as_they_are() -> None:
    """Neither formulas nor escape codes: dollar signs, and characters that no terminal shows."""
    names = ["$a^$", "$$", "\x1b[31mred"]
    times = np.array([[3, 4, 5], [5, 6, 7], [7, 8, 9]])
    for ax in (
        plot_gantt(times, [0, 1, 2], jobs=names, machines=names),
        plot_tour([0, 1, 2], distances=times, names=names),
        plot_heatmap(times, rows=names, columns=names),
    ):
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.canvas.draw()
        written = [text.get_text() for text in ax.findobj(matplotlib.text.Text)]
        assert {r"\$a^\$", r"\$\$", r"\x1b[31mred"} <= set(written)


def test_gantt_without_work() -> None:
    ax = plot_gantt(np.zeros((2, 2)), [0, 0], ax=Figure().subplots())
    assert ax.get_title() == "makespan 0"


def test_scaling_recovers_points_of_a_plane() -> None:
    found = scaled_positions(DISTANCES)
    again = np.hypot(*(found[:, None] - found[None]).transpose(2, 0, 1))
    np.testing.assert_allclose(again, DISTANCES, atol=1e-12)
    np.testing.assert_allclose(found.mean(0), 0.0, atol=1e-12)


def test_scaling_ignores_the_diagonal_and_averages_directions() -> None:
    skewed = DISTANCES + np.triu(np.full((9, 9), 0.1), 1) - np.tril(np.full((9, 9), 0.1), -1)
    np.fill_diagonal(skewed, 99.0)
    np.testing.assert_allclose(scaled_positions(skewed), scaled_positions(DISTANCES), atol=1e-12)


def test_scaling_of_one_and_two_places() -> None:
    assert scaled_positions(np.zeros((1, 1))).shape == (1, 2)
    pair = scaled_positions(np.array([[0, 3], [3, 0]]))
    np.testing.assert_allclose(np.hypot(*(pair[0] - pair[1])), 3.0)


def test_tour_has_an_arrow_for_each_step() -> None:
    tour = [3, 0, 2, 1, 5, 4, 8, 7, 6]
    ax = plot_tour(tour, coordinates=POINTS, distances=DISTANCES, names=list("abcdefghi"), ax=Figure().subplots())
    assert len(ax.patches) == 9
    assert texts(ax) == list("abcdefghi")
    assert f"length {DISTANCES[tour, np.roll(tour, -1)].sum():.10g}" in ax.get_title()
    assert ax.get_xlabel() == ""
    placed = plot_tour(tour, distances=DISTANCES, ax=Figure().subplots())
    assert "multidimensional scaling" in placed.get_xlabel()
    with pytest.raises(ValueError, match="needs coordinates or distances"):
        plot_tour(tour)


def test_heatmap_frames_the_choice() -> None:
    ax = plot_heatmap(DURATIONS, MACHINE_OF, ax=Figure().subplots())
    frames = ax.collections[-1].get_paths()
    found = [(int(p.vertices[0, 0] + 0.5), int(p.vertices[0, 1] + 0.5)) for p in frames]
    assert found == [(machine, job) for job, machine in enumerate(MACHINE_OF)]


def test_heatmap_in_the_order_of_a_tour_is_a_line_beside_the_diagonal() -> None:
    tour = [3, 0, 2, 1, 5, 4, 8, 7, 6]
    ax = plot_heatmap(DISTANCES, Atsp().choice(tour), order=tour, ignore_diagonal=True, ax=Figure().subplots())
    frames = ax.collections[-1].get_paths()
    found = [int(p.vertices[0, 0] + 0.5) for p in frames]
    assert found == [1, 2, 3, 4, 5, 6, 7, 8, 0]
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(city) for city in tour]
    shown = ax.images[0].get_array()
    assert shown is not None
    assert np.isnan(np.diag(np.ma.filled(shown, np.nan))).all()
    assert shown[0, 1] == DISTANCES[3, 0]


def test_recorder_keeps_the_first_trajectory() -> None:
    import torch

    from icdc.diffusion.sampler import ReverseStep

    recorder = Recorder()
    for t, s in ((10, 5), (5, 0), (10, 5)):
        x = torch.zeros(2, 3, 3)
        recorder(ReverseStep(t, s, x, x + 1e9, None, None, torch.tensor([7.0, 8.0])))
    assert [frame.t for frame in recorder.frames] == [10, 5]
    assert recorder.frames[0].cost == 7.0
    np.testing.assert_array_equal(recorder.frames[0].predicted, np.ones((3, 3)))


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
