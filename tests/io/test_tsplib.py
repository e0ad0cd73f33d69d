"""TSPLIB: every layout and metric, tours, and a published optimum."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from icdc.errors import InputError
from icdc.io.tsplib import format_tour, format_tsplib, looks_like_tsplib, parse_tsplib

SYMMETRIC = [[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]]

# the 14 towns of burma14; its optimal tour is published as 3323
BURMA = """16.47 96.10 16.47 94.44 20.09 92.54 22.39 93.37 25.23 97.24 22.00 96.05 20.47 97.02
17.20 96.29 16.30 97.38 14.05 98.12 16.53 97.38 21.52 95.59 19.41 97.13 20.09 94.55"""


def explicit(layout: str, numbers: str, size: int = 4) -> str:
    return (
        f"NAME : tiny\nTYPE : TSP\nCOMMENT : made by hand\nDIMENSION : {size}\nEDGE_WEIGHT_TYPE : EXPLICIT\n"
        f"EDGE_WEIGHT_FORMAT : {layout}\nEDGE_WEIGHT_SECTION\n{numbers}\nEOF\n"
    )


def plane(metric: str, points: list[tuple[float, float]]) -> str:
    lines = "\n".join(f"{i} {x} {y}" for i, (x, y) in enumerate(points, 1))
    return f"TYPE: TSP\nDIMENSION: {len(points)}\nEDGE_WEIGHT_TYPE: {metric}\nNODE_COORD_SECTION\n{lines}\nEOF"


@pytest.mark.parametrize(
    ("layout", "numbers"),
    [
        ("FULL_MATRIX", "0 1 2 3 1 0 4 5\n2 4 0 6 3 5 6 0"),
        ("UPPER_ROW", "1 2 3\n4 5\n6"),
        ("LOWER_ROW", "1\n2 4\n3 5 6"),
        ("UPPER_DIAG_ROW", "0 1 2 3 0 4 5 0 6 0"),
        ("LOWER_DIAG_ROW", "0\n1 0\n2 4 0\n3 5 6 0"),
        ("UPPER_COL", "1 2 4 3 5 6"),
        ("LOWER_COL", "1 2 3 4 5 6"),
        ("UPPER_DIAG_COL", "0 1 0 2 4 0 3 5 6 0"),
        ("LOWER_DIAG_COL", "0 1 2 3 0 4 5 0 6 0"),
    ],
)
def test_layouts(layout: str, numbers: str) -> None:
    file = parse_tsplib(explicit(layout, numbers), "tiny.tsp")
    assert file.matrix is not None
    assert file.matrix.tolist() == SYMMETRIC
    assert file.matrix.dtype == np.int64
    assert file.name == "tiny"


@pytest.mark.parametrize(
    ("metric", "distance"),
    [("EUC_2D", 3), ("CEIL_2D", 4), ("MAN_2D", 5), ("MAX_2D", 3), ("ATT", 2)],
)
def test_metrics(metric: str, distance: int) -> None:
    file = parse_tsplib(plane(metric, [(1, 1), (4, 2.6)]), "p.tsp")  # 3 right, 1.6 up: 3.4 as the crow flies
    assert file.matrix is not None
    assert file.matrix.tolist() == [[0, distance], [distance, 0]]
    assert file.coordinates is not None
    assert file.coordinates.tolist() == [[1, 1], [4, 2.6]]


@pytest.mark.parametrize(
    ("metric", "places", "distances"),
    [
        # nint(x) = ⌊x + ½⌋: halves go up, whether the whole number below is even or odd
        ("EUC_2D", [(0, 0.5), (0, 1.5), (1.5, 2), (0, 3.5), (0, 2.25), (0, 2.75)], [1, 2, 3, 4, 2, 3]),
        ("MAN_2D", [(0.25, 0.25), (1, 0.5), (1, 1.5), (2, 1.5), (2, 0.25), (2, 0.75)], [1, 2, 3, 4, 2, 3]),
        ("MAX_2D", [(0.5, 0), (1, 1.5), (2.5, 1), (1, 3.5), (2.25, 2), (2, 2.75)], [1, 2, 3, 4, 2, 3]),
        ("CEIL_2D", [(0, 0.5), (0, 1), (1.5, 2), (3, 4), (0, 2.25), (0, 2.75)], [1, 1, 3, 5, 3, 3]),
        # r = √(d²/10), the nearest integer, and one more where that is below r: 1, 3, 2.5, 2.236…, 0.894…, 0.316…
        ("ATT", [(1, 3), (3, 9), (7.5, 2.5), (5, 5), (2, 2), (1, 0)], [1, 3, 3, 3, 1, 1]),
    ],
)
def test_halves_and_whole_distances(metric: str, places: list[tuple[float, float]], distances: list[int]) -> None:
    """Distances from the origin that lie on, below and above the borders of rounding, there and back."""
    matrix = parse_tsplib(plane(metric, [(0, 0), *places]), "p.tsp").matrix
    assert matrix is not None
    assert matrix[0].tolist() == [0, *distances]
    assert matrix[:, 0].tolist() == [0, *distances]
    assert matrix.diagonal().tolist() == [0] * 7


def test_geographic_distances_by_the_published_formula() -> None:
    """Degrees and minutes of either sign, a point twice, its antipode, and two where a better π gives 1 km more."""
    points = [(38.24, 20.42), (36.08, -5.21), (-33.52, 151.12), (-0.45, -0.30), (38.24, 20.42), (-38.24, -159.18)]
    points += [(0.0, 0.0), (0.0, 176.0)]

    def radians(written: float) -> float:
        degrees = int(written)  # the published code cuts off; its text says "nearest"
        return 3.141592 * (degrees + 5.0 * (written - degrees) / 3.0) / 180.0

    def distance(a: tuple[float, float], b: tuple[float, float]) -> int:
        (lat_a, long_a), (lat_b, long_b) = ((radians(v) for v in place) for place in (a, b))
        q1, q2, q3 = math.cos(long_a - long_b), math.cos(lat_a - lat_b), math.cos(lat_a + lat_b)
        inside = 0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3)
        return int(6378.388 * math.acos(max(-1.0, min(1.0, inside))) + 1.0)

    matrix = parse_tsplib(plane("GEO", points), "globe.tsp").matrix
    assert matrix is not None
    assert matrix.diagonal().tolist() == [0] * len(points)
    assert matrix[-1, -2] == 19593
    np.fill_diagonal(matrix, 1)  # the formula alone adds one to every distance, even to that of a point to itself
    assert matrix.tolist() == [[distance(a, b) for b in points] for a in points]


def test_cities_may_come_in_any_order() -> None:
    """A city's number is what counts, not its line."""
    text = plane("EUC_2D", [(0, 0), (0, 3), (4, 0)]).replace("1 0 0\n2 0 3\n3 4 0", "3 4 0\n1 0 0\n2 0 3")
    matrix = parse_tsplib(text, "p.tsp").matrix
    assert matrix is not None
    assert matrix.tolist() == [[0, 3, 4], [3, 0, 5], [4, 5, 0]]


def test_geographic_distances_give_the_published_optimum() -> None:
    numbers = [float(word) for word in BURMA.split()]
    towns = list(zip(numbers[::2], numbers[1::2], strict=True))
    matrix = parse_tsplib(plane("GEO", towns), "burma14.tsp").matrix
    assert matrix is not None
    assert held_karp(matrix) == 3323


def held_karp(matrix: np.ndarray) -> int:
    """The optimal tour by dynamic programming over sets of the cities but the last."""
    size = len(matrix) - 1
    best = np.full((1 << size, size), 10**9, dtype=np.int64)
    for city in range(size):
        best[1 << city, city] = matrix[size, city]
    for visited in range(1, 1 << size):
        for city in range(size):
            if not visited >> city & 1:
                arrived = (best[visited] + matrix[:size, city]).min()
                after = visited | 1 << city
                best[after, city] = min(best[after, city], arrived)
    return int((best[-1] + matrix[:size, size]).min())


def test_display_coordinates_do_not_change_an_explicit_matrix() -> None:
    text = explicit("UPPER_ROW", "1 2 3 4 5 6").replace("EOF", "DISPLAY_DATA_SECTION\n2 0 1\n1 0 0\n3 1 1\n4 1 0\nEOF")
    file = parse_tsplib(text, "tiny.tsp")
    assert file.matrix is not None
    assert file.matrix.tolist() == SYMMETRIC
    assert file.coordinates is not None
    assert file.coordinates.tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]


@settings(deadline=None)
@given(arrays(np.int64, st.integers(1, 7).map(lambda n: (n, n)), elements=st.integers(0, 2**53)))
def test_round_trip_of_a_matrix(matrix: np.ndarray) -> None:
    text = format_tsplib(matrix, "again")
    assert looks_like_tsplib(text)
    np.testing.assert_array_equal(parse_tsplib(text, "again").matrix, matrix)


@settings(deadline=None)
@given(st.permutations(range(9)))
def test_round_trip_of_a_tour(tour: list[int]) -> None:
    text = format_tour(tour, "again", comment="Length = 9")
    assert looks_like_tsplib(text)
    assert parse_tsplib(text, "again").tour == tour


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (explicit("UPPER_ROW", "1 2 3 4 5"), "must hold 6 numbers for 4 cities in UPPER_ROW, got 5"),
        (explicit("FULL_MATRIX", "1 2 3"), "must hold 16 numbers"),
        (explicit("FUNCTION", "1"), "EDGE_WEIGHT_FORMAT 'FUNCTION' is not supported"),
        (explicit("UPPER_ROW", "1 2 3 4 5 x"), "line 8"),
        (explicit("UPPER_ROW", "1 2 3\n4 5\n-z"), "line 10: '-z' is not a number"),
        (explicit("UPPER_ROW", "1", size=0), "DIMENSION must be a whole number of cities, got '0'"),
        (explicit("UPPER_ROW", "1", size=99999), "DIMENSION 99999 is more than the 10000"),
        ("TYPE: CVRP\nDIMENSION: 3", "TYPE 'CVRP' is not supported"),
        ("TYPE: TSP\nEDGE_WEIGHT_TYPE: EUC_2D", "DIMENSION must be a whole number of cities, got ''"),
        ("TYPE: TSP\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: EUC_2D", "needs a NODE_COORD_SECTION"),
        ("TYPE: TSP\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: XRAY1", "EDGE_WEIGHT_TYPE 'XRAY1' is not supported"),
        ("TYPE: TSP\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: EXPLICIT", "there is no EDGE_WEIGHT_SECTION"),
        ("TYPE: TSP\nDIMENSION: 3\n1 2 3", "line 3: '1 2 3' is outside every section"),
        ("TYPE: TSP\nDIMENSION: 3\nFIXED_EDGES_SECTION\n1 2", "'FIXED_EDGES_SECTION' is not supported"),
        ("TYPE: TSP\nhello", "line 2: 'hello' is neither a keyword nor a number"),
        (plane("EUC_2D", [(1, 2), (3, 4)]).replace("2 3 4", "3 3 4"), "every city from 1 to 2 once"),
        (
            plane("EUC_2D", [(1, 2), (3, 4)]).replace("2 3 4", "2 3"),
            "2 lines of a city, x and y, got 5 numbers",
        ),
        (plane("EUC_2D", [(1, 2), (3, 1e20)]), "coordinate that is too large"),
        ("TYPE: TOUR\nDIMENSION: 3\nTOUR_SECTION\n1 2 -1", "the tour has 2 cities where DIMENSION says 3"),
        ("TYPE: TOUR\nTOUR_SECTION\n1 0 -1", "line 3: '0' is not a city"),
        ("TYPE: TOUR\nTOUR_SECTION\n-1", "the tour is empty"),
        ("TYPE: TOUR\nDIMENSION: 3", "there is no TOUR_SECTION"),
    ],
)
def test_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_tsplib(text, "f")
    assert str(caught.value).startswith("f: ")
    assert message in str(caught.value)
