"""Bounds and proofs for schedules against brute force."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import icdc.search.schedule_prices as schedule_prices
from icdc.search.schedule_bound import collect, knapsack_bound
from icdc.search.schedule_mip import restricted_mip, settled_jobs
from icdc.search.schedule_prices import most_jobs, price, price_below
from icdc.search.schedules import construct
from tests.search.tiny import instance, loads, optimum, random_choice


@pytest.mark.parametrize("whole", [True, False])
def test_bounds_are_never_above_the_optimum_and_whole_for_whole_data(whole: bool) -> None:
    better = 0
    for seed in range(60):
        durations, allowed = instance(seed, whole)
        prices, best = price(durations, allowed), optimum(durations, allowed)
        assert prices.machine.sum() == pytest.approx(1)
        assert (prices.machine >= 0).all()
        assert prices.bound <= best
        assert not whole or prices.bound == int(prices.bound)
        assert np.isinf(prices.given).any() == (allowed is not None and not allowed.all())
        stronger = knapsack_bound(durations, prices, int(best) + 3)
        assert prices.bound <= stronger <= best
        better += stronger > prices.bound
    assert better > 10 if whole else better == 0


def test_prices_are_those_of_the_linear_program_and_columns_are_added_until_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    durations = np.random.default_rng(0).integers(1, 101, (60, 10)).astype(float)
    whole_program = price(durations)
    monkeypatch.setattr(schedule_prices, "_SMALL", 0)
    monkeypatch.setattr(schedule_prices, "_COLUMNS", 2)
    few_columns = price(durations)
    assert few_columns.bound == pytest.approx(whole_program.bound, rel=1e-9)
    monkeypatch.setattr(schedule_prices, "_LARGEST", 0)
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
        durations, allowed = instance(seed, whole, jobs=5 + seed % 3)
        prices, best = price(durations, allowed), optimum(durations, allowed)
        for limit in (best - 1, best, best + 2):
            found = price_below(durations, prices, limit, allowed)
            if found is None:
                continue
            sharper += 1
            assert prices.bound <= found.bound <= best * (1 + 1e-12)
            proven += limit == best - 1 and found.bound == best
            assert found.limit in (limit, np.inf)
            assert found.machine.sum() == pytest.approx(1)
            assert (found.given[np.isfinite(found.given)] >= 0).all()
            if limit < best:
                continue
            jobs = np.arange(len(durations))
            for choice in product(range(durations.shape[1]), repeat=len(durations)):
                end = max(loads(durations, np.array(choice)))
                if end <= limit and (allowed is None or allowed[jobs, choice].all()):
                    assert found.level + found.given[jobs, choice].sum() <= end * (1 + 1e-9)
    assert sharper > 12
    assert proven > 2 if whole else proven == 0


def test_places_have_prices_where_machines_are_slow() -> None:
    """Of jobs that take 10 at least, a machine holds three by 39, whatever fractions say."""
    durations = np.array([[10, 10]] * 6 + [[12, 12]])
    prices = price(durations)
    assert prices.bound == 36
    found = price_below(durations, prices, 39)
    assert found is not None
    assert found.bound == 40  # six places for seven jobs
    assert price_below(durations.astype(float), price(durations.astype(float)), 39.0).bound == 39  # type: ignore[union-attr]
    # a fast machine does what the slow one has no place for: 3 × 10 there, six of 7 here, not 3.36 there
    durations = np.array([[7, 10]] * 9)
    assert price(durations).bound == 38
    found = price_below(durations, price(durations), 39)
    assert found is not None
    assert found.bound == 40
    wide = np.random.default_rng(0).integers(1, 5, (40, 3))
    assert price_below(wide, price(wide), 100) is None  # room for all


def test_integer_programs_refuse_prices_for_less() -> None:
    for seed in range(40):
        durations, allowed = instance(seed)
        incumbent = random_choice(seed, durations, allowed)
        found = price_below(durations, price(durations, allowed), optimum(durations, allowed), allowed)
        if found is not None and max(loads(durations, incumbent)) - 1 > found.limit:
            with pytest.raises(ValueError, match="say nothing of all that end by"):
                restricted_mip(durations, found, incumbent, 5.0)
            return
    raise AssertionError("no such instance")


def test_knapsacks_hold_the_best_sets_that_fit() -> None:
    durations = np.array([[3, 9], [2, 2], [4, 2], [9, 1]])
    usable = np.array([[True, True], [True, True], [True, True], [True, False]])
    chosen = np.zeros(4, np.int64)
    rewards = np.array([5, 4, 6, 100])
    # machine 0, room 6: jobs 1 and 2 (10); machine 1: jobs 1 and 2 (10), job 3 is forbidden there
    assert collect(durations, usable, rewards, 6, chosen) == 20
    assert chosen.tolist() == [0, 2, 2, 0]
    assert collect(durations, usable, rewards, 3, chosen) == 5 + 6
    assert chosen.tolist() == [1, 0, 1, 0]


def test_knapsack_bound_proves_what_the_linear_program_cannot() -> None:
    durations = np.full((3, 2), 10)  # three equal jobs on two machines: 15 in fractions, 20 in truth
    prices = price(durations)
    assert prices.bound == 15
    assert knapsack_bound(durations, prices, 20) == 20
    assert knapsack_bound(durations, prices, 30) == 20  # found by halving
    assert knapsack_bound(durations, prices, 20, seconds=0.0) == 15


def test_mip_proofs_are_right_and_better_answers_are_schedules() -> None:
    said, improved, incomplete = 0, 0, 0
    for seed in range(60):
        durations, allowed = instance(seed)
        prices, best = price(durations, allowed), optimum(durations, allowed)
        incumbent = construct(durations, allowed).choices[0] if seed % 2 else random_choice(seed, durations, allowed)
        answer = restricted_mip(durations, prices, incumbent, 5.0, width=1 + seed % 3)
        value = max(loads(durations, incumbent if answer.choice is None else answer.choice))
        assert value == answer.makespan
        assert answer.makespan <= max(loads(durations, incumbent))
        if answer.choice is not None:
            improved += 1
            assert answer.makespan < max(loads(durations, incumbent))
            assert allowed is None or allowed[np.arange(len(incumbent)), answer.choice].all()
        if answer.optimal:
            said += 1
            assert answer.complete
            assert answer.makespan == best
        incomplete += not answer.complete
        full = restricted_mip(durations, prices, incumbent, 5.0, width=3)
        assert full.optimal
        assert full.makespan == best
        priced = price_below(durations, prices, max(loads(durations, incumbent)) - 1, allowed)
        if priced is not None:
            answer = restricted_mip(durations, priced, incumbent, 5.0, width=3, ranked=prices.given)
            assert answer.optimal
            assert answer.makespan == best
    assert min(said, improved, incomplete) >= 10


def test_settled_jobs_stay_and_any_better_schedule_will_do() -> None:
    """Checked against all schedules of the free jobs; only that there is none is a proof, and only where all count."""
    improved, refuted, not_best = 0, 0, 0
    for seed in range(60):
        durations, allowed = instance(seed)
        prices = price(durations, allowed)
        incumbent = construct(durations, allowed).choices[0] if seed % 2 else random_choice(seed, durations, allowed)
        assert prices.fraction is not None
        jobs, machines = durations.shape
        settled = np.random.default_rng(seed).random(jobs) < (0.5 if seed % 3 else 0.0)
        stay = np.where(np.isfinite(prices.given), prices.fraction, -1.0).argmax(1)
        answer = restricted_mip(durations, prices, incumbent, 5.0, width=machines, settled=settled)
        usable = np.ones(durations.shape, bool) if allowed is None else allowed
        every = product(*(
            [stay[job]] if settled[job] else np.flatnonzero(usable[job]) for job in range(jobs)
        ))  # fmt: skip
        best = min(max(loads(durations, np.array(choice))) for choice in every)
        if answer.choice is None:
            refuted += 1
            assert best >= max(loads(durations, incumbent))
            assert not answer.optimal or optimum(durations, allowed) == answer.makespan
        else:
            improved += 1
            assert answer.makespan < max(loads(durations, incumbent))
            assert (answer.choice[settled] == stay[settled]).all()
            assert answer.makespan == max(loads(durations, answer.choice))
            assert not answer.optimal
            not_best += answer.makespan > best
    assert min(improved, refuted, not_best) >= 3


def test_jobs_that_are_split_or_cheap_to_move_are_free() -> None:
    durations = np.random.default_rng(3).integers(1, 101, (60, 6))
    prices = price(durations)
    assert prices.fraction is not None
    split = prices.fraction.max(1) < 0.999
    assert 0 < split.sum() < 7
    second = np.sort(prices.given, 1)[:, 1]
    for share in (0.0, 0.25, 0.5):
        settled = settled_jobs(prices, share)
        assert settled is not None
        free = ~settled
        assert free[split].all()
        assert free.sum() == int(split.sum() + share * 60)
        if share:
            assert second[free & ~split].max() <= second[settled].min()
    assert settled_jobs(replace(prices, fraction=None), 0.5) is None
    assert settled_jobs(price(durations[:, :1]), 0.5) is None


def test_mip_says_nothing_of_optimality_for_reals_or_out_of_time() -> None:
    durations, _ = instance(1, whole=False)
    answer = restricted_mip(durations, price(durations), random_choice(1, durations, None), 5.0, width=3)
    assert answer.makespan == pytest.approx(optimum(durations, None))
    assert not answer.optimal
    durations = np.random.default_rng(0).integers(1, 20, (100, 20)) + np.random.default_rng(1).integers(
        1, 101, (100, 1)
    )
    starts = construct(durations)
    assert not restricted_mip(durations, starts.prices, starts.choices[0], 0.1, width=20).optimal
