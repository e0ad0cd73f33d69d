"""A table of results: rows to measure, rows measured, and the CSV file that keeps them."""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_type_hints

from icdc.errors import InputError
from icdc.evaluation.evaluate import Summary

Answer = Literal["best", "last", "end", "refined"]
"""Which of a model's solutions counts.

best : the best of all that is decoded along the trajectories.
last : one solution decoded at the end of each trajectory of the plain reverse process, as the paper counts.
end : one solution decoded at the end of each of those trajectories that *best* looks along.
refined : the best, noised and denoised again a few times.
"""


@dataclass(frozen=True)
class Row:
    """One solver, with its settings, on one standard test set.

    method : a key of `experiments.methods.METHODS`.
    samples : trajectories, or tries, for each instance.
    model : a shipped model, or a training run of that name; empty for solvers without one.
    change : in the ablations, what differs from the first row, as the table calls it.
    options : of the solver, as `icdc.make_solver` reads them: "steps=20,keep=last".
    paper_gap : the symmetric gap, in %, that the paper prints for it.
    paper_cost : the mean cost that the paper prints, where its gap is not to an optimum.
    train : the commands that train the model, joined by " && ".
    """

    dataset: str
    method: str
    samples: int = 1
    model: str = ""
    answer: Answer = "best"
    change: str = ""
    options: str = ""
    paper_gap: float | None = None
    paper_cost: float | None = None
    train: str = ""


@dataclass(frozen=True)
class Measured:
    """A row and what was measured, or a note that says why nothing was.

    settings : what a diffusion model was run with, its card's advice included.
    digest : of the model's file.
    """

    row: Row
    summary: Summary | None = None
    settings: str = ""
    digest: str = ""
    note: str = ""

    @property
    def gap(self) -> float | None:
        """Return the gap in %, if it was measured."""
        return None if self.summary is None else self.summary.gap


def options_of(text: str) -> dict[str, str]:
    """Return options by name; see `Row`."""
    return dict(part.split("=", 1) for part in text.split(",") if part)


def options_as_text(options: Mapping[str, object]) -> str:
    """Return options as a row has them."""
    return ",".join(f"{name}={value}" for name, value in options.items())


_LABELS = ("settings", "digest", "note")
_FIGURES = (
    "seed", "instances", "cost", "reference", "gap", "gap_low", "gap_high", "symmetric_gap", "optimal", "feasible",
    "below", "seconds", "device",
)  # fmt: skip
COLUMNS = (*(entry.name for entry in fields(Row)), *_LABELS, *_FIGURES)


def write_table(rows: Iterable[Measured]) -> str:
    """Return the CSV of some rows: every figure in full; rows that were not measured have a note instead."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for measured in rows:
        figures = {} if measured.summary is None else measured.summary.as_dict()
        known = vars(measured) | vars(measured.row) | figures
        writer.writerow(known | {"train": measured.row.train if measured.summary is None else ""})
    return buffer.getvalue()


def read_table(path: Path) -> list[Measured]:
    """Return the rows of what `write_table` wrote."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [_read(line) for line in csv.DictReader(file)]
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}: this is not a table of experiments ({error!r})") from error


def _read(line: dict[str, str]) -> Measured:
    row = Row(**{entry.name: _value(line[entry.name], Row, entry.name) for entry in fields(Row)})
    labels = {name: line[name] for name in _LABELS}
    if not line["seconds"]:
        return Measured(row, **labels)
    figures = {name: _value(line[name], Summary, name) for name in _FIGURES}
    each = figures["seconds"] / figures["instances"]
    about = {"dataset": row.dataset, "solver": row.method, "samples": row.samples}
    return Measured(row, Summary(**about, **figures, gap_at_most=None, seconds_per_instance=each), **labels)


def _value(text: str, cls: type, name: str) -> Any:
    """Read a cell as the type of a field: what is empty is None, or the field's default."""
    kind, default = _types(cls)[name]
    if kind == Answer:
        if text not in get_args(Answer):
            raise ValueError(f"'{text}' is none of {', '.join(get_args(Answer))}")
        return text
    return kind(text) if text else default


@cache
def _types(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return, by field of a dataclass, its type without None, and its default (None where there is none)."""
    hints = get_type_hints(cls)
    found = {}
    for entry in fields(cls):
        hint = hints[entry.name]
        kinds = [kind for kind in get_args(hint) if kind is not type(None)] if isinstance(hint, UnionType) else [hint]
        found[entry.name] = kinds[0], None if entry.default is MISSING else entry.default
    return found
