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
Skip = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Leave out a row or a column: its name, 'row 4' or 'column 3'; may be repeated."),
]
Transpose = Annotated[
    bool | None,
    typer.Option("--transpose/--no-transpose", help="Rows and columns of the table change places, or do not."),
]
Sheet = Annotated[str | None, typer.Option(help="The sheet of a workbook (.xlsx).")]
Range = Annotated[str | None, typer.Option("--range", metavar="B2:F20", help="The part of the sheet.")]
Hidden = Annotated[
    bool | None, typer.Option("--hidden/--no-hidden", help="Read hidden rows and columns of a workbook, or do not.")
]
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
    skip: list[str] | None,
    transpose: bool | None,
    hidden: bool | None,
) -> "ReadOptions":
    """Return what was said about the files."""
    from ..errors import UsageError
    from ..io import ReadOptions

    if forbidden not in (None, "nan"):
        raise UsageError(f"--forbidden takes 'nan' or nothing, got '{forbidden}'")
    return ReadOptions(
        labels,
        comments,
        decimal,
        id_column,
        metric,
        sheet,
        cells,
        forbidden == "nan",
        tuple(skip or ()),
        transpose,
        hidden,
    )
