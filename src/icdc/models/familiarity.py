"""Is an instance like those a model was trained on? A test on the matrix, for models of which nothing was measured.

Where something was, `home` knows more.

A model is trained on sizes that its card names and on matrices that its problem draws. A few numbers that no
unit and no order of the items can change describe a matrix; where one of them lies outside everything the
generator draws, the model answers all the same, but its card promises nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..problems import BUILT_IN
from ..problems.base import Arrays, Problem, Size, main_matrix
from ..problems.forbidden import permitted_in

_REFERENCES = 48
_TRIPLES = 20_000
_SLACK = 0.5
"""How far outside the range of the references still counts as inside, as a share of that range."""


_Range = tuple[float, float]


def outside(
    problem: Problem,
    arrays: Arrays,
    sizes: Sequence[Sequence[int]],
    known_ranges: Mapping[str, Sequence[float]] | None = None,
) -> list[str | None]:
    """Say for every instance what is unfamiliar about it; None where nothing is.

    Parameters
    ----------
    problem : the contract of the problem.
    arrays : instances of one size, leading axis count.
    sizes : those the model was trained on, as its card names them; what lies between them is familiar.
    known_ranges : of the numbers that describe a matrix, where a model was trained on a set of instances (`ranges`);
        by default those of what the problem draws.
    """
    size = tuple(problem.size(arrays))
    if sizes and not _between(size, sizes):
        smallest, largest = ("×".join(str(pick(axis)) for axis in zip(*sizes, strict=True)) for pick in (min, max))
        known = smallest if smallest == largest else f"{smallest} to {largest}"
        return [f"size {'×'.join(map(str, size))} is not one it was trained on ({known})"] * _count(arrays)
    matrices = _matrices(problem, arrays)
    if matrices is None:
        return [None] * _count(arrays)
    expected = {name: (low, high) for name, (low, high) in (known_ranges or _expected(problem, size)).items()}
    return [_unfamiliar(matrix, problem, expected) for matrix in matrices]


def _between(size: Size, sizes: Sequence[Sequence[int]]) -> bool:
    """Tell whether every dimension of a size lies within those of the sizes a model was trained on."""
    return all(min(axis) <= n <= max(axis) for n, axis in zip(size, zip(*sizes, strict=True), strict=True))


def _unfamiliar(matrix: NDArray[np.float64], problem: Problem, expected: "dict[str, _Range]") -> str | None:
    """Return the first sentence that applies to a matrix."""
    for name, value in describe(matrix, problem).items():
        if name not in _WORDS:  # these tell families apart, but vary too much to say that something is new
            continue
        low, high = expected.get(name, (-np.inf, np.inf))
        slack = _SLACK * (high - low) + 0.01
        below = value < low - slack and name not in _ONLY_ABOVE
        if below or value > high + slack:
            usual = f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
            return f"{_WORDS[name]} is {value:.2g}, where it was trained on {usual}"
    return None


def ranges(problem: Problem, arrays: Arrays) -> dict[str, _Range]:
    """Return the range of every number over a set of instances; empty where they have no matrix."""
    matrices = _matrices(problem, arrays)
    found = [] if matrices is None else [describe(matrix, problem) for matrix in matrices]
    return {name: (min(f[name] for f in found), max(f[name] for f in found)) for name in (found[0] if found else ())}


def _expected(problem: Problem, size: Size) -> dict[str, _Range]:
    """Return the range of every number over instances that the problem draws."""
    return _drawn_by_shipped(type(problem), size) if type(problem) in BUILT_IN.values() else _drawn_by(problem, size)


@lru_cache(maxsize=64)
def _drawn_by_shipped(problem: type[Problem], size: Size) -> dict[str, _Range]:
    """Return the same for a problem that ships, which always draws the same."""
    return _drawn_by(problem(), size)


def _drawn_by(problem: Problem, size: Size) -> dict[str, _Range]:
    return ranges(problem, problem.sample(_REFERENCES, size, np.random.default_rng(0)))


def describe(matrix: NDArray[np.float64], problem: Problem) -> dict[str, float]:
    """Return the numbers that describe a matrix."""
    square = problem.feature_sizes.same_items
    counted = np.ones(matrix.shape, dtype=bool)
    if problem.structure is not None:
        counted = permitted_in(matrix[None], tour=problem.structure == "tour")[0]
    if square:
        np.fill_diagonal(counted, False)
    measured = {name: measure(matrix, counted) for name, measure in _MEASURES.items() if square or name in _ANY}
    entries = counted.size - (len(matrix) if square else 0)
    return {**measured, _FORBIDDEN: float((entries - counted.sum()) / max(1, entries))}


def _spread(matrix: NDArray[np.float64], counted: NDArray[np.bool_]) -> float:
    """Standard deviation in units of the mean size of an entry."""
    entries = matrix[counted]
    scale = np.abs(entries).mean()
    return float(entries.std() / scale) if scale > 0 else 0.0


def _ties(matrix: NDArray[np.float64], counted: NDArray[np.bool_]) -> float:
    """Share of the entries that have the most common value."""
    entries = matrix[counted]
    return float(np.unique(entries, return_counts=True)[1].max() / entries.size)


def _detours(matrix: NDArray[np.float64], counted: NDArray[np.bool_]) -> float:
    """Share of triples i, k, j in which going through k is shorter than going straight."""
    size = len(matrix)
    if size < 3:
        return 0.0
    rng = np.random.default_rng(0)
    i = rng.integers(0, size, _TRIPLES)
    k = (i + rng.integers(1, size, _TRIPLES)) % size
    j = rng.integers(0, size, _TRIPLES)
    all_count = counted[i, j] & counted[i, k] & counted[k, j]
    if not all_count.any():
        return 0.0
    i, k, j = i[all_count], k[all_count], j[all_count]
    straight = matrix[i, j]
    return float((straight > (matrix[i, k] + matrix[k, j]) * (1 + 1e-9)).mean())


def _asymmetry(matrix: NDArray[np.float64], counted: NDArray[np.bool_]) -> float:
    """Mean difference between the two directions of a pair, in units of the mean size of an entry."""
    scale, both = np.abs(matrix[counted]).mean(), counted & counted.T
    return float(np.abs((matrix - matrix.T)[both]).mean() / scale) if scale > 0 and both.any() else 0.0


def _by_rows(matrix: NDArray[np.float64], counted: NDArray[np.bool_]) -> float:
    """Share of the variance that is between rows."""
    return _between_rows(matrix, counted)


def _by_columns(matrix: NDArray[np.float64], counted: NDArray[np.bool_]) -> float:
    """Share of the variance that is between columns."""
    return _between_rows(matrix.T, counted.T)


def _between_rows(matrix: NDArray[np.float64], counted: NDArray[np.bool_]) -> float:
    rows = counted.any(1)
    if not rows.any():
        return 0.0
    means = np.where(counted, matrix, 0.0)[rows].sum(1) / counted[rows].sum(1)
    whole = matrix[counted].var()
    return float(means.var() / whole) if whole > 0 else 0.0


_FORBIDDEN = "forbidden"
_MEASURES: dict[str, Callable[[NDArray[np.float64], NDArray[np.bool_]], float]] = {
    "detours": _detours,
    "asymmetry": _asymmetry,
    "ties": _ties,
    "spread": _spread,
    "by_rows": _by_rows,
    "by_columns": _by_columns,
}
"""Of a matrix and the entries that count: those that are permitted, and off the diagonal of tours."""
_ANY = frozenset(["ties", "spread", "by_rows", "by_columns"])
_ONLY_ABOVE = frozenset(["detours", "ties", _FORBIDDEN])  # fewer of them make an instance easier to tell apart
_WORDS = {
    "detours": "the share of steps that a detour shortens",
    "asymmetry": "the mean difference between both directions",
    "ties": "the share of its most common entry",
    "spread": "the spread of its entries",
    _FORBIDDEN: "the share of its forbidden pairs",
}


def _matrices(problem: Problem, arrays: Arrays) -> NDArray[np.float64] | None:
    """Return the matrix that matters of every instance, (count, rows, columns), if there is one."""
    matrices = main_matrix(problem, arrays)
    return None if matrices is None else np.asarray(matrices, dtype=np.float64)


def _count(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))
