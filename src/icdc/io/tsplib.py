"""TSPLIB files: `.atsp` and `.tsp` instances, `.tour` solutions.

Explicit matrices in every common layout, and the plane and globe metrics by their published formulas. What
would change the problem (fixed edges, capacities, other types) is refused rather than ignored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..problems import get_problem
from ..problems.forbidden import huge_numbers, why_impossible
from ..problems.instance import Instance, RawInstance
from .cells import LARGEST_GRID, Number, parse_number, shorten, to_array
from .points import Points, between, straight

_SECTIONS = {"NODE_COORD_SECTION", "EDGE_WEIGHT_SECTION", "DISPLAY_DATA_SECTION", "TOUR_SECTION"}
_TYPES = ("TSP", "ATSP", "TOUR")
_PROBLEM = "atsp"  # what the types TSP and ATSP are called here
_LARGEST_DIMENSION = 10_000  # a full matrix of so many cities takes 800 MB
_LARGEST_COORDINATE = 1e12


@dataclass(frozen=True)
class TsplibFile:
    """What a TSPLIB file says.

    matrix : (n, n), present for an instance.
    coordinates : (n, 2) float64, where the file has any, for drawing.
    tour : 0-based cities in visiting order, present for a tour.
    layout : how the distances were given, in the format's own words.
    """

    name: str | None = None
    matrix: NDArray[Any] | None = None
    coordinates: NDArray[np.float64] | None = None
    tour: list[int] | None = None
    layout: str = ""


class _Line(NamedTuple):
    """A line of a section; a large one has millions of words, and as one text they take a tenth of the memory."""

    text: str
    number: int


def looks_like_tsplib(text: str) -> bool:
    """Tell whether text begins with a TSPLIB keyword."""
    keys = {"NAME", "TYPE", "COMMENT", "DIMENSION", "EDGE_WEIGHT_TYPE", "EDGE_WEIGHT_FORMAT", *_SECTIONS}
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line), "")
    return first.split(":")[0].strip().upper() in keys


def parse_tsplib(text: str, name: str) -> TsplibFile:
    """Read a TSPLIB file; raise InputError naming `name` and the line."""
    header, sections = _scan(text, name)
    kind = (header.get("TYPE", "").upper().split() or ["TOUR" if "TOUR_SECTION" in sections else "TSP"])[0]
    if kind not in _TYPES:
        raise InputError(f"{name}: TYPE {shorten(kind)} is not supported ({', '.join(_TYPES)} are)")
    title = header.get("NAME")
    if kind == "TOUR":
        return TsplibFile(name=title, tour=_tour(sections, header, name))
    size = _dimension(header, name)
    if "NODE_COORD_SECTION" in sections:
        coordinates = _coordinates(sections["NODE_COORD_SECTION"], size, f"{name}: NODE_COORD_SECTION")
    elif "DISPLAY_DATA_SECTION" in sections:
        coordinates = _coordinates(sections["DISPLAY_DATA_SECTION"], size, f"{name}: DISPLAY_DATA_SECTION")
    else:
        coordinates = None
    metric = header.get("EDGE_WEIGHT_TYPE", "EXPLICIT" if "EDGE_WEIGHT_SECTION" in sections else "").upper()
    if metric == "EXPLICIT":
        if "EDGE_WEIGHT_SECTION" not in sections:
            raise InputError(f"{name}: there is no EDGE_WEIGHT_SECTION")
        layout = header.get("EDGE_WEIGHT_FORMAT", "FULL_MATRIX").upper()
        matrix = _explicit(sections["EDGE_WEIGHT_SECTION"], layout, size, name)
        note = f"TSPLIB {layout}"
    elif metric in _METRICS:
        if coordinates is None or "NODE_COORD_SECTION" not in sections:
            raise InputError(f"{name}: EDGE_WEIGHT_TYPE {metric} needs a NODE_COORD_SECTION")
        matrix = between(coordinates, _METRICS[metric])
        note = f"TSPLIB {metric}"
    else:
        choices = ", ".join(["EXPLICIT", *_METRICS])
        raise InputError(f"{name}: EDGE_WEIGHT_TYPE {shorten(metric)} is not supported ({choices} are)")
    return TsplibFile(name=title, matrix=matrix, coordinates=coordinates, layout=note)


def raw_from_tsplib(text: str, name: str) -> RawInstance:
    """Return the one instance of a TSPLIB file; symmetric ones are tours all the same."""
    file = parse_tsplib(text, name)
    if file.matrix is None:
        raise InputError(f"{name}: this is a tour, not an instance")
    arrays, notes = {"distances": file.matrix}, [file.layout]
    huge = huge_numbers(file.matrix, ignore_diagonal=True)
    if huge is not None:
        number = file.matrix[huge][0]
        probe = Instance(name, get_problem(_PROBLEM), arrays, forbidden=huge)
        if why_impossible(probe) is None:
            notes.append(f"{number} is read as forbidden")
            arrays["distances"] = np.where(huge, 0, file.matrix)
        else:
            notes.append(f"{number} may mean forbidden, but no tour does without it")
            huge = None
    if file.coordinates is not None:
        arrays["coordinates"] = file.coordinates
    forbidden = None if huge is None else {"distances": huge}
    return RawInstance(name, arrays, _PROBLEM, forbidden=forbidden, notes=tuple(filter(None, notes)))


def format_tsplib(matrix: NDArray[Any], name: str) -> str:
    """Write a matrix of distances as a TSPLIB instance with a full matrix."""
    rows = "\n".join(" ".join(str(value) for value in row) for row in matrix.tolist())
    return (
        f"NAME: {name}\nTYPE: ATSP\nDIMENSION: {len(matrix)}\nEDGE_WEIGHT_TYPE: EXPLICIT\n"
        f"EDGE_WEIGHT_FORMAT: FULL_MATRIX\nEDGE_WEIGHT_SECTION\n{rows}\nEOF\n"
    )


def format_tour(tour: list[int], name: str, comment: str = "") -> str:
    """Write a tour of 0-based cities as a TSPLIB tour (which counts from 1)."""
    about = f"COMMENT: {comment}\n" if comment else ""
    cities = "\n".join(str(city + 1) for city in tour)
    return f"NAME: {name}\n{about}TYPE: TOUR\nDIMENSION: {len(tour)}\nTOUR_SECTION\n{cities}\n-1\nEOF\n"


def _scan(text: str, name: str) -> tuple[dict[str, str], dict[str, list[_Line]]]:
    """Cut a file into its header and the lines of its sections."""
    header: dict[str, str] = {}
    sections: dict[str, list[_Line]] = {}
    current: list[_Line] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line:
            continue
        if line.upper().rstrip(": ") == "EOF":
            break
        if line[0].isalpha():
            key, _, value = line.partition(":")
            key = key.strip().upper()
            current = None
            if key in _SECTIONS:
                current = sections.setdefault(key, [])
                current.append(_Line(value, number))
            elif key.endswith("_SECTION"):
                raise InputError(f"{name}: line {number}: {shorten(key)} is not supported")
            elif ":" not in line:
                raise InputError(f"{name}: line {number}: {shorten(line)} is neither a keyword nor a number")
            else:
                header[key] = value.strip()
        elif current is None:
            raise InputError(f"{name}: line {number}: {shorten(line)} is outside every section")
        else:
            current.append(_Line(line, number))
    return header, sections


def _dimension(header: dict[str, str], name: str) -> int:
    """Return the number of cities."""
    text = header.get("DIMENSION", "")
    if not (text.isascii() and text.isdigit()) or not 1 <= len(text) <= 7 or int(text) < 1:
        raise InputError(f"{name}: DIMENSION must be a whole number of cities, got {shorten(text)}")
    if int(text) > _LARGEST_DIMENSION:
        raise InputError(f"{name}: DIMENSION {text} is more than the {_LARGEST_DIMENSION} cities that can be read")
    return int(text)


def _numbers(lines: list[_Line], where: str) -> list[Number]:
    """Parse the numbers of a section."""
    values: list[Number] = []
    for line in lines:
        if len(values) > LARGEST_GRID:
            raise InputError(f"{where}: it holds more than {LARGEST_GRID} numbers; write the matrix as .npy")
        for word in line.text.split():
            try:
                values.append(parse_number(word))
            except InputError as error:
                raise InputError(f"{where}: line {line.number}: {error}") from None
    return values


def _coordinates(lines: list[_Line], size: int, where: str) -> NDArray[np.float64]:
    """Return the points (n, 2) of a section of lines "city x y"."""
    values = _numbers(lines, where)
    if len(values) != 3 * size:
        raise InputError(f"{where} must hold {size} lines of a city, x and y, got {len(values)} numbers")
    table = np.array(values, dtype=np.float64).reshape(size, 3)
    order = table[:, 0]
    if sorted(order.tolist()) != list(range(1, size + 1)):
        raise InputError(f"{where} must name every city from 1 to {size} once")
    if np.abs(table).max() > _LARGEST_COORDINATE:
        raise InputError(f"{where} holds a coordinate that is too large")
    return table[np.argsort(order), 1:]


def _explicit(lines: list[_Line], layout: str, size: int, name: str) -> NDArray[Any]:
    """Fill a matrix from the numbers of an EDGE_WEIGHT_SECTION."""
    full = layout == "FULL_MATRIX"
    if not full and layout not in _HALVES:
        choices = ", ".join(["FULL_MATRIX", *_HALVES])
        raise InputError(f"{name}: EDGE_WEIGHT_FORMAT {shorten(layout)} is not supported ({choices} are)")
    values = _numbers(lines, f"{name}: EDGE_WEIGHT_SECTION")
    diagonal = size if "DIAG" in layout else 0
    needed = size * size if full else size * (size - 1) // 2 + diagonal
    if len(values) != needed:
        raise InputError(
            f"{name}: EDGE_WEIGHT_SECTION must hold {needed} numbers for {size} cities in {layout}, got {len(values)}"
        )
    flat = to_array([values])[0]
    if full:
        return np.asarray(flat.reshape(size, size))
    half, offset = _HALVES[layout]
    matrix = np.zeros((size, size), dtype=flat.dtype)
    rows, columns = half(size, offset)
    matrix[rows, columns] = matrix[columns, rows] = flat
    return matrix


def _tour(sections: dict[str, list[_Line]], header: dict[str, str], name: str) -> list[int]:
    """Return the 0-based cities of a TOUR_SECTION."""
    if "TOUR_SECTION" not in sections:
        raise InputError(f"{name}: there is no TOUR_SECTION")
    tour = []
    words = ((word, line.number) for line in sections["TOUR_SECTION"] for word in line.text.split())
    for word, number in words:
        if word == "-1":
            break
        if not (word.isascii() and word.isdigit()) or not 1 <= len(word) <= 9 or int(word) < 1:
            raise InputError(f"{name}: line {number}: {shorten(word)} is not a city (they count from 1)")
        tour.append(int(word) - 1)
    if "DIMENSION" in header and len(tour) != _dimension(header, name):
        raise InputError(f"{name}: the tour has {len(tour)} cities where DIMENSION says {header['DIMENSION']}")
    if not tour:
        raise InputError(f"{name}: the tour is empty")
    return tour


# Which half of a symmetric matrix a layout lists, and from which diagonal on. Mirrored, the columns of one
# half are the rows of the other.
_HALVES: dict[str, tuple[Callable[..., Any], int]] = {
    "UPPER_ROW": (np.triu_indices, 1),
    "LOWER_ROW": (np.tril_indices, -1),
    "UPPER_DIAG_ROW": (np.triu_indices, 0),
    "LOWER_DIAG_ROW": (np.tril_indices, 0),
    "UPPER_COL": (np.tril_indices, -1),
    "LOWER_COL": (np.triu_indices, 1),
    "UPPER_DIAG_COL": (np.tril_indices, 0),
    "LOWER_DIAG_COL": (np.triu_indices, 0),
}


def _differences(here: Points, there: Points) -> tuple[Points, Points]:
    """Return |x_i − x_j| and |y_i − y_j|."""
    apart = np.abs(here - there)
    return apart[..., 0], apart[..., 1]


def _nearest(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round halves up, as TSPLIB does."""
    return np.floor(values + 0.5).astype(np.int64)


def _att(here: Points, there: Points) -> NDArray[np.int64]:
    """Pseudo-Euclidean distances: √(d²/10), rounded up."""
    x, y = _differences(here, there)
    real = np.sqrt((x * x + y * y) / 10.0)
    rounded = _nearest(real)
    return rounded + (rounded < real)


def _geo(here: Points, there: Points) -> NDArray[np.int64]:
    """Kilometres on the globe, from degrees and minutes written as DDD.MM, with TSPLIB's own π and radius."""
    (latitude, longitude), (other_latitude, other_longitude) = _radians(here), _radians(there)
    q1 = np.cos(longitude - other_longitude)
    q2 = np.cos(latitude - other_latitude)
    q3 = np.cos(latitude + other_latitude)
    cosine = np.clip(0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3), -1.0, 1.0)
    return np.trunc(6378.388 * np.arccos(cosine) + 1.0).astype(np.int64)


def _radians(points: Points) -> tuple[Points, Points]:
    """Return latitudes and longitudes in radians."""
    degrees = np.trunc(points)
    radians = 3.141592 * (degrees + 5.0 * (points - degrees) / 3.0) / 180.0
    return radians[..., 0], radians[..., 1]


_METRICS: dict[str, Callable[[Points, Points], NDArray[np.int64]]] = {
    "EUC_2D": lambda here, there: _nearest(straight(here, there)),
    "CEIL_2D": lambda here, there: np.ceil(straight(here, there)).astype(np.int64),
    "MAN_2D": lambda here, there: _nearest(np.add(*_differences(here, there))),
    "MAX_2D": lambda here, there: _nearest(np.maximum(*_differences(here, there))),
    "ATT": _att,
    "GEO": _geo,
}
