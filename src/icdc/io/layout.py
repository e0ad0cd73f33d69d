"""Which cells of a table are names: the header, the column of labels, and what is too doubtful to guess.

Words are names. Numbers are names where the file says so: under an empty corner if they count from 0 or 1, or under a
word for items or for numbering ("job", "city", "id", "No."). Where numbers may be either, the table is refused with
the option that decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError, UsageError
from ..options import mention
from ..problems import BUILT_IN
from .grid import Grid
from .numbers import are_names, is_forbidden, is_number, is_word, shorten
from .raw import ReadOptions

_NUMBERING = frozenset(["id", "no", "nr", "num", "number", "index", "idx", "key", "code", "uid", "#", "№"])
_NUMBERING |= {"nummer", "numéro", "número", "numero", "kennung"}
_ITEMS = frozenset(["task", "node", "item", "stop", "from", "to", "name", "label", "row", "order", "unnamed"])
_ITEMS |= {"auftrag", "aufgabe", "stadt", "ort", "von", "nach", "maschine", "tâche", "ville", "tarea", "ciudad"}
_ITEMS |= {word for cls in BUILT_IN.values() for word in (*cls.row_words, *cls.column_words)}
_NUMBERS = f"{mention('labels', False)} if these are numbers to compute with"
_DECIDES = f"say {mention('labels', True)} if they are, {mention('labels', False)} if they are not"


@dataclass(frozen=True)
class Layout:
    """Where the names of a table stand.

    header : whether row 1 holds the names of the columns.
    names : the column that holds the names of the rows, from 0; None if there is none.
    """

    header: bool
    names: int | None

    def said(self, grid: Grid) -> str:
        """Say it in a few words."""
        column = None if self.names is None else grid.column_place(self.names)
        row = f"{grid.line_word if grid.line_word != 'line' else 'row'} 1" if self.header else None
        if grid.header:  # a table of a program: its header is no row
            row = "the header" if self.header else None
        places = [place for place in (row, column) if place is not None]
        if not places:
            return "no names"
        return f"{' and '.join(places)} {'are' if len(places) > 1 else 'is'} names"


def layout_of(grid: Grid, options: ReadOptions, square: bool) -> Layout:
    """Find the names of a table, or refuse to guess.

    square : whether the problem that was asked for has as many rows as columns.
    """
    rows = grid.rows
    if options.labels and options.id_column is None:
        if len(rows) < 2:
            raise InputError(f"{grid.name}: with names in row 1 there is no row of numbers")
        return Layout(True, 0)
    header = _header(grid, options) if grid.header is None else grid.header
    if options.id_column is not None:
        header = header or bool(options.labels)
        return Layout(header, _named_column(grid, options.id_column, header))
    if grid.labels is not None:
        names = 0 if grid.labels else None
    else:
        names = _names(grid, header, options)
    layout = Layout(header, names)
    decided = grid.header is False and grid.labels is False  # lists of numbers, as in JSON, have no place for names
    if options.labels is None and not decided:
        _refuse_doubts(grid, layout, square)
    return layout


def words_of(name: str) -> list[str]:
    """Return the words in a name, without capitals: `jobID` has job and id."""
    return [word.casefold() for word in re.findall(r"[^\W\d_]+|[#№]", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))]


def says_names(corner: str) -> bool:
    """Tell whether the word above a column says that it holds names: `job`, `Job ID`, `city_no`, `No.`, `#`."""
    words = words_of(corner)
    if not words or (re.search(r"\d", corner) and not corner.startswith("Unnamed:")):
        return False
    known = _NUMBERING | _ITEMS
    return all({word, word.removesuffix("s")} & known for word in words)


def _numbers_items(word: str) -> bool:
    """Tell whether the word above a column says that it only numbers the rows."""
    return says_names(word) and bool(set(words_of(word)) & _NUMBERING)


def _header(grid: Grid, options: ReadOptions) -> bool:
    """Tell whether row 1 holds the names of the columns."""
    first, rest = grid.rows[0], grid.rows[1:]
    corner, others = first[0], first[1:]
    labelled = bool(rest) and are_names(row[0] for row in rest)
    if labelled and len(first) + 1 == len(rest[0]) and (are_names(first) or all(map(is_number, first))):
        return True  # a header that does not name the column of labels
    if not others:
        # one column under its name, unless the column is all words
        return bool(rest) and not is_number(corner) and not labelled and (is_word(corner) or corner.casefold() == "x")
    if are_names(others) or (rest and are_names(first) and not labelled):
        return not is_number(corner)
    if not rest or any(map(is_word, others)) or options.labels is False:
        return False
    if says_names(corner) and not labelled:
        return True  # numbers as names, under a corner that says they are names
    if corner != "" or not all(map(is_number, others)):
        return False
    if labelled:
        return True  # numbers above, words beside, nothing in the corner
    return _numbers_under_an_empty_corner(grid)


def _numbers_under_an_empty_corner(grid: Grid) -> bool:
    """Tell whether numbers above and beside an empty corner are names, or the first row and column of a matrix."""
    above, beside = grid.rows[0][1:], [row[0] for row in grid.rows[1:]]
    if _has_blank_diagonal(grid.rows, {""}):
        if above != beside:
            return False  # distances with nothing on their diagonal: names would be the same above and beside
        raise _doubt(grid, "row 1 and column 1 may be names, or distances of a matrix with an empty diagonal")
    if _counts(above) and _counts(beside) and max(len(above), len(beside)) > 1:
        return True
    if not all(map(is_number, beside)):
        return False
    raise _doubt(grid, "row 1 and column 1 may be names, or numbers beside a forbidden pair")


def _names(grid: Grid, header: bool, options: ReadOptions) -> int | None:
    """Return the column of names, if the first one is; raise InputError where numbers may be either."""
    body = grid.rows[1:] if header else grid.rows
    first = [row[0] for row in body if row]
    corner = grid.rows[0][0] if header else None
    wide = bool(body) and max(len(row) for row in body) > 1
    if first and wide and are_names(first):
        return 0
    if not header or not wide or options.labels is False:
        return None
    assert corner is not None
    if corner == "" or says_names(corner):
        return 0
    return None


def _refuse_doubts(grid: Grid, layout: Layout, square: bool) -> None:
    """Refuse columns and rows of numbers that only seem to number the items."""
    header = grid.rows[0] if layout.header else None
    body = grid.rows[1:] if layout.header else grid.rows
    width = min((len(row) for row in body), default=0)
    square = square and not layout.header and layout.names is None and all(len(row) == len(body) for row in body)
    if header is not None and len(header) == width:
        for column, word in enumerate(header):
            cells = [row[column] for row in body]
            if column != layout.names and width > 1 and _numbers_items(word) and _unique_integers(cells):
                raise UsageError(
                    f"{grid.name}: {grid.column_place(column)} {shorten(word)} seems to number the rows; "
                    f"say {mention('id_column', column + 1)} if it does, {_NUMBERS}"
                )
    if layout.names is not None or square or width < 2 or (header is None and _has_zero_diagonal(body)):
        return
    cells = [row[0] for row in body]
    following = [row[1] for row in body]
    if _seems_an_index(cells, following, [cell for row in body for cell in row[1:]], header):
        what = "" if header is None else f" {shorten(header[0])}"
        raise UsageError(
            f"{grid.name}: {grid.column_place(0)}{what} may number the rows ({', '.join(cells[:3])}, …); "
            f"say {mention('id_column', '1')} if it does, {_NUMBERS}"
        )
    if header is None and len(body) > 1 and width > 2 and _counts(body[0]) and not _goes_on(body[0], body[1]):
        raise UsageError(
            f"{grid.name}: row 1 may number the columns ({', '.join(body[0][:3])}, …); "
            f"say {mention('labels', True)} {mention('id_column', '0')} if it does, {_NUMBERS}"
        )


def _seems_an_index(cells: list[str], following: list[str], others: list[str], header: list[str] | None) -> bool:
    """Tell whether a first column of numbers looks like numbering: counting, ascending, or of another magnitude."""
    if header is not None and one_family(header):
        return False
    if len(cells) < 3 or not _unique_integers(cells):
        return False
    values = [int(cell) for cell in cells]
    if values == list(range(values[0], values[0] + len(values))):
        return not _goes_on(cells, following)
    rest = [int(cell) for cell in others if _whole(cell)]
    if len(cells) > 3 and values == sorted(values):
        # a matrix of which every column ascends is sorted rather than numbered
        return header is not None or not _all_ascend(others, len(others) // len(cells))
    return bool(rest) and len(rest) == len(others) and min(values) >= 10 * max(1, *rest)


def one_family(words: Sequence[str]) -> bool:
    """Tell whether words differ in a number or a letter only: m1, m2, m3, or A, B, C."""
    stems = {re.sub(r"\d+|(?<![^\W\d_])[^\W\d_](?![^\W\d_])", "*", word.casefold()) for word in words}
    return len(words) > 1 and len(stems) == 1 and "*" in next(iter(stems))


def _named_column(grid: Grid, asked: str, header: bool) -> int | None:
    """Return the column that --id-column means; None for none."""
    width = max(len(row) for row in grid.rows)
    if asked.isascii() and asked.isdigit() and len(asked) < 9 and int(asked) <= width:
        return int(asked) - 1 if int(asked) else None
    if header and asked in grid.rows[0]:
        # a header that leaves out the corner names the columns from the second on
        return grid.rows[0].index(asked) + width - len(grid.rows[0])
    known = f": its columns are {', '.join(map(shorten, grid.rows[0][:8]))}" if header else f": it has {width} columns"
    raise UsageError(f"{grid.name}: there is no column {shorten(asked)} ({mention('id_column')}){known}")


def _has_blank_diagonal(rows: list[list[str]], marks: set[str] | None = None) -> bool:
    """Tell whether a square table has a mark instead of a number everywhere on its diagonal."""
    if len(rows) < 2 or any(len(row) != len(rows) for row in rows):
        return False
    diagonal = [row[index] for index, row in enumerate(rows)]
    return all(map(is_forbidden, diagonal)) if marks is None else set(diagonal) <= marks


def _has_zero_diagonal(rows: list[list[str]]) -> bool:
    """Tell whether a square table has zeros on its diagonal, as distances have."""
    square = all(len(row) == len(rows) for row in rows)
    return square and all(row[place].strip("0.,") == "" != row[place] for place, row in enumerate(rows))


def _all_ascend(cells: list[str], width: int) -> bool:
    """Tell whether the numbers of every column, of cells row by row, are in order."""
    if not all(map(_whole, cells)):
        return False
    columns = [[int(cell) for cell in cells[place::width]] for place in range(width)]
    return all(column == sorted(column) for column in columns)


def _whole(cell: str) -> bool:
    return cell.isascii() and cell.isdigit() and len(cell) < 16


def _unique_integers(cells: list[str]) -> bool:
    return bool(cells) and all(map(_whole, cells)) and len(set(cells)) == len(cells)


def _counts(cells: list[str]) -> bool:
    """Tell whether cells count 0, 1, 2, … or 1, 2, 3, …"""
    if not cells or not all(map(_whole, cells)) or cells[0] not in ("0", "1"):
        return False
    return [int(cell) for cell in cells] == list(range(int(cells[0]), int(cells[0]) + len(cells)))


def _goes_on(cells: list[str], following: list[str]) -> bool:
    """Tell whether the next row or column goes on counting, so that the whole matrix just counts."""
    first = int(cells[-1]) + 1
    return following == [str(first + step) for step in range(len(cells))]


def _doubt(grid: Grid, what: str) -> UsageError:
    return UsageError(f"{grid.name}: {what}; {_DECIDES}")
