"""The whole classical search for one tour: proofs, limits, forbidden steps."""

import time

import numpy as np
import pytest

from icdc.baselines.exact import BranchAndBound
from icdc.baselines.one_by_one import Single
from icdc.search.run import Budget
from icdc.search.tour_search import TourSearch
from icdc.search.tours import length
from tests.families import TOURS, distances_of

from .tiny import run


@pytest.mark.parametrize("name", ["crane", "tmat", "uniform"])
def test_families_near_their_assignment_are_proven(name: str) -> None:
    """And the length is the one that branch and bound proves."""
    distances = distances_of(name, 25, 0)
    found = run(TourSearch(distances, 1), 5.0)
    assert found.proven
    assert found.bound == length(distances, found.choice)
    start = np.roll(np.arange(25), -1)
    exact = BranchAndBound().answer(Single(True, distances, start, 1, 0, None))
    assert exact.proven
    assert found.bound == length(distances, exact.choice)


@pytest.mark.parametrize("name", sorted(TOURS))
def test_a_bound_is_never_above_the_tour_and_the_limit_is_kept(name: str) -> None:
    distances = distances_of(name, 60, 1)
    run(TourSearch(distances, 1), 0.1)  # compiles
    begin = time.perf_counter()
    found = run(TourSearch(distances, 1), 0.5)
    assert time.perf_counter() - begin < 5
    assert sorted(found.choice) == list(range(60))
    assert found.bound <= length(distances, found.choice)
    assert found.proven == (found.bound == length(distances, found.choice))


def test_forbidden_steps_leave_a_tour_or_none() -> None:
    """One road only: it is taken, though every step beside it would be cheaper; without it there is no tour."""
    road = np.random.default_rng(0).permutation(12)
    allowed = np.zeros((12, 12), dtype=bool)
    allowed[road, np.roll(road, -1)] = True
    distances = np.where(allowed, 50, 1)
    found = run(TourSearch(distances, 1, allowed), 1.0)
    assert (found.choice[road] == np.roll(road, -1)).all()
    assert found.proven
    two = np.zeros((12, 12), dtype=bool)  # two rings of six
    for ring in (road[:6], road[6:]):
        two[ring, np.roll(ring, -1)] = True
    assert run(TourSearch(distances, 1, two), 0.2).solved is False


def test_without_seconds_the_same_seed_gives_the_same_parts() -> None:
    distances = distances_of("noisy-plane", 45, 1)
    found = []
    for _ in range(2):
        parts = TourSearch(distances, 3)
        for part, steps in ((parts.construct, 0), (parts.search, 100), (parts.prove, 0), (parts.search, 400)):
            part(Budget(None, steps, 2))
            found.append(parts)
    assert (found[0].choice == found[1].choice).all()
    assert (found[0].cost, found[0].bound) == (found[1].cost, found[1].bound)
    assert found[0].cost == length(distances, found[0].choice)


def test_a_proposal_is_searched_on_from() -> None:
    """What search makes of it belongs to both; what it cannot improve is as it was proposed."""
    distances = distances_of("uniform", 60, 0)
    best = run(TourSearch(distances, 1), 10.0)
    parts = TourSearch(distances, 3)
    parts.construct(Budget())
    assert parts.cost > best.cost
    swapped = best.choice.copy()
    one, two, three = 0, int(swapped[0]), int(swapped[swapped[0]])
    swapped[one], swapped[two], swapped[three] = three, swapped[three], two  # two neighbours change places
    parts.search_from(swapped, "somebody", Budget(steps=50))
    assert parts.cost == best.cost
    assert parts.incumbent.found_by[0] == "somebody + search"
    again = TourSearch(distances, 3)
    again.construct(Budget())
    again.search_from(best.choice, "somebody", Budget(steps=50))
    assert again.incumbent.found_by[0] == "somebody"


def test_a_start_is_one_of_the_tours_searched_from() -> None:
    distances = distances_of("uniform", 60, 0)
    best = run(TourSearch(distances, 1), 10.0)
    parts = TourSearch(distances, 3, start=best.choice)
    parts.construct(Budget())
    assert (parts.cost, parts.incumbent.found_by[0]) == (best.cost, "start")
