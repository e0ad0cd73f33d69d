"""Workbooks (.xlsx): one sheet, or a range of it, as a table of cells. Needs the package `openpyxl`.

A workbook is a zip archive of XML: what its entries announce is checked before any is unpacked, and reading stops at
what was announced. Values are read, never formulas; a formula whose value was not saved is refused.
"""

import datetime
import importlib.util
import io
import re
import zipfile
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from ..errors import InputError, MissingExtraError, UsageError
from ..options import mention
from .grid import Grid, cell_of, column_letter
from .numbers import Plain, shorten
from .raw import ReadOptions

LARGEST_WORKBOOK = 2**28
"""Bytes of all entries of a workbook, unpacked."""
LARGEST_PART = 2**22
"""Bytes of a part that is no sheet: styles, relations."""
LARGEST_SHEET = 2_000_000
"""Cells of the largest sheet that is read."""
_TYPES = "[Content_Types].xml"
_KINDS = {"worksheet+xml": LARGEST_WORKBOOK, "sharedStrings": 2**26}
"""What may be larger, by a word in its kind."""
_COLUMNS, _ROWS = 16_384, 1_048_576  # of a spreadsheet program
_RANGE = re.compile(r"\$?([A-Za-z]{1,3})\$?(\d{1,7}):\$?([A-Za-z]{1,3})\$?(\d{1,7})", re.ASCII)

Bounds = tuple[int, int, int, int]
Place = tuple[int, int]
_PIECE = 2**20
_ROW, _CELL = re.compile(rb"<(?:\w+:)?row[\s>]"), re.compile(rb"<(?:\w+:)?c[\s/>]")
_PARTS = re.compile(rb"<(?:\w+:)?Override\s([^<>]*)>")
_TAGS = re.compile(rb"<(?:\w+:)?(row|col|mergeCell)\s([^<>]*)>")
_ATTRIBUTES = re.compile(rb"([\w:]+)\s*=\s*[\"']([^\"']*)[\"']")


def is_workbook(members: list[str]) -> bool:
    """Tell whether the entries of a zip archive are those of a workbook."""
    return "xl/workbook.xml" in members


def grid_from_workbook(content: bytes, name: str, options: ReadOptions) -> Grid:
    """Return the cells of one sheet."""
    if importlib.util.find_spec("openpyxl") is None:
        raise MissingExtraError(f"{name}: .xlsx needs the package 'openpyxl'; add it with: pip install 'icdc[excel]'")
    bounds = None if options.range is None else _bounds(options.range)
    _check_size(content, name)
    try:
        return _grid(content, name, options, bounds)
    except (InputError, UsageError):
        raise
    except Exception as error:
        # openpyxl, zipfile and the XML parser raise many kinds of exception for a broken file; all of them mean this
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{name}: the workbook cannot be read ({shorten(reason, 80)})") from None


def _grid(content: bytes, name: str, options: ReadOptions, bounds: Bounds | None) -> Grid:
    import openpyxl

    def opened(data_only: bool) -> Any:
        return openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=data_only, keep_links=False)

    values, formulas = opened(True), opened(False)
    chosen = _sheet(values, name, options.sheet)
    shape = _shape(values[chosen], name)
    cells = _cells(values[chosen], name, bounds)
    unsaved = _cells(formulas[chosen], name, bounds).keys() - cells.keys()
    left_out = _hidden(shape, cells.keys() | unsaved, name, options.hidden)
    cells = {place: value for place, value in cells.items() if place not in left_out}
    unsaved -= left_out
    _refuse_merged(shape, cells, name)
    if unsaved:
        row, column = min(unsaved)
        raise InputError(
            f"{name}: cell {column_letter(column)}{row} holds a formula without its value; open the file in a "
            "spreadsheet program and save it there"
        )
    width = max((column for _, column in cells), default=0)
    rows = {row for row, _ in cells}
    spanned = range(min(rows, default=1), max(rows, default=0) + 1)
    table = {row: [""] * width for row in spanned if row not in shape.rows or row in rows}
    for (row, column), value in cells.items():
        table[row][column - 1] = _text(value, f"{name}: cell {column_letter(column)}{row}")
    notes = [f"sheet {shorten(chosen)}"] if len(values.sheetnames) > 1 or options.sheet is not None else []
    notes += ["without what is hidden"] if left_out else []
    return Grid(name, list(table.values()), list(table), "row", column_letters=True, padded=True, notes=notes)


def _sheet(workbook: Any, name: str, asked: str | None) -> str:
    """Return the sheet that is meant: the one asked for, or the only one with anything in it."""
    sheets = [one.title for one in workbook.worksheets]
    if asked is not None:
        if asked not in sheets:
            raise UsageError(f"{name}: there is no sheet {shorten(asked)}; it has {', '.join(map(shorten, sheets))}")
        return asked
    filled = [title for title in sheets if any(_cells(workbook[title], name, None, only_first=True))]
    if len(filled) > 1:
        raise UsageError(f"{name}: say which sheet is meant with {mention('sheet')}: {', '.join(map(shorten, filled))}")
    if not filled:
        raise InputError(f"{name}: the workbook is empty")
    return str(filled[0])


def _cells(sheet: Any, name: str, bounds: Bounds | None, only_first: bool = False) -> dict[Place, Any]:
    """Return the values of the cells of a sheet with something in them, by row and column from 1."""
    if only_first:
        _shape(sheet, name)  # refuses what is too large
    sheet.reset_dimensions()  # what a file says about its size need not be true
    left, top, right, bottom = bounds or (1, 1, _COLUMNS, _ROWS)
    found: dict[tuple[int, int], Any] = {}
    for row in sheet.iter_rows(max_row=_ROWS):
        for cell in row:
            if cell.value is None or not (left <= cell.column <= right and top <= cell.row <= bottom):
                continue
            found[cell.row, cell.column] = cell.value
            if only_first:
                return found
            if len(found) > LARGEST_SHEET:
                raise InputError(f"{name}: the sheet has more than {LARGEST_SHEET} cells; write it as .npy")
    if found:
        rows = max(row for row, _ in found) - min(row for row, _ in found) + 1
        if rows * max(column for _, column in found) > 10 * LARGEST_SHEET:
            raise InputError(
                f"{name}: the cells of the sheet are spread over {rows} rows; say which part with {mention('range')}"
            )
    return found


class _Shape(NamedTuple):
    """How a sheet is shown: the rows and columns that are hidden, and the ranges of cells that are one cell."""

    rows: set[int]
    columns: set[int]
    merged: list[Bounds]


def _shape(sheet: Any, name: str) -> _Shape:
    """Read how a sheet is shown, of which openpyxl tells nothing where it reads cell by cell.

    Refuses more cells than are read before openpyxl, which takes whole rows, has to take them.
    """
    found = _Shape(set(), set(), [])
    cells = in_row = 0
    with sheet._get_source() as source:
        rest, piece = b"", source.read(_PIECE)
        while piece:
            text = rest + piece
            end = text.rfind(b"<") if text.rfind(b"<") > text.rfind(b">") else len(text)  # a tag may go on
            text, rest = text[:end], text[end:]
            for number, row in enumerate(_ROW.split(text)):
                count = len(_CELL.findall(row))
                cells, in_row = cells + count, count + (0 if number else in_row)
                if cells > LARGEST_SHEET or in_row > _COLUMNS:
                    raise InputError(f"{name}: the sheet has more than {LARGEST_SHEET} cells; write it as .npy")
            for tag, attributes in _TAGS.findall(text):
                told = {key: value.decode("ascii", "replace") for key, value in _ATTRIBUTES.findall(attributes)}
                if tag == b"mergeCell" and _RANGE.fullmatch(told.get(b"ref", "")):
                    found.merged.append(_bounds(told[b"ref"]))
                elif told.get(b"hidden", "0") in ("0", "false"):
                    continue
                elif tag == b"row" and told.get(b"r", "").isdigit():
                    found.rows.add(int(told[b"r"]))
                elif tag == b"col" and told.get(b"min", "").isdigit() and told.get(b"max", "").isdigit():
                    found.columns.update(range(int(told[b"min"]), min(int(told[b"max"]), _COLUMNS) + 1))
            piece = source.read(_PIECE)
    return found


def _hidden(shape: _Shape, filled: Set[Place], name: str, read: bool | None) -> set[Place]:
    """Return the cells that are left out since they are hidden; refuse to decide that where it was not said."""
    found = {place for place in filled if place[0] in shape.rows or place[1] in shape.columns}
    if found and read is None:
        row, column = min(found)
        what = f"row {row}" if row in shape.rows else f"column {column_letter(column)}"
        raise UsageError(
            f"{name}: {what} is hidden; say {mention('hidden', True)} to read it, "
            f"{mention('hidden', False)} to leave out what is hidden"
        )
    return set() if read else found


def _refuse_merged(shape: _Shape, cells: Mapping[Place, Any], name: str) -> None:
    """Refuse cells that are one cell, of which all but the first hold nothing."""
    if not cells:
        return
    last_row, last_column = max(row for row, _ in cells), max(column for _, column in cells)
    first_row, first_column = min(row for row, _ in cells), min(column for _, column in cells)
    for left, top, right, bottom in shape.merged:
        inside = min(bottom, last_row) >= max(top, first_row) and min(right, last_column) >= max(left, first_column)
        if inside and (min(right, last_column) > left or min(bottom, last_row) > top):
            corner, end = f"{column_letter(left)}{top}", f"{column_letter(right)}{bottom}"
            raise InputError(
                f"{name}: the cells {corner}:{end} are merged; separate them, or say which part of the sheet is meant "
                f"with {mention('range')}"
            )


def _text(value: Any, place: str) -> str:
    """Return the cell of a value of a workbook, whose numbers are all reals."""
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        raise InputError(f"{place}: this is a date or a time, not a number")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return Plain(int(value))
    return cell_of(value, place)


def _bounds(text: str) -> Bounds:
    """Return the first and last column and row of a range such as B2:F20."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{mention('range')} must look like B2:F20, got {shorten(text)}")
    left, right = (_number(match[group]) for group in (1, 3))
    top, bottom = int(match[2]), int(match[4])
    if not (1 <= left <= right <= _COLUMNS and 1 <= top <= bottom <= _ROWS):
        raise UsageError(f"{mention('range', text)}: it must go from its upper left cell to its lower right one")
    return left, top, right, bottom


def _number(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _check_size(content: bytes, name: str) -> None:
    """Refuse archives that unpack to more than a workbook may hold; but for sheets, openpyxl takes parts as a whole."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
            if sizes.get(_TYPES, 0) > LARGEST_PART:
                raise InputError(f"{name}: the workbook unpacks to more than is read")
            parts = _PARTS.findall(archive.read(_TYPES)) if _TYPES in sizes else []
    except InputError:
        raise
    except Exception:  # zipfile raises many kinds of exception for a broken archive
        raise InputError(f"{name}: this is not a workbook (the zip archive is damaged)") from None
    limits = {part: LARGEST_PART for part in sizes if part.endswith((".xml", ".rels"))}
    limits |= {part: LARGEST_WORKBOOK for part in sizes if part.startswith("xl/worksheets/")}
    for attributes in parts:
        told = {key: value.decode("utf-8", "replace") for key, value in _ATTRIBUTES.findall(attributes)}
        part, kind = told.get(b"PartName", "").lstrip("/"), told.get(b"ContentType", "")
        limits[part] = next((limit for word, limit in _KINDS.items() if word in kind), LARGEST_PART)
    size = sum(sizes.values())
    if size > LARGEST_WORKBOOK:
        raise InputError(
            f"{name}: the workbook unpacks to {size // 2**20} MiB, more than the {LARGEST_WORKBOOK // 2**20} MiB "
            "that are read"
        )
    for part, limit in limits.items():
        if sizes.get(part, 0) > limit:
            raise InputError(
                f"{name}: {shorten(part)} of the workbook unpacks to {sizes[part] // 2**20} MiB, more than the "
                f"{limit // 2**20} MiB that are read"
            )
