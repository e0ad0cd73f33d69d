"""Where a model is at home: what was measured of it, family by family and size by size, and what that tells of others.

A card lists cells (`python -m experiments.cards` measures and writes them): for a family of instances and a size the
gaps that the model alone, the model with search in its chain, and search alone leave in the same time, and the range of
the numbers that describe such matrices. An instance is judged by the family that it is most like; between measured
sizes gaps are interpolated, beyond the largest their growth goes on. Only where the model is noticeably worse than
search alone is there anything to say.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..problems.base import Arrays, Problem, Size, main_matrix
from .familiarity import describe

NOTICEABLE = 2.0
"""Percentage points above search alone in the same time from which on a model is said to be worse: a few instances, on
a machine that may have been busy, do not tell less."""
_SMALL = 0.02
"""Half the width of a range, at least: some numbers do not vary within a family."""
_INSIDE = 0.1
"""What being off the middle of a range counts, beside being outside of it."""


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


def worse_than_search(
    problem: Problem, arrays: Arrays, cells: Sequence[Mapping[str, Any]], with_search: bool = False
) -> list[str | None]:
    """Say for every instance why a model should not be left alone with it; None where it is as good as search.

    Parameters
    ----------
    arrays : instances of one size, leading axis count.
    cells : what was measured, as the card lists it.
    with_search : judge the model with search in its chain instead of the model alone.
    """
    size = tuple(problem.size(arrays))
    return [_sentence(one, size) for one in expected(problem, arrays, cells, with_search)]


def expected(
    problem: Problem, arrays: Arrays, cells: Sequence[Mapping[str, Any]], with_search: bool = False
) -> list[Expected | None]:
    """Return what to expect of every instance; None where the problem has no matrix to compare."""
    count = len(next(iter(arrays.values())))
    matrices = main_matrix(problem, arrays)
    families: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        families.setdefault(str(cell["family"]), []).append(cell)
    if matrices is None or not families:
        return [None] * count
    size, found = tuple(problem.size(arrays)), []
    nearest = {family: min(some, key=lambda cell: _away(size, cell)) for family, some in families.items()}
    for matrix in np.asarray(matrices, dtype=np.float64):
        numbers = describe(matrix, problem)
        family = min(nearest, key=lambda name: _unlike(numbers, nearest[name]["numbers"]))
        found.append(_at(size, family, families[family], "with_search" if with_search else "alone"))
    return list(found)


def _at(size: Size, family: str, cells: Sequence[Mapping[str, Any]], way: str) -> Expected:
    """Return the gaps at a size: between measured sizes by interpolation, beyond the last as they grew before it."""
    ordered = sorted(cells, key=lambda cell: math.prod(cell["size"]))
    at = [math.log(math.prod(cell["size"])) for cell in ordered]
    here = math.log(math.prod(size))
    gaps = []
    for name in (way, "search"):
        values = [float(cell[name]) for cell in ordered]
        gap = float(np.interp(here, at, values))
        if here > at[-1] and len(at) > 1 and at[-1] > at[-2]:
            gap += max(0.0, (values[-1] - values[-2]) / (at[-1] - at[-2])) * (here - at[-1])
        gaps.append(gap)
    return Expected(family, gaps[0], gaps[1], here > at[-1])


def _sentence(one: Expected | None, size: Size) -> str | None:
    if one is None or one.model <= one.search + NOTICEABLE:
        return None
    about = "as measured on smaller ones" if one.beyond else "as measured"
    return (
        f"it is most like {one.family} matrices, and at {'×'.join(map(str, size))} the model alone is about "
        f"{one.model:.2g} % above the best known there, search {one.search:.2g} % in the same time ({about})"
    )


def _away(size: Size, cell: Mapping[str, Any]) -> float:
    """Return how far a size is from that of a cell, in logarithms."""
    return sum(abs(math.log(a / b)) for a, b in zip(size, cell["size"], strict=True))


def _unlike(numbers: Mapping[str, float], ranges: Mapping[str, Sequence[float]]) -> float:
    """Return how far the numbers of a matrix are from the ranges of a family, in units of their widths."""
    total = 0.0
    for name, value in numbers.items():
        if name in ranges:
            low, high = ranges[name]
            half = max(_SMALL, (high - low) / 2)
            off = abs(value - (low + high) / 2) / half
            total += max(0.0, off - 1.0) + _INSIDE * off
    return total
