"""Solutions in files: read anybody's, write ours.

A solution is read from a TSPLIB tour, from JSON (a list, or the object that `icdc solve --json` prints), from
a table as `write_solution` makes it ("job,machine", "position,city"), or from plain words: numbers that count
from 0, or the names the instance came with.
"""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError, visible
from ..problems.instance import Instance, Names
from ..problems.registry import BUILT_IN
from .documents import parse_json
from .files import decode_text, read_bytes, write_atomically
from .numbers import shorten
from .raw import tidy
from .tsplib import format_tour, looks_like_tsplib, parse_tsplib

ENDINGS = (".tour", ".csv", ".json", ".txt")


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
        content = "\n".join(map(str, items)) + "\n"
    write_atomically(path, content)


def _table(items: list[int], instance: Instance, choice: NDArray[np.int64]) -> str:
    """Write a line for each entry of a solution: its position or its row, its column, and when it is done."""
    places = [str(place) for place in range(len(items))]
    if not instance.problem.solution_is_tour:
        places = instance.row_labels(range(len(items)))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    header, times = _times(instance, choice)
    writer.writerow([*instance.problem.solution_header(), *header])
    writer.writerows(zip(places, instance.item_labels(items), *times, strict=True))
    return buffer.getvalue()


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
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError(f"{name}: the file is empty")
    header = tuple(cell.strip() for cell in lines[0].split(","))
    known = {problem.solution_header() for problem in (instance.problem, *(cls() for cls in BUILT_IN.values()))}
    # a table of a sequence says beside each job when it is done
    if header in known or (len(header) > 2 and header[:2] == instance.problem.solution_header()):
        return _items_of_table(lines[1:], name, instance, len(header))
    separator = next((s for s in ("\t", ";", ",") if any(s in line for line in lines)), None)
    cells = [cell.strip() for line in lines for cell in line.split(separator)]
    return _numbers([cell for cell in cells if cell], instance.items, name)


def _items_of_table(lines: list[str], name: str, instance: Instance, width: int) -> list[int]:
    """Read what `_table` writes, in any order of its lines."""
    problem = instance.problem
    pairs = list(csv.reader(lines))
    for line, pair in enumerate(pairs, 2):
        if len(pair) != width:
            wanted = "two cells" if width == 2 else f"{width} cells"
            raise InputError(f"{name}: line {line} must have {wanted}, got {len(pair)}")
    keys = _numbers([pair[0].strip() for pair in pairs], None if problem.solution_is_tour else instance.rows, name)
    values = _numbers([pair[1].strip() for pair in pairs], instance.items, name)
    if sorted(keys) != list(range(len(keys))):
        raise InputError(f"{name}: every {problem.solution_header()[0]} must be named exactly once")
    ordered = dict(zip(keys, values, strict=True))
    return [ordered[key] for key in range(len(keys))]


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
        said = document.get("problem", instance.problem.name)
        if said != instance.problem.name:
            raise InputError(f"{name}: this solves {shorten(str(said))}, not '{instance.problem.name}'")
        document = document.get("solution")
    if not isinstance(document, list):
        raise InputError(f"{name}: there is no list of items in it")
    if all(isinstance(item, str) for item in document):
        return _numbers(document, instance.items, name)
    for place, item in enumerate(document, 1):
        if isinstance(item, bool) or not isinstance(item, int):
            raise InputError(f"{name}: entry {place} of the solution is not a whole number")
    return document


def _numbers(cells: list[str], names: Names | None, name: str) -> list[int]:
    """Turn names, or numbers from 0, into numbers; names win where every cell is one."""
    index = {} if names is None else {visible(tidy(label)): i for i, label in enumerate(names)}
    if names is not None and all(visible(tidy(cell)) in index for cell in cells):
        return [index[visible(tidy(cell))] for cell in cells]
    items = []
    for cell in cells:
        digits = cell.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            known = "" if names is None else " of this instance"
            raise InputError(f"{name}: {shorten(cell)} is neither a number nor a name{known}")
        items.append(int(cell))
    return items
