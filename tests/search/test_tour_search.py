"""The whole classical search for one tour: proofs, limits, forbidden steps."""

import time

import numpy as np
import pytest

from benchmarks.tour_families import FAMILIES, family
from icdc.baselines.assignment import BranchAndBound
from icdc.baselines.one_by_one import Single
from icdc.search.tour_search import search
from icdc.search.tours import length


@pytest.mark.parametrize("name", ["crane", "tmat", "uniform"])
def test_families_near_their_assignment_are_proven(name: str) -> None:
    """And the length is the one that branch and bound proves."""
    distances = family(name, 25, 0)
    found = search(distances, 5.0, seed=1)
    assert found is not None
    assert found.proven
    assert found.bound == length(distances, found.successor)
    start = np.roll(np.arange(25), -1)
    exact = BranchAndBound().answer(Single(True, distances, start, 1, 0, None))
    assert exact.proven
    assert found.bound == length(distances, exact.choice)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_bound_is_never_above_the_tour_and_the_limit_is_kept(name: str) -> None:
    distances = family(name, 60, 1)
    search(distances, 0.1, seed=1)  # compiles
    begin = time.perf_counter()
    found = search(distances, 0.5, seed=1)
    assert time.perf_counter() - begin < 5
    assert found is not None
    assert sorted(found.successor) == list(range(60))
    assert found.bound <= length(distances, found.successor)
    assert found.proven == (found.bound == length(distances, found.successor))


def test_forbidden_steps_leave_a_tour_or_none() -> None:
    """One road only: it is taken, though every step beside it would be cheaper; without it there is no tour."""
    road = np.random.default_rng(0).permutation(12)
    allowed = np.zeros((12, 12), dtype=bool)
    allowed[road, np.roll(road, -1)] = True
    distances = np.where(allowed, 50, 1)
    found = search(distances, 1.0, seed=1, allowed=allowed)
    assert found is not None
    assert (found.successor[road] == np.roll(road, -1)).all()
    assert found.proven
    two = np.zeros((12, 12), dtype=bool)  # two rings of six
    for ring in (road[:6], road[6:]):
        two[ring, np.roll(ring, -1)] = True
    assert search(distances, 0.2, seed=1, allowed=two) is None
