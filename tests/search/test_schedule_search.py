"""The search for schedules, part by part: proofs, limits, starts and proposals, and decimals in whole units."""

import time
from typing import Any

import numpy as np
import pytest

from icdc.jit import plain
from icdc.search.run import Budget
from icdc.search.schedule_bounds import price
from icdc.search.schedule_exact import Restricted, makespan
from icdc.search.schedule_search import (
    MOST_PROGRAMS,
    DecimalScheduleSearch,
    ScheduleSearch,
    construct,
    whole_units,
)
from icdc.search.structures import structure_of
from tests.search.tiny import durations_of, loads, run, shortest_makespan, slow_machines


@pytest.mark.parametrize("whole", [True, False])
def test_bounds_and_proofs_are_true_on_tiny_instances(whole: bool) -> None:
    for seed in range(12):
        durations = durations_of(seed, whole)
        best = shortest_makespan(durations)
        first = construct(durations, Budget())
        assert first.prices.bound <= best <= max(loads(durations, first.choice)) * (1 + 1e-12)
        search = ScheduleSearch(durations, seed)
        for part, steps in ((search.construct, 0), (search.search, 200), (search.prove, 0)):
            part(Budget(None, steps, 2))
            assert search.bound <= best * (1 + 1e-12)
            assert max(loads(durations, search.choice)) == pytest.approx(search.cost)
            assert search.cost >= best * (1 - 1e-12)
        if whole:
            assert search.cost == best


def test_places_are_priced_where_machines_are_slow_and_raise_the_bound() -> None:
    durations = slow_machines()
    search = ScheduleSearch(durations, 1)
    search.construct(Budget())
    assert search.hopeful
    assert search.prices.limit >= search.cost - 1
    assert search.bound > price(durations).bound + 1
    assert search.cost <= makespan(durations, construct(durations, Budget()).choice)
    search.search(Budget(None, 2000, 1))
    search.prove(Budget(5.0))
    assert search.cost >= search.bound
    even = ScheduleSearch(np.random.default_rng(0).integers(50, 60, (30, 4)), 1)
    even.construct(Budget())
    assert not even.hopeful or even.proven


def test_programs_on_part_of_the_jobs_come_first_and_again_below_every_better_makespan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One with all jobs ends a try at a proof; the next try goes on behind it."""
    search = ScheduleSearch(slow_machines(), 1)
    search.construct(Budget())
    assert search.hopeful
    asked = list[tuple[int, int]]()

    def answer(durations: Any, prices: Any, incumbent: Any, budget: Budget, width: int, *given: Any) -> Restricted:
        settled = given[2]
        asked.append((width, 120 if settled is None else int((~settled).sum())))
        if len(asked) == 2:
            search.incumbent.exact_cost[0] -= 1
        return Restricted(None, 0, False, False)

    monkeypatch.setattr("icdc.search.schedule_search.restricted_mip", answer)
    monkeypatch.setattr("icdc.search.schedule_search.knapsack_bound", lambda *given: 0.0)
    monkeypatch.setattr(search, "_price_places", lambda budget: None)
    assert search.likely
    search.prove(Budget(5.0))
    assert [width for width, _ in asked] == [4, 4, 4, 4, 3]
    assert [free for _, free in asked[:2]] == [free for _, free in asked[2:4]]
    assert 60 <= asked[0][1] < asked[1][1] < 120 == asked[4][1]
    search.prove(Budget(5.0))
    search.prove(Budget(5.0))
    assert asked[5:] == [(5, 120), (10, 120)]
    assert not search.likely


def test_answers_that_are_ever_a_little_better_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a time limit, too: a try at a proof has so many programs, and the next one goes on."""
    search = ScheduleSearch(slow_machines(), 1)
    search.construct(Budget())
    asked = list[float]()

    def answer(*given: Any) -> Restricted:
        asked.append(search.cost)
        search.incumbent.exact_cost[0] -= 1
        search.incumbent.bound[0] = 0.0
        return Restricted(None, 0, False, False)

    monkeypatch.setattr("icdc.search.schedule_search.restricted_mip", answer)
    monkeypatch.setattr("icdc.search.schedule_search.knapsack_bound", lambda *given: 0.0)
    monkeypatch.setattr(search, "_price_places", lambda budget: None)
    search.prove(Budget())
    assert len(asked) == MOST_PROGRAMS
    search.prove(Budget())
    assert len(asked) == 2 * MOST_PROGRAMS


def test_knapsacks_wait_for_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are filled once: not when there is no time left for it."""
    search, filled = ScheduleSearch(slow_machines(), 1), list[float]()
    search.construct(Budget())

    def bound(durations: Any, prices: Any, incumbent: int, budget: Budget) -> float:
        filled.append(budget.left)
        return 0.0

    none = Restricted(None, 0, False, False)
    monkeypatch.setattr("icdc.search.schedule_search.restricted_mip", lambda *given: none)
    monkeypatch.setattr(search, "_price_places", lambda budget: None)
    monkeypatch.setattr("icdc.search.schedule_search.knapsack_bound", bound)
    monkeypatch.setattr("icdc.search.schedule_search.KNAPSACKS", 10**9)
    search.prove(Budget(0.0))
    assert not filled
    search.prove(Budget(5.0))
    search.prove(Budget(5.0))
    assert len(filled) == 1
    assert 0 < filled[0] <= 1.5


def test_searches_begin_where_prices_of_places_lead_and_go_on_from_what_others_found() -> None:
    durations = slow_machines()
    search = ScheduleSearch(durations, 1)
    search.construct(Budget())
    assert search._first is not None
    search._first = np.ones(120, np.int64)  # far worse than the best
    search.search(Budget(None, 0, 1))
    kept = search._searches[0]
    assert (kept.best_choice == 1).all()
    search.search(Budget(None, 0, 1))
    assert search._searches[0] is kept  # nobody found anything better since
    told = np.zeros(120, np.int64)
    search.incumbent.offer(told, search.cost - 1, "network")  # whatever it costs in truth
    search.search(Budget(None, 0, 1))
    assert (search._searches[0].best_choice == told).all()


def test_tables_find_and_prove_the_optimum() -> None:
    """Even from a start that is far from it."""
    for seed in range(5):
        durations = durations_of(seed, jobs=7)
        search = ScheduleSearch(durations, seed)
        search.offer(np.zeros(7, np.int64), "start")
        search._fill_tables(Budget())
        assert search.proven
        assert search.cost == shortest_makespan(durations)
        assert search.incumbent.found_by[0] == "exact"


def test_few_loads_are_settled_before_anything_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    def priced(*_: object, **__: object) -> None:
        raise AssertionError("there was no need")

    monkeypatch.setattr("icdc.search.schedule_search.construct", priced)
    for seed in range(5):
        durations = durations_of(seed, jobs=7)
        search = ScheduleSearch(durations, seed)
        search.construct(Budget())
        assert search.proven
        assert search.cost == shortest_makespan(durations)


def test_a_proposal_is_searched_on_from_and_a_start_is_kept() -> None:
    rng = np.random.default_rng(0)
    durations = rng.integers(1, 101, (60, 1)) + rng.integers(1, 21, (60, 10))
    best = run(ScheduleSearch(durations, 1), 1.0)
    assert best.cost == makespan(durations, best.choice)
    search = ScheduleSearch(durations, 3, start=best.choice)
    search.construct(Budget())
    assert search.cost <= best.cost
    fresh = ScheduleSearch(durations, 3)
    fresh.construct(Budget())
    before = fresh.cost
    fresh.search_from(best.choice, "network", Budget(None, 1))
    assert fresh.cost <= best.cost
    assert fresh.cost == before or fresh.incumbent.found_by[0].startswith("network")


def test_the_limit_is_kept_by_every_part() -> None:
    durations = np.random.default_rng(0).integers(1, 1001, (300, 40))
    search = ScheduleSearch(durations, 1)
    search.construct(Budget(0.5))
    search.search(Budget(0.01))  # compiles
    for part in (search.construct, search.search, search.prove):
        begun = time.perf_counter()
        part(Budget(0.2, searches=2))
        assert time.perf_counter() - begun < 2.0


def test_a_large_instance_has_a_start_and_a_bound_within_its_time() -> None:
    """And search ends in time, compiled or not."""
    durations = np.random.default_rng(1).integers(1, 101, (2000, 100))
    construct(durations[:20, :4], Budget())  # compiles
    begin = time.process_time()
    first = construct(durations, Budget(1.0))
    assert time.process_time() - begin < 6
    assert first.prices.bound <= makespan(durations, first.choice) <= 1.1 * first.prices.bound
    small = ScheduleSearch(slow_machines(), 0)
    small.construct(Budget())
    small.search(Budget(steps=3))  # compiles
    with plain():
        begin = time.process_time()
        small.search(Budget(0.3, clock=time.process_time))
        assert time.process_time() - begin < 1.0


@pytest.mark.parametrize(
    ("durations", "scale"),
    [
        ([[1.0, 20.0]], 1.0),
        ([[1.5, 2.0], [0.0, 3.0]], 10.0),
        ([[1.5, 2.25]], 100.0),
        ([[3 * 0.1, 7 * 0.1]], 10.0),  # rounded on the way, in the last bits only
        ([[3e-12, 40e-12]], 1e12),
        ([[4e9, 0.125]], 1000.0),
        ([[2.0**41] * 2] * 2, 1.0),
        ([[1 / 3, 2 / 3]], None),
        ([[np.pi, 1.0]], None),
        ([[1.0, 1.0 + 1e-14]], None),
        ([[1e13, 2.0]], None),
        ([[4e9, 0.0625]], None),
        ([[2.0**42] * 2] * 2, None),  # the most that a machine can have decides
        ([[np.inf, 1.0]], None),
        ([[np.nan]], None),
    ],
)
def test_decimals_are_counted_in_their_last_digit(durations: list[list[float]], scale: float | None) -> None:
    """Other reals stay reals, and integers what they are."""
    matrix = np.array(durations)
    units = whole_units(matrix)
    assert (None if units is None else units[1]) == scale
    if units is not None:
        assert units[0].dtype == np.int64
        np.testing.assert_allclose(units[0] / units[1], matrix, rtol=1e-15)
    elif np.isfinite(matrix).all():
        assert isinstance(structure_of("makespan").search(matrix, 0), ScheduleSearch)
    assert whole_units(np.array([[1, 2]])) is None


@pytest.mark.parametrize("unit", [0.25, 0.1, 0.001, 1e-12])
def test_tiny_schedules_of_decimals_are_proven_and_bounds_are_true(unit: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(6):
        durations = rng.integers(1, 40, (6, 3)) * unit
        search = structure_of("makespan").search(durations, 0)
        assert isinstance(search, DecimalScheduleSearch)
        assert not search.solved
        search.construct(Budget())
        search.prove(Budget())
        best = shortest_makespan(durations)
        assert search.cost == pytest.approx(best, rel=1e-12)
        assert search.bound <= best
        assert search.bound == pytest.approx(best, rel=1e-12)
        assert not search.likely


def test_starts_searches_and_proposals_reach_the_search_in_units() -> None:
    rng = np.random.default_rng(0)
    durations = rng.integers(1, 2000, (40, 6)) * 0.01
    start = rng.integers(0, 6, 40)
    search = structure_of("makespan").search(durations, 0, start)
    search.construct(Budget())
    first = search.cost
    assert first == pytest.approx(max(loads(durations, search.choice)))
    assert isinstance(search, DecimalScheduleSearch)
    assert search.inner.start is start
    assert search.likely
    assert search.hopeful is search.inner.hopeful
    search.search(Budget(steps=2000))
    search.search_from(start, "network", Budget(steps=500))
    assert search.bound <= search.cost <= first
