"""Instances whose truth is known, and writers that put them into files in every way people and programs do."""

import csv
import gzip
import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

from icdc.io import Instance, ReadOptions
from icdc.problems.atsp import Atsp
from icdc.problems.forbidden import huge_numbers, why_impossible
from tests.io.corpus import npy, npz, xlsx

WORDS = (
    "a b c d cut drill Ärger x y J01 J02 #2 3rd Job_4 São*Paulo 'q' semi;colon com,ma pi|pe tab\tbed two\nlines null "
    'say"hi" 10 20 7 Total rank machine none-such \x1b[31mred e5 1.x -minus +plus m²'
).split(" ")
MARKS = ("", "-", "x", "inf", "∞", "null", "--", "–")


@dataclass(frozen=True)
class Truth:
    """What a file means.

    matrix : (rows, columns); forbidden : where it says nothing.
    """

    problem: str
    matrix: NDArray[Any]
    forbidden: NDArray[np.bool_]
    rows: tuple[str, ...] | None
    columns: tuple[str, ...] | None


@dataclass(frozen=True)
class Written:
    """A file, and the options that leave nothing open about it."""

    name: str
    content: bytes
    options: ReadOptions


def numbers(whole: bool) -> st.SearchStrategy[Any]:
    if whole:
        return st.integers(0, 9) | st.integers(0, 99_999) | st.integers(0, 2**40)
    return st.integers(0, 99_999_999).map(lambda value: value / 1000) | st.integers(0, 99).map(lambda value: value / 4)


@st.composite
def truths(draw: st.DrawFn, tour: bool | None = None, named: str | None = None) -> Truth:
    """Draw what a file is to mean; `tour` and `named` leave out what a format cannot say."""
    tour = draw(st.booleans()) if tour is None else tour
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    if tour:
        rows = columns = draw(st.integers(2, 6))
    whole = draw(st.booleans())
    cells = draw(st.lists(numbers(whole), min_size=rows * columns, max_size=rows * columns))
    matrix = np.array(cells, dtype=np.int64 if whole else np.float64).reshape(rows, columns)
    share = draw(st.sampled_from([0, 0, 0.2, 0.6]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    forbidden = rng.random((rows, columns)) < share
    if tour:
        np.fill_diagonal(matrix, 0)
        np.fill_diagonal(forbidden, False)
    matrix[forbidden] = 0
    names = draw(st.permutations(WORDS))
    beside, above = tuple(names[:rows]), tuple(names[rows : rows + columns])
    if tour:
        above = beside
    named = named or draw(st.sampled_from(["none", "rows", "columns", "both", "both"]))
    # a name that may also be a mark needs one beside it that may not
    for group in () if named == "none" else (beside, above):
        assume(any(word not in ("x", "null", "10", "20", "7") for word in group))
    return Truth(
        "atsp" if tour else "pmsp",
        matrix,
        forbidden,
        beside if named in ("rows", "both") else None,
        above if named in ("columns", "both") else None,
    )


def options_for(truth: Truth, **more: Any) -> ReadOptions:
    """Return the options that say where the names stand."""
    if truth.rows is not None and truth.columns is not None:
        return ReadOptions(labels=True, **more)
    if truth.columns is not None:
        return ReadOptions(labels=True, id_column="0", **more)
    return ReadOptions(labels=False, id_column=None if truth.rows is None else "1", **more)


def number_text(value: Any, decimal: str, group: str) -> str:
    """Write a number; groups of thousands only in its whole part."""
    text = str(value)
    if "e" in text:
        return text.replace(".", decimal)
    whole, _, fraction = text.partition(".")
    if group and len(whole) > 3:
        first = len(whole) % 3 or 3
        whole = group.join([whole[:first], *(whole[i : i + 3] for i in range(first, len(whole), 3))])
    return whole + (decimal + fraction if fraction else "")


@st.composite
def tables(draw: st.DrawFn, truth: Truth) -> Written:
    """Draw a way of writing a table of text."""
    separator = draw(st.sampled_from([",", ";", "\t", "|"]))
    decimal = draw(st.sampled_from([".", "."] if separator == "," else [".", ","]))
    group = draw(st.sampled_from(["", "", " ", "\u00a0", "'", "," if decimal == "." else "."]))
    if separator != "|" and truth.rows is None and truth.matrix.shape[1] == 1:
        group = ""  # without any separator blanks are one, and commas too
        assume(decimal == "." and truth.columns is None)
    mark = draw(st.sampled_from(MARKS))
    diagonal = draw(st.sampled_from(["0", "0", mark]))
    lines: list[list[str]] = []
    for r, row in enumerate(truth.matrix.tolist()):
        cells = [mark if truth.forbidden[r, c] else number_text(v, decimal, group) for c, v in enumerate(row)]
        if truth.problem == "atsp":
            cells[r] = diagonal
        lines.append([*([] if truth.rows is None else [truth.rows[r]]), *cells])
    if truth.columns is not None:
        corner = draw(st.sampled_from(["", "job", "ID", "#", "whatever", "from/to", "machine", "to"]))
        lines.insert(0, [*([] if truth.rows is None else [corner]), *truth.columns])
    marked = any(line[0].startswith("#") for line in lines)
    notes = draw(st.sampled_from([[], ["# made by hand"], ["", "   "]]))
    if marked and notes[:1] == ["# made by hand"]:
        notes = []
    buffer = io.StringIO()
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    if separator == "|":
        buffer.write(f"sep=|{ending}")
    buffer.write("".join(note + ending for note in notes))
    extra = draw(st.sampled_from([[], [""], ["", ""]]))
    writer = csv.writer(buffer, delimiter=separator, lineterminator=ending, quoting=quoting)
    writer.writerows([*line, *extra] for line in lines)
    if extra and draw(st.booleans()):
        writer.writerow([""] * len([*lines[0], *extra]))
    text = buffer.getvalue()
    content = text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))
    name = "t.tsv" if separator == "\t" else "t.csv"
    if draw(st.booleans()):
        name, content = name + ".gz", gzip.compress(content)
    comments = False if marked else None
    return Written(name, content, options_for(truth, decimal=decimal, comments=comments))


def cells_of(truth: Truth) -> list[list[Any]]:
    """Return the numbers as Python's own, None at forbidden pairs."""
    return [
        [None if truth.forbidden[r, c] else value for c, value in enumerate(row)]
        for r, row in enumerate(truth.matrix.tolist())
    ]


@st.composite
def workbooks(draw: st.DrawFn, truth: Truth) -> Written:
    """Draw a way of writing a workbook."""
    for names in (truth.rows, truth.columns):
        assume(names is None or not any(c in name for name in names for c in "\x1b\n"))
    rows = [[*([] if truth.rows is None else [truth.rows[r]]), *row] for r, row in enumerate(cells_of(truth))]
    if truth.columns is not None:
        corner = draw(st.sampled_from([None, "job", "Job ID"]))
        rows.insert(0, [*([] if truth.rows is None else [corner]), *truth.columns])
    above, left = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    rows = [[]] * above + [[None] * left + row for row in rows]
    # a first or last row or column of nothing at all cannot be seen
    return Written("t.xlsx", xlsx(rows), options_for(truth))


@st.composite
def documents(draw: st.DrawFn, truth: Truth) -> Written:
    """Draw a way of writing JSON."""
    rows = cells_of(truth)
    form = draw(st.sampled_from(["object", "bare", "records", "split", "strings"]))
    if form in ("bare", "strings"):
        assume(truth.rows is None and truth.columns is None)
        document: Any = rows
        if form == "strings":
            document = [["x" if value is None else str(value) for value in row] for row in rows]
        return Written("t.json", json.dumps(document).encode(), ReadOptions(decimal="."))
    if form == "object":
        key = {"atsp": "distances", "pmsp": "durations"}[truth.problem]
        document = {"problem": truth.problem, key: rows}
        if truth.problem == "atsp":
            document |= {} if truth.rows is None else {"cities": truth.rows}
            assume(truth.rows is not None or truth.columns is None)
        else:
            document |= {} if truth.rows is None else {"jobs": truth.rows}
            document |= {} if truth.columns is None else {"machines": truth.columns}
        return Written("t.json", json.dumps(document).encode(), ReadOptions())
    assume(truth.columns is not None)
    assert truth.columns is not None
    columns = list(truth.columns)
    if form == "split":
        document = {"columns": columns, "data": rows}
        document |= {} if truth.rows is None else {"index": truth.rows}
        return Written("t.json", json.dumps(document).encode(), ReadOptions(labels=False))
    assume("job" not in columns)
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    if truth.rows is not None:
        records = [{"job": name, **record} for name, record in zip(truth.rows, records, strict=True)]
    options = ReadOptions(labels=False, id_column=None if truth.rows is None else "job")
    return Written("t.json", json.dumps(records).encode(), options)


@st.composite
def arrays(draw: st.DrawFn, truth: Truth) -> Written:
    """Draw a way of writing NumPy's files."""
    matrix = truth.matrix
    if truth.forbidden.any():
        matrix = np.where(truth.forbidden, np.inf, matrix.astype(np.float64))
    elif truth.matrix.dtype == np.int64 and truth.matrix.max() < 2**31:
        matrix = matrix.astype(draw(st.sampled_from(["<i8", ">i4", "<u4", "<f8"])))
    matrix = np.asfortranarray(matrix) if draw(st.booleans()) else matrix
    if draw(st.booleans()):
        return Written("t.npy", npy(matrix), ReadOptions())
    key = {"atsp": "distances", "pmsp": "durations"}[truth.problem]
    return Written("t.npz", npz(**{key: matrix}), ReadOptions())


@st.composite
def tsplib(draw: st.DrawFn, truth: Truth) -> Written:
    """Draw a way of writing TSPLIB; forbidden pairs are numbers larger than all others together."""
    matrix = truth.matrix.copy()
    assume(truth.forbidden.any() or huge_numbers(matrix, ignore_diagonal=True) is None)
    assume(why_impossible(Instance("t", Atsp(), {"distances": matrix}, forbidden=truth.forbidden)) is None)
    huge = 10 ** len(str(int(matrix.sum()) + 9999))
    matrix = np.where(truth.forbidden, huge, matrix)
    size = len(matrix)
    assume((truth.forbidden.sum() or 1) < size * (size - 1))
    diagonal = draw(st.sampled_from([0, 0, huge if truth.forbidden.any() else 0]))
    np.fill_diagonal(matrix, diagonal)
    width = draw(st.integers(1, 7))
    words = [str(value) for value in matrix.ravel().tolist()]
    section = "\n".join(" ".join(words[i : i + width]) for i in range(0, len(words), width))
    text = (
        f"NAME: t\nTYPE: ATSP\nCOMMENT: größer\nDIMENSION: {size}\nEDGE_WEIGHT_TYPE: EXPLICIT\n"
        f"EDGE_WEIGHT_FORMAT: FULL_MATRIX\nEDGE_WEIGHT_SECTION\n{section}\nEOF\n"
    )
    return Written("t.atsp", text.encode(draw(st.sampled_from(["utf-8", "latin-1"]))), ReadOptions())


WRITERS = {
    "tables": (tables, truths()),
    "workbooks": (workbooks, truths()),
    "documents": (documents, truths()),
    "arrays": (arrays, truths(named="none")),
    "tsplib": (tsplib, truths(tour=True, named="none")),
}
"""How the truth is written in each format, and what truths it can hold."""
