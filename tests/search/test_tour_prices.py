"""Prices and bounds of tours: feasible, tight, never above the optimum."""

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.search.run import Budget
from icdc.search.tour_bounds import priced, prove, subtour_prices, violated
from icdc.search.tour_prices import assignment, patched, with_barriers
from icdc.search.tours import construct, improve, iterate, length, survey
from tests.families import TOURS, distances_of

SIZE = 8


def shortest(distances: NDArray[np.generic]) -> float:
    orders = np.array([(0, *rest) for rest in permutations(range(1, len(distances)))])
    return float(distances.astype(np.float64)[orders, np.roll(orders, -1, 1)].sum(1).min())


def tiny(name: str, seed: int, real: bool) -> NDArray[np.int64] | NDArray[np.float64]:
    distances = distances_of(name, SIZE, seed)
    return distances / 3e5 if real else distances


@pytest.mark.parametrize("name", sorted(TOURS))
def test_assignment_prices_are_feasible_and_tight(name: str) -> None:
    """No step costs less than its prices, those of the assignment cost just as much; exact for integers."""
    costs, barrier = with_barriers(distances_of(name, 60, 0))
    found = assignment(costs, barrier)
    assert found is not None
    successor, prices = found
    assert sorted(successor) == list(range(60))
    excess = costs - prices.leaving[:, None] - prices.entering[None, :]
    np.testing.assert_array_equal(prices.excess, excess)
    assert excess.min() == 0
    assert (excess[np.arange(60), successor] == 0).all()
    assert prices.bound == costs[np.arange(60), successor].sum()


def test_prices_of_reals_are_feasible_and_nearly_tight() -> None:
    costs, barrier = with_barriers(np.random.default_rng(0).random((50, 50)))
    found = assignment(costs, barrier)
    assert found is not None
    successor, prices = found
    total = costs[np.arange(50), successor].sum()
    assert prices.excess.min() >= 0
    assert total - 1e-9 < prices.bound < total


def test_patching_joins_where_it_costs_least() -> None:
    """Two cycles have one best pair of cities to swap successors; all pairs are tried here."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        costs, _ = with_barriers(rng.integers(0, 100, (7, 7)))
        successor = np.array([1, 2, 0, 4, 5, 6, 3])
        joined = patched(costs, successor)
        lengths = []
        for i in range(3):
            for j in range(3, 7):
                other = successor.copy()
                other[i], other[j] = successor[j], successor[i]
                lengths.append(length(costs, other))
        assert length(costs, joined) == min(lengths)


@pytest.mark.parametrize("name", sorted(TOURS))
@pytest.mark.parametrize("real", [False, True])
def test_bounds_are_never_above_the_optimum_and_the_proof_finds_it(name: str, real: bool) -> None:
    """Assignment ≤ subtour ≤ shortest tour; then the integer program proves the shortest."""
    for seed in range(4):
        distances = tiny(name, seed, real)
        start = construct(distances)
        assert start is not None
        best = shortest(distances)
        relaxation = subtour_prices(start.costs, start.prices, start.successor)
        rounded = best * (1 + 1e-12)
        assert start.prices.bound <= relaxation.prices.bound <= rounded
        tour, proven = prove(start.costs, np.roll(np.arange(SIZE), -1), relaxation)
        assert proven
        assert float(length(distances, tour)) == pytest.approx(best, rel=1e-12)


def test_whole_bounds_are_rounded_up_but_never_beyond() -> None:
    """A bound between two integers proves the upper one."""
    for seed in range(30):
        distances = np.random.default_rng(seed).integers(1, 9, (SIZE, SIZE))
        start = construct(distances)
        assert start is not None
        bound = subtour_prices(start.costs, start.prices, start.successor).prices.bound
        assert bound == int(bound)
        assert bound <= shortest(distances)


def test_any_prices_prove_their_bound() -> None:
    """Also prices that no solver would give: the bound is worked out from them alone."""
    rng = np.random.default_rng(2)
    for real in (False, True):
        for seed in range(20):
            distances = tiny("noisy-plane", seed, real)
            costs, _ = with_barriers(distances)
            top = float(distances.max())
            groups = rng.random((3, SIZE)) < 0.5
            groups[:, 0], groups[:, 1] = True, False
            prices = priced(costs, rng.normal(0, top / 3, SIZE), groups, rng.random(3) * top / 3)
            assert prices.bound <= shortest(distances)
            assert prices.excess.min() == 0


def test_missing_groups_are_found() -> None:
    """Cycles, and groups that are left by less than a whole step; a tour misses none."""
    tour = np.roll(np.arange(6), -1)
    assert len(violated(6, np.arange(6), tour, np.ones(6))) == 0
    cycles = np.array([1, 2, 0, 4, 5, 3])
    groups = violated(6, np.arange(6), cycles, np.ones(6))
    assert {tuple(np.flatnonzero(group)) for group in groups} == {(0, 1, 2), (3, 4, 5)}
    tails, heads = np.tile(np.arange(6), 2), np.concatenate([tour, cycles])
    groups = violated(6, tails, heads, np.concatenate([np.full(6, 0.4), np.full(6, 0.6)]))
    assert len(groups) > 0
    for group in groups:
        leaving = sum(
            weight
            for i, j, weight in zip(tails, heads, [0.4] * 6 + [0.6] * 6, strict=True)
            if group[i] and not group[j]
        )
        assert leaving < 1 - 1e-6


def test_the_subtour_bound_is_much_better_on_a_noisy_plane() -> None:
    """And its prices give a better terrain; it says when a tour is shortest."""
    distances = distances_of("noisy-plane", 40, 0)
    start = construct(distances)
    assert start is not None
    ground = survey(start.costs, start.prices)
    tour = iterate(ground, improve(ground, start.successor), Budget(steps=3000), seed=1)
    relaxation = subtour_prices(start.costs, start.prices, tour)
    best = float(length(distances, tour))
    assert start.prices.bound < 0.9 * best
    assert 0.96 * best < relaxation.prices.bound <= best
    proven_tour, proven = prove(start.costs, tour, relaxation)
    assert proven
    assert relaxation.prices.bound <= length(distances, proven_tour) <= best
    nothing = subtour_prices(start.costs, start.prices, tour, seconds=0.0)
    assert nothing.prices.bound == start.prices.bound
    assert prove(start.costs, tour, nothing, seconds=0.0)[1] is False


def test_steps_that_pay_join_the_program() -> None:
    """Starting from two steps a city, the bound is that of the program with all steps."""
    distances = distances_of("roads", 30, 0)
    start = construct(distances)
    assert start is not None
    few = subtour_prices(start.costs, start.prices, start.successor, width=2)
    everything = subtour_prices(start.costs, start.prices, start.successor, width=29)
    assert few.prices.bound == everything.prices.bound


def test_large_integers_become_reals_and_small_ones_stay() -> None:
    assert with_barriers(np.full((4, 4), 2**53))[0].dtype == np.int64
    assert with_barriers(np.full((4, 4), 2**58))[0].dtype == np.float64
    costs, barrier = with_barriers(np.full((4, 4), 7), np.eye(4, dtype=bool) | (np.arange(4) == 1))
    assert barrier > 4 * 7
    assert (np.diag(costs) == barrier).all()
    assert costs[0, 2] == barrier
    assert costs[0, 1] == 7
    with pytest.raises(ValueError, match="forbidden"):
        with_barriers(np.ones((3, 3)), np.eye(3, dtype=bool))
