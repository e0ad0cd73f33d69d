"""Workbooks (.xlsx): one sheet, or a range of it, as a table of cells.

A workbook is a zip archive of XML. What its entries announce is checked before any is unpacked, and each part is read
in pieces, under the limits below, so that time and memory are bounded whatever a file holds. Values are read, never
formulas; a formula whose value was not saved is refused.
"""

import io
import posixpath
import re
import zipfile
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..options import mention
from .cells import Grid, Plain, ReadOptions, cell_of, column_letter, column_number, is_number, shorten

LARGEST_WORKBOOK = 2**28
"""Bytes of all entries of a workbook, unpacked."""
LARGEST_PART = 2**22
"""Bytes of a part that is no sheet and no text: styles, relations."""
LARGEST_TEXTS = 2**26
"""Bytes of the texts that all sheets share."""
LARGEST_SHEET = 2_000_000
"""Cells of the largest sheet that is read, and texts that sheets share."""
LARGEST_TREE = 5 * LARGEST_SHEET
"""Elements of the XML of the largest part that is read."""
_DEEPEST = 100
"""Elements inside each other."""
_MERGED = 2**16
"""Ranges of merged cells of a sheet."""
_COLUMNS, _ROWS = 16_384, 1_048_576  # of a spreadsheet program
_PIECE = 2**16
_LONGEST_TAG = 2**20
"""Bytes of a tag with its attributes, which the parser holds as a whole."""
_BOOK = "xl/workbook.xml"
_CELL = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})", re.ASCII)
_RANGE = re.compile(r"\$?([A-Za-z]{1,3})\$?(\d{1,7}):\$?([A-Za-z]{1,3})\$?(\d{1,7})", re.ASCII)
_LEAST_HEIGHT, _LEAST_WIDTH = 1.0, 0.1  # points and characters, below which nothing is seen
_FORMATS_OF_TIME = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])
_QUOTED = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.IGNORECASE)

Bounds = tuple[int, int, int, int]
Place = tuple[int, int]
Attributes = dict[str, str]


def is_workbook(members: list[str]) -> bool:
    """Tell whether the entries of a zip archive are those of a workbook."""
    return _BOOK in members


def grid_from_workbook(content: bytes, name: str, options: ReadOptions) -> Grid:
    """Return the cells of one sheet."""
    bounds = None if options.range is None else _bounds(options.range)
    try:
        return _grid(_Book(content, name), options, bounds)
    except (InputError, UsageError):
        raise
    except Exception as error:
        # zipfile, zlib and the XML parser raise many kinds of exception for a broken file; all of them mean this
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{name}: the workbook cannot be read ({shorten(reason, 80)})") from None


class _Sheet(NamedTuple):
    title: str
    part: str
    hidden: bool


@dataclass
class _Cells:
    """What a sheet holds and how it is shown, by row and column from 1.

    unsaved : formulas without their value.
    rows, columns : which are hidden.
    merged : ranges of cells that are one cell.
    """

    values: dict[Place, Any] = field(default_factory=dict)
    unsaved: set[Place] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    columns: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(_COLUMNS + 1, dtype=bool))
    merged: list[Bounds] = field(default_factory=list)


def _grid(book: "_Book", options: ReadOptions, bounds: Bounds | None) -> Grid:
    name = book.name
    sheet, notes = _chosen(book, options)
    data = book.cells(sheet, bounds)
    hidden = _hidden(data, name, options.hidden)
    cells = {place: value for place, value in data.values.items() if place not in hidden}
    _refuse_merged(data.merged, cells, name)
    unsaved = data.unsaved - hidden
    if unsaved:
        row, column = min(unsaved)
        raise InputError(
            f"{name}: cell {column_letter(column)}{row} holds a formula without its value; open the file in a "
            "spreadsheet program and save it there"
        )
    width = max((column for _, column in cells), default=0)
    rows = {row for row, _ in cells}
    spanned = range(min(rows, default=1), max(rows, default=0) + 1)
    if len(spanned) * width > 10 * LARGEST_SHEET:
        raise InputError(
            f"{name}: the cells of the sheet are spread over {len(spanned)} rows; say which part with "
            f"{mention('range')}"
        )
    table = {row: [""] * width for row in spanned if row not in data.rows or row in rows}
    for (row, column), value in cells.items():
        table[row][column - 1] = cell_of(value, f"{name}: cell {column_letter(column)}{row}")
    notes += ["without what is hidden"] if hidden else []
    return Grid(name, list(table.values()), list(table), "row", column_letters=True, padded=True, notes=notes)


def _chosen(book: "_Book", options: ReadOptions) -> tuple[_Sheet, list[str]]:
    """Return the sheet that is meant, the one asked for or the only one with anything in it, and what to say of it."""
    titles = ", ".join(shorten(sheet.title) for sheet in book.sheets)
    if options.sheet is not None:
        sheets = [sheet for sheet in book.sheets if sheet.title == options.sheet]
        if not sheets:
            raise UsageError(f"{book.name}: there is no sheet {shorten(options.sheet)}; it has {titles}")
        return sheets[0], [f"sheet {shorten(options.sheet)}"]
    filled = [sheet for sheet in book.sheets if book.cells(sheet, None, only_first=True).values]
    shown = [sheet for sheet in filled if options.hidden or not sheet.hidden]
    if len(shown) > 1:
        choices = ", ".join(shorten(sheet.title) for sheet in shown)
        raise UsageError(f"{book.name}: say which sheet is meant with {mention('sheet')}: {choices}")
    if not shown and filled and options.hidden is None:
        title = filled[0].title
        raise UsageError(
            f"{book.name}: the sheet {shorten(title)} is hidden, and no other holds anything; "
            f"say {mention('sheet', title)} to read it"
        )
    if not shown:
        raise InputError(f"{book.name}: the workbook is empty")
    notes = [f"sheet {shorten(shown[0].title)}"] if len(book.sheets) > 1 else []
    others = ", ".join(shorten(sheet.title) for sheet in filled if sheet not in shown)
    return shown[0], [*notes, *([f"hidden sheet {others} not read"] if others else [])]


class _Book:
    """A workbook that is open: its sheets, and what their cells refer to."""

    def __init__(self, content: bytes, name: str) -> None:
        self.name = name
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
            self._sizes = {member.filename: member.file_size for member in self._archive.infolist()}
        except Exception:  # zipfile raises many kinds of exception for a broken archive
            raise InputError(f"{name}: this is not a workbook (the zip archive is damaged)") from None
        self._check_size("the workbook", sum(self._sizes.values()), LARGEST_WORKBOOK)
        parts = self._relations()
        self.sheets: list[_Sheet] = []

        def sheet(tag: str, attributes: Attributes) -> None:
            kind, part = parts.get(attributes.get("id", ""), ("", ""))
            if tag == "sheet" and kind == "worksheet":
                hidden = attributes.get("state", "visible") != "visible"
                self.sheets.append(_Sheet(attributes.get("name", ""), part, hidden))

        self._parse(_BOOK, LARGEST_PART, sheet)
        of_kind = dict(parts.values())
        self._texts = self._shared_texts(of_kind.get("sharedStrings"))
        self._times = self._styles_of_time(of_kind.get("styles"))

    def cells(self, sheet: _Sheet, bounds: Bounds | None, only_first: bool = False) -> _Cells:
        """Return what stands in a sheet or a part of it; `only_first` stops at the first cell with anything in it."""
        reader = _SheetReader(self.name, bounds or (1, 1, _COLUMNS, _ROWS), self._texts, self._times, only_first)
        self._parse(sheet.part, LARGEST_WORKBOOK, reader.start, reader.end, reader.text, lambda: reader.done)
        return reader.data

    def _relations(self) -> dict[str, tuple[str, str]]:
        """Return the kind and the part that each relation of the workbook names."""
        parts: dict[str, tuple[str, str]] = {}

        def relation(tag: str, attributes: Attributes) -> None:
            if tag == "Relationship" and attributes.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/xl", attributes.get("Target", ""))).lstrip("/")
                parts[attributes.get("Id", "")] = (attributes.get("Type", "").rpartition("/")[2], target)

        self._parse("xl/_rels/workbook.xml.rels", LARGEST_PART, relation)
        return parts

    def _shared_texts(self, part: str | None) -> list[str]:
        """Return the texts that cells of all sheets refer to by number; phonetic guides in them do not count."""
        texts: list[str] = []
        pieces: list[str] = []
        open_tags: list[str] = []

        def start(tag: str, attributes: Attributes) -> None:
            open_tags.append(tag)
            if len(texts) > LARGEST_SHEET:
                raise InputError(f"{self.name}: the workbook holds more than {LARGEST_SHEET} texts")

        def end(tag: str) -> None:
            open_tags.pop()
            if tag == "si":
                texts.append("".join(pieces))
                pieces.clear()

        def text(piece: str) -> None:
            if open_tags[-1] == "t" and "rPh" not in open_tags:
                pieces.append(piece)

        if part in self._sizes:
            self._parse(str(part), LARGEST_TEXTS, start, end, text)
        return texts

    def _styles_of_time(self, part: str | None) -> Set[str]:
        """Return the numbers of the styles that show a number as a date or a time."""
        formats: dict[str, str] = {}
        styles: list[str] = []
        in_styles = [False]

        def start(tag: str, attributes: Attributes) -> None:
            if tag == "numFmt":
                formats[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
            elif tag in ("cellXfs", "cellStyleXfs"):
                in_styles[0] = tag == "cellXfs"
            elif tag == "xf" and in_styles[0]:
                styles.append(attributes.get("numFmtId", "0"))

        if part in self._sizes:
            self._parse(str(part), LARGEST_PART, start)
        times = {str(number) for number in _FORMATS_OF_TIME}
        times |= {number for number, code in formats.items() if re.search("[dmyhs]", _QUOTED.sub("", code), re.I)}
        return {str(place) for place, number in enumerate(styles) if number in times}

    def _parse(
        self,
        part: str,
        limit: int,
        start: Callable[[str, Attributes], None],
        end: Callable[[str], None] | None = None,
        text: Callable[[str], None] | None = None,
        done: Callable[[], bool] = lambda: False,
    ) -> None:
        """Read a part of the archive, piece by piece, until `done`; names come without their name space."""
        if part not in self._sizes:
            raise InputError(f"{self.name}: the workbook cannot be read (it has no part {shorten(part)})")
        self._check_size(f"{shorten(part)} of the workbook", self._sizes[part], limit)
        parser = expat.ParserCreate()
        elements = depth = 0

        def opened(tag: str, attributes: Attributes) -> None:
            nonlocal elements, depth
            elements += 1
            depth += 1
            if elements > LARGEST_TREE or depth > _DEEPEST:
                raise InputError(f"{self.name}: {shorten(part)} of the workbook has more elements than are read")
            start(tag.rpartition(":")[2], {key.rpartition(":")[2]: value for key, value in attributes.items()})

        def closed(tag: str) -> None:
            nonlocal depth
            depth -= 1
            if end is not None:
                end(tag.rpartition(":")[2])

        def refuse(*declaration: Any) -> None:
            raise InputError(f"{self.name}: the workbook cannot be read (it declares entities)")

        parser.StartElementHandler = opened
        parser.StartDoctypeDeclHandler = refuse
        parser.EndElementHandler = closed
        if text is not None:
            parser.buffer_text = True
            parser.CharacterDataHandler = text
        with self._archive.open(part) as file:
            read = 0
            while not done() and (piece := file.read(_PIECE)):
                parser.Parse(piece, False)
                read += len(piece)
                if read - parser.CurrentByteIndex > _LONGEST_TAG + _PIECE:
                    raise InputError(f"{self.name}: {shorten(part)} of the workbook has a tag that is too long")
            if not done():
                parser.Parse(b"", True)

    def _check_size(self, what: str, size: int, limit: int) -> None:
        if size > limit:
            raise InputError(
                f"{self.name}: {what} unpacks to {size // 2**20} MiB, more than the {limit // 2**20} MiB that are read"
            )


class _SheetReader:
    """Takes the elements of a sheet one by one, and keeps what is in its bounds."""

    def __init__(self, name: str, bounds: Bounds, texts: list[str], times: Set[str], only_first: bool) -> None:
        self.data = _Cells()
        self.done = False
        self._name, self._bounds, self._texts, self._times = name, bounds, texts, times
        self._only_first = only_first
        self._row = self._column = self._cells = self._in_row = self._ranges = 0
        self._rows_hidden = self._columns_hidden = False
        self._cell: Attributes | None = None
        self._tags: list[str] = []
        self._content: dict[str, list[str]] = {}

    def start(self, tag: str, attributes: Attributes) -> None:
        """Take the beginning of an element."""
        if self._cell is not None:
            self._tags.append(tag)
            self._content.setdefault(tag, [])
        elif tag == "c":
            self._begin_cell(attributes)
        elif tag == "row":
            self._row = _integer(attributes.get("r"), self._row + 1)
            self._column = self._in_row = 0
            if _is_hidden(attributes, "ht", _LEAST_HEIGHT, self._rows_hidden):
                self.data.rows.add(self._row)
        elif tag == "sheetFormatPr":
            self._rows_hidden = _is_hidden({"hidden": attributes.get("zeroHeight", "0")}, "", 0.0, False)
            self._columns_hidden = _is_small(attributes.get("defaultColWidth"), _LEAST_WIDTH)
            self.data.columns[:] = self._columns_hidden
        elif tag == "col":
            first, last = _integer(attributes.get("min"), 1), _integer(attributes.get("max"), _COLUMNS)
            self.data.columns[first : last + 1] = _is_hidden(attributes, "width", _LEAST_WIDTH, self._columns_hidden)
            self._count_ranges(_COLUMNS)
        elif tag == "mergeCell":
            self._count_ranges(_MERGED + _COLUMNS)
            merged = _range(attributes.get("ref", ""))
            if merged is not None:
                self.data.merged.append(merged)

    def text(self, piece: str) -> None:
        """Take a text; of those in a cell, its value and its parts count, phonetic guides do not."""
        if self._tags and self._tags[-1] in ("v", "t") and "rPh" not in self._tags:
            self._content[self._tags[-1]].append(piece)

    def end(self, tag: str) -> None:
        """Take the end of an element."""
        if self._tags:
            self._tags.pop()
        elif tag == "c" and self._cell is not None:
            self._end_cell(self._cell)
            self._cell = None

    def _begin_cell(self, attributes: Attributes) -> None:
        place = _CELL.fullmatch(attributes.get("r", ""))
        self._row = int(place[2]) if place else self._row
        self._column = column_number(place[1]) if place else self._column + 1
        self._cells, self._in_row = self._cells + 1, self._in_row + 1
        if self._cells > LARGEST_SHEET or max(self._in_row, self._column) > _COLUMNS or self._row > _ROWS:
            raise InputError(f"{self._name}: the sheet has more than {LARGEST_SHEET} cells; write it as .npy")
        self._cell, self._content = attributes, {}

    def _end_cell(self, attributes: Attributes) -> None:
        left, top, right, bottom = self._bounds
        if not (left <= self._column <= right and top <= self._row <= bottom):
            return
        place = (self._row, self._column)
        text = "".join(self._content.get("t" if attributes.get("t") == "inlineStr" else "v", ()))
        if "f" in self._content and not text and attributes.get("t") != "str":
            self.data.unsaved.add(place)
            self.done |= self._only_first
            return
        where = f"{self._name}: cell {column_letter(self._column)}{self._row}"
        value = self._value(attributes, text.strip(), where)
        if value not in ("", None):
            self.data.values[place] = value
            self.done |= self._only_first

    def _value(self, attributes: Attributes, text: str, where: str) -> Any:
        """Return the value of a cell by its kind: a text, a truth value, an error's word, a date or a number."""
        kind = attributes.get("t", "n")
        if kind == "s":
            number = _integer(text, -1)
            if text and not 0 <= number < len(self._texts):
                raise InputError(f"{where} refers to a text that is not there")
            return self._texts[number].strip() if text else ""
        if kind in ("str", "inlineStr", "e") or not text:
            return text
        if kind == "b":
            return text not in ("0", "false")
        if kind == "d" or attributes.get("s", "0") in self._times:
            raise InputError(f"{where}: this is a date or a time, not a number")
        if not is_number(text):
            raise InputError(f"{where}: {shorten(text)} is not a number")
        real = float(text)
        if np.isinf(real):
            raise InputError(f"{where}: {shorten(text)} is too large")
        # what a program computes is a real; what is whole is meant as an integer
        return Plain(int(real)) if real.is_integer() and abs(real) < 2**53 else Plain(text)

    def _count_ranges(self, limit: int) -> None:
        self._ranges += 1
        if self._ranges > limit:
            raise InputError(f"{self._name}: the sheet describes more ranges of columns or cells than are read")


def _is_hidden(attributes: Attributes, size: str, least: float, default: bool) -> bool:
    """Tell whether a row or a column is hidden: it says so, or its height or width lets nothing be seen."""
    if attributes.get("hidden", "0").strip().lower() not in ("0", "false", ""):
        return True
    return _is_small(attributes[size], least) if size in attributes else default


def _is_small(size: str | None, least: float) -> bool:
    try:
        return size is not None and float(size) < least
    except ValueError:
        return False


def _integer(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 9 else default


def _hidden(data: _Cells, name: str, read: bool | None) -> set[Place]:
    """Return the cells that are left out since they are hidden; refuse to decide that where it was not said."""
    filled = data.values.keys() | data.unsaved
    hidden = {place for place in filled if place[0] in data.rows or data.columns[place[1]]}
    if hidden and read is None:
        row, column = min(hidden)
        what = f"row {row}" if row in data.rows else f"column {column_letter(column)}"
        raise UsageError(
            f"{name}: {what} is hidden; say {mention('hidden', True)} to read it, "
            f"{mention('hidden', False)} to leave out what is hidden"
        )
    return set() if read else hidden


def _refuse_merged(merged: list[Bounds], cells: Mapping[Place, Any], name: str) -> None:
    """Refuse merged cells: only the first of them holds a value."""
    if not cells:
        return
    last_row, last_column = max(row for row, _ in cells), max(column for _, column in cells)
    first_row, first_column = min(row for row, _ in cells), min(column for _, column in cells)
    for left, top, right, bottom in merged:
        inside = min(bottom, last_row) >= max(top, first_row) and min(right, last_column) >= max(left, first_column)
        if inside and (min(right, last_column) > left or min(bottom, last_row) > top):
            corner, end = f"{column_letter(left)}{top}", f"{column_letter(right)}{bottom}"
            raise InputError(
                f"{name}: the cells {corner}:{end} are merged; separate them, or say which part of the sheet is meant "
                f"with {mention('range')}"
            )


def _bounds(text: str) -> Bounds:
    """Return the first and last column and row of a range such as B2:F20."""
    if not _RANGE.fullmatch(text.strip()):
        raise UsageError(f"{mention('range')} must look like B2:F20, got {shorten(text)}")
    bounds = _range(text.strip())
    if bounds is None:
        raise UsageError(f"{mention('range', text)}: it must go from its upper left cell to its lower right one")
    return bounds


def _range(text: str) -> Bounds | None:
    """Return the columns and rows of a range; None where it is none."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    left, right = (column_number(match[group].upper()) for group in (1, 3))
    top, bottom = int(match[2]), int(match[4])
    return (left, top, right, bottom) if 1 <= left <= right <= _COLUMNS and 1 <= top <= bottom <= _ROWS else None
