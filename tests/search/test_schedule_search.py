"""The whole classical search for one schedule, part by part: proofs, limits, starts and proposals."""

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.search.run import Budget, Incumbent
from icdc.search.schedule_mip import Restricted
from icdc.search.schedule_prices import price
from icdc.search.schedule_search import MOST_PROGRAMS, ScheduleSearch
from icdc.search.schedules import construct, makespan

from .tiny import instance, optimum, run


@pytest.mark.parametrize("whole", [True, False])
def test_bounds_and_proofs_are_true_on_tiny_instances(whole: bool) -> None:
    for seed in range(12):
        durations, allowed = instance(seed, whole)
        parts = ScheduleSearch(durations, seed, allowed)
        for part, steps in ((parts.construct, 0), (parts.search, 200), (parts.prove, 0)):
            part(Budget(None, steps, 2))
            best = optimum(durations, allowed)
            assert parts.bound <= best * (1 + 1e-12)
            assert parts.cost >= best * (1 - 1e-12)
            assert allowed is None or allowed[np.arange(len(durations)), parts.choice].all()
        if whole:
            assert parts.cost == best


def slow_machines(jobs: int, machines: int) -> NDArray[np.int64]:
    """Durations of machines of very different speeds, on most of which few jobs have a place."""
    rng = np.random.default_rng(1)
    return rng.integers(1, 101, (1, machines)) + rng.integers(1, 21, (jobs, machines))


def test_places_are_priced_where_machines_are_slow_and_raise_the_bound() -> None:
    durations = slow_machines(120, 12)
    parts = ScheduleSearch(durations, 1)
    parts.construct(Budget())
    assert parts.hopeful
    assert parts.prices.limit >= parts.cost - 1
    assert parts.bound > price(durations).bound + 1
    assert parts.cost <= construct(durations).makespans[0]
    parts.search(Budget(None, 2000, 1))
    parts.prove(Budget(5.0))
    assert parts.cost >= parts.bound
    even = ScheduleSearch(np.random.default_rng(0).integers(50, 60, (30, 4)), 1)
    even.construct(Budget())
    assert not even.hopeful or even.proven


def test_programs_on_part_of_the_jobs_come_first_and_again_below_every_better_makespan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One with all jobs ends a try at a proof; the next try goes on behind it."""
    parts = ScheduleSearch(slow_machines(120, 12), 1)
    parts.construct(Budget())
    assert parts.hopeful
    asked = list[tuple[int, int]]()

    def answer(durations: Any, prices: Any, incumbent: Any, seconds: float, width: int, *given: Any) -> Restricted:
        settled = given[2]
        asked.append((width, 120 if settled is None else int((~settled).sum())))
        if len(asked) == 2:
            parts.incumbent.exact_cost[0] -= 1
        return Restricted(None, 0, False, False)

    monkeypatch.setattr("icdc.search.schedule_search.restricted_mip", answer)
    monkeypatch.setattr("icdc.search.schedule_search.knapsack_bound", lambda *given, **named: 0.0)
    monkeypatch.setattr(parts, "_price_places", lambda budget: None)
    assert parts.likely
    parts.prove(Budget(5.0))
    assert [width for width, _ in asked] == [4, 4, 4, 4, 3]
    assert [free for _, free in asked[:2]] == [free for _, free in asked[2:4]]
    assert 60 <= asked[0][1] < asked[1][1] < 120 == asked[4][1]
    parts.prove(Budget(5.0))
    parts.prove(Budget(5.0))
    assert asked[5:] == [(5, 120), (10, 120)]
    assert not parts.likely


def test_answers_that_are_ever_a_little_better_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a time limit, too: a try at a proof has so many programs, and the next one goes on."""
    parts = ScheduleSearch(slow_machines(120, 12), 1)
    parts.construct(Budget())
    asked = list[float]()

    def answer(*given: Any) -> Restricted:
        asked.append(parts.cost)
        parts.incumbent.exact_cost[0] -= 1
        parts.incumbent.bound[0] = 0.0
        return Restricted(None, 0, False, False)

    monkeypatch.setattr("icdc.search.schedule_search.restricted_mip", answer)
    monkeypatch.setattr("icdc.search.schedule_search.knapsack_bound", lambda *given, **named: 0.0)
    monkeypatch.setattr(parts, "_price_places", lambda budget: None)
    parts.prove(Budget())
    assert len(asked) == MOST_PROGRAMS
    parts.prove(Budget())
    assert len(asked) == 2 * MOST_PROGRAMS


def test_knapsacks_wait_for_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are filled once: not when there is no time left for it."""
    parts, filled = ScheduleSearch(slow_machines(120, 12), 1), list[float]()
    parts.construct(Budget())

    def bound(*given: Any, seconds: float | None) -> float:
        filled.append(-1.0 if seconds is None else seconds)
        return 0.0

    none = Restricted(None, 0, False, False)
    monkeypatch.setattr("icdc.search.schedule_search.restricted_mip", lambda *given: none)
    monkeypatch.setattr(parts, "_price_places", lambda budget: None)
    monkeypatch.setattr("icdc.search.schedule_search.knapsack_bound", bound)
    monkeypatch.setattr("icdc.search.schedule_search.KNAPSACKS", 10**9)
    parts.prove(Budget(0.0))
    assert not filled
    parts.prove(Budget(5.0))
    parts.prove(Budget(5.0))
    assert len(filled) == 1
    assert 0 < filled[0] <= 1.5


def test_searches_begin_where_prices_of_places_lead_and_go_on_from_what_others_found() -> None:
    durations = slow_machines(120, 12)
    parts = ScheduleSearch(durations, 1)
    parts.construct(Budget())
    assert parts._first is not None
    parts._first = np.ones(120, np.int64)  # far worse than the best
    parts.search(Budget(None, 0, 1))
    kept = parts._searches[0]
    assert (kept.best_choice == 1).all()
    parts.search(Budget(None, 0, 1))
    assert parts._searches[0] is kept  # nobody found anything better since
    told = np.zeros(120, np.int64)
    parts.incumbent.offer(told, parts.cost - 1, "network")  # whatever it costs in truth
    parts.search(Budget(None, 0, 1))
    assert (parts._searches[0].best_choice == told).all()


def test_tables_find_and_prove_the_optimum() -> None:
    """Even from a start that is far from it."""
    for seed in range(5):
        durations, _ = instance(seed, True, jobs=7, machines=3)
        parts = ScheduleSearch(durations, seed)
        parts.construct(Budget())
        parts.incumbent = Incumbent(1, 7, whole=True)
        parts.offer(np.zeros(7, np.int64), "start")
        parts._fill_tables(np.inf)
        assert parts.proven
        assert parts.cost == optimum(durations, None)
        assert parts.incumbent.found_by[0] == "exact"


def test_few_loads_are_settled_before_anything_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    def priced(*_: object, **__: object) -> None:
        raise AssertionError("there was no need")

    monkeypatch.setattr("icdc.search.schedule_search.construct", priced)
    for seed in range(5):
        durations, _ = instance(seed, True, jobs=7, machines=3)
        parts = ScheduleSearch(durations, seed)
        parts.construct(Budget())
        assert parts.proven
        assert parts.cost == optimum(durations, None)


def test_a_proposal_is_searched_on_from_and_a_start_is_kept() -> None:
    rng = np.random.default_rng(0)
    durations = rng.integers(1, 101, (60, 1)) + rng.integers(1, 21, (60, 10))
    best = run(ScheduleSearch(durations, 1), 1.0)
    assert best.cost == makespan(durations, best.choice)
    parts = ScheduleSearch(durations, 3, start=best.choice)
    parts.construct(Budget())
    assert parts.cost <= best.cost
    fresh = ScheduleSearch(durations, 3)
    fresh.construct(Budget())
    before = fresh.cost
    fresh.search_from(best.choice, "somebody", Budget(None, 1))
    assert fresh.cost <= best.cost
    assert fresh.cost == before or fresh.incumbent.found_by[0].startswith("somebody")


def test_the_limit_is_kept_by_every_part() -> None:
    durations = np.random.default_rng(0).integers(1, 1001, (300, 40))
    parts = ScheduleSearch(durations, 1)
    parts.construct(Budget(0.5))
    parts.search(Budget(0.01))  # compiles
    for part in (parts.construct, parts.search, parts.prove):
        begun = time.perf_counter()
        part(Budget(0.2, searches=2))
        assert time.perf_counter() - begun < 2.0
