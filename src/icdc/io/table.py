"""A table of cells becomes a matrix with names, in the order in which the rules decide.

1. Cells (`cells`). What `skip` names is left out, and what is empty around the table; an empty row or column inside it
   is refused, since it may part two tables, or be a machine that no job may use.
2. Names. Options win. Words are names: a first row of them is a header, a first column of them holds
   labels. Numbers are names below or beside a corner that says so (`job`, `No.`), and around an empty corner if they
   count. Amounts (`5 min`, `$5`, `1:30`) are names under such a corner, and else refused as one or the other.
3. Numbers. One way of writing for the whole table; marks are forbidden pairs; half a matrix is mirrored.
4. Doubts (`doubts`). What seems to be a name among the numbers, or no part of the matrix, is refused with the options
   that decide: numbers that count, ascend or are far larger than all others; names outside the family of the others;
   sums and means; lists with a pair a line; rows that should be columns.
"""

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
from .cells import (
    LARGEST_GRID,
    Grid,
    Number,
    Plain,
    ReadOptions,
    Style,
    are_names,
    is_amount,
    is_forbidden,
    is_missing,
    is_number,
    is_word,
    read_number,
    reject_duplicates,
    shorten,
    style_of,
    tidy,
    to_array,
)
from .doubts import (
    Layout,
    numbers_items,
    one_family,
    refuse_amounts,
    refuse_columns,
    refuse_numbers_as_names,
    refuse_rows,
    refuse_sums,
    says_names,
)
from .points import coordinate_columns, raw_from_points

_GROUPED = re.compile(r"[1-9]\d{0,2}\D\d{3}(?!\d)")


class _Cells(NamedTuple):
    """The numbers of a table: values (rows, columns), and which of them are forbidden pairs."""

    values: NDArray[Any]
    forbidden: NDArray[np.bool_]


def raw_from_grid(grid: Grid, options: ReadOptions, problem: Problem | None) -> RawInstance:  # noqa: C901
    """Return the one matrix of a table; raise InputError that says where it is wrong, UsageError where it is in doubt.

    problem : where an option names one.
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
        if not cells or (grid.padded and not any(cells)):
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
    doubtful = options.metric is None and options.labels is None
    if doubtful and columns is not None:
        if same_items is not False:
            _refuse_points(grid, columns)
        refuse_columns(grid, layout, columns, same_items)
    rows = _row_names(grid, layout)
    grid.notes.insert(0, layout.words(grid))
    if options.metric is not None:
        return _points(grid, body, data, layout, rows, columns, options)
    numbers = _read(grid, body, data, first, options)
    if doubtful:
        refuse_rows(grid, layout, rows, columns, problem, options.transpose is not None)
    if doubtful and not _holds_lists(grid) and not same_items:
        refuse_sums(grid, numbers.values, numbers.forbidden, layout)
    square = numbers.values.shape[0] == numbers.values.shape[1] > 1
    apart = rows is not None and columns is not None and set(rows) != set(columns)
    if square and same_items is not False and not apart and triangle is None:
        triangle = _padded_triangle(grid, body, data, numbers)
    if triangle is None and same_items is not False and grid.padded and _is_staircase(body, data):
        raise InputError(f"{grid.name}: this seems to be half a matrix; it needs its diagonal, zeros or '-'")
    if triangle is None and grid.padded:
        _refuse_gaps(grid, body, data)
    blank = square and same_items is not False and not apart and bool(numbers.forbidden.diagonal().all())
    if blank:
        np.fill_diagonal(numbers.forbidden, False)
        grid.notes.append("empty diagonal")
    forbidden = {BARE: numbers.forbidden} if numbers.forbidden.any() else None
    return RawInstance(
        grid.name,
        {BARE: numbers.values},
        rows=rows,
        columns=columns,
        blank_diagonal=blank or triangle is not None,
        forbidden=forbidden,
        notes=tuple(grid.notes),
        is_table=True,
    )


def layout_of(grid: Grid, options: ReadOptions, square: bool) -> Layout:
    """Find the names of a table, or refuse to guess.

    square : whether the problem that an option names has as many rows as columns.
    """
    rows = grid.rows
    if options.labels and options.id_column is None:
        if len(rows) < 2:
            raise InputError(f"{grid.name}: with names in row 1 there is no row of numbers")
        return Layout(True, 0)
    header = _has_header(grid, options) if grid.header is None else grid.header
    if options.id_column is not None:
        header = header or bool(options.labels)
        return Layout(header, _named_column(grid, options.id_column, header))
    if grid.labels is not None:
        names = 0 if grid.labels else None
    else:
        names = _names_column(grid, header, options)
    layout = Layout(header, names)
    if options.labels is None and not _holds_lists(grid):
        refuse_numbers_as_names(grid, layout, square)
    return layout


def _holds_lists(grid: Grid) -> bool:
    """Tell whether a table is lists of numbers, as in JSON, which have no place for names."""
    return grid.header is False and grid.labels is False


def _has_header(grid: Grid, options: ReadOptions) -> bool:
    """Tell whether row 1 holds the names of the columns."""
    first, rest = grid.rows[0], grid.rows[1:]
    corner, others = first[0], first[1:]
    beside = [row[0] for row in rest]
    labelled = bool(rest) and are_names(beside)
    if labelled and len(first) + 1 == len(rest[0]) and (are_names(first) or all(map(is_number, first))):
        return _are_sure(grid, first, options)  # a header that does not name the column of labels
    if not others:
        # one column under its name, unless the column is all words
        return bool(rest) and not is_number(corner) and not labelled and (is_word(corner) or corner.casefold() == "x")
    if are_names(others) or (rest and are_names(first) and not labelled):
        named = corner == "" or says_names(corner)
        return not is_number(corner) and (named or _are_sure(grid, others if labelled else first, options))
    if not rest or any(map(is_word, others)) or options.labels is False:
        return False
    if says_names(corner) and not (labelled and any(map(says_names, beside))):
        return True  # numbers as names, under a corner that says they are names
    if not all(map(is_number, others)):
        return False
    if corner == "":
        return labelled or _numbers_under_an_empty_corner(grid)
    if labelled and is_word(corner) and not one_family([corner, *beside]):
        others_below = [row[1:] for row in rest if len(row) == len(first)]
        counts = [int(cell) if len(cell) < 9 and cell.isdecimal() else -1 for cell in others]
        if numbers_items(others, others_below, least=6) or (
            counts in ([0, 1], [1, 2]) and others_below and others_below[0] != [str(count + 2) for count in counts]
        ):
            shown = ", ".join(others[:3])
            raise _doubt(grid, f"row 1 ({shorten(corner)}, {shown}, …) may be the names of the columns, or a row")
    return False


def _are_sure(grid: Grid, cells: Sequence[str], options: ReadOptions) -> bool:
    """Tell whether words above columns are names; refuse amounts, of which they may be a row."""
    words = [cell for cell in cells if is_word(cell)]
    if options.labels is False:
        return not words or not all(map(is_amount, words))
    answer = f"{mention('labels', True)} {mention('id_column', '0')}"
    refuse_amounts(grid, cells, "row 1", answer)
    return True


def _numbers_under_an_empty_corner(grid: Grid) -> bool:
    """Tell whether numbers above and beside an empty corner are names, or the first row and column of a matrix."""
    above, beside = grid.rows[0][1:], [row[0] for row in grid.rows[1:]]
    if _has_blank_diagonal(grid.rows):
        if above != beside:
            return False  # distances with nothing on their diagonal: names would be the same above and beside
        raise _doubt(grid, "row 1 and column 1 may be names, or distances of a matrix with an empty diagonal")
    if _counts(above) and _counts(beside) and max(len(above), len(beside)) > 1:
        return True
    if not all(map(is_number, beside)):
        return False
    raise _doubt(grid, "row 1 and column 1 may be names, or numbers beside a forbidden pair")


def _names_column(grid: Grid, header: bool, options: ReadOptions) -> int | None:
    """Return the column of names, if the first one is; refuse amounts, which may be names or numbers."""
    body = grid.rows[1:] if header else grid.rows
    cells = [row[0] for row in body if row]
    if not body or max(len(row) for row in body) < 2:
        return None
    corner = grid.rows[0][0] if header else None
    named = corner is not None and (corner == "" or says_names(corner))
    if cells and are_names(cells):
        if named or (header and len(grid.rows[0]) < len(body[0])):
            return 0
        if options.labels is False and all(is_amount(cell) for cell in cells if is_word(cell)):
            return None
        refuse_amounts(grid, cells, grid.column_place(0), str(mention("id_column", "1")))
        return 0
    return 0 if named and options.labels is not False else None


def _named_column(grid: Grid, column: str, header: bool) -> int | None:
    """Return the column that `id_column` means; None for none."""
    width = max(len(row) for row in grid.rows)
    if column.isascii() and column.isdigit() and len(column) < 9 and int(column) <= width:
        return int(column) - 1 if int(column) else None
    if header and column in grid.rows[0]:
        # a header that leaves out the corner names the columns from the second on
        return grid.rows[0].index(column) + width - len(grid.rows[0])
    choices = (
        f": its columns are {', '.join(map(shorten, grid.rows[0][:8]))}" if header else f": it has {width} columns"
    )
    raise UsageError(f"{grid.name}: there is no column {shorten(column)} ({mention('id_column')}){choices}")


def _has_blank_diagonal(rows: list[list[str]]) -> bool:
    """Tell whether a square table has nothing on its diagonal."""
    return len(rows) > 1 and all(len(row) == len(rows) and row[place] == "" for place, row in enumerate(rows))


def _counts(cells: list[str]) -> bool:
    """Tell whether cells count 0, 1, 2, … or 1, 2, 3, …"""
    return any(cells == [str(start + place) for place in range(len(cells))] for start in (0, 1)) and bool(cells)


def _doubt(grid: Grid, what: str) -> UsageError:
    return UsageError(
        f"{grid.name}: {what}; say {mention('labels', True)} if they are, {mention('labels', False)} if they are not"
    )


def _refuse_gaps(grid: Grid, body: Sequence[Sequence[str]], data: Sequence[int]) -> None:
    """Refuse an empty column, under a name or not: it may part two tables, or be a machine that no job may use."""
    for column in data if len(body) > 1 else ():
        if not any(row[column] for row in body):
            place = grid.column_place(column)
            raise UsageError(
                f"{grid.name}: {place} is empty in every row; write '-' if all its pairs are forbidden, or say "
                f"{mention('skip', place)} to leave it out"
            )


def _refuse_points(grid: Grid, columns: Names) -> None:
    """Refuse points in place of a matrix, with the options that say what they are."""
    pair = coordinate_columns(columns)
    if pair:
        x, y = map(shorten, pair)
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
    pair = () if columns is None else coordinate_columns(columns)
    if columns is not None and pair and len(columns) > 2:
        others = [column for column in columns if column not in pair]
        grid.notes.append(f"{', '.join(map(shorten, others[:8]))} not used")
        data = [column for column, name in zip(data, columns, strict=True) if name in pair]
        columns = tuple(name for name in columns if name in pair)
    values, missing = _read(grid, body, data, int(layout.header), options)
    return raw_from_points(values, missing, columns, options.metric, grid.name, rows, grid.notes)


def _skip_hint(grid: Grid, body: Sequence[Sequence[str]], column: int, first: int) -> str:
    """Return a hint how to skip a named column of words such as remarks; nothing for amounts such as '10 min'."""
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


def _padded_triangle(grid: Grid, body: Sequence[Sequence[str]], data: Sequence[int], numbers: _Cells) -> str | None:
    """Mirror a square of which all cells above, or all cells below the diagonal are empty, and none of the others."""
    empty = np.array([[row[column] == "" for column in data] for row in body])
    size = len(body)
    above, below = np.triu_indices(size, 1), np.tril_indices(size, -1)
    nothing = all(_is_nothing(row[column]) for row, column in zip(body, data, strict=True))
    for word, gone, there in (("lower", above, below), ("upper", below, above)):
        if nothing and empty[gone].all() and not numbers.forbidden[there].any():
            for array in numbers:
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
