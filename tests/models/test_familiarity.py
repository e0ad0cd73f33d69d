"""What a model was not trained on is noticed, and what it was trained on is not."""

import numpy as np
import pytest

from icdc.models.familiarity import outside, ranges
from icdc.problems.atsp import Atsp
from icdc.problems.base import Problem
from icdc.problems.forbidden import with_stand_ins
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp


@pytest.mark.parametrize(
    ("problem", "size"), [(Atsp(), (20,)), (Atsp(), (6,)), (Pmsp(), (20, 4)), (Navigation(), (12,))]
)
def test_its_own_instances_are_familiar(problem: Problem, size: tuple[int, ...]) -> None:
    arrays = problem.sample(200, size, np.random.default_rng(77))
    assert outside(problem, arrays, [size]) == [None] * 200


@pytest.mark.parametrize("unit", [1e-3, 60.0, 1e9])
def test_units_do_not_matter(unit: float) -> None:
    arrays = Pmsp().sample(5, (20, 4), np.random.default_rng(1))
    assert outside(Pmsp(), {"durations": arrays["durations"] * unit}, [(20, 4)]) == [None] * 5


def test_another_size() -> None:
    arrays = Pmsp().sample(2, (7, 3), np.random.default_rng(0))
    said = outside(Pmsp(), arrays, [(20, 3), (20, 4)])
    assert said == ["size 7×3 is not one it was trained on (20×3 to 20×4)"] * 2
    assert outside(Pmsp(), arrays, []) == [None] * 2


def test_a_size_between_those_of_training_is_familiar() -> None:
    arrays = Pmsp().sample(2, (35, 4), np.random.default_rng(0))
    assert outside(Pmsp(), arrays, [(20, 5), (50, 3), (60, 4)]) == [None] * 2
    assert outside(Pmsp(), arrays, [(20, 5), (50, 5)])[0] == "size 35×4 is not one it was trained on (20×5 to 50×5)"


def said_of(matrix: np.ndarray) -> str:
    (sentence,) = outside(Atsp(), {"distances": matrix[None]}, [(len(matrix),)])
    return sentence or ""


def test_unfamiliar_tours() -> None:
    rng = np.random.default_rng(0)
    assert "a detour shortens" in said_of(rng.integers(1, 10**6, (20, 20)))
    points = rng.random((20, 2))
    plane = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    assert "both directions is 0, where it was trained on" in said_of(plane)
    ones = rng.integers(5, 7, (20, 20))
    assert "most common entry" in said_of(ones) or "both directions" in said_of(ones)


def test_unfamiliar_schedules() -> None:
    rng = np.random.default_rng(0)
    heavy = np.exp(3 * rng.standard_normal((1, 20, 4)))
    assert "the spread of its entries" in (outside(Pmsp(), {"durations": heavy}, [(20, 4)])[0] or "")
    equal = np.full((1, 20, 4), 7)
    assert "its most common entry is 1," in (outside(Pmsp(), {"durations": equal}, [(20, 4)])[0] or "")


def test_forbidden_pairs_are_told_and_change_nothing_else() -> None:
    """The numbers of permitted pairs are as familiar as before; that some are forbidden is what is new."""
    rng = np.random.default_rng(4)
    for problem, size in ((Pmsp(), (20, 4)), (Atsp(), (20,))):
        (name,) = problem.arrays
        matrix = problem.sample(1, size, rng)[name][0]
        forbidden = rng.random(matrix.shape) < 0.3
        if problem.structure == "tour":
            np.fill_diagonal(forbidden, False)
        else:
            forbidden[:, 0] = False
        arrays = {name: with_stand_ins(problem, {name: matrix}, forbidden)[name][None]}
        (sentence,) = outside(problem, arrays, [size])
        share = forbidden.sum() / (forbidden.size - (20 if problem.structure == "tour" else 0))
        assert sentence == f"the share of its forbidden pairs is {share:.2g}, where it was trained on 0"
        known = ranges(problem, arrays)
        assert known["forbidden"] == pytest.approx((share, share))
        assert outside(problem, arrays, [size], known) == [None]
        plain = ranges(problem, {name: matrix[None]})
        assert known["spread"][0] == pytest.approx(plain["spread"][0], rel=0.3)
        del known["forbidden"]  # as in cards that were written before
        assert outside(problem, arrays, [size], known) == [None]


def test_only_the_unfamiliar_ones_of_a_batch() -> None:
    durations = Pmsp().sample(3, (20, 4), np.random.default_rng(5))["durations"].astype(np.int64)
    durations[1] = 7
    said = outside(Pmsp(), {"durations": durations}, [(20, 4)])
    assert [sentence is None for sentence in said] == [True, False, True]
