"""Pieces of Markdown: tables, gaps, times, and the parts of a page that are generated."""

from collections.abc import Mapping, Sequence
from typing import Any

from icdc.errors import InputError
from icdc.evaluation.evaluate import Summary


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table: text to the left, in the first column, figures to the right."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    # a bar or a new line inside a cell would end it
    clean = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in clean)


def percent(value: float | None) -> str:
    """Return a gap in %, with about three digits."""
    if value is None:
        return "–"
    if abs(value) < 1e-9:  # sums of reals in another order
        return "0.000"
    if 0.0 < value < 0.0005:
        return "<0.001"
    return f"{value:.{3 if abs(value) < 1.0 else 2 if abs(value) < 10.0 else 1}f}"


def gap_with_interval(summary: Summary) -> str:
    """Return the gap of a row and its 95 % interval."""
    words = percent(summary.gap)
    if summary.gap_low is not None and summary.gap_high is not None and summary.gap_high > 1e-9:
        words += f" ({percent(summary.gap_low)}–{percent(summary.gap_high)})"
    return words if summary.feasible == 100.0 else f"{words}, {summary.feasible:.1f} % feasible"


def gap_in_row(row: Mapping[str, Any] | None) -> str:
    """Return the gap of a line of a CSV file, with its 95 % interval; a dash where nothing was measured."""
    if row is None or row["gap"] in (None, ""):
        return "–"
    low, high = (float(row[key]) for key in ("gap_low", "gap_high"))
    return f"{percent(float(row['gap']))} ({percent(low)}–{percent(high)})"


def duration(summary: Summary) -> str:
    """Return the time an instance took, and where."""
    return f"{time_in_words(summary.seconds_per_instance)}, {summary.device.removeprefix('NVIDIA ')}"


def time_in_words(seconds: float) -> str:
    """Return seconds, or milliseconds where there is less than one, with two or three digits."""
    if seconds >= 1.0:
        return f"{seconds:.1f} s"
    milliseconds = 1000.0 * seconds
    return f"{milliseconds:.0f} ms" if milliseconds >= 99.5 else f"{milliseconds:.2g} ms"


def between_marks(page: str, name: str, text: str) -> str:
    """Return a page with the part between the marks `NAME: begin` and `NAME: end` replaced."""
    begin, end = (f"<!-- {name}: {place} -->" for place in ("begin", "end"))
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise InputError(f"the page has no place for a part, between '{begin}' and '{end}'")
    return f"{before}{begin}\n{text}\n{end}{after}"
