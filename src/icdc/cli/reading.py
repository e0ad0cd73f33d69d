"""The options that say how a file is to be read, the same for every command that reads instances."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..io import ReadOptions

Labels = Annotated[
    bool | None,
    typer.Option("--labels/--no-labels", help="Row 1 and column 1 are names, even if numbers; or no number is a name."),
]
Comments = Annotated[
    bool | None, typer.Option("--comments/--no-comments", help="Lines that begin with # are comments, or are rows.")
]
Decimal = Annotated[str | None, typer.Option(metavar=".|,", help="The mark before fractions.")]
IdColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column of names: its own name, or its number; 0 for none."),
]
Metric = Annotated[
    str | None, typer.Option(metavar="euclidean|geo", help="The table holds points; take distances between them.")
]
Sheet = Annotated[str | None, typer.Option(help="The sheet of a workbook (.xlsx).")]
Range = Annotated[str | None, typer.Option("--range", metavar="B2:F20", help="The part of the sheet.")]
Forbidden = Annotated[
    str | None, typer.Option(metavar="nan", help="Also read NaN as a forbidden pair, beside empty cells, -, x and inf.")
]


def read_options(
    labels: bool | None,
    comments: bool | None,
    decimal: str | None,
    id_column: str | None,
    metric: str | None,
    sheet: str | None,
    cells: str | None,
    forbidden: str | None,
) -> "ReadOptions":
    """Return what was said about the files."""
    from ..errors import UsageError
    from ..io import ReadOptions

    if forbidden not in (None, "nan"):
        raise UsageError(f"--forbidden takes 'nan' or nothing, got '{forbidden}'")
    return ReadOptions(labels, comments, decimal, id_column, metric, sheet, cells, forbidden == "nan")
