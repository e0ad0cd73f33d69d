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
from .raw import Number, RawInstance, parse_number, shorten, to_array

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
    """

    name: str | None = None
    matrix: NDArray[Any] | None = None
    coordinates: NDArray[np.float64] | None = None
    tour: list[int] | None = None


class _Word(NamedTuple):
    text: str
    line: int


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
    elif metric in _METRICS:
        if coordinates is None or "NODE_COORD_SECTION" not in sections:
            raise InputError(f"{name}: EDGE_WEIGHT_TYPE {metric} needs a NODE_COORD_SECTION")
        matrix = _METRICS[metric](coordinates)
        np.fill_diagonal(matrix, 0)
    else:
        known = ", ".join(["EXPLICIT", *_METRICS])
        raise InputError(f"{name}: EDGE_WEIGHT_TYPE {shorten(metric)} is not supported ({known} are)")
    return TsplibFile(name=title, matrix=matrix, coordinates=coordinates)


def raw_from_tsplib(text: str, name: str) -> RawInstance:
    """Return the one instance of a TSPLIB file; symmetric ones are tours all the same."""
    file = parse_tsplib(text, name)
    if file.matrix is None:
        raise InputError(f"{name}: this is a tour, not an instance")
    arrays = {"distances": file.matrix}
    if file.coordinates is not None:
        arrays["coordinates"] = file.coordinates
    return RawInstance(name, arrays, _PROBLEM)


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


def _scan(text: str, name: str) -> tuple[dict[str, str], dict[str, list[_Word]]]:
    """Cut a file into its header and the words of its sections."""
    header: dict[str, str] = {}
    sections: dict[str, list[_Word]] = {}
    current: list[_Word] | None = None
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
                current += [_Word(word, number) for word in value.split()]
            elif key.endswith("_SECTION"):
                raise InputError(f"{name}: line {number}: {shorten(key)} is not supported")
            elif ":" not in line:
                raise InputError(f"{name}: line {number}: {shorten(line)} is neither a keyword nor a number")
            else:
                header[key] = value.strip()
        elif current is None:
            raise InputError(f"{name}: line {number}: {shorten(line)} is outside every section")
        else:
            current += [_Word(word, number) for word in line.split()]
    return header, sections


def _dimension(header: dict[str, str], name: str) -> int:
    """Return the number of cities."""
    text = header.get("DIMENSION", "")
    if not (text.isascii() and text.isdigit()) or not 1 <= len(text) <= 7 or int(text) < 1:
        raise InputError(f"{name}: DIMENSION must be a whole number of cities, got {shorten(text)}")
    if int(text) > _LARGEST_DIMENSION:
        raise InputError(f"{name}: DIMENSION {text} is more than the {_LARGEST_DIMENSION} cities that can be read")
    return int(text)


def _numbers(words: list[_Word], where: str) -> list[Number]:
    """Parse the words of a section."""
    values = []
    for word in words:
        try:
            values.append(parse_number(word.text))
        except InputError as error:
            raise InputError(f"{where}: line {word.line}: {error}") from None
    return values


def _coordinates(words: list[_Word], size: int, where: str) -> NDArray[np.float64]:
    """Return the points (n, 2) of a section of lines "city x y"."""
    values = _numbers(words, where)
    if len(values) != 3 * size:
        raise InputError(f"{where} must hold {size} lines of a city, x and y, got {len(values)} numbers")
    table = np.array(values, dtype=np.float64).reshape(size, 3)
    order = table[:, 0]
    if sorted(order.tolist()) != list(range(1, size + 1)):
        raise InputError(f"{where} must name every city from 1 to {size} once")
    if np.abs(table).max() > _LARGEST_COORDINATE:
        raise InputError(f"{where} holds a coordinate that is too large")
    return table[np.argsort(order), 1:]


def _explicit(words: list[_Word], layout: str, size: int, name: str) -> NDArray[Any]:
    """Fill a matrix from the numbers of an EDGE_WEIGHT_SECTION."""
    full = layout == "FULL_MATRIX"
    if not full and layout not in _HALVES:
        known = ", ".join(["FULL_MATRIX", *_HALVES])
        raise InputError(f"{name}: EDGE_WEIGHT_FORMAT {shorten(layout)} is not supported ({known} are)")
    values = _numbers(words, f"{name}: EDGE_WEIGHT_SECTION")
    diagonal = size if "DIAG" in layout else 0
    wanted = size * size if full else size * (size - 1) // 2 + diagonal
    if len(values) != wanted:
        raise InputError(
            f"{name}: EDGE_WEIGHT_SECTION must hold {wanted} numbers for {size} cities in {layout}, got {len(values)}"
        )
    flat = to_array([values])[0]
    if full:
        return np.asarray(flat.reshape(size, size))
    half, offset = _HALVES[layout]
    matrix = np.zeros((size, size), dtype=flat.dtype)
    rows, columns = half(size, offset)
    matrix[rows, columns] = matrix[columns, rows] = flat
    return matrix


def _tour(sections: dict[str, list[_Word]], header: dict[str, str], name: str) -> list[int]:
    """Return the 0-based cities of a TOUR_SECTION."""
    if "TOUR_SECTION" not in sections:
        raise InputError(f"{name}: there is no TOUR_SECTION")
    tour = []
    for word in sections["TOUR_SECTION"]:
        if word.text == "-1":
            break
        if not (word.text.isascii() and word.text.isdigit()) or not 1 <= len(word.text) <= 9 or int(word.text) < 1:
            raise InputError(f"{name}: line {word.line}: {shorten(word.text)} is not a city (they count from 1)")
        tour.append(int(word.text) - 1)
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


def _differences(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return |x_i − x_j| and |y_i − y_j|, (n, n) each."""
    apart = np.abs(points[:, None] - points[None])
    return apart[..., 0], apart[..., 1]


def _nearest(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round halves up, as TSPLIB does."""
    return np.floor(values + 0.5).astype(np.int64)


def _att(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Pseudo-Euclidean distances: √(d²/10), rounded up."""
    x, y = _differences(points)
    real = np.sqrt((x * x + y * y) / 10.0)
    rounded = _nearest(real)
    return rounded + (rounded < real)


def _geo(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Kilometres on the globe, from degrees and minutes written as DDD.MM, with TSPLIB's own π and radius."""
    degrees = np.trunc(points)
    radians = 3.141592 * (degrees + 5.0 * (points - degrees) / 3.0) / 180.0
    latitude, longitude = radians[:, 0], radians[:, 1]
    q1 = np.cos(longitude[:, None] - longitude)
    q2 = np.cos(latitude[:, None] - latitude)
    q3 = np.cos(latitude[:, None] + latitude)
    cosine = np.clip(0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3), -1.0, 1.0)
    return np.trunc(6378.388 * np.arccos(cosine) + 1.0).astype(np.int64)


_METRICS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.int64]]] = {
    "EUC_2D": lambda points: _nearest(np.hypot(*_differences(points))),
    "CEIL_2D": lambda points: np.ceil(np.hypot(*_differences(points))).astype(np.int64),
    "MAN_2D": lambda points: _nearest(np.add(*_differences(points))),
    "MAX_2D": lambda points: _nearest(np.maximum(*_differences(points))),
    "ATT": _att,
    "GEO": _geo,
}
