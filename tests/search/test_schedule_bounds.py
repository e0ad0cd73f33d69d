"""Prices and bounds of schedules against brute force."""

from itertools import product

import numpy as np
import pytest

from icdc.search import schedule_bounds
from icdc.search.run import Budget
from icdc.search.schedule_bounds import collect, knapsack_bound, most_jobs, price, price_below
from tests.search.tiny import durations_of, loads, shortest_makespan


@pytest.mark.parametrize("whole", [True, False])
def test_bounds_are_never_above_the_optimum_and_whole_for_whole_data(whole: bool) -> None:
    better = 0
    for seed in range(60):
        durations = durations_of(seed, whole)
        prices, best = price(durations), shortest_makespan(durations)
        assert prices.machine.sum() == pytest.approx(1)
        assert (prices.machine >= 0).all()
        assert prices.bound <= best
        assert not whole or prices.bound == int(prices.bound)
        stronger = knapsack_bound(durations, prices, int(best) + 3, Budget())
        assert prices.bound <= stronger <= best
        better += stronger > prices.bound
    assert better > 10 if whole else better == 0


def test_prices_of_permitted_pairs_alone_bound_their_schedules() -> None:
    for seed in range(10):
        durations = durations_of(seed)
        allowed = np.random.default_rng(seed).random(durations.shape) < 0.6
        allowed[np.arange(6), seed % 3] = True
        prices = price(durations, allowed=allowed)
        assert np.isinf(prices.reduced).any() == (not allowed.all())
        best = shortest_makespan(np.where(allowed, durations, 10**6))
        assert price(durations).bound <= prices.bound <= best


def test_prices_are_those_of_the_linear_program_and_columns_are_added_until_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    durations = np.random.default_rng(0).integers(1, 101, (60, 10)).astype(float)
    whole_program = price(durations)
    monkeypatch.setattr(schedule_bounds, "SMALL", 0)
    monkeypatch.setattr(schedule_bounds, "COLUMNS", 2)
    assert price(durations).bound == pytest.approx(whole_program.bound, rel=1e-9)
    for balanced in (price(durations, Budget(0.0)), None):
        if balanced is None:
            monkeypatch.setattr(schedule_bounds, "LARGEST", 0)
            balanced = price(durations)
        assert balanced.fraction is None
        assert 0.97 * whole_program.bound < balanced.bound < whole_program.bound


def test_a_bound_just_above_a_whole_number_is_not_rounded_up() -> None:
    # two machines alike: the optimum is exactly half the sum, whatever the order of additions
    durations = np.repeat(np.array([[3], [3], [7], [7], [1], [1]]), 2, axis=1)
    assert price(durations).bound == 11
    assert price(np.array([[5, 9], [1, 1]])).bound == 5  # no job can be split


def test_machines_hold_so_many_jobs_and_no_more() -> None:
    times = np.array([[5.0, 1.0], [3.0, np.inf], [4.0, 2.0], [3.0, np.inf]])
    assert most_jobs(times, 6).tolist() == [2, 2]
    assert most_jobs(times, 5.9).tolist() == [1, 2]
    assert most_jobs(times, 15).tolist() == [4, 2]
    assert most_jobs(np.array([[0.1], [0.2]]), 0.3).tolist() == [2]  # the sum is rounded up


@pytest.mark.parametrize("whole", [True, False])
def test_prices_of_places_are_valid_for_what_ends_by_their_limit(whole: bool) -> None:
    """No bound is above the optimum, and no pair gives away more than a schedule that has it shows."""
    sharper, proven = 0, 0
    for seed in range(36):
        durations = durations_of(seed, whole, jobs=5 + seed % 3)
        prices, best = price(durations), shortest_makespan(durations)
        for limit in (best - 3, best - 1, best, best + 2):
            below = price_below(durations, prices, limit)
            if below is None:
                continue
            sharper += 1
            assert prices.bound <= below.bound <= best * (1 + 1e-12)
            assert below.bound <= max(prices.bound, limit + int(whole)), "it says nothing of what ends later"
            proven += limit == best - 1 and below.bound == best
            assert below.limit in (limit, np.inf)
            assert below.machine.sum() == pytest.approx(1)
            assert (below.reduced >= 0).all()
            if limit < best:
                continue
            jobs = np.arange(len(durations))
            for choice in product(range(durations.shape[1]), repeat=len(durations)):
                end = max(loads(durations, np.array(choice)))
                if end <= limit:
                    assert below.level + below.reduced[jobs, choice].sum() <= end * (1 + 1e-9)
    assert sharper > 12
    assert proven > 2 if whole else proven == 0


def test_places_have_prices_where_machines_are_slow() -> None:
    """Of jobs that take 10 at least, a machine holds three by 39, whatever fractions say."""
    durations = np.array([[10, 10]] * 6 + [[12, 12]])
    prices = price(durations)
    assert prices.bound == 36
    assert price_below(durations, prices, 39).bound == 40  # type: ignore[union-attr]  # six places for seven jobs
    reals = durations.astype(float)
    assert price_below(reals, price(reals), 39.0).bound == 39  # type: ignore[union-attr]
    # a fast machine does what the slow one has no place for: 3 × 10 there, six of 7 here, not 3.36 there
    durations = np.array([[7, 10]] * 9)
    assert price(durations).bound == 38
    assert price_below(durations, price(durations), 39).bound == 40  # type: ignore[union-attr]
    wide = np.random.default_rng(0).integers(1, 5, (40, 3))
    assert price_below(wide, price(wide), 100) is None  # room for all


def test_knapsacks_hold_the_best_sets_that_fit() -> None:
    durations = np.array([[3, 9], [2, 2], [4, 2], [9, 9]])
    chosen = np.zeros(4, np.int64)
    rewards = np.array([5, 4, 6, 100])
    # room 6: jobs 1 and 2 (10) on either machine; room 3: job 0, and one of two
    assert collect(durations, rewards, 6, chosen) == 20
    assert chosen.tolist() == [0, 2, 2, 0]
    assert collect(durations, rewards, 3, chosen) == 5 + 6
    assert chosen.tolist() == [1, 0, 1, 0]


def test_knapsack_bound_proves_what_the_linear_program_cannot() -> None:
    durations = np.full((3, 2), 10)  # three equal jobs on two machines: 15 in fractions, 20 in truth
    prices = price(durations)
    assert prices.bound == 15
    assert knapsack_bound(durations, prices, 20, Budget()) == 20
    assert knapsack_bound(durations, prices, 30, Budget()) == 20  # by halving
    assert knapsack_bound(durations, prices, 20, Budget(0.0)) == 15
