"""The matrix of a table: its names, its numbers, the pairs it forbids, and triangles that stand for a whole."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..options import mention
from ..problems.base import Problem
from ..problems.instance import BARE, Names, RawInstance
from .doubts import refuse_names, refuse_sums
from .grid import LARGEST_GRID, Grid
from .layout import Layout, layout_of
from .numbers import Number, Plain, Style, is_forbidden, is_missing, read_number, shorten, style_of
from .points import coordinate_columns, raw_from_points
from .raw import ReadOptions, reject_duplicates, tidy, to_array

_GROUPED = re.compile(r"[1-9]\d{0,2}\D\d{3}(?!\d)")


class _Cells(NamedTuple):
    """The numbers of a table: values (rows, columns), and which of them are forbidden pairs."""

    values: NDArray[Any]
    forbidden: NDArray[np.bool_]


def raw_from_grid(grid: Grid, options: ReadOptions, problem: Problem | None) -> RawInstance:
    """Return the one matrix of a table; raise InputError that says where it is wrong, UsageError where it is in doubt.

    problem : the one that was asked for, if one was.
    """
    if options.skip:
        grid.without(options.skip)
    if grid.padded:
        grid.trimmed()
    if not grid.rows:
        raise InputError(f"{grid.name}: the file is empty")
    if sum(map(len, grid.rows)) > LARGEST_GRID:
        raise InputError(f"{grid.name}: the table has more than {LARGEST_GRID} cells; write it as .npy")
    for row, cells in enumerate(grid.rows):
        if grid.padded and not any(cells):
            raise InputError(f"{grid.name}: {grid.line_word} {grid.lines[row]} has only empty cells")
    same_items = None if problem is None else problem.feature_sizes.same_items
    layout = layout_of(grid, options, bool(same_items))
    first = int(layout.header)
    if len(grid.rows) == first:
        raise InputError(f"{grid.name}: there is a header but no row of numbers")
    body = grid.rows[first:]
    triangle = None if same_items is False else _ragged_triangle(body, layout)
    if triangle is not None:
        grid.notes.append(f"the {triangle} triangle, mirrored")
        body = grid.rows[first:] = _squared(body, layout, triangle)
    _check_widths(grid, layout)
    data = [column for column in range(len(body[0])) if column != layout.names]
    if not data:
        raise InputError(f"{grid.name}: there are labels but no numbers")
    columns = _column_names(grid, layout, data)
    if options.metric is None and options.labels is None:
        if columns is not None and same_items is not False:
            _refuse_points(grid, columns)
        refuse_names(grid, layout, None, columns, problem, options.transpose is not None)
    rows = _row_names(grid, layout)
    grid.notes.insert(0, layout.said(grid))
    if options.metric is not None:
        return _points(grid, body, data, layout, rows, columns, options)
    if options.labels is None:
        refuse_names(grid, layout, rows, None, problem, options.transpose is not None)
    found = _read(grid, body, data, first, options)
    if options.labels is None and options.id_column is None and grid.header is None and not same_items:
        refuse_sums(grid, found.values, found.forbidden, layout)
    square = found.values.shape[0] == found.values.shape[1] > 1
    apart = rows is not None and columns is not None and set(rows) != set(columns)
    if square and same_items is not False and not apart and triangle is None:
        triangle = _padded_triangle(grid, body, data, found)
    if triangle is None and same_items is not False and grid.padded and _is_staircase(body, data):
        raise InputError(f"{grid.name}: this seems to be half a matrix; it needs its diagonal, zeros or '-'")
    blank = square and same_items is not False and not apart and bool(found.forbidden.diagonal().all())
    if blank:
        np.fill_diagonal(found.forbidden, False)
        grid.notes.append("empty diagonal")
    forbidden = {BARE: found.forbidden} if found.forbidden.any() else None
    return RawInstance(
        grid.name,
        {BARE: found.values},
        rows=rows,
        columns=columns,
        blank_diagonal=blank or triangle is not None,
        forbidden=forbidden,
        notes=tuple(grid.notes),
        is_table=True,
    )


def _refuse_points(grid: Grid, columns: Names) -> None:
    """Refuse points in place of a matrix, with the options that say what they are."""
    found = coordinate_columns(columns)
    if found:
        x, y = map(shorten, found)
        raise UsageError(
            f"{grid.name}: {x} and {y} look like coordinates; say {mention('metric', 'euclidean')} "
            f"or {mention('metric', 'geo')} to take distances "
            f"between them, {mention('problem', 'pmsp')} if they are processing times"
        )


def _check_widths(grid: Grid, layout: Layout) -> None:
    """Refuse rows of different lengths."""
    first = int(layout.header)
    body, lines = grid.rows[first:], grid.lines[first:]
    width = len(body[0])
    for number, cells in zip(lines, body, strict=True):
        if len(cells) != width:
            steps = {len(after) - len(before) for before, after in pairwise(body)}
            triangle = len(body) > 2 and steps in ({1}, {-1})
            hint = " (half a matrix needs its diagonal, zeros or '-')" if triangle else ""
            raise InputError(
                f"{grid.name}: {grid.line_word} {number} has {len(cells)} {grid.cell_word} "
                f"where {grid.line_word} {lines[0]} has {width}{hint}"
            )
    if layout.header and len(grid.rows[0]) not in (width, width - (layout.names == 0)):
        raise InputError(
            f"{grid.name}: the header has {len(grid.rows[0])} cells where {grid.line_word} {lines[0]} has {width}"
        )


def _column_names(grid: Grid, layout: Layout, data: Sequence[int]) -> Names | None:
    """Return the names of the columns, refusing those that occur twice."""
    if not layout.header:
        return None
    header = grid.rows[0]
    short = len(data) + (layout.names is not None) - len(header)
    columns = tuple(tidy(header[column - short]) for column in data)
    if "" in columns:
        raise InputError(f"{grid.name}: {grid.column_place(data[columns.index('')])} has no name in the header")
    reject_duplicates(columns, f"{grid.name}: the column label")
    return columns


def _row_names(grid: Grid, layout: Layout) -> Names | None:
    """Return the names of the rows, refusing those that occur twice."""
    if layout.names is None:
        return None
    rows = tuple(tidy(row[layout.names]) for row in grid.rows[int(layout.header) :])
    if "" in rows:
        place = grid.lines[int(layout.header) + rows.index("")]
        raise InputError(f"{grid.name}: {grid.line_word} {place} has no name in its column of names")
    reject_duplicates(rows, f"{grid.name}: the row label")
    return rows


def _points(
    grid: Grid,
    body: Sequence[Sequence[str]],
    data: Sequence[int],
    layout: Layout,
    rows: Names | None,
    columns: Names | None,
    options: ReadOptions,
) -> RawInstance:
    """Return the distances between points: of the columns that are coordinates by their names, else of the only two."""
    assert options.metric is not None
    known = () if columns is None else coordinate_columns(columns)
    if columns is not None and known and len(columns) > 2:
        others = [column for column in columns if column not in known]
        grid.notes.append(f"{', '.join(map(shorten, others[:8]))} not used")
        data = [column for column, name in zip(data, columns, strict=True) if name in known]
        columns = tuple(name for name in columns if name in known)
    values, missing = _read(grid, body, data, int(layout.header), options)
    return raw_from_points(values, missing, columns, options.metric, grid.name, rows, grid.notes)


def _skip_hint(grid: Grid, body: Sequence[Sequence[str]], column: int, first: int) -> str:
    """Say how a column of words under a name, such as remarks, is left out; nothing about others, such as '10 min'."""
    place = column - len(body[0]) + len(grid.rows[0])
    if not first or place < 0 or len(body) < 2 or any(char.isdigit() for row in body for char in row[column]):
        return ""
    return f"; say {mention('skip', tidy(grid.rows[0][place]))} if that column is none of the matrix"


def _read(grid: Grid, body: Sequence[Sequence[str]], data: Sequence[int], first: int, options: ReadOptions) -> _Cells:
    """Read the numbers of a table, and say how they were written."""
    style = style_of(
        ((row[c], grid.place(r + first, c)) for r, row in enumerate(body) for c in data),
        "\t" if grid.column_letters else grid.separator,
        options.decimal,
    )
    values: list[list[Number]] = []
    forbidden = np.zeros((len(body), len(data)), dtype=bool)
    for r, row in enumerate(body):
        values.append([])
        for place, c in enumerate(data):
            cell = row[c]
            if cell.isdigit() and cell.isascii() and len(cell) < 16:  # most cells, and quickly
                values[-1].append(int(cell))
                continue
            if is_forbidden(cell) or (options.nan_forbidden and is_missing(cell)):
                forbidden[r, place] = True
                values[-1].append(0)
                continue
            try:
                values[-1].append(read_number(cell, style))
            except InputError as error:
                raise InputError(f"{grid.place(r + first, c)}: {error}{_skip_hint(grid, body, c, first)}") from None
    _say_style(grid, style, (row[c] for row in body for c in data))
    return _Cells(to_array(values), forbidden)


def _say_style(grid: Grid, style: Style, cells: Any) -> None:
    """Note a decimal comma, and groups of thousands."""
    if style.decimal == ",":
        grid.notes.append("decimal comma")
    grouped = next((c for c in cells if not c.isdigit() and not isinstance(c, Plain) and _is_grouped(c, style)), None)
    if grouped is not None:
        grid.notes.append(f"{shorten(grouped)} is {read_number(grouped, style)}")


def _is_grouped(cell: str, style: Style) -> bool:
    """Tell whether a number is written with groups of thousands."""
    return cell.lstrip("+-−0123456789")[:1] != style.decimal and bool(_GROUPED.match(cell.lstrip("+-−")))


def _ragged_triangle(body: Sequence[Sequence[str]], layout: Layout) -> str | None:
    """Tell whether rows get longer, or shorter, by one cell each, from or to a diagonal of nothing or zeros."""
    offset = 0 if layout.names is None else 1
    if len(body) < 2 or layout.names not in (None, 0):
        return None
    lengths = [len(row) - offset for row in body]
    size = len(body)
    if lengths == list(range(1, size + 1)) and all(_is_nothing(row[-1]) for row in body):
        return "lower"
    if lengths == list(range(size, 0, -1)) and all(_is_nothing(row[offset]) for row in body):
        return "upper"
    return None


def _squared(body: Sequence[Sequence[str]], layout: Layout, triangle: str) -> list[list[str]]:
    """Fill a ragged triangle of cells up to a square."""
    offset, size = 0 if layout.names is None else 1, len(body)
    cells = [list(row[offset:]) for row in body]
    if triangle == "lower":
        full = [[cells[max(r, c)][min(r, c)] for c in range(size)] for r in range(size)]
    else:
        full = [[cells[min(r, c)][abs(r - c)] for c in range(size)] for r in range(size)]
    return [[*row[:offset], *whole] for row, whole in zip(body, full, strict=True)]


def _padded_triangle(grid: Grid, body: Sequence[Sequence[str]], data: Sequence[int], found: _Cells) -> str | None:
    """Mirror a square of which all cells above, or all cells below the diagonal are empty, and none of the others."""
    empty = np.array([[row[column] == "" for column in data] for row in body])
    size = len(body)
    above, below = np.triu_indices(size, 1), np.tril_indices(size, -1)
    nothing = all(_is_nothing(row[column]) for row, column in zip(body, data, strict=True))
    for word, gone, there in (("lower", above, below), ("upper", below, above)):
        if nothing and empty[gone].all() and not found.forbidden[there].any():
            for array in found:
                array[gone] = array.T[gone]
            grid.notes.append(f"the {word} triangle, mirrored")
            return word
    return None


def _is_staircase(body: Sequence[Sequence[str]], data: Sequence[int]) -> bool:
    """Tell whether every row has one number more, or one fewer, than the row before, and else only empty cells."""
    filled = [[row[column] != "" for column in data] for row in body]
    counts = [sum(row) for row in filled]
    if len(body) < 3 or {after - before for before, after in pairwise(counts)} not in ({1}, {-1}):
        return False
    left = all(all(row[:count]) for row, count in zip(filled, counts, strict=True))
    right = all(all(row[len(row) - count :]) for row, count in zip(filled, counts, strict=True))
    return left or right


def _is_nothing(cell: str) -> bool:
    """Tell whether a cell of a diagonal says nothing: empty, a mark, or zero."""
    return is_forbidden(cell) or cell.strip("0.,") == ""
