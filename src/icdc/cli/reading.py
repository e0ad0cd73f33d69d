"""The options that say how a file is to be read, the same for every command that reads instances."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, UsageError

if TYPE_CHECKING:
    from ..io import ReadOptions


@dataclass(frozen=True)
class ReadingOptions:
    """What was said about the files; see `icdc.io.ReadOptions`."""

    labels: Annotated[
        bool | None,
        typer.Option(
            "--labels/--no-labels", help="Row 1 and column 1 are names, even if numbers; or no number is a name."
        ),
    ] = None
    comments: Annotated[
        bool | None, typer.Option("--comments/--no-comments", help="Lines that begin with # are comments, or are rows.")
    ] = None
    decimal: Annotated[str | None, typer.Option(metavar=".|,", help="The mark before fractions.")] = None
    id_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of names: its own name, or its number; 0 for none."),
    ] = None
    metric: Annotated[
        str | None, typer.Option(metavar="euclidean|geo", help="The table holds points; take distances between them.")
    ] = None
    skip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Leave out a row or a column: its name, 'row 4' or 'column 3'; may be repeated."
        ),
    ] = None
    transpose: Annotated[
        bool | None,
        typer.Option("--transpose/--no-transpose", help="Rows and columns of the table change places, or do not."),
    ] = None
    sheet: Annotated[str | None, typer.Option(help="The sheet of a workbook (.xlsx).")] = None
    cells: Annotated[str | None, typer.Option("--range", metavar="B2:F20", help="The part of the sheet.")] = None
    hidden: Annotated[
        bool | None, typer.Option("--hidden/--no-hidden", help="Read hidden rows and columns of a workbook, or do not.")
    ] = None
    forbidden: Annotated[
        str | None,
        typer.Option(metavar="nan", help="Also read NaN as a forbidden pair, beside empty cells, -, x and inf."),
    ] = None

    def options(self) -> "ReadOptions":
        """Return what the readers of files are told."""
        if self.forbidden not in (None, "nan"):
            raise UsageError(f"--forbidden takes 'nan' or nothing, got '{self.forbidden}'")
        from ..io import ReadOptions

        return ReadOptions(
            labels=self.labels,
            comments=self.comments,
            decimal=self.decimal,
            id_column=self.id_column,
            metric=self.metric,
            sheet=self.sheet,
            range=self.cells,
            nan_forbidden=self.forbidden == "nan",
            skip=tuple(self.skip or ()),
            transpose=self.transpose,
            hidden=self.hidden,
        )


def check_files(paths: list[str]) -> None:
    """Refuse files that are not there, and standard input for two things, before anything heavy is imported."""
    if paths.count("-") > 1:
        raise UsageError("standard input can be read only once")
    for path in paths:
        if path != "-" and not Path(path).exists():
            raise InputError(f"{path}: no such file")
