"""Exact schedules against brute force: tables over loads, and integer programs on some of the pairs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from icdc.search.run import Budget
from icdc.search.schedule_bounds import price, price_below
from icdc.search.schedule_exact import load_tables, makespan, read_schedule, restricted_mip, settled_jobs
from icdc.search.schedule_search import construct
from tests.search.tiny import durations_of, loads, random_choice, shortest_makespan


def test_makespan_is_exact_for_large_integers() -> None:
    large = 2**61
    durations = np.array([[large + 1, large], [3, 1], [large, large + 3]])
    assert makespan(durations, np.array([[0, 0, 1], [1, 1, 1]])).tolist() == [large + 4, 2 * large + 4]


def test_tables_have_the_best_schedule_below_a_limit_or_none() -> None:
    for seed in range(12):
        durations = durations_of(seed, machines=2 + seed % 3)
        best = int(shortest_makespan(durations))
        for limit in (best, best + 1, 2 * best):
            tables = load_tables(durations, limit, Budget())
            assert tables is not None
            choice = read_schedule(durations, tables, limit)
            assert (choice is None) == (limit == best)
            assert choice is None or max(loads(durations, choice)) == best
        assert load_tables(durations, best, Budget(0.0)) is None


def test_proofs_are_right_and_better_solutions_are_schedules() -> None:
    said, improved, incomplete = 0, 0, 0
    for seed in range(60):
        durations = durations_of(seed)
        prices, best = price(durations), shortest_makespan(durations)
        incumbent = construct(durations, Budget()).choice if seed % 2 else random_choice(seed, durations)
        before = max(loads(durations, incumbent))
        some = restricted_mip(durations, prices, incumbent, Budget(5.0), width=1 + seed % 3)
        assert some.makespan == max(loads(durations, incumbent if some.choice is None else some.choice)) <= before
        if some.choice is not None:
            improved += 1
            assert some.makespan < before
        if some.optimal:
            said += 1
            assert some.complete
            assert some.makespan == best
        incomplete += not some.complete
        full = restricted_mip(durations, prices, incumbent, Budget(5.0), width=3)
        assert (full.makespan, full.optimal) == (best, True)
        below = price_below(durations, prices, before - 1)
        if below is not None:
            ranked = restricted_mip(durations, below, incumbent, Budget(5.0), width=3, ranked=prices.reduced)
            assert (ranked.makespan, ranked.optimal) == (best, True)
    assert min(said, improved, incomplete) >= 10


def test_prices_for_less_are_refused() -> None:
    for seed in range(40):
        durations, incumbent = durations_of(seed), random_choice(seed, durations_of(seed))
        below = price_below(durations, price(durations), shortest_makespan(durations))
        if below is not None and max(loads(durations, incumbent)) - 1 > below.limit:
            with pytest.raises(ValueError, match="say nothing of all that end by"):
                restricted_mip(durations, below, incumbent, Budget(5.0))
            return
    raise AssertionError("no such instance")


def test_limits_of_large_integers_are_compared_exactly() -> None:
    """The next real number may be above an integer: prices for just below the incumbent are for that, all the same."""
    durations = np.array([[2**53, 2**53 + 2], [4, 2**53 + 1], [6, 7]])
    incumbent = np.array([0, 0, 1])
    value = int(makespan(durations, incumbent))
    assert float(value - 1) > value - 1
    restricted = restricted_mip(durations, replace(price(durations), limit=value - 1), incumbent, Budget(5.0), width=2)
    assert not restricted.optimal  # no solver of real numbers proves anything of these
    with pytest.raises(ValueError, match="say nothing of all that end by"):
        restricted_mip(durations, replace(price(durations), limit=value - 2), incumbent, Budget(5.0), width=2)


def test_settled_jobs_stay_and_any_better_schedule_will_do() -> None:
    """Checked against all schedules of the free jobs; only that there is none is a proof, and only where all count."""
    improved, refuted, not_best = 0, 0, 0
    for seed in range(60):
        durations = durations_of(seed)
        prices = price(durations)
        incumbent = construct(durations, Budget()).choice if seed % 2 else random_choice(seed, durations)
        assert prices.fraction is not None
        jobs, machines = durations.shape
        settled = np.random.default_rng(seed).random(jobs) < (0.5 if seed % 3 else 0.0)
        stay = prices.fraction.argmax(1)
        better = restricted_mip(durations, prices, incumbent, Budget(5.0), width=machines, settled=settled)
        every = product(*([stay[job]] if settled[job] else range(machines) for job in range(jobs)))
        best = min(max(loads(durations, np.array(choice))) for choice in every)
        if better.choice is None:
            refuted += 1
            assert best >= max(loads(durations, incumbent))
            assert not better.optimal or shortest_makespan(durations) == better.makespan
        else:
            improved += 1
            assert better.makespan < max(loads(durations, incumbent))
            assert (better.choice[settled] == stay[settled]).all()
            assert better.makespan == max(loads(durations, better.choice))
            assert not better.optimal
            not_best += better.makespan > best
    assert min(improved, refuted, not_best) >= 3


def test_jobs_that_are_split_or_cheap_to_move_are_free() -> None:
    durations = np.random.default_rng(3).integers(1, 101, (60, 6))
    prices = price(durations)
    assert prices.fraction is not None
    split = prices.fraction.max(1) < 0.999
    assert 0 < split.sum() < 7
    second = np.sort(prices.reduced, 1)[:, 1]
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


def test_nothing_is_said_of_optimality_for_reals_or_out_of_time() -> None:
    durations = durations_of(1, whole=False)
    better = restricted_mip(durations, price(durations), random_choice(1, durations), Budget(5.0), width=3)
    assert better.makespan == pytest.approx(shortest_makespan(durations))
    assert not better.optimal
    durations = np.random.default_rng(0).integers(1, 20, (100, 20)) + np.random.default_rng(1).integers(
        1, 101, (100, 1)
    )
    first = construct(durations, Budget())
    assert not restricted_mip(durations, first.prices, first.choice, Budget(0.1), width=20).optimal
