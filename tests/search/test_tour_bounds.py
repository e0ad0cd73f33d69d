"""Prices and bounds of tours: feasible, tight, never above the optimum; and proofs from them."""

from itertools import count

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.search import tour_bounds
from icdc.search.run import Budget
from icdc.search.tour_bounds import assignment, priced, prove, subtour_relaxation, violated_groups, with_barrier
from icdc.search.tour_branching import length
from icdc.search.tour_search import construct, improve, iterate, neighbourhood
from tests.families import TOURS, distances_of
from tests.search.tiny import shortest_tour

SIZE = 8


def tiny(name: str, seed: int, real: bool) -> NDArray[np.int64] | NDArray[np.float64]:
    distances = distances_of(name, SIZE, seed)
    return distances / 3e5 if real else distances


@pytest.mark.parametrize("name", sorted(TOURS))
def test_assignment_prices_are_feasible_and_tight(name: str) -> None:
    """No step costs less than its prices, those of the assignment cost just as much; exact for integers."""
    costs = with_barrier(distances_of(name, 60, 0))
    successor, prices = assignment(costs, Budget())
    assert sorted(successor) == list(range(60))
    excess = costs - prices.leaving[:, None] - prices.entering[None, :]
    np.testing.assert_array_equal(prices.excess, excess)
    assert excess.min() == 0
    assert (excess[np.arange(60), successor] == 0).all()
    assert prices.bound == costs[np.arange(60), successor].sum()


def test_prices_of_reals_are_feasible_and_nearly_tight() -> None:
    costs = with_barrier(np.random.default_rng(0).random((50, 50)))
    successor, prices = assignment(costs, Budget())
    total = costs[np.arange(50), successor].sum()
    assert prices.excess.min() >= 0
    assert total - 1e-9 < prices.bound < total


def test_prices_settle_where_reals_fall_by_a_last_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all tours cost the same but for rounding; and whenever the time is over prices prove a bound."""
    rng = np.random.default_rng(0)
    costs, looks = with_barrier(rng.random((120, 1)) + rng.random(120)), count()
    assignment(costs, Budget(clock=lambda: float(next(looks))))
    assert next(looks) < 5, "the clock is looked at once a pass"
    costs = with_barrier(rng.random((120, 120)))
    successor, _ = assignment(costs, Budget())
    total = costs[np.arange(120), successor].sum()
    for late in (lambda work: work(), lambda work: None):  # while prices are looked for, or the assignment itself
        monkeypatch.setattr(tour_bounds, "within", lambda budget, work, late=late: late(work))
        begun = assignment(costs, Budget(0.0))[1]
        assert total * 0.5 < begun.bound < total * (1 - 1e-6)
        assert begun.excess.min() >= -1e-9


@pytest.mark.parametrize("name", sorted(TOURS))
@pytest.mark.parametrize("real", [False, True])
def test_bounds_are_never_above_the_optimum_and_the_proof_finds_it(name: str, real: bool) -> None:
    """Assignment ≤ subtour ≤ shortest tour; then the integer program proves the shortest. Whole bounds are whole."""
    for seed in range(4):
        distances = tiny(name, seed, real)
        first = construct(distances, Budget())
        best = shortest_tour(distances)
        relaxation = subtour_relaxation(first.costs, first.prices, first.successor, Budget())
        assert first.prices.bound <= relaxation.prices.bound <= best * (1 + 1e-12)
        assert real or relaxation.prices.bound == int(relaxation.prices.bound)
        tour, proven = prove(first.costs, np.roll(np.arange(SIZE), -1), relaxation, Budget())
        assert proven
        assert float(length(distances, tour)) == pytest.approx(best, rel=1e-12)


def test_whole_bounds_are_rounded_up_but_never_beyond() -> None:
    """A bound between two integers proves the upper one."""
    for seed in range(30):
        distances = np.random.default_rng(seed).integers(1, 9, (SIZE, SIZE))
        first = construct(distances, Budget())
        bound = subtour_relaxation(first.costs, first.prices, first.successor, Budget()).prices.bound
        assert bound == int(bound)
        assert bound <= shortest_tour(distances)


def test_any_prices_prove_their_bound() -> None:
    """Also prices that no solver would give: the bound is worked out from them alone."""
    rng = np.random.default_rng(2)
    for real in (False, True):
        for seed in range(20):
            distances = tiny("noisy-plane", seed, real)
            top = float(distances.max())
            groups = rng.random((3, SIZE)) < 0.5
            groups[:, 0], groups[:, 1] = True, False
            entering, toll = rng.normal(0, top / 3, SIZE), rng.random(3) * top / 3
            prices = priced(with_barrier(distances), entering, groups, toll)
            assert prices.bound <= shortest_tour(distances)
            assert prices.excess.min() == 0


def test_missing_groups_are_found() -> None:
    """Cycles, and groups that are left by less than a whole step; a tour misses none."""
    tour, cities = np.roll(np.arange(6), -1), np.arange(6)
    assert len(violated_groups(6, cities, tour, np.ones(6), Budget())) == 0
    cycles = np.array([1, 2, 0, 4, 5, 3])
    groups = violated_groups(6, cities, cycles, np.ones(6), Budget())
    assert {tuple(np.flatnonzero(group)) for group in groups} == {(0, 1, 2), (3, 4, 5)}
    tails, heads = np.tile(cities, 2), np.concatenate([tour, cycles])
    share = np.repeat([0.4, 0.6], 6)
    groups = violated_groups(6, tails, heads, share, Budget())
    assert len(groups) > 0
    for group in groups:
        assert share[group[tails] & ~group[heads]].sum() < 1 - 1e-6


def test_the_subtour_bound_is_much_better_on_a_noisy_plane() -> None:
    """And its prices give a better neighbourhood; it says when a tour is shortest. Without time nothing is claimed."""
    distances = distances_of("noisy-plane", 40, 0)
    first = construct(distances, Budget())
    area = neighbourhood(first.costs, first.prices)
    tour = iterate(area, improve(area, first.successor, Budget()), Budget(steps=3000), seed=1)
    relaxation = subtour_relaxation(first.costs, first.prices, tour, Budget())
    best = float(length(distances, tour))
    assert first.prices.bound < 0.9 * best
    assert 0.96 * best < relaxation.prices.bound <= best
    proven_tour, proven = prove(first.costs, tour, relaxation, Budget())
    assert proven
    assert relaxation.prices.bound <= length(distances, proven_tour) <= best
    nothing = subtour_relaxation(first.costs, first.prices, tour, Budget(0.0))
    assert nothing.prices.bound == first.prices.bound
    assert prove(first.costs, tour, nothing, Budget(0.0))[1] is False


def test_steps_that_pay_join_the_program() -> None:
    """Starting from two steps a city, the bound is that of the program with all steps."""
    first = construct(distances_of("roads", 30, 0), Budget())
    few, everything = (
        subtour_relaxation(first.costs, first.prices, first.successor, Budget(), width=width) for width in (2, 29)
    )
    assert few.prices.bound == everything.prices.bound


def test_large_integers_become_reals_and_small_ones_stay() -> None:
    assert with_barrier(np.full((4, 4), 2**53)).dtype == np.int64
    assert with_barrier(np.full((4, 4), 2**58)).dtype == np.float64
    costs = with_barrier(np.full((4, 4), 7))
    assert (np.diag(costs) > 4 * 7).all()
    assert (costs[~np.eye(4, dtype=bool)] == 7).all()
