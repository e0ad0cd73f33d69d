"""Files of what is asked of a solution: pairs that are fixed, and until when machines are busy."""

import csv
from pathlib import Path
from typing import Any

from ..errors import InputError, visible
from ..problems.registry import SHIPPED
from .files import decode_text, read_bytes
from .json import parse_json
from .numbers import Number, read_number, shorten, style_of
from .solutions import unguarded

_WORDS = {"from", "to", "next", "before", "after", "successor", "row", "column"}
_WORDS |= {word for cls in SHIPPED.values() for word in (cls.row_words[0], cls.column_words[0])}
"""Words of which a header of fixed pairs is made."""
_TIMES = {"until", "busy", "busy until", "time", "free", "free from", "available"}


def read_pairs(source: str | Path) -> list[tuple[str | int, str | int]]:
    """Return the pairs of a file: a table of two columns, with or without a header, or JSON, an object or a list.

    Raises
    ------
    InputError
        If a line is no pair; the sentence names the file and the line.
    """
    name, text = _text(source)
    if text.lstrip()[:1] in ("[", "{"):
        return _pairs_of_json(text, name)
    pairs: list[tuple[str | int, str | int]] = []
    for number, cells in _rows(text, name):
        if len(cells) != 2:
            raise InputError(f"{name}: line {number} must have two cells, got {len(cells)}")
        if not pairs and number == 1 and {cell.lower() for cell in cells} <= _WORDS:
            continue
        if not pairs and number == 1 and cells[0].lower() == "position":
            raise InputError(f"{name}: this is a whole solution; fixed steps are pairs, an item and the one after it")
        if "" in cells:
            raise InputError(f"{name}: line {number} has an empty cell")
        pairs.append((unguarded(cells[0]), unguarded(cells[1])))
    if not pairs:
        raise InputError(f"{name}: there are no pairs in it")
    return pairs


def read_busy(source: str | Path, decimal: str | None = None) -> dict[str | int, Number] | list[Number]:
    """Return until when machines are busy: by name or number, or in their order where a file has only times.

    A table has one column or two, `machine,until`; JSON is an object or a list of numbers.

    decimal : the mark before fractions; by default it is found as in a table, and asked for where it is in doubt.
    """
    name, text = _text(source)
    if text.lstrip()[:1] in ("[", "{"):
        return _times_of_json(text, name)
    found: dict[str | int, Number] = {}
    listed: list[Number] = []
    rows = _rows(text, name)
    style = style_of(((cells[-1], f"{name}: line {number}") for number, cells in rows), _separator(text), decimal)
    for number, cells in rows:
        if len(cells) not in (1, 2) or (listed and len(cells) == 2) or (found and len(cells) == 1):
            raise InputError(f"{name}: line {number} must have a machine and a time, as the others")
        if number == 1 and cells[-1].lower() in _TIMES:
            continue
        try:
            time = read_number(cells[-1], style)
        except InputError as error:
            raise InputError(f"{name}: line {number}: {error}") from None
        if len(cells) == 1:
            listed.append(time)
        elif cells[0] in found:
            raise InputError(f"{name}: line {number} names {shorten(cells[0])} again")
        else:
            found[cells[0]] = time
    if not found and not listed:
        raise InputError(f"{name}: there are no times in it")
    return found or listed


def _text(source: str | Path) -> tuple[str, str]:
    name = "stdin" if str(source) == "-" else str(source)
    text = decode_text(read_bytes(source), name)
    if not text.strip():
        raise InputError(f"{name}: the file is empty")
    return name, text


def _rows(text: str, name: str) -> list[tuple[int, list[str]]]:
    """Return the lines that have anything in them, numbered from 1, as cells."""
    separator = _separator(text)
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            cells = next(csv.reader([line.strip(" ")], delimiter=separator, skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise InputError(f"{name}: line {number} cannot be read as a table ({visible(str(error))})") from None
        found.append((number, [cell.strip() for cell in cells]))
    return found


def _separator(text: str) -> str:
    """Return what stands between the cells of a line."""
    return next((mark for mark in ("\t", ";", ",") if mark in text), " ")


def _document(text: str, name: str) -> Any:
    documents = parse_json(text, name)
    if len(documents) != 1:
        raise InputError(f"{name}: there must be one object or one list in it, not {len(documents)}")
    return documents[0]


def _pairs_of_json(text: str, name: str) -> list[tuple[str | int, str | int]]:
    document = _document(text, name)
    entries = [list(pair) for pair in document.items()] if isinstance(document, dict) else document
    pairs: list[tuple[str | int, str | int]] = []
    for place, entry in enumerate(entries, 1):
        good = isinstance(entry, list) and len(entry) == 2
        if not good or not all(isinstance(item, str | int) and not isinstance(item, bool) for item in entry):
            raise InputError(f"{name}: entry {place} is no pair of names or numbers")
        pairs.append((entry[0], entry[1]))
    if not pairs:
        raise InputError(f"{name}: there are no pairs in it")
    return pairs


def _times_of_json(text: str, name: str) -> dict[str | int, Number] | list[Number]:
    document = _document(text, name)
    values = list(document.values()) if isinstance(document, dict) else document
    for place, value in enumerate(values, 1):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{name}: entry {place} is not a time")
    if not values:
        raise InputError(f"{name}: there are no times in it")
    return dict(document) if isinstance(document, dict) else list(document)
