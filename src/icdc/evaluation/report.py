"""Evaluations as people read them: a table, Markdown, CSV, JSON, and a picture of gap against time."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from .evaluate import Summary
from .published import published

_HEADINGS = (
    "test set", "solver", "samples", "cost", "gap %", "95 % interval", "symmetric gap %", "optimal %",
    "feasible %", "seconds", "s/instance", "device",
)  # fmt: skip


def as_text(summaries: Sequence[Summary], with_published: bool = False) -> str:
    """Return an aligned table."""
    rows = _rows(summaries, with_published)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    # words to the left, numbers to the right
    align: list[Callable[[str, int], str]] = [str.ljust if c in (0, 1, 11) else str.rjust for c in range(len(widths))]
    lines = ["  ".join(align[c](cell, widths[c]) for c, cell in enumerate(row)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_markdown(summaries: Sequence[Summary], with_published: bool = False) -> str:
    """Return a Markdown table."""
    head, *body = ["| " + " | ".join(row) + " |" for row in _rows(summaries, with_published)]
    return "\n".join([head, "|" + " --- |" * (head.count("|") - 1), *body])


def as_csv(summaries: Sequence[Summary]) -> str:
    """Return one line per run with every figure in full, under a line of names."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(summaries[0].as_dict()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(summary.as_dict() for summary in summaries)
    return buffer.getvalue().rstrip("\n")


def as_json_lines(summaries: Sequence[Summary]) -> str:
    """Return one JSON object a line for each run."""
    return "\n".join(json.dumps(summary.as_dict()) for summary in summaries)


def plot_gap_against_time(summaries: Sequence[Summary], axes: Any = None) -> Any:
    """Draw gap against seconds per instance, a panel for each test set, the samples of a solver joined.

    Return the axes, which are made here unless given (one per test set).
    """
    import numpy as np

    sets = list(dict.fromkeys(summary.dataset for summary in summaries))
    if axes is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.0 * len(sets), 4.5), layout="constrained")
        axes = figure.subplots(1, len(sets), squeeze=False)[0]
    axes = np.atleast_1d(axes)
    solvers = list(dict.fromkeys(summary.solver for summary in summaries))
    for panel, dataset in zip(axes, sets, strict=True):
        for number, solver in enumerate(solvers):
            here = [s for s in summaries if s.dataset == dataset and s.solver == solver and s.gap is not None]
            here.sort(key=lambda s: s.samples)
            if here:
                seconds = [max(s.seconds_per_instance, 1e-7) for s in here]
                # ten colours, and another mark for every ten solvers
                look = {"color": f"C{number % 10}", "marker": "osD^v"[number // 10 % 5]}
                panel.plot(seconds, [s.gap for s in here], label=solver, **look)
        panel.set(title=dataset, xlabel="seconds per instance", ylabel="gap to the reference, %", xscale="log")
        # logarithmic, and yet with room for zero
        panel.set_yscale("symlog", linthresh=0.01)
        panel.set_ylim(-0.002, 2.0 * max((s.gap for s in summaries if s.gap is not None), default=1.0) + 0.01)
        panel.grid(alpha=0.3)
        if panel.get_lines():
            panel.legend(fontsize="small")
    return axes


def _rows(summaries: Sequence[Summary], with_published: bool) -> list[list[str]]:
    rows = [list(_HEADINGS)]
    for summary in summaries:
        low, high = summary.gap_low, summary.gap_high
        rows.append(
            [
                summary.dataset,
                summary.solver,
                str(summary.samples),
                "–" if summary.cost is None else f"{summary.cost:,.{3 if summary.cost < 1000 else 0}f}",
                _number(summary.gap, 3) if summary.gap_at_most is None else f"≤ {summary.gap_at_most:.3f}",
                "–" if low is None or high is None else f"{low:.3f} … {high:.3f}",
                _number(summary.symmetric_gap, 3),
                _number(summary.optimal, 1),
                _number(summary.feasible, 1),
                f"{summary.seconds:.2f}",
                f"{summary.seconds_per_instance:.2g}",
                summary.device,
            ]
        )
    if with_published:
        rows[0].append("paper: symmetric gap %")
        for row, summary in zip(rows[1:], summaries, strict=True):
            row.append(_number(published(summary.dataset, summary.solver, summary.samples), 2))
    return rows


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
