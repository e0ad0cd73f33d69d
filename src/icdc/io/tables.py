"""CSV and TSV matrices, with or without a header and a column of labels.

The separator is whichever of tab, semicolon and comma most lines contain (blanks if none does). Lines that
begin with # are comments. A first row of words is a header and a first column of words holds labels; numbers
are taken for labels only where the top-left corner is empty or says so ("job", "city", "id", …).
"""

import csv
from dataclasses import dataclass

from ..errors import InputError
from ..problems.registry import BUILT_IN
from .raw import BARE, Number, RawInstance, looks_numeric, parse_number, reject_duplicates, to_array

# words for items, those of the problems that ship among them; an "s" at the end is not looked at
_CORNERS = frozenset(["task", "node", "item", "stop", "from", "from/to", "to", "name", "label", "id", "index", "row"])
_CORNERS |= {word for cls in BUILT_IN.values() for word in (*cls.row_words, *cls.column_words)}
_BLANKS = frozenset(["", "-", "--", "–", "—", "x", "X", "inf", "Inf", "INF", "nan", "NaN", "NA", "∞"])


@dataclass(frozen=True)
class _Line:
    number: int
    cells: list[str]


def raw_from_table(text: str, name: str) -> RawInstance:
    """Return the one matrix of separated text; raise InputError naming `name`, the line and the column.

    Where no number stands on the diagonal of a square table, zeros take its place and `blank_diagonal` says so.
    """
    lines, separator = _split(text, name)
    if not lines:
        raise InputError(f"{name}: the file is empty")
    header, has_labels = _layout(lines)
    body = lines[1:] if header else lines
    if not body:
        raise InputError(f"{name}: there is a header but no row of numbers")
    offset = int(has_labels)
    width = len(body[0].cells)
    for line in body:
        if len(line.cells) != width:
            raise InputError(
                f"{name}: line {line.number} has {len(line.cells)} cells where line {body[0].number} has {width}"
            )
    if width == offset:
        raise InputError(f"{name}: there are labels but no numbers")
    columns = None
    if header:
        columns = tuple(header.cells[len(header.cells) - (width - offset) :])
        if len(header.cells) not in (width, width - offset):
            raise InputError(
                f"{name}: the header has {len(header.cells)} cells where line {body[0].number} has {width}"
            )
    rows = tuple(line.cells[0] for line in body) if has_labels else None
    for names, what in ((rows, "row"), (columns, "column")):
        if names is not None:
            reject_duplicates(names, f"{name}: the {what} label")
    blank = _has_blank_diagonal(body, offset)
    decimal_comma = separator == ";"
    values: list[list[Number]] = []
    for r, line in enumerate(body):
        values.append([])
        for c, cell in enumerate(line.cells[offset:]):
            if blank and r == c:
                cell = "0"
            elif decimal_comma and cell.count(",") == 1:
                cell = cell.replace(",", ".")
            try:
                values[-1].append(parse_number(cell))
            except InputError as error:
                raise InputError(f"{name}: line {line.number}, column {c + offset + 1}: {error}") from None
    return RawInstance(name, {BARE: to_array(values)}, None, rows, columns, blank)


def _split(text: str, name: str) -> tuple[list[_Line], str]:
    """Cut text into lines of stripped cells; return them with the separator ("" for blanks)."""
    kept = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    counts = {s: sum(s in line for _, line in kept) for s in ("\t", ";", ",")}
    separator = max(counts, key=lambda s: counts[s]) if any(counts.values()) else ""
    lines = []
    for number, line in kept:
        if separator:
            try:
                cells = next(csv.reader([line], delimiter=separator, strict=True, skipinitialspace=True))
            except csv.Error as error:
                raise InputError(f"{name}: line {number} cannot be read as a table ({error})") from None
        else:
            cells = line.split()
        lines.append(_Line(number, [cell.strip() for cell in cells]))
    # a separator at the end of every line is a habit of some programs, not a column
    while separator and lines and all(len(line.cells) > 1 and not line.cells[-1] for line in lines):
        lines = [_Line(line.number, line.cells[:-1]) for line in lines]
    return lines, separator


def _layout(lines: list[_Line]) -> tuple[_Line | None, bool]:
    """Tell whether the first line is a header (return it) and whether the first column holds labels."""
    first, rest = lines[0], lines[1:]
    corner, others = first.cells[0], first.cells[1:]
    says_labels = bool({corner.casefold(), corner.casefold().removesuffix("s")} & _CORNERS) or (
        corner == "" and not _is_headless_square(lines)
    )
    words = [not looks_numeric(cell) for cell in others]
    labelled = bool(rest) and all(not looks_numeric(line.cells[0]) for line in rest)
    if labelled and len(first.cells) + 1 == len(rest[0].cells):
        return first, True  # a header that does not name the column of labels
    if others and all(words) and (not looks_numeric(corner) or says_labels):
        return first, labelled or says_labels
    if says_labels and rest and not any(words):
        return first, True  # numbers as names, under a corner that says they are names
    if not others and rest and not looks_numeric(corner) and not labelled:
        return first, False  # one column under its name
    # without a header, the first column is labels if it holds no number at all
    return None, bool(others) and not looks_numeric(corner) and (labelled or not rest)


def _is_headless_square(lines: list[_Line]) -> bool:
    """Tell whether an empty corner is the beginning of a blank diagonal rather than of a header."""
    if any(len(line.cells) != len(lines) for line in lines) or not _has_blank_diagonal(lines, 0):
        return False
    return [line.cells[0] for line in lines] != lines[0].cells  # equal: the same names above and beside


def _has_blank_diagonal(body: list[_Line], offset: int) -> bool:
    """Tell whether a square table has no number anywhere on its diagonal."""
    size = len(body)
    if len(body[0].cells) - offset != size or size < 2:
        return False
    return all(line.cells[r + offset] in _BLANKS for r, line in enumerate(body))
