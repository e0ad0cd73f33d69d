"""Solutions, pictures of them, and conditions on them in files.

A solution is read from a TSPLIB tour, from JSON (a list, or the object that `icdc solve --json` prints), from
a table as `write_solution` makes it ("job,machine", "position,city"), or from plain words: numbers that count
from 0, or the names the instance came with; a first line "# numbers from 0" or "# names" says which.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError, visible
from ..problems import BUILT_IN, SHIPPED
from ..problems.instance import Instance, Names
from .cells import Number, read_number, shorten, style_of, tidy
from .csv import rows_of
from .files import decode_text, read_bytes, write_atomically
from .json import parse_json
from .tsplib import format_tour, looks_like_tsplib, parse_tsplib

if TYPE_CHECKING:
    from ..plots import Frame

ENDINGS = (".tour", ".csv", ".json", ".txt")
IMAGES = (".png", ".svg", ".pdf")
_MARKS = ("\t", ";", ",")
"""What may separate the cells of a line."""
_NUMBERED, _NAMED = "# numbers from 0", "# names"
"""First lines of a list that say what its items are, where names are numbers, too."""
_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
"""How cells begin that a spreadsheet takes for formulas, behind apostrophes or not."""

_WORDS = {"from", "to", "next", "before", "after", "successor", "row", "column"}
_WORDS |= {word for cls in SHIPPED.values() for word in (cls.row_words[0], cls.column_words[0])}
"""Words of which a header of fixed pairs is made."""
_TIMES = {"until", "busy", "busy until", "time", "free", "free from", "available"}


def read_solution(source: str | Path, instance: Instance) -> NDArray[np.int64]:
    """Return the choice (rows,) that a solution file makes for an instance; it may still be infeasible.

    Raises
    ------
    InputError
        If the file cannot be read as a solution of this instance: wrong length, unknown items, not a tour.
    """
    name = "stdin" if str(source) == "-" else str(source)
    text = decode_text(read_bytes(source), name)
    try:
        return choice_of(_items(text, name, instance), instance)
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(f"{name}:") else f"{name}: {message}") from None


def choice_of(items: Sequence[int], instance: Instance) -> NDArray[np.int64]:
    """Return the choice (rows,) of a solution as people write it, checked for length and range."""
    problem = instance.problem
    size = problem.size(instance.batch())
    rows, columns = problem.named(size)
    columns = rows if problem.solution_is_tour else columns
    if len(items) != rows:
        raise InputError(f"the solution has {len(items)} entries where the instance needs {rows}")
    for place, item in enumerate(items, 1):
        if not 0 <= item < columns:
            raise InputError(f"entry {place} of the solution is {item}; it must be from 0 to {columns - 1}")
    seen = Counter(items)
    if problem.solution_is_tour and len(seen) < rows:
        (twice, _), *_ = seen.most_common(1)
        missing = next(item for item in range(rows) if item not in seen)
        named = [shorten(label) for label in instance.item_labels([twice, missing])]
        word = problem.row_words[0]
        raise InputError(
            f"every {word} must be named exactly once; {named[0]} is named more than once and {named[1]} is missing"
        )
    choice = instance.choice([int(item) for item in items])
    needed = problem.shape(size)[0]
    if choice.shape != (needed,):
        raise InputError(f"the solution makes {choice.size} choices where the instance needs {needed}")
    return choice


def write_solution(path: str | Path, instance: Instance, choice: NDArray[np.int64]) -> None:
    """Write a solution: `.tour` (TSPLIB), `.csv` (one item a line, with names), `.json` or `.txt` (a list).

    The file is written whole or not at all.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"{path}: a solution is written as {', '.join(ENDINGS)}, not '{ending}'")
    items = instance.solution(choice)
    if ending == ".tour":
        if not instance.problem.solution_is_tour:
            raise UsageError(f"{path}: a '{instance.problem.name}' solution is not a tour; write .csv instead")
        content = format_tour(items, path.stem)
    elif ending == ".csv":
        content = _table(items, instance, choice)
    elif ending == ".json":
        content = json.dumps(items) + "\n"
    else:
        content = _NUMBERED + "\n" if any(map(_is_number, instance.items or ())) else ""
        content += "\n".join(map(str, items)) + "\n"
    write_atomically(path, content)


def _table(items: list[int], instance: Instance, choice: NDArray[np.int64]) -> str:
    """Write a line for each entry of a solution: its position or its row, its column, and when it is done."""
    places = [str(place) for place in range(len(items))]
    if not instance.problem.solution_is_tour:
        places = list(map(guarded, instance.row_labels(range(len(items)))))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    header, times = _times(instance, choice)
    writer.writerow([*instance.problem.solution_header(), *header])
    writer.writerows(zip(places, map(guarded, instance.item_labels(items)), *times, strict=True))
    return buffer.getvalue()


def guarded(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: behind an apostrophe, which `_index` knows."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguarded(cell: str) -> str:
    """Return a cell of a table without what keeps spreadsheets from computing it."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _times(instance: Instance, choice: NDArray[np.int64]) -> tuple[list[str], list[list[Any]]]:
    """Return the columns of a table that say when things are done; one for each machine where they differ there."""
    header: list[str] = []
    columns: list[list[Any]] = []
    for word, values in instance.problem.timetable(instance, choice).items():
        if isinstance(values[0], list):
            header += [f"{word} {label}" for label in instance.column_labels(range(len(values[0])))]
            columns += [list(column) for column in zip(*values, strict=True)]
        else:
            header.append(word)
            columns.append(values)
    return header, columns


def _items(text: str, name: str, instance: Instance) -> list[int]:
    """Return the items of a solution file as numbers from 0."""
    if looks_like_tsplib(text):
        tour = parse_tsplib(text, name).tour
        if tour is None:
            raise InputError(f"{name}: this is an instance, not a tour")
        return tour
    if text.lstrip()[:1] in ("[", "{"):
        return _items_of_json(parse_json(text, name), name, instance)
    names = {*_index(instance.items), *_index(instance.rows)}
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not (line.lstrip().startswith("#") and _first_cell(line) not in names)
    ]
    if not lines:
        raise InputError(f"{name}: the file is empty")
    for mark in _MARKS:
        header = tuple(cell.strip().lower() for cell in _cells(lines[0][1], mark))
        if _is_header(header, instance):
            rows = [(number, [cell.strip() for cell in _cells(line, mark)]) for number, line in lines[1:]]
            return _items_of_table(rows, name, instance, len(header))
    cells = _listed([line.strip() for _, line in lines], instance)
    first = text.split("\n", 1)[0].strip()
    if first == _NUMBERED:
        return _numbers(cells, None, name)
    if first != _NAMED:
        _refuse_two_readings(cells, instance, name)
    return _numbers(cells, instance.items, name)


def _first_cell(line: str) -> str:
    """Return what a line begins with, as names are compared."""
    mark = next((mark for mark in _MARKS if mark in line), "\n")
    return visible(tidy(_cells(line, mark)[0].strip()))


def _refuse_two_readings(cells: list[str], instance: Instance, name: str) -> None:
    """Refuse a list of numbers that are all names of this instance, and mean something else as numbers."""
    index = _index(instance.items)
    keys = [visible(tidy(cell)) for cell in cells]
    if not all(_is_number(cell) and key in index for cell, key in zip(cells, keys, strict=True)):
        return
    as_numbers = [int(cell) for cell in cells]
    if as_numbers == [index[key] for key in keys] or not all(
        0 <= item < len(instance.items or ()) for item in as_numbers
    ):
        return
    if instance.problem.solution_is_tour and len(set(as_numbers)) < len(as_numbers):
        return
    raise InputError(
        f"{name}: {shorten(cells[0])} may be a name or a number from 0; "
        f"begin the file with a line '{_NAMED}' or '{_NUMBERED}'"
    )


def _is_header(words: tuple[str, ...], instance: Instance) -> bool:
    """Tell whether some words, in small letters, stand above a table as `_table` writes it."""
    problems = (instance.problem, *(cls() for cls in BUILT_IN.values()))
    mine, *others = [tuple(word.lower() for word in problem.solution_header()) for problem in problems]
    # a table of a sequence says beside each job when it is done
    return words in (mine, *others) or (len(words) > 2 and words[:2] == mine)


def _listed(lines: list[str], instance: Instance) -> list[str]:
    """Return the items of a file that only lists them: one a line, or between marks or blanks."""
    names = _index(instance.items)
    word = instance.problem.solution_header()[1].lower()
    if len(lines) > 1 and lines[0].lower() == word and visible(tidy(lines[0])) not in names:
        lines = lines[1:]  # one column, and what it holds above it
    if all(visible(tidy(line)) in names for line in lines):
        return lines  # names, perhaps with blanks and marks in them
    if any(" " in line and visible(tidy(line)) in names for line in lines):
        return lines
    separator = next((mark for mark in _MARKS if any(mark in line for line in lines)), None)
    return [cell.strip() for line in lines for cell in line.split(separator) if cell.strip()]


def _cells(line: str, mark: str) -> list[str]:
    return next(csv.reader([line.strip(" ")], delimiter=mark, skipinitialspace=True))


def _items_of_table(rows: list[tuple[int, list[str]]], name: str, instance: Instance, width: int) -> list[int]:
    """Read what `_table` writes, in any order of its lines, which come with their numbers."""
    problem = instance.problem
    for number, row in rows:
        if len(row) != width:
            cell_count = "two cells" if width == 2 else f"{width} cells"
            raise InputError(f"{name}: line {number} must have {cell_count}, got {len(row)}")
    keys = _numbers([row[0] for _, row in rows], None if problem.solution_is_tour else instance.rows, name)
    values = _numbers([row[1] for _, row in rows], instance.items, name)
    word = problem.solution_header()[0]
    ordered: dict[int, int] = {}
    for (number, row), key, value in zip(rows, keys, values, strict=True):
        if key in ordered:
            raise InputError(
                f"{name}: line {number} names {word} {shorten(row[0])} again; every {word} must be named exactly once"
            )
        ordered[key] = value
    needed = problem.named(problem.size(instance.batch()))[0]
    beyond = [key for key in sorted(ordered, reverse=True) if not 0 <= key < needed]
    if beyond:
        raise InputError(f"{name}: there is no {word} {beyond[0]}; they count from 0 to {needed - 1}")
    missing = next((key for key in range(needed) if key not in ordered), None)
    if missing is not None:
        label = str(missing) if problem.solution_is_tour else instance.row_labels([missing])[0]
        raise InputError(f"{name}: {word} {shorten(label)} is missing; every {word} must be named exactly once")
    return [ordered[key] for key in range(needed)]


def _items_of_json(documents: list[Any], name: str, instance: Instance) -> list[int]:
    """Find the solution of this instance among the documents of a JSON file."""
    if len(documents) == 1:
        document = documents[0]
    else:
        mine = [d for d in documents if isinstance(d, dict) and d.get("instance") == instance.name]
        if len(mine) != 1:
            raise InputError(f"{name}: {len(mine) or 'none'} of the {len(documents)} lines is for {instance.name}")
        document = mine[0]
    if isinstance(document, dict):
        solved = document.get("problem", instance.problem.name)
        if solved != instance.problem.name:
            raise InputError(f"{name}: this solves {shorten(str(solved))}, not '{instance.problem.name}'")
        document = document.get("solution")
    if not isinstance(document, list):
        raise InputError(f"{name}: there is no list of items in it")
    if all(isinstance(item, str) for item in document):
        return _numbers(document, instance.items, name)
    for place, item in enumerate(document, 1):
        if isinstance(item, bool) or not isinstance(item, int):
            raise InputError(f"{name}: entry {place} of the solution is not a whole number")
    return document


def _index(names: Names | None) -> dict[str, int]:
    labels = [visible(tidy(label)) for label in names or ()]
    return {label: i for i, label in enumerate(labels)} | {guarded(label): i for i, label in enumerate(labels)}


def _numbers(cells: list[str], names: Names | None, name: str) -> list[int]:
    """Turn names, or numbers from 0, into numbers; names win where every cell is one."""
    index = _index(names)
    in_index = [visible(tidy(cell)) in index for cell in cells]
    if names is not None and all(in_index):
        return [index[visible(tidy(cell))] for cell in cells]
    whole = [_is_number(cell) for cell in cells]
    strange = [cell for cell, is_name, is_number in zip(cells, in_index, whole, strict=True) if not is_name | is_number]
    if strange:
        raise InputError(f"{name}: {_neither(strange[0], names)}")
    if not all(whole):
        named, number = cells[whole.index(False)], cells[in_index.index(False)]
        raise InputError(
            f"{name}: {shorten(named)} is a name and {shorten(number)} is none; use names or numbers from 0"
        )
    return [int(cell) for cell in cells]


def _is_number(cell: str) -> bool:
    digits = cell.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18


def _neither(cell: str, names: Names | None) -> str:
    """Say that a cell is neither a number nor a name, and which name is like it."""
    if names is None:
        return f"{shorten(cell)} is neither a number nor a name"
    alike = get_close_matches(cell.lower(), [label.lower() for label in names], 1, 0.8)
    like = next((label for label in names if alike and label.lower() == alike[0]), None)
    return f"{shorten(cell)} is neither a number nor a name of this instance" + (
        "" if like is None else f"; {shorten(like)} is one"
    )


def save_solution(path: str | Path, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> None:
    """Draw a solution as its problem does (`Problem.draw_solution`) and write the picture.

    Tours are drawn on their map beside the matrix in the tour's order, schedules as a Gantt chart, anything
    else as frames on its matrix unless it has a picture of its own.

    Parameters
    ----------
    path : the file, with one of the endings `IMAGES`.
    instance : what is solved.
    choice : (rows,), the column of each row.
    bound : a proven lower bound on the cost, where one is known.
    """
    path = Path(path)
    ending = path.suffix.lower()
    buffer = io.BytesIO()
    # a date inside the file would make two equal pictures differ
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(ending)
    figure = instance.problem.draw_solution(instance, choice, bound)
    figure.savefig(buffer, format=ending[1:], dpi=150, metadata=metadata)
    write_atomically(path, buffer.getvalue())


def save_animation(
    path: str | Path,
    frames: "Sequence[Frame]",
    *,
    order: Sequence[int] | NDArray[np.int64] | None = None,
    final: NDArray[Any] | None = None,
    seconds: float = 6.0,
) -> None:
    """Write the moments of a trajectory as a GIF; the parameters are those of `icdc.plots.animate`."""
    from ..plots import animate

    if not frames:
        raise UsageError(f"{path}: there is no step to animate")
    write_atomically(path, animate(frames, order=order, final=final, seconds=seconds))


def read_pairs(source: str | Path) -> list[tuple[str | int, str | int]]:
    """Return the pairs of a file: a table of two columns, with or without a header, or JSON, an object or a list.

    Raises
    ------
    InputError
        If a line is no pair; the sentence names the file and the line.
    """
    name, text = _condition_text(source)
    if text.lstrip()[:1] in ("[", "{"):
        return _pairs_of_json(text, name)
    pairs: list[tuple[str | int, str | int]] = []
    for number, cells in rows_of(text, name)[0]:
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
    name, text = _condition_text(source)
    if text.lstrip()[:1] in ("[", "{"):
        return _times_of_json(text, name)
    times: dict[str | int, Number] = {}
    listed: list[Number] = []
    rows, separator = rows_of(text, name)
    style = style_of(((cells[-1], f"{name}: line {number}") for number, cells in rows), separator, decimal)
    for number, cells in rows:
        if len(cells) not in (1, 2) or (listed and len(cells) == 2) or (times and len(cells) == 1):
            raise InputError(f"{name}: line {number} must have a machine and a time, as the others")
        if number == 1 and cells[-1].lower() in _TIMES:
            continue
        try:
            time = read_number(cells[-1], style)
        except InputError as error:
            raise InputError(f"{name}: line {number}: {error}") from None
        if len(cells) == 1:
            listed.append(time)
        elif cells[0] in times:
            raise InputError(f"{name}: line {number} names {shorten(cells[0])} again")
        else:
            times[cells[0]] = time
    if not times and not listed:
        raise InputError(f"{name}: there are no times in it")
    return times or listed


def _condition_text(source: str | Path) -> tuple[str, str]:
    name = "stdin" if str(source) == "-" else str(source)
    text = decode_text(read_bytes(source), name)
    if not text.strip():
        raise InputError(f"{name}: the file is empty")
    return name, text


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
