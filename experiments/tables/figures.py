"""The figures: one PNG for each table that has one, drawn from the rows of its CSV file."""

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.csvfiles import read_rows
from experiments.tables.rows import ALL_SIZES, BASE_SIZE, METHODS, SHIPPED, STEP_SETS, Measured, options_of
from icdc.evaluation.published import plain_gap, published_generalisation

GAP = "gap to the optimum, %"
Lines = dict[str, list[tuple[float, float]]]
"""Points (x, y) by the label of their line."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    paper : lines of published figures.
    ticks : the names of 0, 1, 2, … on the horizontal axis; numbers on a logarithmic one where there are none.
    log : whether the vertical axis is logarithmic.
    """

    title: str
    x: str
    y: str
    lines: Lines
    paper: Lines | None = None
    ticks: Sequence[str] = ()
    log: bool = False


def sizes(rows: Sequence[Measured]) -> list[Panel]:
    """Gap against size: tours over cities, schedules in the order of their sets."""
    panels = []
    for problem, sets in ALL_SIZES.items():
        here = [m for m in rows if m.row.dataset in sets]
        lines = _lines(here, _label, lambda m, sets=sets: float(sets.index(m.row.dataset)))
        paper = {}
        for key in ("icdc", "matnet") if problem == "atsp" else ():
            figures = [(float(place), published_generalisation(name, key)) for place, name in enumerate(sets)]
            paper[METHODS[key].title] = [(x, plain_gap(y)) for x, y in figures if y is not None]
        ticks = [name.partition("-")[2].replace("x", "×") for name in sets]
        title, x = ("tours", "cities") if problem == "atsp" else ("schedules", "jobs × machines")
        shown = {label: sorted(points) for label, points in lines.items() if len(points) > 2}
        panels.append(Panel(title, x, GAP, shown, paper, ticks))
    return panels


def samples(rows: Sequence[Measured]) -> list[Panel]:
    """Gap against the number of samples, for each test set."""
    return [
        Panel(name, "samples", GAP, _lines([m for m in rows if m.row.dataset == name], _label, lambda m: m.row.samples))
        for name in BASE_SIZE.values()
    ]


def steps(rows: Sequence[Measured]) -> list[Panel]:
    """Gap and time of the last sample, as the paper counts, against the number of reverse steps."""
    panels = []
    for name in STEP_SETS:
        here = [m for m in rows if (m.row.dataset, m.row.answer) == (name, "last")]
        for y, value in ((GAP, lambda m: m.gap), ("seconds an instance", lambda m: m.summary.seconds_per_instance)):
            lines = _lines(
                here, lambda m: f"×{m.row.samples}", lambda m: float(options_of(m.row.options)["steps"]), value
            )
            panels.append(Panel(name, "reverse steps", y, lines))
    return panels


FIGURES: dict[str, Callable[[Sequence[Measured]], list[Panel]]] = {
    "generalisation": sizes,
    "training-comparison": samples,
    "sampling-steps": steps,
}


def training_curves(path: Path) -> list[Panel]:
    """Gap against training seconds, a panel for each run of a file that `experiments.training.curve` wrote."""
    rows = read_rows(path)
    panels = []
    for run in dict.fromkeys(row["run"] for row in rows):
        lines: Lines = {}
        for row in (row for row in rows if row["run"] == run):
            label = " ".join(filter(None, [row["data"], f"×{row['samples']}", row["options"]]))
            lines.setdefault(label, []).append((float(row["at"]), float(row["gap"])))
        panels.append(Panel(run, "training seconds", GAP, lines))
    return panels


def draw(panels: Sequence[Panel]) -> bytes:
    """Return a PNG of panels, two in a row; the paper's own lines are dashed."""
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(6.4 * columns, 4.8 * rows), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, panel in zip(places, panels, strict=False):
        _draw_panel(axes, panel)
    for axes in places[len(panels) :]:
        axes.remove()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return buffer.getvalue()


def _draw_panel(axes: Any, panel: Panel) -> None:
    for number, (label, points) in enumerate(panel.lines.items()):
        # ten colours, and another mark for the next ten
        axes.plot(*zip(*points, strict=True), color=f"C{number % 10}", marker="os^Dv"[number // 10 % 5], label=label)
    for number, (label, points) in enumerate((panel.paper or {}).items()):
        look = {"linestyle": "--", "marker": "x", "alpha": 0.6, "color": ("black", "grey")[number % 2]}
        axes.plot(*zip(*points, strict=True), label=f"{label}, published", **look)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if panel.log:
        axes.set_yscale("log")
    if panel.y == GAP:  # logarithmic, and yet with room for zero
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=-0.02)
        axes.yaxis.set_major_formatter("{x:g}")
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    elif panel.x != "training seconds":
        places = sorted({x for points in panel.lines.values() for x, _ in points})
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.grid(alpha=0.3)
    if panel.lines:
        # below the axes: above lines that go everywhere it would hide some of them
        axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)


def _lines(
    rows: Iterable[Measured],
    label: Callable[[Measured], str],
    place: Callable[[Measured], float],
    value: Callable[[Any], float | None] = lambda m: m.gap,
) -> Lines:
    lines: Lines = {}
    for m in rows:
        if m.gap is not None:
            lines.setdefault(label(m), []).append((place(m), value(m) or 0.0))
    return lines


def _steps(m: Measured) -> float:
    return float(options_of(m.row.options)["steps"])


def _label(m: Measured) -> str:
    answer = {"best": "", "last": ", last sample", "end": ", end", "refined": ", refined"}[m.row.answer]
    ships = " (shipped)" if m.row.method == "icdc" and m.row.model in SHIPPED.values() else ""
    return METHODS[m.row.method].title + ships + (answer if m.row.method in ("icdc", "paper-icdc") else "")
