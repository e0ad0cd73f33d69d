"""What a table or a figure consists of: rows to measure, rows measured, and the report of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..evaluation import Summary


@dataclass(frozen=True)
class Row:
    """One solver, with its settings, on one test set.

    dataset : a standard test set.
    method : how the table calls it.
    solver : as `make_solver` reads it; the model, if there is one, comes beside it.
    samples : tries per instance.
    model : a shipped model, or a run of that name, that the solver needs.
    train : the commands that train the model, one a line.
    paper : the symmetric gap, in %, that the paper prints for it.
    paper_cost : the mean cost that the paper prints for it, where its gap is not to an optimum.
    at : where the row lies on the horizontal axis of a figure.
    """

    dataset: str
    method: str
    solver: str
    samples: int = 1
    model: str | None = None
    train: str = ""
    paper: float | None = None
    paper_cost: float | None = None
    at: float | None = None


@dataclass(frozen=True)
class Measured:
    """A row and what was measured, or, where nothing was, why not; `how` a model was run."""

    row: Row
    summary: Summary | None = None
    note: str = ""
    how: str = ""

    @property
    def gap(self) -> float | None:
        """Return the gap in %, if it was measured."""
        return None if self.summary is None else self.summary.gap


@dataclass(frozen=True)
class Line:
    """One line of a figure: points (x, y), in order; `paper` marks the paper's own figures."""

    label: str
    points: Sequence[tuple[float, float]]
    paper: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes of a figure.

    percent : a scale for gaps: logarithmic, and yet with room for zero.
    ticks : the names of 0, 1, 2, … on the horizontal axis, where it has no numbers.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    percent: bool = True
    log_x: bool = False
    ticks: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """A finished table, with the panels of its figure where it has one.

    words : what the reader should know, one paragraph each.
    """

    title: str
    words: Sequence[str]
    rows: Sequence[Measured]
    panels: Sequence[Panel] = field(default_factory=tuple)
