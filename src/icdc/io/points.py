"""Tables of points: recognised by the names of their columns, and turned into distances where that is asked for."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..problems.instance import Names, RawInstance
from .cells import Metric, shorten

Points = NDArray[np.float64]
EARTH = 6371.0088
"""Mean radius of the earth in kilometres."""
LARGEST_SET = 10_000
"""Points whose distances fit into memory: a matrix of so many takes 800 MB."""
_BLOCK = 256
"""Rows of the matrix that are computed at once."""

_X, _Y = frozenset(["x", "easting", "rechtswert"]), frozenset(["y", "northing", "hochwert"])
_LATITUDE = frozenset(["lat", "latitude", "breite", "breitengrad", "latitud"])
_LONGITUDE = frozenset(["lon", "lng", "long", "longitude", "länge", "längengrad", "longitud"])
_BESIDE = frozenset(["coord", "coordinate", "coordinates", "koordinate", "pos", "position", "in", "km", "m", "mi"])
_BESIDE |= {"miles", "meter", "meters", "deg", "degrees"}
"""Words that may stand beside the word for a coordinate, in its column's name."""


def coordinate_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that hold coordinates by their names: x and y, or latitude and longitude; () if none do.

    Latitude and longitude are known among all other columns; x and y not among other letters, since machines are called
    so, too.
    """
    latitude, longitude = _called(columns, _LATITUDE), _called(columns, _LONGITUDE)
    if latitude is not None and longitude is not None:
        return latitude, longitude
    x, y = _called(columns, _X), _called(columns, _Y)
    others = [column for column in columns if column not in (x, y)]
    return (x, y) if x is not None and y is not None and not any(len(column) == 1 for column in others) else ()


def _called(columns: Sequence[str], words: frozenset[str]) -> str | None:
    """Return the first column that is called by one of some words, with or without a unit and the like."""
    for column in columns:
        parts = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column))
        rest = {part.casefold() for part in parts} - words
        joined = "".join(parts).casefold()
        if len(parts) > len(rest) and rest <= _BESIDE:
            return column
        if any(joined in (word + beside, beside + word) for word in words for beside in _BESIDE):
            return column
    return None


def raw_from_points(
    points: NDArray[Any],
    forbidden: NDArray[np.bool_] | None,
    columns: Names | None,
    metric: str,
    name: str,
    rows: Names | None,
    notes: Sequence[str],
) -> RawInstance:
    """Return an instance whose matrix are the distances between points (n, 2).

    columns : what the columns of the points are called; without names they are x and y, or latitude and longitude.
    """
    if points.ndim != 2 or points.shape[1] != 2:
        shape = " × ".join(map(str, points.shape))
        others = "" if columns is None else f": {', '.join(map(shorten, columns[:8]))}"
        raise InputError(f"{name}: points are a table of two columns of numbers, got {shape}{others}")
    if forbidden is not None and forbidden.any():
        row, column = np.argwhere(forbidden)[0]
        raise InputError(f"{name}: point {row + 1} has no number in column {column + 1} of its coordinates")
    if len(points) > LARGEST_SET:
        raise InputError(f"{name}: distances between more than {LARGEST_SET} points do not fit into memory")
    points = points.astype(np.float64)
    pair = coordinate_columns(columns) if columns is not None else ()
    turned = columns is not None and bool(pair) and pair[0] != columns[0]
    if metric == "geo" and pair and not _called(pair, _LATITUDE):
        turned = not turned  # x is drawn to the right, as longitude is
    if turned:
        points = points[:, ::-1]
    distances = distances_between(points, metric, name)  # type: ignore[arg-type]
    words = "straight lines between points"
    if metric == "geo":
        first, second = ("longitude", "latitude") if turned else ("latitude", "longitude")
        words = f"kilometres on the globe between points of {first} and {second}, in this order"
    map_points = points[:, ::-1] if metric == "geo" else points  # drawn with longitude to the right
    return RawInstance(
        name,
        {"distances": distances, "coordinates": np.ascontiguousarray(map_points)},
        "atsp",
        rows,
        rows,
        notes=(*notes, words),
    )


def distances_between(points: Points, metric: Metric, name: str) -> Points:
    """Return distances (n, n) between points (n, 2): in their own unit, or in kilometres from degrees."""
    if metric == "geo":
        for column, limit, word in ((0, 90.0, "latitude"), (1, 180.0, "longitude")):
            wrong = np.flatnonzero(np.abs(points[:, column]) > limit)
            if len(wrong):
                value = points[wrong[0], column]
                raise InputError(f"{name}: point {wrong[0] + 1} has the {word} {value:g}; it must be within ±{limit:g}")
    return between(points, straight if metric == "euclidean" else _great_circle)


def between(points: Points, metric: Callable[[Points, Points], NDArray[Any]]) -> NDArray[Any]:
    """Return the distances (n, n) between points (n, 2) by a metric between some of them and all."""
    distances = np.empty((len(points), len(points)), dtype=metric(points[:1], points[:1]).dtype)
    for begin in range(0, len(points), _BLOCK):
        distances[begin : begin + _BLOCK] = metric(points[begin : begin + _BLOCK, None], points[None])
    np.fill_diagonal(distances, 0)
    return distances


def straight(here: Points, there: Points) -> Points:
    """Return the lengths of straight lines."""
    return np.asarray(np.hypot(here[..., 0] - there[..., 0], here[..., 1] - there[..., 1]))


def _great_circle(block: Points, points: Points) -> Points:
    """Return kilometres by the haversine formula, which keeps its digits for points close together."""
    here, there = np.radians(block), np.radians(points)
    half = np.sin((here[..., 0] - there[..., 0]) / 2) ** 2
    half = half + np.cos(here[..., 0]) * np.cos(there[..., 0]) * np.sin((here[..., 1] - there[..., 1]) / 2) ** 2
    return np.asarray(2 * EARTH * np.arcsin(np.sqrt(np.clip(half, 0.0, 1.0))))
