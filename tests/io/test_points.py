"""Points: recognised by name, and turned into distances by formulas checked against others."""

import math

import numpy as np
import pytest

from icdc.errors import InputError
from icdc.io.points import EARTH, LARGEST_SET, coordinate_columns, distances_between, raw_from_points


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (("x", "y"), ("x", "y")),
        (("Y", "X"), ("X", "Y")),
        (("x_coord", "y_coord"), ("x_coord", "y_coord")),
        (("lat", "lon"), ("lat", "lon")),
        (("Longitude", "Latitude"), ("Latitude", "Longitude")),
        (("demand", "lng", "lat"), ("lat", "lng")),
        (("x", "y", "z"), ()),
        (("x", "m2"), ()),
        (("lat", "m2"), ()),
        (("m1", "m2"), ()),
    ],
)
def test_columns_of_coordinates(columns: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    assert coordinate_columns(columns) == wanted


def test_straight_lines() -> None:
    points = np.random.default_rng(0).uniform(-5, 5, (300, 2))
    distances = distances_between(points, "euclidean", "t")
    assert distances[3, 299] == pytest.approx(math.dist(points[3], points[299]))
    np.testing.assert_allclose(distances, distances.T)
    assert (distances.diagonal() == 0).all()


def test_kilometres_on_the_globe() -> None:
    """Against the angle between vectors in space."""
    rng = np.random.default_rng(1)
    points = np.stack([rng.uniform(-90, 90, 300), rng.uniform(-180, 180, 300)], 1)
    latitude, longitude = np.radians(points).T
    space = np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], 1)
    wanted = EARTH * np.arccos(np.clip(space @ space.T, -1, 1))
    np.fill_diagonal(wanted, 0)
    np.testing.assert_allclose(distances_between(points, "geo", "t"), wanted, rtol=1e-6, atol=1e-3)
    near = np.array([[50.0, 8.0], [50.0, 8.000001]])
    assert distances_between(near, "geo", "t")[0, 1] == pytest.approx(7.147e-5, rel=1e-3)


def test_longitude_may_come_first_and_is_drawn_to_the_right() -> None:
    plain = raw_from_points(np.array([[10.0, 20.0], [30.0, 40.0]]), None, ("lat", "lon"), "geo", "t", None, ())
    turned = raw_from_points(np.array([[20.0, 10.0], [40.0, 30.0]]), None, ("lon", "lat"), "geo", "t", None, ())
    np.testing.assert_array_equal(plain.arrays["distances"], turned.arrays["distances"])
    assert plain.arrays["coordinates"].tolist() == turned.arrays["coordinates"].tolist() == [[20, 10], [40, 30]]


def test_what_is_no_set_of_points() -> None:
    with pytest.raises(InputError, match="point 2 has the longitude 181"):
        distances_between(np.array([[0.0, 0.0], [0.0, 181.0]]), "geo", "t")
    with pytest.raises(InputError, match="two columns of numbers, got 2 × 3"):
        raw_from_points(np.zeros((2, 3)), None, None, "geo", "t", None, ())
    with pytest.raises(InputError, match="more than 10000 points"):
        raw_from_points(np.zeros((LARGEST_SET + 1, 2)), None, None, "euclidean", "t", None, ())
