"""Schedules of decimals: the same numbers in whole units, true bounds, and proofs as for whole durations."""

import numpy as np
import pytest

from icdc.search.decimal_schedules import DecimalScheduleSearch, whole_units
from icdc.search.run import Budget
from icdc.search.schedule_search import ScheduleSearch
from icdc.search.structures import structure_of

from .tiny import optimum


@pytest.mark.parametrize(
    ("durations", "scale"),
    [
        ([[1.0, 20.0]], 1.0),
        ([[1.5, 2.0], [0.0, 3.0]], 10.0),
        ([[1.5, 2.25]], 100.0),
        ([[3 * 0.1, 7 * 0.1]], 10.0),  # rounded on the way, in the last bits only
        ([[3e-12, 40e-12]], 1e12),
        ([[4e9, 0.125]], 1000.0),
    ],
)
def test_decimals_are_counted_in_their_last_digit(durations: list[list[float]], scale: float) -> None:
    found = whole_units(np.array(durations))
    assert found is not None
    assert found[1] == scale
    assert found[0].dtype == np.int64
    np.testing.assert_allclose(found[0] / scale, durations, rtol=1e-15)


@pytest.mark.parametrize(
    "durations",
    [
        [[1 / 3, 2 / 3]],
        [[np.pi, 1.0]],
        [[1.0, 1.0 + 1e-14]],
        [[1e13, 2.0]],
        [[4e9, 0.0625]],
        [[np.inf, 1.0]],
        [[np.nan]],
    ],
)
def test_other_reals_stay_reals(durations: list[list[float]]) -> None:
    assert whole_units(np.array(durations)) is None
    assert whole_units(np.array([[1, 2]])) is None
    if np.isfinite(durations).all():
        assert isinstance(structure_of("makespan").search(np.array(durations), 0), ScheduleSearch)


def test_the_most_that_a_machine_can_have_decides() -> None:
    assert whole_units(np.full((2, 2), 2.0**42)) is None
    assert whole_units(np.full((2, 2), 2.0**41)) is not None


@pytest.mark.parametrize("unit", [0.25, 0.1, 0.001, 1e-12])
def test_tiny_schedules_are_proven_and_bounds_are_true(unit: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(6):
        durations = rng.integers(1, 40, (6, 3)) * unit
        parts = structure_of("makespan").search(durations, 0)
        assert isinstance(parts, DecimalScheduleSearch)
        assert not parts.solved
        parts.construct(Budget())
        parts.prove(Budget())
        best = optimum(durations, None)
        assert parts.cost == pytest.approx(best, rel=1e-12)
        assert parts.bound <= best
        assert parts.bound == pytest.approx(best, rel=1e-12)
        assert not parts.likely


def test_starts_searches_and_proposals_reach_the_search_in_units() -> None:
    rng = np.random.default_rng(0)
    durations = rng.integers(1, 2000, (40, 6)) * 0.01
    start = rng.integers(0, 6, 40)
    parts = structure_of("makespan").search(durations, 0, start)
    parts.construct(Budget())
    first = parts.cost
    assert first == pytest.approx(max(durations[parts.choice == m, m].sum() for m in range(6)))
    assert isinstance(parts, DecimalScheduleSearch)
    assert parts.inner.start is start
    assert parts.likely
    assert parts.hopeful is parts.inner.hopeful
    parts.search(Budget(steps=2000))
    parts.search_from(start, "somebody", Budget(steps=500))
    assert parts.bound <= parts.cost <= first
