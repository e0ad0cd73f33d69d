"""Solutions that end with forbidden pairs are changed to do without, and others left alone."""

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from icdc.problems.atsp import Atsp
from icdc.problems.forbidden import permitted_in, with_stand_ins, without_forbidden
from icdc.problems.pmsp import Pmsp
from icdc.search.structures import structure_of


def a_tour(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    order = rng.permutation(size)
    choice = np.empty(size, dtype=np.int64)
    choice[order] = np.roll(order, -1)
    return choice


def used(permitted: NDArray[np.bool_], choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many forbidden pairs choices (count, rows) use."""
    return (~np.take_along_axis(permitted, choice[:, :, None], 2)).sum((1, 2))


@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.6]))
def test_tours_do_without_wherever_that_is_possible(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 7))
    matrices, starts = [], []
    for _ in range(3):
        matrix, forbidden = rng.integers(1, 50, (size, size)), rng.random((size, size)) < share
        np.fill_diagonal(matrix, 0)
        np.fill_diagonal(forbidden, False)
        free = ~forbidden & ~np.eye(size, dtype=bool)
        possible = forbidden.any() and free.any(1).all() and free.any(0).all()
        matrices.append(with_stand_ins(Atsp(), {"distances": matrix}, forbidden)["distances"] if possible else matrix)
        starts.append(a_tour(size, rng))
    costs, choice = np.stack(matrices), np.stack(starts)
    permitted = permitted_in(costs, tour=True)
    before = choice.copy()
    found = without_forbidden("tour", costs, choice)
    assert np.array_equal(choice, before)
    assert structure_of("tour").judge(costs, found)[0].all()
    for one, allowed, new, old in zip(costs, permitted, found, before, strict=True):
        tours = (np.array([0, *rest]) for rest in permutations(range(1, size)))
        exists = any(allowed[order, np.roll(order, -1)].all() for order in tours)
        assert (used(allowed[None], new[None])[0] == 0) == exists
        if used(allowed[None], old[None])[0] == 0:
            assert np.array_equal(new, old)
        assert one[np.arange(size), new].sum() <= one[np.arange(size), old].sum()


def test_schedules_do_without() -> None:
    rng = np.random.default_rng(0)
    durations = rng.integers(1, 9, (6, 3))
    forbidden = rng.random((6, 3)) < 0.5
    forbidden[np.arange(6), rng.integers(0, 3, 6)] = False
    costs = with_stand_ins(Pmsp(), {"durations": durations}, forbidden)["durations"]
    every = np.array(list(product(range(3), repeat=6)))
    batch = np.repeat(costs[None], len(every), 0)
    found = without_forbidden("makespan", batch, every)
    assert (used(permitted_in(batch), found) == 0).all()
    clean = used(permitted_in(batch), every) == 0
    assert np.array_equal(found[clean], every[clean])


def test_what_cannot_be_mended_stays_within_its_time() -> None:
    """Two groups that meet in one city: every tour takes a forbidden step."""
    apart = np.ones((7, 7), dtype=bool)
    apart[:4, :4] = apart[3:, 3:] = False
    costs = np.where(apart, 100, 1)
    tour = a_tour(7, np.random.default_rng(2))
    found = without_forbidden("tour", costs[None], tour[None])
    assert used(~apart[None], found)[0] <= used(~apart[None], tour[None])[0]
    assert structure_of("tour").judge(costs[None], found)[0].all()
    assert structure_of("tour").impossible(~apart)
    assert not structure_of("tour").impossible(np.ones((7, 7), dtype=bool))
    # where every tour takes such a step, none becomes dearer for having as few of them
    needed = np.array([[0, 0, 5], [2, 0, 0], [5, 0, 0]])
    for order in ([0, 1, 2], [0, 2, 1]):
        before = Atsp().choice(order)[None]
        after = without_forbidden("tour", needed[None], before)
        assert structure_of("tour").judge(needed[None], after)[1] <= structure_of("tour").judge(needed[None], before)[1]
    # with no time at all a tour that could be mended stays what it was
    ring = np.roll(np.eye(7, dtype=bool), 1, 1)
    costs = np.where(ring, 1, 100)[None]
    assert used(ring[None], without_forbidden("tour", costs, tour[None]))[0] == 0
    assert np.array_equal(without_forbidden("tour", costs, tour[None], -1.0)[0], tour)


def test_nothing_is_copied_where_nothing_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(structure_of("tour"), "repair", never)
    choice = np.stack([a_tour(5, np.random.default_rng(seed)) for seed in range(3)])
    costs = np.random.default_rng(0).integers(1, 9, (3, 5, 5))
    assert without_forbidden("tour", costs, choice) is choice
