"""Evaluations for readers: what each solver answers with; as a table, Markdown, CSV, JSON, and a picture."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..solvers import SOLVERS
from .evaluate import Summary, csv_row
from .published import MODEL_ALONE, published

Kind = Literal["model", "search", "model + search", "classical", "own"]
"""What a solver answers with: a trained model alone, search alone, both, or other code."""

LEARNED = ("icdc", MODEL_ALONE)
_HEADINGS = (
    "test set", "solver", "by", "samples", "limit", "cost", "gap %", "95 % interval", "symmetric gap %", "optimal %",
    "proven %", "feasible %", "seconds", "s/instance", "device",
)  # fmt: skip
_WORDS = ("test set", "solver", "by", "device")
"""The columns of words, which are aligned to the left."""
_WITH_SEARCH = " †"


def kind_of(spec: str) -> Kind:
    """Return what the solver that a text describes answers with.

    `icdc` is a model and search where the model alone has a name of its own; a model with local search inside its chain
    (`improve_rounds`) is both, too. A model whose decodes are merged, as its card may advise, is still a model.
    "classical" are heuristics and exact solvers beside our own search; "own" is a solver given as module:Class, of
    which nothing is known.
    """
    name, _, rest = spec.partition(":")
    if name not in (*SOLVERS, MODEL_ALONE):
        return "own"
    if name == "matnet":
        return "model"
    if name not in LEARNED:
        return "search" if name == "search" else "classical"
    options = dict(part.partition("=")[::2] for part in rest.split(","))
    combined = name == "icdc" and MODEL_ALONE in SOLVERS
    return "model + search" if combined or options.get("improve_rounds", "0") != "0" else "model"


def default_rows() -> list[str]:
    """Return the solvers to compare where none is named: the model alone, the search alone, and both where they are."""
    return [MODEL_ALONE, "search", "icdc"] if MODEL_ALONE in SOLVERS else ["icdc", "search"]


def as_text(summaries: Sequence[Summary], with_published: bool = False) -> str:
    """Return an aligned table."""
    rows = _rows(summaries, with_published)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    # words to the left, numbers to the right
    align: list[Callable[[str, int], str]] = [str.ljust if name in _WORDS else str.rjust for name in rows[0]]
    lines = ["  ".join(align[c](cell, widths[c]) for c, cell in enumerate(row)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], *_notes(summaries, with_published)])


def as_markdown(summaries: Sequence[Summary], with_published: bool = False) -> str:
    """Return a Markdown table."""
    head, *body = ["| " + " | ".join(row) + " |" for row in _rows(summaries, with_published)]
    notes = [line for note in _notes(summaries, with_published) for line in ("", note)]
    return "\n".join([head, "|" + " --- |" * (head.count("|") - 1), *body, *notes])


def as_csv(summaries: Sequence[Summary]) -> str:
    """Return one line per run with every figure in full, under a line of names."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(summaries[0].as_dict()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv_row(summary.as_dict()) for summary in summaries)
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
                kind_of(summary.solver),
                f"×{summary.samples}",
                "–" if summary.time_limit is None else f"{summary.time_limit:g} s",
                "–" if summary.cost is None else f"{summary.cost:,.{3 if summary.cost < 1000 else 0}f}",
                _number(summary.gap, 3) if summary.gap_at_most is None else f"≤ {summary.gap_at_most:.3f}",
                "–" if low is None or high is None else f"{low:.3f} … {high:.3f}",
                _number(summary.symmetric_gap, 3),
                _number(summary.optimal, 1),
                _number(summary.proven, 1),
                _number(summary.feasible, 1),
                f"{summary.seconds:.2f}",
                f"{summary.seconds_per_instance:.2g}",
                summary.device,
            ]
        )
    if with_published:
        rows[0].append("paper: symmetric gap %")
        for row, summary in zip(rows[1:], summaries, strict=True):
            figure = published(summary.dataset, _method(summary.solver), summary.samples)
            row.append(_number(figure, 2) + (_WITH_SEARCH if _beside_a_network(summary) else ""))
    return rows


def _notes(summaries: Sequence[Summary], with_published: bool) -> list[str]:
    """Return sentences about what the table compares."""
    notes = []
    for summary in {summary.dataset: summary for summary in summaries}.values():
        if summary.references_proven is not None and summary.references_proven < 100.0:
            share = f"{summary.references_proven:.0f} % of the references"
            notes.append(f"{summary.dataset}: {share} are proven optima, the others the best known costs.")
    if with_published and any(map(_beside_a_network, summaries)):
        notes.append(f"{_WITH_SEARCH.strip()} this row is a model and search; the paper's figure is a network alone.")
    return notes


def _beside_a_network(summary: Summary) -> bool:
    """Tell whether a row with search stands beside a figure of the paper's network."""
    figure = published(summary.dataset, _method(summary.solver), summary.samples)
    return figure is not None and kind_of(summary.solver) == "model + search"


def _method(solver: str) -> str:
    """Return what the paper calls a solver: its IC/DC is our network, with or without our search beside it."""
    name, colon, options = solver.partition(":")
    return ("icdc" if name == "network" else name) + colon + options


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
