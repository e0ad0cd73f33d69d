"""Tables small enough for a page: a line for each method, a column for each number of samples, size or steps."""

import re
from collections.abc import Callable, Sequence

from ..evaluation import Summary
from .methods import problem_of
from .rows import Measured

Place = tuple[float, str]
"""Where a column stands, and its heading."""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    # a bar or a new line inside a cell would end it
    clean = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in clean)


def percent(value: float | None) -> str:
    """Return a gap in %, with about three digits."""
    if value is None:
        return "–"
    if 0.0 < value < 0.0005:
        return "<0.001"
    return f"{value:.{3 if abs(value) < 1.0 else 2 if abs(value) < 10.0 else 1}f}"


def with_interval(summary: Summary, between: str = " ") -> str:
    """Return the gap of a row with its interval; `between` stands between them."""
    if summary.gap is None and summary.gap_at_most is not None:
        return f"≤ {percent(summary.gap_at_most)}"
    words = percent(summary.gap)
    if summary.gap_low is not None and summary.gap_high is not None:
        words += f"{between}[{percent(summary.gap_low)} … {percent(summary.gap_high)}]"
    return words if summary.feasible == 100.0 else f"{words}, {summary.feasible:.1f} % feasible"


def duration(summary: Summary) -> str:
    """Return the time an instance took, and where."""
    seconds = summary.seconds_per_instance
    number = f"{seconds:.3g} s" if seconds >= 1.0 else f"{1000.0 * seconds:.3g} ms"
    return f"{number}, {summary.device}"


def compact_tables(name: str, rows: Sequence[Measured]) -> list[str]:
    """Return the tables of one target, each under a line that says what it is of."""
    if name == "generalisation":
        return _tables(rows, lambda m: problem_of(m.row.dataset), _size, _method_with_samples)
    if name == "sampling-steps":
        return _tables(rows, lambda m: m.row.dataset, _steps, _method_without_steps)
    return _tables(rows, lambda m: m.row.dataset, _samples, _method)


def _tables(
    rows: Sequence[Measured],
    of: Callable[[Measured], str],
    column: Callable[[Measured], Place],
    label: Callable[[Measured], str],
) -> list[str]:
    parts = []
    for title in dict.fromkeys(map(of, rows)):
        here = [m for m in rows if of(m) == title]
        columns = sorted(set(map(column, here)))
        headings = ["method", *(heading for _, heading in columns), "time an instance, in the last column measured"]
        between = " " if len(columns) < 6 else "<br>"  # many columns have to be narrow
        lines = []
        for method in dict.fromkeys(map(label, here)):
            cells = {column(m): m for m in here if label(m) == method}
            notes = [m.note or "not measured" for m in cells.values() if m.summary is None]
            times = [duration(m.summary) for _, m in sorted(cells.items(), key=lambda cell: cell[0]) if m.summary]
            last = "; ".join([*times[-1:], *(f"**{note}**" for note in dict.fromkeys(notes))])
            lines.append([method, *(_cell(cells.get(place), between) for place in columns), last])
        parts.append(f"**{title}**{_instances(here)}\n\n{table(headings, lines)}")
    return parts


def _cell(measured: Measured | None, between: str) -> str:
    """Return the gap of a row with its interval, and under it the paper's figure beside ours of its kind."""
    if measured is None:
        return ""
    row, summary = measured.row, measured.summary
    lines = ["–" if summary is None else with_interval(summary, between)]
    if row.paper is not None:
        ours = "" if summary is None else f"{percent(summary.symmetric_gap)}, "
        lines.append(f"*symmetric: {ours}paper {row.paper:g}*")
    if row.paper_cost is not None:
        ours = "" if summary is None or summary.cost is None else f"{summary.cost:.3f}, "
        lines.append(f"*cost: {ours}paper {row.paper_cost:.2f}*")
    return "<br>".join(lines)


def _instances(rows: Sequence[Measured]) -> str:
    counts = sorted({m.summary.instances for m in rows if m.summary is not None})
    return f", {' or '.join(f'{count:,}' for count in counts)} instances" if counts else ""


def _method(measured: Measured) -> str:
    row = measured.row
    return row.method if row.model is None else f"{row.method} (`{row.model}`)"


def _method_with_samples(measured: Measured) -> str:
    row = measured.row
    return _method(measured) if row.model is None else f"{_method(measured)} ×{row.samples}"


def _method_without_steps(measured: Measured) -> str:
    return re.sub(r", \d+ steps", "", _method(measured))


def _samples(measured: Measured) -> Place:
    return float(measured.row.samples), f"×{measured.row.samples}"


def _steps(measured: Measured) -> Place:
    """Return the number of reverse steps, which the solver's options tell; MatNet has none."""
    found = re.match(r"icdc:steps=(\d+)", measured.row.solver)
    if found is None:
        return 0.0, "without steps"
    return float(found[1]), "1 step" if found[1] == "1" else f"{found[1]} steps"


def _size(measured: Measured) -> Place:
    size = measured.row.dataset.partition("-")[2]
    items, *others = map(int, size.split("x"))
    return items + sum(others) / 1000.0, size.replace("x", "×")
