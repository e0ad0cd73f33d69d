"""Reports as files: Markdown, CSV and, for figures, PNG and SVG; each is written whole or not at all."""

import csv
import io
import os
import platform
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import torch

from .. import __version__
from ..evaluation import Summary
from ..files import write_atomically
from ..model import card_of
from .compact import table
from .rows import Measured, Panel, Report, Row
from .session import Session

_HEADINGS = (
    "test set", "method", "samples", "instances", "cost", "gap %", "95 % interval", "symmetric gap %",
    "paper: symmetric gap %", "optimal %", "feasible %", "seconds", "device", "how",
)  # fmt: skip
_LABELS = ("method", "model", "how", "note", "train", "paper_symmetric_gap", "paper_cost")


def write(folder: Path, name: str, report: Report, session: Session) -> list[Path]:
    """Write a report into a folder; return the files."""
    words = ["icdc reproduce", name, "--quick" if session.quick else ""]
    words.append(f"--limit {session.limit}" if session.limit else "")
    words.append(f"--samples {','.join(map(str, session.counts))}" if session.counts else "")
    command = " ".join(filter(None, words))
    return [*write_table(folder, name, report, session, command), *write_figure(folder, name, report)]


def write_table(folder: Path, name: str, report: Report, session: Session, command: str) -> list[Path]:
    """Write the page and the figures in full; `command` is what made them."""
    files = [folder / f"{name}.md", folder / f"{name}.csv"]
    write_atomically(files[0], as_markdown(name, report, session, command), make_folder=True)
    write_atomically(files[1], as_csv(report.rows))
    return files


def write_figure(folder: Path, name: str, report: Report) -> list[Path]:
    """Write the picture, if the report has one."""
    if not report.panels:
        return []
    figure = draw(report.panels)
    files = [folder / f"{name}.{ending}" for ending in ("png", "svg")]
    for path in files:
        buffer = io.BytesIO()
        # a date inside the file would make two equal pictures differ
        dated = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(buffer, format=path.suffix[1:], dpi=150, metadata=dated)
        write_atomically(path, buffer.getvalue())
    return files


def as_markdown(name: str, report: Report, session: Session, command: str) -> str:
    """Return the whole page: words, table, what is missing and how to train it, and how it was made."""
    parts = [f"# {report.title}", *report.words]
    if session.quick:
        parts.append("**A quick run on a few instances, to see that everything works; its numbers mean nothing.**")
    if report.panels:
        parts.append(f"![{report.title}]({name}.svg)")
    with_cost = any(measured.row.paper_cost is not None for measured in report.rows)
    headings = [*_HEADINGS, *(["paper: cost"] if with_cost else []), "note"]
    parts.append(table(headings, [_cells(measured, with_cost) for measured in report.rows]))
    commands = dict.fromkeys(
        command for m in report.rows if m.summary is None and m.row.train for command in m.row.train.splitlines()
    )
    if commands:
        parts.append("What is not trained here is trained by (from the folder that holds `runs/`):")
        parts.append("```\n" + "\n".join(commands) + "\n```")
    parts.append(_made_by(command, session))
    return "\n\n".join(parts) + "\n"


def as_csv(rows: Sequence[Measured]) -> str:
    """Return a line for every row with every figure in full; rows not measured have a note and no figures."""
    buffer = io.StringIO()
    names = [entry.name for entry in fields(Summary)]
    writer = csv.DictWriter(buffer, [*_LABELS, *names], lineterminator="\n")
    writer.writeheader()
    for measured in rows:
        row = measured.row
        known: dict[str, Any] = {"dataset": row.dataset, "solver": row.solver, "samples": row.samples}
        if measured.summary is not None:
            known = measured.summary.as_dict()
        train = row.train.replace("\n", " && ")
        labels = (row.method, row.model, measured.how, measured.note, train, row.paper, row.paper_cost)
        writer.writerow({**known, **dict(zip(_LABELS, labels, strict=True))})
    return buffer.getvalue()


def read_csv(text: str) -> list[Measured]:
    """Return the measured rows of what `as_csv` wrote; those without figures are left out."""
    rows = []
    for line in csv.DictReader(text.splitlines()):
        if not line["seconds"]:
            continue
        figures = {name: _value(line[name], hint) for name, hint in get_type_hints(Summary).items()}
        row = Row(
            line["dataset"],
            line["method"],
            line["solver"].partition(" ")[0],  # the rest says which file the model was
            int(line["samples"]),
            line["model"] or None,
            line["train"].replace(" && ", "\n"),
            _value(line["paper_symmetric_gap"], float),
            _value(line["paper_cost"], float),
        )
        rows.append(Measured(row, Summary(**figures), how=line["how"]))
    return rows


def draw(panels: Sequence[Panel]) -> Any:
    """Return a figure of panels, two in a row; the paper's own lines are dashed."""
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(6.4 * columns, 5.6 * rows), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).flatten()
    for empty in places[len(panels) :]:
        empty.set_axis_off()
    for axes, panel in zip(places, panels, strict=False):
        numbers: dict[str, int] = {}
        for line in panel.lines:
            number = numbers.setdefault(line.label, len(numbers))
            # ten colours, and another mark for the next ten
            colour, mark = f"C{number % 10}", "os^Dv"[number // 10 % 5]
            look = {"linestyle": "--", "alpha": 0.6, "marker": "x"} if line.paper else {"marker": mark}
            label = f"{line.label} (paper)" if line.paper else line.label
            axes.plot(*zip(*line.points, strict=True), color=colour, label=label, **look)
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if panel.ticks:
            axes.set_xticks(range(len(panel.ticks)), panel.ticks)
        if panel.percent:
            axes.set_yscale("symlog", linthresh=0.1)
            axes.set_ylim(bottom=-0.02)
            axes.yaxis.set_major_formatter("{x:g}")
        if panel.log_x:
            axes.set_xscale("log", base=2)
            ticks = sorted({x for line in panel.lines for x, _ in line.points})
            axes.set_xticks(ticks, [f"{place:g}" for place in ticks])
        axes.grid(alpha=0.3)
        if panel.lines:
            # below the axes: above lines that go everywhere it would hide some of them
            axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return figure


def hardware() -> str:
    """Return the machine in words."""
    gpu = f"{torch.cuda.get_device_name()}, " if torch.cuda.is_available() else ""
    return (
        f"{gpu}{platform.processor() or platform.machine()}, {os.cpu_count()} processors, "
        f"{torch.get_num_threads()} threads; torch {torch.__version__}, icdc {__version__}"
    )


def _value(text: str, hint: Any) -> Any:
    """Read a cell of a CSV as the type of a field; None where it is empty."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    return kinds[0](text) if text else None


def _cells(measured: Measured, with_cost: bool) -> list[str]:
    row, summary = measured.row, measured.summary
    note = f"**{measured.note}**" if measured.note else ""
    paper = [_number(row.paper_cost, 2)] if with_cost else []
    if summary is None:
        blank = ["–"] * 4
        head = [row.dataset, row.method, str(row.samples), *blank, "–", _number(row.paper, 2), *blank]
        return [*head, "", *paper, note]
    low, high = summary.gap_low, summary.gap_high
    return [
        row.dataset,
        row.method,
        str(row.samples),
        str(summary.instances),
        _number(summary.cost, 3 if (summary.cost or 0.0) < 1000 else 0),
        _number(summary.gap, 3),
        "–" if low is None or high is None else f"{low:.3f} … {high:.3f}",
        _number(summary.symmetric_gap, 3),
        _number(row.paper, 2),
        _number(summary.optimal, 1),
        _number(summary.feasible, 1),
        f"{summary.seconds:.2f}",
        summary.device,
        measured.how,
        *paper,
        note,
    ]


def _made_by(command: str, session: Session) -> str:
    """Say how the numbers came about: command, seeds, machine, models."""
    lines = [
        f"Made by `{command}`; seed {session.seed} for the solvers, the standard test sets with their own seeds "
        "(`icdc.data.standard`). Gaps are to proven optima; the interval is a 95 % bootstrap over instances; seconds "
        f"are for all instances of the row. Machine now: {hardware()}; the column *device* says where a row ran."
    ]
    for model in sorted(session.used):
        path = session.model_file(model)
        training = {} if path is None else card_of(path).get("training", {})
        lines.append(
            f"- model `{model}`: trained {training.get('seconds', '?')} s on {training.get('hardware', '?')}, "
            f"{training.get('processes', 1)} process(es), seed {training.get('seed', '?')}"
        )
    return "\n".join(lines if len(lines) == 1 else [lines[0], "", *lines[1:]])


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
