"""The whole classical search for one schedule, part by part: proofs, limits, starts and proposals."""

import time

import numpy as np
import pytest

from icdc.search.effort import Effort
from icdc.search.schedule_search import ScheduleSearch, search
from icdc.search.schedules import makespan

from .tiny import instance, optimum


@pytest.mark.parametrize("whole", [True, False])
def test_bounds_and_proofs_are_true_on_tiny_instances(whole: bool) -> None:
    for seed in range(12):
        durations, allowed = instance(seed, whole)
        parts = ScheduleSearch(durations, seed, allowed)
        for part, steps in ((parts.construct, 0), (parts.search, 200), (parts.prove, 0)):
            part(Effort(None, steps, 2))
            assert parts.best is not None
            best = optimum(durations, allowed)
            assert parts.best.bound <= best * (1 + 1e-12)
            assert parts.best.cost >= best * (1 - 1e-12)
            assert allowed is None or allowed[np.arange(len(durations)), parts.best.choice].all()
        if whole:
            assert parts.best.cost == best


def test_tables_find_and_prove_the_optimum() -> None:
    """Even from a start that is far from it."""
    for seed in range(5):
        durations, _ = instance(seed, True, jobs=7, machines=3)
        parts = ScheduleSearch(durations, seed)
        parts.construct(Effort())
        parts.best = None
        parts._take(np.zeros(7, np.int64), "start")
        parts._fill_tables(np.inf)
        assert parts.best is not None
        assert parts.best.proven
        assert parts.best.cost == optimum(durations, None)
        assert parts.best.found_by == "exact"


def test_a_proposal_is_searched_on_from_and_a_start_is_kept() -> None:
    rng = np.random.default_rng(0)
    durations = rng.integers(1, 101, (60, 1)) + rng.integers(1, 21, (60, 10))
    best = search(durations, 1.0, seed=1)
    assert best.cost == makespan(durations, best.choice)
    parts = ScheduleSearch(durations, 3, start=best.choice)
    parts.construct(Effort())
    assert parts.best is not None
    assert parts.best.cost <= best.cost
    fresh = ScheduleSearch(durations, 3)
    fresh.construct(Effort())
    assert fresh.best is not None
    before = fresh.best
    fresh.take_up(best.choice, "somebody", Effort(None, 1))
    assert fresh.best.cost <= best.cost
    assert fresh.best is before or fresh.best.found_by.startswith("somebody")


def test_the_limit_is_kept_by_every_part() -> None:
    durations = np.random.default_rng(0).integers(1, 1001, (300, 40))
    parts = ScheduleSearch(durations, 1)
    parts.construct(Effort(0.5))
    parts.search(Effort(0.01))  # compiles
    for part in (parts.construct, parts.search, parts.prove):
        begun = time.perf_counter()
        part(Effort(0.2, searches=2))
        assert time.perf_counter() - begun < 2.0
