"""Tables whose truth is known, dressed in the ways in which a reader may misunderstand them, in every format.

    python -m tests.fuzz --tables --minutes 10

A table is drawn from a seed: numbers with or without names, then one or two changes of the kinds below. What is read
must be the truth; a sentence that refuses is always right, but for tables that are clear.
"""

import csv
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from icdc.errors import InputError, UsageError
from icdc.io import Instance, ReadOptions, instances_from, instances_of
from icdc.problems import get_problem
from tests.io.corpus import xlsx

WORDS = "cut drill paint mill saw weld press grind lathe bend polish sand etch coat print fold glue bake".split(" ")
ITEM_CORNERS = ["job", "Job ID", "No.", "task", "#", "Auftrag"]
OTHER_CORNERS = ["Werk", "Teil", "step", "artikel", "opération", "品目"]
TOTALS = ["Total", "TOTAL", "Sum", "Summe", "Gesamtsumme", "Итого", "合計", "Toplam", "Razem", "Rest", "all", "Ø", "Σ"]
AMOUNTS: list[Callable[[random.Random], str]] = [
    lambda rng: f"{rng.randint(1, 99)} min",
    lambda rng: f"{rng.randint(1, 99)}min",
    lambda rng: f"{rng.randint(1, 99)} %",
    lambda rng: f"{rng.randint(1, 99)}%",
    lambda rng: f"${rng.randint(1, 99)}",
    lambda rng: f"€ {rng.randint(1, 99)}.50",
    lambda rng: f"EUR {rng.randint(1, 99)}",
    lambda rng: f"{rng.randint(0, 23)}:{rng.randint(10, 59)}",
    lambda rng: f"{rng.randint(1, 9)}/{rng.randint(2, 9)}",
    lambda rng: f"({rng.randint(1, 99)})",
    lambda rng: f"{rng.randint(1, 9)},{rng.randint(10, 99)},000",
    lambda rng: "".join(chr(ord(digit) + 0xFEE0) for digit in str(rng.randint(1, 99))),
    lambda rng: f"{rng.randint(1, 9)}½",
    lambda rng: rng.choice(["True", "False"]),
    lambda rng: f"~{rng.randint(1, 99)}",
    lambda rng: f"{rng.randint(1, 99)}h{rng.randint(10, 59)}",
    lambda rng: f"2024-0{rng.randint(1, 9)}-{rng.randint(10, 28)}",
]


@dataclass
class Table:
    """Cells with what they mean.

    cells : texts and numbers, row by row; None for empty ones.
    matrix, rows, columns : the truth.
    readable : whether any reading without options can be right.
    clear : whether nothing about it may be in doubt.
    kinds : what was done to it.
    """

    cells: list[list[Any]]
    matrix: list[list[Any]]
    rows: list[str] | None
    columns: list[str] | None
    readable: bool = True
    clear: bool = False
    kinds: list[str] = field(default_factory=list)
    problem: str | None = "pmsp"

    @property
    def top(self) -> int:
        """Rows of names."""
        return int(self.columns is not None)

    @property
    def left(self) -> int:
        """Columns of names."""
        return int(self.rows is not None)


def numbers(rng: random.Random, rows: int, columns: int, decimals: int) -> list[list[Any]]:
    draw = {0: lambda: rng.randint(1, 99), 1: lambda: rng.randint(10, 999) / 10, 2: lambda: rng.randint(1, 9999) / 100}
    return [[draw[decimals]() for _ in range(columns)] for _ in range(rows)]


def names(rng: random.Random, count: int, kind: str) -> list[str]:
    if kind == "words":
        return rng.sample(WORDS, count)
    stem = {"jobs": ["J", "job ", "Auftrag "], "machines": ["M", "m", "machine "]}[kind]
    begin, word = rng.randint(0, 1), rng.choice(stem)
    return [f"{word}{begin + place}" for place in range(count)]


def base(rng: random.Random, beside: bool | None = None, above: bool | None = None) -> Table:
    """Draw a table that is clear where it has names of words."""
    rows, columns = rng.randint(3, 7), rng.randint(3, 5)
    beside = rng.random() < 0.6 if beside is None else beside
    above = rng.random() < 0.7 if above is None else above
    matrix = numbers(rng, rows, columns, rng.choice([0, 0, 0, 1, 2]))
    labels = names(rng, rows, rng.choice(["words", "words", "jobs"])) if beside else None
    header = names(rng, columns, rng.choice(["words", "machines"])) if above else None
    if labels and header and set(labels) & set(header):
        header = [f"{word} {place}" for place, word in enumerate(header)]
    cells = [[*([labels[r]] if labels else []), *row] for r, row in enumerate(matrix)]
    if header:
        cells.insert(0, [*([rng.choice(["", *ITEM_CORNERS, *OTHER_CORNERS])] if labels else []), *header])
    return Table(cells, matrix, labels, header, clear=bool(labels and header))


def column(table: Table, place: int) -> list[Any]:
    return [row[place] for row in table.cells]


def header_of_numbers(rng: random.Random) -> Table:
    """Number machines: from 0 or 1, as years, in any order, under a corner that says names or another word."""
    table = base(rng, beside=True, above=False)
    count, begin = len(table.matrix[0]), rng.choice([0, 1, 1, 2020, 1998, 100])
    header = list(range(begin, begin + count))
    corner = rng.choice([*ITEM_CORNERS, *OTHER_CORNERS, ""])
    if rng.random() < 0.4 and (count > 3 or corner in ["", *ITEM_CORNERS]):
        rng.shuffle(header)
    table.cells.insert(0, [corner, *header])
    table.columns = list(map(str, header))
    table.kinds.append("header of numbers")
    return table


def row_ids(rng: random.Random) -> Table:
    """Number jobs, under a header or not: counting, in any order, by their kind and number, by year."""
    above = rng.random() < 0.7
    table = base(rng, beside=False, above=above)
    count = len(table.matrix)
    begin = rng.choice([0, 1, 1, 17, 1001])
    ids: list[Any] = list(range(begin, begin + count))
    kind = rng.choice(["counting", "shuffled", "hierarchy", "hierarchy of three", "gaps", "years"])
    if kind == "shuffled" and count > 3:
        rng.shuffle(ids)
    elif kind == "hierarchy" and count > 3:
        ids = [f"{1 + place // 2}.{1 + place % 2}" for place in range(count)]
    elif kind == "hierarchy of three":
        ids = [f"{1 + place // 2}.{1 + place % 2}.1" for place in range(count)]
    elif kind == "gaps":
        ids = [10_000 + 7 * place * place for place in range(count)]
        rng.shuffle(ids)
    elif kind == "years":
        ids = list(range(2015 + count, 2015, -1))
    table.cells[table.top :] = [[name, *row] for name, row in zip(ids, table.cells[table.top :], strict=True)]
    if above:
        table.cells[0].insert(0, rng.choice([*ITEM_CORNERS, *OTHER_CORNERS, ""]))
    table.rows = list(map(str, ids))
    table.clear = False
    table.kinds.append(f"ids: {kind}")
    return table


def amounts(rng: random.Random) -> Table:
    """Write the first column, or the first row, with units and signs."""
    table = base(rng, beside=False, above=False)
    draw = rng.choice(AMOUNTS)
    if rng.random() < 0.6:
        for row in table.cells:
            row[0] = draw(rng)
        table.kinds.append("a first column of amounts")
        if rng.random() < 0.5:
            table.cells.insert(0, list(rng.sample(WORDS, len(table.matrix[0]))))
    else:
        table.cells[0] = [draw(rng) for _ in table.cells[0]]
        table.kinds.append("a first row of amounts")
    table.readable = False
    return table


def list_of_pairs(rng: random.Random) -> Table:
    """Write a line for each pair of a job and a machine, or of two cities, in words or numbers."""
    begin, rows, columns = rng.randint(0, 1), rng.randint(2, 4), rng.randint(2, 4)
    pairs = [(r + begin, c + begin) for r in range(rows) for c in range(columns)]
    if rng.random() < 0.5:
        rng.shuffle(pairs)
    if rng.random() < 0.3 and rows == columns > 2:
        pairs = [(r, c) for r, c in pairs if r != c]
    cells: list[list[Any]] = [[r, c, rng.randint(10, 99)] for r, c in pairs]
    if rng.random() < 0.4:
        kinds = [WORDS[:9], WORDS[9:]]
        cells = [[kinds[0][r], kinds[1][c], time] for r, c, time in cells]
    if rng.random() < 0.6:
        header = rng.choice(
            [["job", "machine", "time"], ["from", "to", "km"], ["u", "v", "w"], ["Teil", "Anlage", "h"]]
        )
        cells.insert(0, list(header))
    return Table(cells, [], None, None, readable=False, kinds=["a list of pairs"])


def misspelt_setups(rng: random.Random) -> Table:
    """Setups between jobs, one of which is written in two ways."""
    jobs = rng.sample(WORDS, rng.randint(3, 6))
    matrix = numbers(rng, len(jobs), len(jobs), 0)
    header, labels = list(jobs), list(jobs)
    place, changed = rng.randrange(len(jobs)), rng.choice([header, labels])
    word = changed[place]
    changed[place] = rng.choice([word[:-1], word[1:], word + "e", word[1] + word[0] + word[2:]])
    cells: list[list[Any]] = [["", *header], *([name, *row] for name, row in zip(labels, matrix, strict=True))]
    return Table(cells, [], None, None, readable=False, kinds=["misspelt setups"], problem="setups")


def totals(rng: random.Random, table: Table) -> None:
    """Add sums or means of all rows or columns, first or last, with a name in any language where others have one."""
    decimals = rng.choice([0, 1, 2, 6])
    body = [row[table.left :] for row in table.cells[table.top :]]
    mean = rng.random() < 0.3 and len(body) > 2
    if rng.random() < 0.5 and len(body[0]) > 2 - (table.rows is not None):
        line = [sum(numbers) for numbers in zip(*body, strict=True)]
        line = [value / len(body) for value in line] if mean else line
        line = [_rounded(value, decimals if mean else 2) for value in line]
        if mean and all(isinstance(value, int) for value in line) and len(set(line)) < 2:
            return
        place = rng.choice([table.top, len(table.cells)])
        table.cells.insert(place, [*([rng.choice(TOTALS)] if table.rows else []), *line])
        table.kinds.append("a row of means" if mean else "a row of totals")
    else:
        wide = [sum(row) / (len(row) if mean else 1) for row in body]
        wide = [_rounded(value, decimals if mean else 2) for value in wide]
        place = rng.choice([table.left, len(table.cells[0])])
        for row, value in zip(table.cells[table.top :], wide, strict=True):
            row.insert(place, value)
        if table.columns:
            table.cells[0].insert(place, rng.choice(TOTALS))
        table.kinds.append("a column of means" if mean else "a column of totals")
    table.readable = table.clear = False


def _rounded(value: float, decimals: int) -> Any:
    rounded = round(value, decimals)
    return int(rounded) if rounded == int(rounded) else rounded


def gap(rng: random.Random, table: Table) -> None:
    """Put an empty column or row inside the table, or another table beside it."""
    width, height = len(table.cells[0]), len(table.cells)
    how = rng.choice(["column", "row", "beside", "below"])
    if how == "column":
        place = rng.randint(table.left + 1, width - 1)
        table.cells = [[*row[:place], None, *row[place:]] for row in table.cells]
    elif how == "row":
        place = rng.randint(table.top + 1, height - 1)
        table.cells.insert(place, [None] * width)
    elif how == "beside":
        table.cells = [[*row, None, *row] for row in table.cells]
    else:
        table.cells = [*table.cells, [None] * width, *[list(row) for row in table.cells]]
    table.kinds.append(f"a gap: {how}")
    table.readable = table.clear = False


def machines_as_rows(rng: random.Random, table: Table) -> None:
    """Let machines be rows, as their names or the corner say."""
    count, width = len(table.matrix), len(table.matrix[0])
    rows = names(rng, count, "machines") if rng.random() < 0.7 else rng.sample(WORDS[:9], count)
    columns = names(rng, width, "jobs") if rows[0] in WORDS or rng.random() < 0.5 else rng.sample(WORDS[9:], width)
    corner = rng.choice(["", "machine", "Maschine"]) if rows[0] not in WORDS else rng.choice(["machine", "Machines"])
    table.cells = [[corner, *columns], *([rows[r], *row] for r, row in enumerate(table.matrix))]
    table.rows, table.columns = rows, columns
    table.kinds.append("machines as rows")
    table.readable = table.clear = False


def stranger(rng: random.Random, table: Table) -> None:
    """Add a column that says something else of the jobs beside machines that are numbered."""
    if table.columns is None or table.columns[0].partition(" ")[0] in WORDS:
        return
    word = rng.choice(["due", "Priorität", "Liefertermin", "weight", "délai", "release", "Menge", "lot size"])
    place = rng.choice([table.left, len(table.cells[0])])
    for row in table.cells[table.top :]:
        row.insert(place, rng.randint(1, 99))
    table.cells[0].insert(place, word)
    table.kinds.append("a column of something else")
    table.readable = table.clear = False


def forbidden_pairs(rng: random.Random, table: Table) -> None:
    """Forbid some pairs, by any of the marks, but never all of a row or a column."""
    mark = rng.choice(["-", "x", None, "inf"])
    for place, row in enumerate(table.matrix[1:-1], 1):
        if len(row) > 2 and rng.random() < 0.5:
            row[1 + place % (len(row) - 1)] = None
            table.cells[table.top + place][table.left + 1 + place % (len(row) - 1)] = mark
    table.kinds.append("forbidden pairs")


SOURCES = [base, base, header_of_numbers, row_ids, amounts, list_of_pairs, misspelt_setups]
CHANGES = [totals, gap, machines_as_rows, stranger]


def generate(seed: int) -> Table:
    """Return the table of a seed."""
    rng = random.Random(seed)
    source = rng.choice(SOURCES)
    table = source(rng)
    if source is base and rng.random() < 0.3:
        forbidden_pairs(rng, table)
    elif source in (base, header_of_numbers, row_ids) and rng.random() < 0.6:
        plain = source is base
        change = rng.choice(CHANGES if plain else [totals, gap])
        change(rng, table)
    return table


def text_of(cell: Any, decimal: str = ".") -> str:
    if cell is None:
        return ""
    return str(cell).replace(".", decimal) if isinstance(cell, float) else str(cell)


def delimited(separator: str, decimal: str = ".") -> Callable[[Table], tuple[str, bytes]]:
    def write(table: Table) -> tuple[str, bytes]:
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter=separator, lineterminator="\n")
        writer.writerows([text_of(cell, decimal) for cell in row] for row in table.cells)
        return ("t.tsv" if separator == "\t" else "t.csv"), buffer.getvalue().encode()

    return write


def workbook(table: Table) -> tuple[str, bytes]:
    return "t.xlsx", xlsx(table.cells)


def lists(table: Table) -> tuple[str, bytes] | None:
    """Write lists; lists of numbers alone have no place for names or totals, and None is a forbidden pair in any."""
    if any("gap" in kind for kind in table.kinds):
        return None
    if not any(isinstance(cell, str) and cell not in ("-", "x", "inf") for row in table.cells for cell in row):
        return None
    return "t.json", json.dumps(table.cells, ensure_ascii=False).encode()


def records(table: Table) -> tuple[str, bytes] | None:
    header, *rows = table.cells
    if not all(isinstance(cell, str) and cell for cell in header) or len(set(header)) < len(header):
        return None
    if any(cell is None for row in table.cells for cell in row) or "a first row of amounts" in table.kinds:
        return None  # None says of a pair that it is forbidden, and what stands above is names, whatever it is
    return "t.json", json.dumps([dict(zip(header, row, strict=True)) for row in rows], ensure_ascii=False).encode()


def frame(table: Table) -> Any:
    written = records(table)
    return None if written is None else pd.DataFrame(table.cells[1:], columns=table.cells[0])


FORMATS: dict[str, Callable[[Table], Any]] = {
    "csv": delimited(","),
    "tsv": delimited("\t"),
    "semicolons": delimited(";"),
    "decimal commas": delimited(";", ","),
    "xlsx": workbook,
    "lists": lists,
    "records": records,
    "frame": frame,
}


def meaning(instance: Instance) -> tuple[Any, ...]:
    matrix = instance.arrays[instance.problem.arrays[0]].tolist()
    for row, place in np.argwhere(instance.forbidden) if instance.forbidden is not None else ():
        matrix[row][place] = None
    return matrix, instance.rows, instance.columns


def attempt(table: Table, form: str, options: ReadOptions, clear: bool) -> str:
    """Return what becomes of a table in a format: "right", "refused", "no such form", or else what is wrong."""
    content = FORMATS[form](table)
    if content is None:
        return "no such form"
    problem = None if table.problem is None else get_problem(table.problem)
    try:
        if form == "frame":
            (instance,) = instances_from(content, problem, "t", options)
        else:
            (instance,) = instances_of(content[1], content[0], problem, options)
    except (InputError, UsageError) as error:
        return "refused" if not clear else f"refused, though it is clear: {error}"
    truth = (table.matrix, *(None if group is None else tuple(group) for group in (table.rows, table.columns)))
    if table.readable and meaning(instance) == truth:
        return "right"
    return f"misread as {meaning(instance)} ({instance.understood})"


def tried_options(table: Table) -> list[tuple[ReadOptions, bool]]:
    """Return options to read a table with, and whether they leave nothing open about it."""
    options = [(ReadOptions(), table.clear)]
    if any("amounts" in kind for kind in table.kinds):
        options.append((ReadOptions(labels=False), False))
    if table.readable and table.rows and table.columns:
        options.append((ReadOptions(labels=True, decimal=".", comments=False), True))
    return options


def try_tables(seeds: Iterable[int], counts: Counter[str]) -> list[str]:
    """Read the tables of some seeds in all formats; count what became of them, and return what was wrong."""
    wrong = []
    for seed in seeds:
        table = generate(seed)
        for form in FORMATS:
            for options, clear in tried_options(table):
                result = attempt(table, form, options, clear and (form != "decimal commas" or not options.labels))
                if result in ("right", "refused", "no such form"):
                    counts[f"{result}, though readable" if result == "refused" and table.readable else result] += 1
                else:
                    shown = "\n".join(",".join(map(text_of, row)) for row in table.cells)
                    wrong.append(f"seed {seed}, {form}, {'; '.join(table.kinds)}: {result}\n{shown}")
    return wrong
