"""Text of separated cells, CSV and TSV above all: separators, quotes, comments.

The separator is whichever of tab, semicolon and comma most lines contain outside quotes (blanks if none does), or the
one that a first line `sep=;` names. A line that begins with # is a comment, unless it is as wide as the table: then it
is its header, or a row whose name begins so.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import InputError, UsageError, visible
from ..options import mention
from ..problems.base import Problem
from ..problems.instance import RawInstance
from .cells import DEFAULTS, LARGEST_GRID, Grid, ReadOptions, are_names, is_number, is_word
from .doubts import says_names
from .table import raw_from_grid

_SEPARATORS = ("\t", ";", ",")
_NAMED = re.compile(r"\s*sep=([\t;,|:^~&])\s*")
_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass
class _Line:
    number: int
    cells: list[str]
    marked: bool = False
    """Whether it begins with #."""
    apart: bool = False
    """Whether an empty line stands before it."""


def raw_from_table(
    text: str, name: str, options: ReadOptions = DEFAULTS, problem: Problem | None = None
) -> RawInstance:
    """Return the one matrix of separated text; raise InputError naming `name`, the line and the column."""
    return raw_from_grid(grid_from_text(text, name, options), options, problem)


def grid_from_text(text: str, name: str, options: ReadOptions = DEFAULTS) -> Grid:
    """Cut text into cells."""
    lines = _BREAK.split(text)
    named = _NAMED.fullmatch(lines[0])
    separator = named[1] if named else _separator(text)
    cut = list(_cut(lines, separator, name, 1 if named else 0, options.comments is not False))
    table = _without_comments(cut, separator, name, options)
    _refuse_gaps(table, name)
    return Grid(name, [line.cells for line in table], [line.number for line in table], separator=separator, padded=True)


def rows_of(text: str, name: str) -> tuple[list[tuple[int, list[str]]], str]:
    """Return the lines of a list of few columns, numbered from 1, as cells, and what separates these.

    Any separator counts, and no line is a comment: names may begin with #.
    """
    separator = next((mark for mark in _SEPARATORS if mark in text), "")
    return [(line.number, line.cells) for line in _cut(_BREAK.split(text), separator, name, 0, False)], separator


def _separator(text: str) -> str:
    """Return the separator that most lines contain outside quotes; "" for blanks."""
    bare = re.sub(r'"[^"]*"', '""', text) if '"' in text else text
    lines = [line for line in _BREAK.split(bare) if line.strip() and not line.lstrip().startswith("#")]
    lines = lines or [line for line in _BREAK.split(bare) if line.strip()]
    counts = {s: sum(s in line for line in lines) for s in _SEPARATORS}
    return max(counts, key=lambda s: counts[s]) if any(counts.values()) else ""


def _cut(lines: list[str], separator: str, name: str, skip: int, comments: bool) -> Iterator[_Line]:
    """Yield the lines that have anything in them as stripped cells; quoted cells may go on over several lines."""
    place, cells, empty = skip, 0, False
    while place < len(lines):
        line, number = lines[place], place + 1
        place += 1
        if not line.strip():
            empty = True
            continue
        marked = comments and line.lstrip().startswith("#")
        apart, empty = empty, False
        if not separator and '"' not in line:
            yield _Line(number, line.split(), marked, apart)
            continue
        used = 0

        def following(begin: int = place - 1, marked: bool = marked) -> Iterator[str]:
            nonlocal used
            # a comment may have any quotes in it, and ends where its line does
            for index in range(begin, begin + 1 if marked else len(lines)):
                used += 1
                yield lines[index] + "\n"

        try:
            blank = separator or " "
            read = next(csv.reader(following(), delimiter=blank, strict=not marked, skipinitialspace=True))
        except csv.Error as error:
            raise InputError(f"{name}: line {number} cannot be read as a table ({visible(str(error))})") from None
        place = number - 1 + used
        cells += len(read)
        if cells > LARGEST_GRID:
            raise InputError(f"{name}: the table has more than {LARGEST_GRID} cells; write it as .npy")
        yield _Line(number, [cell.strip() for cell in read], marked, apart)


def _refuse_gaps(lines: list[_Line], name: str) -> None:
    """Refuse a table with an empty line inside it, unless every row, or only the header, is followed by one."""
    headed = bool(lines) and any(map(is_word, lines[0].cells[1:] or lines[0].cells))
    rows = lines[2 if headed else 1 :]
    apart = [line for line in rows if line.apart]
    if apart and len(apart) < len(rows):
        raise InputError(
            f"{name}: line {apart[0].number - 1} is empty, and more follows; leave it out if the table goes on there"
        )


def _without_comments(lines: list[_Line], separator: str, name: str, options: ReadOptions) -> list[_Line]:
    """Leave out the comments among the lines that begin with #, and keep the rows and the header among them."""
    if options.comments is not None:
        return [line for line in lines if not line.marked]
    plain = [line for line in lines if not line.marked]
    marked = [line for line in lines if line.marked]
    if not marked:
        return lines
    width = max((len(_filled(line)) for line in (plain or marked)), default=0)
    rows = [line for line in marked if len(_filled(line)) == width > 1 and not any(map(is_word, line.cells[1:]))]
    data = {id(line) for line in rows}
    beginning = next((place for place, line in enumerate(lines) if not line.marked or id(line) in data), len(lines))
    header = _marked_header(lines[:beginning], width, separator)
    # words above rows that all begin with # are their header
    others = [line for line in plain if any(not is_word(cell) for cell in line.cells[1:])]
    mixed = [line for line in marked if line is not header and _is_half_a_row(line, width, separator)]
    doubtful = rows if rows and others else mixed
    if doubtful:
        raise UsageError(
            f"{name}: line {doubtful[0].number} begins with # and is as wide as the table: a comment or a row? "
            f"say {mention('comments', True)} if such lines are comments, {mention('comments', False)} if they are rows"
        )
    remaining = {id(line) for line in (*plain, *rows, *([header] if header else []))}
    return [line for line in lines if id(line) in remaining]


def _marked_header(before: list[_Line], width: int, separator: str) -> _Line | None:
    """Return the header among the lines that begin with # above a table, without its #; None if there is none."""
    if not before:
        return None
    line = before[-1]
    first = line.cells[0].lstrip("#").strip()
    words = _filled(line)[1:]
    if not separator:
        words = [first, *words] if first else words
        return _relabelled(line, words) if len(words) == width and says_names(words[0]) else None
    if width < 2 or len(words) not in (width - 1, width - 2) or not are_names(words):
        return None
    return _relabelled(line, [line.cells[0] if is_number(first) else first or "#", *line.cells[1:]])


def _is_half_a_row(line: _Line, width: int, separator: str) -> bool:
    """Tell whether a line that begins with # is as wide as the table, and has words and numbers in its cells."""
    cells = line.cells[1:]
    return bool(separator) and len(_filled(line)) == width and any(map(is_word, cells)) and not all(map(is_word, cells))


def _filled(line: _Line) -> list[str]:
    """Return the cells of a line without the empty ones at its end."""
    used = next((place for place in range(len(line.cells), 0, -1) if line.cells[place - 1]), 0)
    return line.cells[:used]


def _relabelled(line: _Line, words: list[str]) -> _Line:
    line.cells = words
    return line
