"""What a file says, before anybody has decided which problem it is."""

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from ..errors import InputError
from .cells import number_array
from .tables import Names, parse_table
from .tsplib import parse_tsplib

BARE = ""
"""The name of an array that came without one: just a matrix."""


@dataclass(frozen=True)
class Draft:
    """One instance as it was found.

    name : where it came from, for messages and answers.
    arrays : named arrays of one instance, or one array named `BARE`; there may be more than a problem needs.
    problem : the problem's name, where the file says it.
    rows, columns : names of the items, where the file has any.
    blank_diagonal : the diagonal was left out, as only a matrix of distances has it.
    """

    name: str
    arrays: dict[str, NDArray[Any]]
    problem: str | None = None
    rows: Names | None = None
    columns: Names | None = None
    blank_diagonal: bool = False


def draft_of_table(text: str, name: str) -> list[Draft]:
    """Return the one instance of a CSV or TSV file."""
    table = parse_table(text, name)
    return [Draft(name, {BARE: table.values}, None, table.rows, table.columns, table.blank_diagonal)]


def draft_of_tsplib(text: str, name: str) -> list[Draft]:
    """Return the one instance of a TSPLIB file; symmetric ones are tours all the same."""
    file = parse_tsplib(text, name)
    if file.matrix is None:
        raise InputError(f"{name}: this is a tour, not an instance")
    arrays = {"distances": file.matrix}
    if file.coordinates is not None:
        arrays["coordinates"] = file.coordinates
    return [Draft(name, arrays, "atsp")]


def split_batch(draft: Draft, count: int) -> list[Draft]:
    """Cut arrays with a leading count axis into one draft for each instance, numbered from 0."""
    if count == 1:
        return [replace(draft, arrays={key: array[0] for key, array in draft.arrays.items()})]
    return [
        replace(draft, name=f"{draft.name}[{i}]", arrays={key: array[i] for key, array in draft.arrays.items()})
        for i in range(count)
    ]


def checked_arrays(arrays: dict[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    """Check that arrays from a binary file hold numbers of a computable size."""
    return {
        key: number_array(array, f"{name}: the array '{key}'" if key else f"{name}: the array")
        for key, array in arrays.items()
    }
