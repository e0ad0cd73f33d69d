"""Families of asymmetric distance matrices to measure tours on, each made from a size and a generator of numbers.

All are int64 with a zero diagonal, so that lengths are exact and every solver sees the same instance.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree

Matrix = NDArray[np.int64]
UNIT = 10**6


def tmat(size: int, rng: np.random.Generator) -> Matrix:
    """Uniform distances closed by shortest paths, so that no detour is shorter: the kind of the usual test sets."""
    return _closed(uniform(size, rng))


def uniform(size: int, rng: np.random.Generator) -> Matrix:
    """Every step drawn by itself; a detour may be shorter."""
    return _matrix(rng.integers(1, UNIT, (size, size)))


def noisy_plane(size: int, rng: np.random.Generator) -> Matrix:
    """Distances in a square, each direction up to 15 % longer at random: nearly symmetric."""
    return _matrix(_euclidean(rng.random((size, 2))) * (1 + 0.15 * rng.random((size, size))))


def one_way_plane(size: int, rng: np.random.Generator) -> Matrix:
    """Distances in a square where one direction of every pair, at random, is up to three times as long."""
    against = np.triu(rng.random((size, size)) < 0.5, 1)
    against = against | (~against.T & np.tri(size, k=-1, dtype=bool))
    return _matrix(_euclidean(rng.random((size, 2))) * (1 + 2 * against * rng.random((size, size))))


def roads(size: int, rng: np.random.Generator) -> Matrix:
    """Some crossings of a sparse network of streets, a third of them one-way: shortest paths between the crossings."""
    crossings = 2 * size
    places = rng.random((crossings, 2))
    _, near = cKDTree(places).query(places, k=5)
    start, end = np.repeat(np.arange(crossings), 4), near[:, 1:].ravel()
    length = np.rint(np.hypot(*(places[start] - places[end]).T) * UNIT) + 1
    back = rng.random(len(start)) > 1 / 3
    rows, columns = np.concatenate([start, end[back]]), np.concatenate([end, start[back]])
    # a slow way along all crossings keeps every one of them reachable
    around = rng.permutation(crossings)
    rows, columns = np.concatenate([rows, around]), np.concatenate([columns, np.roll(around, -1)])
    values = np.concatenate([length, length[back], np.full(crossings, 3.0 * UNIT)])
    order = np.argsort(-values, kind="stable")  # of parallel streets the shortest is written last
    street = np.full((crossings, crossings), np.inf)
    street[rows[order], columns[order]] = values[order]
    finite = np.isfinite(street)
    graph = csr_array((street[finite], np.nonzero(finite)), shape=street.shape)
    chosen = rng.choice(crossings, size, replace=False)
    return _matrix(shortest_path(graph, indices=chosen)[:, chosen])


def crane(size: int, rng: np.random.Generator) -> Matrix:
    """Jobs of a crane between stacks on a small grid: the way from a delivery to the next pick-up. Many ties."""
    pick, place = rng.integers(0, 40, (2, size, 2))
    return _matrix(np.abs(place[:, None] - pick[None]).max(2))


def clustered(size: int, rng: np.random.Generator) -> Matrix:
    """Cities around a few centres in a square, each direction up to 15 % longer at random."""
    centres = rng.random((max(2, size // 25), 2))
    places = centres[rng.integers(0, len(centres), size)] + 0.03 * rng.standard_normal((size, 2))
    return _matrix(_euclidean(places) * (1 + 0.15 * rng.random((size, size))))


FAMILIES: dict[str, Callable[[int, np.random.Generator], Matrix]] = {
    "tmat": tmat,
    "uniform": uniform,
    "noisy_plane": noisy_plane,
    "one_way_plane": one_way_plane,
    "roads": roads,
    "crane": crane,
    "clustered": clustered,
}


def family(name: str, size: int, seed: int) -> Matrix:
    """Return the instance (size, size) of a family that a seed stands for."""
    return FAMILIES[name](size, np.random.default_rng([seed, size, *name.encode()]))


def _euclidean(places: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) * UNIT)


def _closed(distances: Matrix) -> Matrix:
    return _matrix(shortest_path(distances.astype(np.float64), method="FW"))


def _matrix(distances: NDArray[np.float64] | Matrix) -> Matrix:
    whole = np.rint(distances).astype(np.int64)
    np.fill_diagonal(whole, 0)
    return whole
