"""Doubts about a table: what may be a name or a number, and what may not be part of a matrix.

A table is understood by what its cells say together. Each doubt is a sentence with the options that decide; where
`labels` is given, the table has been looked at, and nothing is doubted.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..options import mention
from ..problems import BUILT_IN
from ..problems.base import Problem
from ..problems.instance import Names
from .cells import Grid, is_amount, is_word, shorten

_NUMBERING = frozenset(["id", "no", "nr", "num", "number", "index", "idx", "key", "code", "uid", "#", "№"])
_NUMBERING |= {"nummer", "numéro", "número", "numero", "kennung"}
_ITEMS = frozenset(["task", "node", "item", "stop", "from", "to", "name", "label", "row", "order", "unnamed"])
_ITEMS |= {"auftrag", "aufgabe", "stadt", "ort", "von", "nach", "maschine", "tâche", "ville", "tarea", "ciudad"}
_ITEMS |= {word for cls in BUILT_IN.values() for word in (*cls.row_words, *cls.column_words)}
_SUMS = frozenset(["total", "totals", "sum", "sums", "subtotal", "summe", "gesamt", "somme", "suma", "totale"])
_SUMS |= {"mean", "average", "avg", "mittel", "mittelwert", "moyenne", "median", "tot", "σ", "σx"}
_SUMS |= {"итого", "всего", "合計", "总计", "总和", "toplam", "soma", "razem", "suma", "gesamtsumme", "summa"}
_ABOUT = frozenset(["rank", "ranking", "priority", "prio", "priorität", "deadline", "due", "release", "weight"])
_ABOUT |= {"weights", "gewicht", "quantity", "qty", "menge", "demand", "kommentar", "comment", "remark", "note"}
_ABOUT |= {"liefertermin", "termin", "rüstzeit", "kapazität", "capacity", "setup", "délai", "échéance", "plazo"}
"""Words above columns that say something about a row, and are nothing to put it on."""
_CHANCE = 1e-3
"""How likely numbers may be those of a line of sums or means without being it."""
_DESTINATIONS = frozenset(["to", "destination", "nach", "ziel", "vers"])
_MACHINES = frozenset(
    ["maschine", "maschinen", "máquina", "máquinas", "macchina", "macchine", "станок", "機械", "机器"]
)
_JOBS = frozenset(["auftrag", "aufgabe", "tâche", "tarea", "lavoro", "task", "tasks", "работа", "工件"])
_NUMBERS = f"{mention('labels', False)} if these are numbers to compute with"


@dataclass(frozen=True)
class Layout:
    """Where the names of a table stand.

    header : whether row 1 holds the names of the columns.
    names : the column that holds the names of the rows, from 0; None if there is none.
    """

    header: bool
    names: int | None

    def words(self, grid: Grid) -> str:
        """Say it in a few words."""
        column = None if self.names is None else grid.column_place(self.names)
        row = f"{grid.line_word if grid.line_word != 'line' else 'row'} 1" if self.header else None
        if grid.header:  # a table of a program: its header is no row
            row = "the header" if self.header else None
        places = [place for place in (row, column) if place is not None]
        if not places:
            return "no names"
        return f"{' and '.join(places)} {'are' if len(places) > 1 else 'is'} names"

    @property
    def decision(self) -> str:
        """The option that says that names and numbers are what they seem to be."""
        return mention("labels", self.header and self.names is not None)


def words_of(name: str) -> list[str]:
    """Return the words in a name, without capitals: `jobID` has job and id."""
    return [word.casefold() for word in re.findall(r"[^\W\d_]+|[#№]", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))]


def says_names(corner: str) -> bool:
    """Tell whether the word above a column says that it holds names: `job`, `Job ID`, `city_no`, `No.`, `#`."""
    words = words_of(corner)
    if not words or (re.search(r"\d", corner) and not corner.startswith("Unnamed:")):
        return False
    vocabulary = _NUMBERING | _ITEMS
    return all({word, word.removesuffix("s")} & vocabulary for word in words)


def stem(word: str) -> str:
    """Return what is left of a name without its numbers and letters that stand alone: those of m1 and m2 are equal."""
    return re.sub(r"[#№]?\d+|(?<![^\W\d_])[^\W\d_](?![^\W\d_])", "*", word.casefold())


def one_family(words: Sequence[str]) -> bool:
    """Tell whether words differ in a number or a letter only: m1, m2, m3, or A, B, C."""
    stems = set(map(stem, words))
    return len(words) > 1 and len(stems) == 1 and "*" in next(iter(stems))


def outsiders(names: Sequence[str], least: int) -> list[str]:
    """Return the names outside the largest family, if at least `least` others belong to it, twice as many as do not."""
    common, count = Counter(map(stem, names)).most_common(1)[0]
    others = [name for name in names if stem(name) != common]
    return others if "*" in common and count >= max(least, 2 * len(others)) else []


def numbers_items(cells: Sequence[str], others: Sequence[Sequence[str]], least: int = 4) -> bool:
    """Tell whether a line of numbers seems to number what stands beside or below it.

    It does if its numbers count, in whatever order, are ten times as large as all others, or ascend where the numbers
    of some other line do not.

    others : the lines parallel to it, the next one first.
    least : how many ascending numbers are no chance.
    """
    values = _values(cells)
    if values is None or len(set(values)) < len(values) or not others:
        return False
    whole = all(isinstance(value, int) for value in values)
    counts = whole and max(values) - min(values) == len(values) - 1
    if counts and len(values) > 2 and (len(values) > 3 or values in (sorted(values), sorted(values, reverse=True))):
        return _values(others[0]) != [value + len(values) for value in values]  # else the whole matrix counts
    if len(values) >= least and values == sorted(values) and not all(map(_ascends, others)):
        return True
    return whole and (counts or len(values) > 2) and _all_below(min(values) / 10, others)


def _ascends(cells: Sequence[str]) -> bool:
    """Tell whether cells are numbers in order."""
    values = _values(cells)
    return values is not None and values == sorted(values)


def _all_below(limit: float, lines: Sequence[Sequence[str]]) -> bool:
    """Tell whether lines hold numbers, and none of them is larger than a limit."""
    numbers = (value for line in lines for cell in line for value in _values([cell]) or ())
    first = next(numbers, None)
    return first is not None and max(1, first) <= limit and all(value <= limit for value in numbers)


def _values(cells: Sequence[str]) -> list[int | float] | None:
    """Return the numbers of cells without groups of thousands; None where another cell is among them."""
    if not all(re.fullmatch(r"\d{1,15}([.,]\d{1,15})?", cell, re.ASCII) for cell in cells):
        return None
    return [int(value) if value.is_integer() else value for value in (float(cell.replace(",", ".")) for cell in cells)]


def refuse_amounts(grid: Grid, cells: Sequence[str], where: str, answer: str) -> None:
    """Refuse words that may be numbers with a unit: a column of `5 min`, `6 min` is no column of names."""
    words = [cell for cell in cells if is_word(cell)]
    if words and all(map(is_amount, words)):
        shown = ", ".join(map(shorten, words[:2]))
        raise UsageError(
            f"{grid.name}: {where} may hold names or numbers ({shown}{', …' if len(words) > 2 else ''}); say {answer} "
            "if they are names; numbers are written with digits and a mark before fractions, and nothing else"
        )


def refuse_numbers_as_names(grid: Grid, layout: Layout, square: bool) -> None:
    """Refuse a row and columns of numbers that only seem to number the items."""
    header = grid.rows[0] if layout.header else None
    body = grid.rows[1:] if layout.header else grid.rows
    width = min((len(row) for row in body), default=0)
    if width < 2 or any(len(row) != width for row in body) or len(header or body[0]) != width:
        return
    columns = list(zip(*body, strict=True))
    if header is not None:
        _refuse_named_columns(grid, layout, header, columns)
    as_matrix = len(body) == width and header is None and layout.names is None
    if layout.names is not None or (square and as_matrix) or (header is None and _has_zero_diagonal(body)):
        return
    what = "" if header is None else f" {shorten(header[0])}"
    first = ", ".join(columns[0][:3])
    if not one_family(header or ()) and numbers_items(columns[0], columns[1:]):
        raise UsageError(
            f"{grid.name}: {grid.column_place(0)}{what} may number the rows ({first}, …); "
            f"say {mention('id_column', '1')} if it does, {_NUMBERS}"
        )
    if _is_list_of_pairs(columns):
        raise UsageError(
            f"{grid.name}: this seems to be a list with a pair a line, which is not read, only a matrix; say {_NUMBERS}"
        )
    if header is None and len(body) > 1 and numbers_items(body[0], body[1:], least=6):
        raise UsageError(
            f"{grid.name}: row 1 may number the columns ({', '.join(body[0][:3])}, …); "
            f"say {mention('labels', True)} {mention('id_column', '0')} if it does, {_NUMBERS}"
        )


def _refuse_named_columns(grid: Grid, layout: Layout, header: list[str], columns: list[Any]) -> None:
    """Refuse columns whose own name says that they number the rows."""
    for place, (word, cells) in enumerate(zip(header, columns, strict=True)):
        numbering = place != layout.names and bool(_NUMBERING & set(words_of(word))) and says_names(word)
        if numbering and _values(cells) is not None and len(set(cells)) == len(cells):
            raise UsageError(
                f"{grid.name}: {grid.column_place(place)} {shorten(word)} seems to number the rows; "
                f"say {mention('id_column', place + 1)} if it does, {_NUMBERS}"
            )


def refuse_columns(grid: Grid, layout: Layout, columns: Names, same_items: bool | None) -> None:
    """Refuse columns whose names do not belong to the matrix, and lists with one pair per line."""
    if one_family(columns):
        return
    naming = [column for column in columns if says_names(column) and not column.startswith("#")]
    if naming and same_items is not True:
        raise UsageError(
            f"{grid.name}: the column {shorten(naming[0])} seems to hold names: a list with a pair a line is not read, "
            f"only a matrix; say {layout.decision} if it is one of the columns of a matrix"
        )
    _refuse_strangers(grid, layout, columns, "column", same_items)


def refuse_rows(
    grid: Grid, layout: Layout, rows: Names | None, columns: Names | None, problem: Problem | None, turned: bool
) -> None:
    """Refuse rows whose names do not belong to the matrix, or a table that seems transposed.

    turned : whether an option says how the table lies.
    """
    same_items = None if problem is None else problem.feature_sizes.same_items
    cornered = layout.header and layout.names is not None and len(grid.rows[0]) == len(grid.rows[-1])
    corner = grid.rows[0][layout.names or 0] if cornered else ""
    if same_items is not True and not turned and (rows is None or rows != columns):
        _refuse_rows_for_columns(grid, corner, rows, columns, problem)
    if same_items is not False and not turned and words_of(corner)[:1] and words_of(corner)[0] in _DESTINATIONS:
        raise UsageError(
            f"{grid.name}: by {shorten(corner)} in the corner rows may be where one goes to; "
            f"say {mention('transpose', True)} if they are, "
            f"{mention('transpose', False)} if they are where one comes from"
        )
    if rows is not None and not one_family(rows):
        _refuse_strangers(grid, layout, rows, "row" if grid.line_word == "line" else grid.line_word, same_items)


def _refuse_strangers(grid: Grid, layout: Layout, names: Names, what: str, same_items: bool | None) -> None:
    """Refuse names that say they are no item (`total`), or that are unlike all other names.

    same_items : whether rows and columns are the same items; the problem then checks its names itself.
    """
    unusual, least = (_SUMS | _ABOUT, 2) if what == "column" else (_SUMS, 3)
    strange = [name for name in names if unusual & set(words_of(name))]
    strange = strange or ([] if same_items else outsiders(names, least))
    if strange:
        holds = f"{mention('id_column', strange[0])} if it holds names, " if what == "column" else ""
        raise UsageError(
            f"{grid.name}: the {what} {shorten(strange[0])} seems not to be one of the matrix; "
            f"say {mention('skip', strange[0])} to leave it out, {holds}{layout.decision} if it is"
        )


def refuse_sums(grid: Grid, values: NDArray[np.number], forbidden: NDArray[np.bool_], layout: Layout) -> None:
    """Refuse a first or last row, or column, in which all numbers are the sums or the means of the others."""
    least = 3 if layout.names is None and not layout.header else 2
    for turned, what in ((False, "row"), (True, "column")):
        table, marked = (values.T, forbidden.T) if turned else (values, forbidden)
        for place in (len(table) - 1, 0):
            others, line = (table[:-1] if place else table[1:]), table[place]
            if marked[place].any() or len(line) < least or (others != 0).any(1).sum() < 2:
                continue
            means = others.sum(0) / np.maximum((~(marked[:-1] if place else marked[1:])).sum(0), 1)
            word = "sum" if _equal(others.sum(0), line, others) else None
            if word is None and len(line) > 2 and (others != others[0]).any() and _equal(means, line, others):
                word = "mean"
            if word is None:
                continue
            if turned:
                named = grid.column_place(place + (layout.names is not None and place >= layout.names))
            else:
                named = f"{grid.line_word} {grid.lines[place + layout.header]}"
            side = "before" if place else "after"
            raise UsageError(
                f"{grid.name}: {named} is the {word} of all {what}s {side} it; "
                f"say {mention('skip', named)} to leave it out, {layout.decision} if it belongs to the matrix"
            )


def _equal(exact: NDArray[Any], line: NDArray[np.number], others: NDArray[np.number]) -> bool:
    """Tell whether numbers equal others, up to the decimals they are written with, and not by chance."""
    if exact.dtype.kind != "f":
        return np.array_equal(exact, line)
    texts = [f"{value:.12g}" for value in line.tolist()]
    decimals = max(len(text.partition(".")[2]) if "e" not in text else 12 for text in texts)
    slack = 0.5 * 10.0**-decimals + 1e-9 * np.abs(exact)
    spread = np.maximum(np.ptp(others, 0), 2 * slack)  # numbers that are all alike tell nothing
    chance = np.divide(2 * slack, spread, out=np.ones_like(slack), where=spread > 0).prod()
    return bool((np.abs(exact - line) <= slack).all() and chance < _CHANCE)


def _is_list_of_pairs(columns: Sequence[Sequence[str]]) -> bool:
    """Tell whether two columns number the two items of a pair, and another says something of it."""
    if len(columns) < 3 or len(columns[0]) < 3:
        return False
    first, second = _values(columns[0]), _values(columns[1])
    if first is None or second is None or not _count_items(first) or not _count_items(second):
        return False
    repeated = len(set(first)) < len(first) or len(set(second)) < len(second)
    distinct = len(set(zip(first, second, strict=True))) == len(first)
    more = any(set(_values(column) or [-1]) - {*first, *second} for column in columns[2:])
    return repeated and distinct and more


def _count_items(values: Sequence[int | float]) -> bool:
    """Tell whether numbers are those of some items, each of them there, from 0 or 1 on."""
    least, most = int(min(values)), int(max(values))
    return least in (0, 1) and most > 0 and set(values) == set(range(least, most + 1))


def _refuse_rows_for_columns(
    grid: Grid, corner: str, rows: Names | None, columns: Names | None, problem: Problem | None
) -> None:
    """Refuse a table whose rows are machines, as the corner or names such as M1, M2 and J1, J2 show."""
    for kind in [type(problem)] if problem is not None else BUILT_IN.values():
        if kind.feature_sizes.same_items:
            continue
        row_words, column_words = {*kind.row_words, *_JOBS}, {*kind.column_words, *_MACHINES}
        corner_words = [word for word in words_of(corner) if word in row_words | column_words]
        wrong = bool(corner_words) and corner_words[0] in column_words
        wrong |= _all_say(columns, row_words) or _all_say(rows, column_words)
        initials = (kind.row_words[0][0], kind.column_words[0][0])
        wrong |= _all_begin(columns, initials[0]) or (_all_begin(rows, initials[1]) and columns is not None)
        if wrong:
            raise UsageError(
                f"{grid.name}: the rows seem to be {kind.column_words[1]}, and must be {kind.row_words[1]}; "
                f"say {mention('transpose', True)} if they are {kind.column_words[1]}, "
                f"{mention('transpose', False)} if they are {kind.row_words[1]}"
            )


def _all_say(names: Sequence[str] | None, words: set[str]) -> bool:
    """Tell whether all names have one of some words in them: job 1, job 2."""
    return bool(names) and all(set(words_of(name)) & words for name in names or ())


def _all_begin(names: Sequence[str] | None, letter: str) -> bool:
    """Tell whether all names are a letter and a number: J1, J2."""
    return bool(names) and all(re.fullmatch(rf"{letter}[ _-]?\d+", name.casefold()) for name in names or ())


def _has_zero_diagonal(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether a square table has zeros on its diagonal, as distances have."""
    square = all(len(row) == len(rows) for row in rows)
    return square and all(row[place].strip("0.,") == "" != row[place] for place, row in enumerate(rows))
