"""What the card of a model says beside its weights: how it is used best, and of which instances it is unsure.

A few numbers that no unit and no order of the items changes describe a matrix (`describe`). A card has their ranges
over the instances that were learned (`ranges`), and may have measurements (`home`): for families and sizes, the gaps
that the model alone, the model with local search, and search alone leave in the same time.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..problems import BUILT_IN
from ..problems.base import Arrays, Problem, Size, main_matrix
from ..problems.forbidden import permitted_in
from ..settings import Settings, build, setting

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ranges = Mapping[str, Sequence[float]]

DRAWN = 48
"""Instances of the problem's own draw that ranges are taken from where a card has none."""
TRIPLES = 20_000
SLACK = 0.5
"""How far outside a range still counts as inside, as a share of that range."""
NOTICEABLE = 2.0
"""Percentage points above search alone from which on a model is said to be worse: measurements are of few instances."""
NARROWEST = 0.02
"""Least half-width of a range: some numbers do not vary within a family."""
OFF_CENTRE = 0.1
"""Weight of the distance from the middle of a range, beside that of being outside of it."""
WORDS = {
    "detours": "the share of steps that a detour shortens",
    "asymmetry": "the mean difference between both directions",
    "ties": "the share of its most common entry",
    "spread": "the spread of its entries",
    "forbidden": "the share of its forbidden pairs",
}
"""The numbers that can make an instance unfamiliar; others tell families apart but vary too much for that."""
ONLY_ABOVE = frozenset(["detours", "ties", "forbidden"])
"""Fewer of these make an instance easier."""


@dataclass(frozen=True)
class Advice(Settings):
    """How trajectories run best. A shipped card has one setting for the model alone and one with local search a size.

    size : at about this size; at all sizes, if empty.
    samples : with at least so many samples.
    with_search : local search works inside the chain, so that few decodes will do; else the model is alone.
    options : values of `SamplingOptions`.
    """

    size: tuple[int, ...] = ()
    samples: int = setting(1, least=1)
    with_search: bool = False
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured(Settings):
    """Gaps in % that were measured for a family of instances and a size, all in the same time.

    alone, with_search, search : of the model alone, with local search in its chain, and of search alone.
    numbers : the ranges of the numbers that describe matrices of the family.
    """

    family: str
    size: tuple[int, ...]
    alone: float
    with_search: float
    search: float
    numbers: dict[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_ranges(self.numbers)


class Expected(NamedTuple):
    """What to expect of an instance.

    family : the measured family that it is most like.
    model, search : gaps in %, of the model and of search alone, in the same time.
    beyond : whether it is larger than everything that was measured of the family.
    """

    family: str
    model: float
    search: float
    beyond: bool


def checked_card(card: Any, where: str) -> dict[str, Any]:
    """Return what a file says about its model, where the parts that are used are of the kinds they should be."""
    if not isinstance(card, dict):
        raise InputError(f"{where}: its card must be a table")

    def check_all(kind: type[Advice | Measured], entries: Any) -> None:
        """Refuse what is no list of such entries, for sizes of the same problem."""
        _check_sizes([*card.get("sizes", []), *(build(kind, entry).size for entry in _tables(entries))])

    checks: dict[str, Callable[[Any], Any]] = {
        "sizes": _check_sizes,
        "ranges": _check_ranges,
        "finetuning": _tables,
        "solving": partial(check_all, Advice),
        "home": partial(check_all, Measured),
    }
    for name, check in checks.items():
        if card.get(name) is not None:
            try:
                check(card[name])
            except UsageError as error:
                raise InputError(f"{where}: '{name}' of its card: {error}") from None
    return card


def _tables(entries: Any) -> list[dict[str, Any]]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError("it must be a list of tables")
    return entries


def _check_sizes(sizes: Any) -> None:
    """Refuse what is no list of sizes of one problem; an empty one stands for all sizes."""
    lists = isinstance(sizes, list) and all(isinstance(size, list | tuple) for size in sizes)
    if not lists or not all(type(n) is int and 0 < n < 2**31 for size in sizes for n in size):
        raise UsageError("it must have sizes such as [20] or [20, 4]")
    if len({len(size) for size in sizes if size}) > 1:
        raise UsageError("its sizes must be of as many numbers each")


def _check_ranges(ranges: Any) -> None:
    pairs = list(ranges.values()) if isinstance(ranges, dict) else [()]
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_is_number, pair)) for pair in pairs):
        raise UsageError("it must have two numbers for every name")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def advised(
    card: Mapping[str, Any], size: Size, samples: int, with_search: bool = False, merging: bool = True
) -> dict[str, Any]:
    """Return the options that a card advises: those of the nearest size, if it is among the sizes that were learned.

    with_search : local search works inside the chain; without such advice, that for the model alone is taken.
    merging : decodes may be merged.
    """
    if not card.get("sizes") or not _within(size, card["sizes"]):
        return {}
    entries = [build(Advice, entry) for entry in card.get("solving", [])]
    entries = [one for one in entries if one.samples <= samples and (with_search or not one.with_search)]
    if not entries:
        return {}

    def fit(one: Advice) -> tuple[float, bool, bool, int]:
        away = sum(abs(a - b) / b for a, b in zip(size, one.size or size, strict=True))
        return away, not one.with_search, bool(one.options.get("merge")) != merging, -one.samples

    options = min(entries, key=fit).options
    return {name: value for name, value in options.items() if merging or name != "merge"}


def changes_advised(card: Mapping[str, Any], size: Size) -> int | None:
    """Return how many changes of local search inside the chain a card advises at the nearest size, if it does."""
    entries = [build(Advice, entry) for entry in card.get("solving", [])]
    entries = [one for one in entries if one.with_search and one.size and "improve_rounds" in one.options]
    return min(entries, key=lambda one: _away(size, one.size)).options["improve_rounds"] if entries else None


def unfamiliar(
    problem: Problem, arrays: Arrays, card: Mapping[str, Any], with_search: bool = False
) -> list[str | None]:
    """Say for each instance of a batch why the model should not be used alone; None where it may be.

    Measurements decide if the card has them, else its sizes and ranges.
    with_search : the model is not alone: local search works inside its chain.
    """
    if card.get("home"):
        return worse_than_search(problem, arrays, card["home"], with_search)
    return outside(problem, arrays, card.get("sizes", []), card.get("ranges"))


def outside(
    problem: Problem, arrays: Arrays, sizes: Sequence[Sequence[int]], learned: Ranges | None = None
) -> list[str | None]:
    """Say how each instance differs from those the model was trained on; None where it does not.

    Parameters
    ----------
    arrays : instances of one size, leading axis count.
    sizes : those the model was trained on; what lies between them is familiar.
    learned : the ranges of the numbers that describe the matrices; by default those of what the problem draws.
    """
    size, count = tuple(problem.size(arrays)), len(next(iter(arrays.values())))
    if sizes and not _within(size, sizes):
        smallest, largest = (_written([pick(axis) for axis in zip(*sizes, strict=True)]) for pick in (min, max))
        known = smallest if smallest == largest else f"{smallest} to {largest}"
        return [f"size {_written(size)} is not one it was trained on ({known})"] * count
    matrices = main_matrix(problem, arrays)
    if matrices is None:
        return [None] * count
    expected_ranges = learned or _drawn_ranges(problem, size)
    return [_unlike_learned(describe(matrix, problem), expected_ranges) for matrix in matrices]


def worse_than_search(
    problem: Problem, arrays: Arrays, cells: Sequence[Mapping[str, Any]], with_search: bool = False
) -> list[str | None]:
    """Say of every instance that the model is worse than search alone, as far as measured; None where it is not.

    Parameters
    ----------
    arrays : instances of one size, leading axis count.
    cells : measurements, as the card lists them.
    with_search : judge the model with local search in its chain instead of the model alone.
    """
    size = _written(problem.size(arrays))
    words: list[str | None] = []
    for one in expected(problem, arrays, cells, with_search):
        if one is None or one.model <= one.search + NOTICEABLE:
            words.append(None)
            continue
        words.append(
            f"it is most like {one.family} matrices, and at {size} the model alone is about {one.model:.2g} % above "
            f"the best known there, search {one.search:.2g} % in the same time "
            f"({'as measured on smaller ones' if one.beyond else 'as measured'})"
        )
    return words


def expected(
    problem: Problem, arrays: Arrays, cells: Sequence[Mapping[str, Any]], with_search: bool = False
) -> list[Expected | None]:
    """Return the gaps to expect of every instance; None where the problem has no matrix to compare.

    An instance is judged by the family that it is most like. Between measured sizes gaps are interpolated, beyond the
    largest their growth goes on.
    """
    matrices, size = main_matrix(problem, arrays), tuple(problem.size(arrays))
    families: dict[str, list[Measured]] = {}
    for cell in cells:
        one = build(Measured, cell)
        families.setdefault(one.family, []).append(one)
    if matrices is None or not families:
        return [None] * len(next(iter(arrays.values())))
    nearest = {family: min(some, key=lambda one: _away(size, one.size)).numbers for family, some in families.items()}
    gaps = []
    for matrix in matrices:
        numbers = describe(matrix, problem)
        family = min(nearest, key=lambda name: _distance(numbers, nearest[name]))
        ordered = sorted(families[family], key=lambda one: math.prod(one.size))
        places = [math.log(math.prod(one.size)) for one in ordered]
        here = math.log(math.prod(size))
        model = _at(here, places, [one.with_search if with_search else one.alone for one in ordered])
        search = _at(here, places, [one.search for one in ordered])
        gaps.append(Expected(family, model, search, here > places[-1]))
    return list(gaps)


def ranges(problem: Problem, arrays: Arrays) -> dict[str, tuple[float, float]]:
    """Return the range of every number that describes a matrix over instances; empty where they have no matrix."""
    matrices = main_matrix(problem, arrays)
    numbers = [] if matrices is None else [describe(matrix, problem) for matrix in matrices]
    names = numbers[0] if numbers else ()
    return {name: (min(one[name] for one in numbers), max(one[name] for one in numbers)) for name in names}


def describe(matrix: NDArray[Any], problem: Problem) -> dict[str, float]:
    """Return the numbers that describe a matrix, of its permitted entries, in tours without the diagonal."""
    matrix = np.asarray(matrix, dtype=np.float64)
    square = problem.feature_sizes.same_items
    counted = np.ones(matrix.shape, dtype=bool)
    if problem.structure is not None:
        counted = permitted_in(matrix[None], tour=problem.structure == "tour")[0]
    if square:
        np.fill_diagonal(counted, False)
    entries = matrix[counted]
    scale = float(np.abs(entries).mean())
    numbers = {
        "ties": float(np.unique(entries, return_counts=True)[1].max() / entries.size),
        "spread": float(entries.std() / scale) if scale > 0 else 0.0,
        "by_rows": _between_rows(matrix, counted),
        "by_columns": _between_rows(matrix.T, counted.T),
    }
    if square:
        both = counted & counted.T
        different = np.abs((matrix - matrix.T)[both])
        numbers["asymmetry"] = float(different.mean() / scale) if scale > 0 and both.any() else 0.0
        numbers["detours"] = _detours(matrix, counted)
    possible = counted.size - (len(matrix) if square else 0)
    return {**numbers, "forbidden": float((possible - counted.sum()) / max(1, possible))}


def _between_rows(matrix: Matrix, counted: Mask) -> float:
    """Return the share of the variance that is between rows."""
    rows = counted.any(1)
    whole = matrix[counted].var() if rows.any() else 0.0
    if not whole > 0:
        return 0.0
    means = np.where(counted, matrix, 0.0)[rows].sum(1) / counted[rows].sum(1)
    return float(means.var() / whole)


def _detours(matrix: Matrix, counted: Mask) -> float:
    """Return the share of triples i, k, j in which going through k is shorter than going straight."""
    size = len(matrix)
    if size < 3:
        return 0.0
    rng = np.random.default_rng(0)
    i = rng.integers(0, size, TRIPLES)
    k = (i + rng.integers(1, size, TRIPLES)) % size
    j = rng.integers(0, size, TRIPLES)
    all_count = counted[i, j] & counted[i, k] & counted[k, j]
    if not all_count.any():
        return 0.0
    i, k, j = i[all_count], k[all_count], j[all_count]
    return float((matrix[i, j] > (matrix[i, k] + matrix[k, j]) * (1 + 1e-9)).mean())


def _unlike_learned(numbers: Mapping[str, float], learned: Ranges) -> str | None:
    """Say which of the numbers of a matrix is outside its range, if one is."""
    for name, words in WORDS.items():
        if name not in numbers or name not in learned:
            continue
        low, high = learned[name]
        slack, value = SLACK * (high - low) + 0.01, numbers[name]
        if (value < low - slack and name not in ONLY_ABOVE) or value > high + slack:
            usual = f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
            return f"{words} is {value:.2g}, where it was trained on {usual}"
    return None


def _drawn_ranges(problem: Problem, size: Size) -> Ranges:
    """Return the ranges over instances that the problem draws; a problem that ships always draws the same."""
    if type(problem) in BUILT_IN.values():
        return _shipped_ranges(type(problem), size)
    return ranges(problem, problem.sample(DRAWN, size, np.random.default_rng(0)))


@lru_cache(maxsize=64)
def _shipped_ranges(problem: type[Problem], size: Size) -> Ranges:
    return ranges(problem(), problem().sample(DRAWN, size, np.random.default_rng(0)))


def _distance(numbers: Mapping[str, float], learned: Ranges) -> float:
    """Return how far the numbers of a matrix are from the ranges of a family, in units of their widths."""
    total = 0.0
    for name, (low, high) in learned.items():
        off = abs(numbers.get(name, (low + high) / 2) - (low + high) / 2) / max(NARROWEST, (high - low) / 2)
        total += max(0.0, off - 1.0) + OFF_CENTRE * off
    return total


def _at(here: float, places: Sequence[float], gaps: Sequence[float]) -> float:
    """Return the gap at a place: interpolated between those that were measured, growing on beyond the last."""
    gap = float(np.interp(here, places, gaps))
    if here > places[-1] and len(places) > 1 and places[-1] > places[-2]:
        gap += max(0.0, (gaps[-1] - gaps[-2]) / (places[-1] - places[-2])) * (here - places[-1])
    return gap


def _within(size: Sequence[int], sizes: Sequence[Sequence[int]]) -> bool:
    """Tell whether every dimension of a size lies within those of the sizes a model was trained on."""
    return all(min(axis) <= n <= max(axis) for n, axis in zip(size, zip(*sizes, strict=True), strict=True))


def _away(size: Sequence[int], other: Sequence[int]) -> float:
    """Return how far two sizes are from each other, in logarithms."""
    return sum(abs(math.log(a / b)) for a, b in zip(size, other, strict=True))


def _written(size: Sequence[int]) -> str:
    return "×".join(map(str, size))
