"""What whoever reads a file may decide about it, and what was understood of a table."""

from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError

Metric = Literal["euclidean", "geo"]
METRICS: tuple[str, ...] = ("euclidean", "geo")


@dataclass(frozen=True)
class ReadOptions:
    """Answers to what a file may leave open; None leaves it to the file, which is refused where it is in doubt.

    labels : True: row 1 and column 1 are names, even if they are numbers. False: no number is a name.
    comments : True: lines that begin with # are comments. False: they are rows like all others.
    decimal : the mark before the fraction of a number, "." or ","; the other one groups thousands.
    id_column : the column that holds the names of the rows: its own name, or its number from 1; "0" for none.
    metric : the table holds points: "euclidean" (x, y) or "geo" (latitude, longitude in degrees) distances are
        taken between them.
    skip : rows and columns that are left out, by their names or places: "Total", "row 4", "column 3".
    transpose : True: rows and columns change places, since machines are rows, or rows are where one goes to. False:
        they do not.
    sheet, range : the part of a workbook, such as "Times" and "B2:F20".
    hidden : True: hidden rows and columns of a workbook are read. False: they are left out.
    nan_forbidden : NaN marks a forbidden pair, instead of being refused.
    """

    labels: bool | None = None
    comments: bool | None = None
    decimal: str | None = None
    id_column: str | None = None
    metric: str | None = None
    sheet: str | None = None
    range: str | None = None
    nan_forbidden: bool = False
    skip: tuple[str, ...] = ()
    transpose: bool | None = None
    hidden: bool | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise UsageError(f"the decimal mark must be '.' or ',', got {self.decimal!r}")
        if self.metric is not None and self.metric not in METRICS:
            raise UsageError(f"unknown metric {self.metric!r}; choose {' or '.join(METRICS)}")


DEFAULTS = ReadOptions()
