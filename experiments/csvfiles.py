"""CSV files with a line of names: read, written, and added to."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from icdc.io.files import write_atomically


def append_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Add lines to a CSV file, under a line of names where it is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists() or path.stat().st_size == 0
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def replace_rows(
    path: Path,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, object]],
    same: Sequence[str],
    key: Callable[[Mapping[str, str]], Any] | None = None,
) -> list[dict[str, str]]:
    """Write lines into a CSV file, over those with the same values in some columns; return all lines.

    key : to sort all lines by; without it new ones come last.
    """
    new = [{name: "" if row.get(name) is None else str(row[name]) for name in columns} for row in rows]
    replaced = {tuple(row[name] for name in same) for row in new}
    lines = [row for row in read_rows(path) if tuple(row[name] for name in same) not in replaced] + new
    if key is not None:
        lines.sort(key=key)
    write_rows(path, columns, lines)
    return lines


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV file whole."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue(), make_folder=True)
