"""What a card is for: how a model is used best, and what it is unsure of."""

import math
from typing import Any

import numpy as np
import pytest

from icdc.errors import InputError
from icdc.models.card import (
    NOTICEABLE,
    advised,
    changes_advised,
    checked_card,
    describe,
    expected,
    outside,
    ranges,
    worse_than_search,
)
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems.atsp import Atsp
from icdc.problems.base import Arrays, Problem
from icdc.problems.families import sample_family
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


TOURS = ("tmat", "uniform", "noisy-plane", "one-way-plane", "roads", "crane")
SCHEDULES = ("paper", "job-correlated", "machine-correlated", "heavy-tailed", "forbidden")


def drawn(problem: Problem, family: str, count: int, size: tuple[int, ...], seed: int = 0) -> Arrays:
    return sample_family(problem, family, count, size, np.random.default_rng(seed))


def cell(problem: Problem, family: str, size: tuple[int, ...], alone: float = 0.0, search: float = 0.0) -> Any:
    numbers = ranges(problem, drawn(problem, family, 12, size))
    gaps = {"alone": alone, "with_search": alone / 2, "search": search}
    return {"family": family, "size": list(size), "numbers": {k: list(v) for k, v in numbers.items()}, **gaps}


@pytest.mark.parametrize(
    ("problem", "size", "families"), [(Atsp(), (40,), TOURS), (Pmsp(), (40, 6), SCHEDULES)], ids=["tours", "schedules"]
)
def test_instances_are_told_apart_by_family(problem: Problem, size: Any, families: tuple[str, ...]) -> None:
    cells = [cell(problem, family, size) for family in families]
    for family in families:
        found = expected(problem, drawn(problem, family, 20, size, seed=9), cells)
        right = [one is not None and one.family == family for one in found]
        assert np.mean(right) >= 0.85, family


def test_units_do_not_matter_to_families_and_cells_of_another_size_still_tell() -> None:
    cells = [cell(Pmsp(), family, (40, 6)) for family in SCHEDULES]
    arrays = drawn(Pmsp(), "job-correlated", 5, (80, 6), seed=3)
    (one, *others) = expected(Pmsp(), {"durations": 3600.0 * arrays["durations"]}, cells)
    assert {o.family for o in (one, *others) if o} == {"job-correlated"}


def test_shares_of_the_variance() -> None:
    rows = np.arange(4.0)[:, None] + np.zeros((4, 3))
    assert describe(rows, Pmsp())["by_rows"] == pytest.approx(1.0)
    assert describe(rows, Pmsp())["by_columns"] == pytest.approx(0.0)
    tour = np.arange(4.0)[None, :] + np.zeros((4, 4)) + 1e6 * np.eye(4)
    numbers = describe(tour, Atsp())  # the diagonal does not count
    assert numbers["by_columns"] == pytest.approx(1.0)
    assert describe(np.ones((3, 3)), Atsp())["by_rows"] == 0.0


def test_between_sizes_gaps_are_interpolated_and_beyond_they_go_on_growing() -> None:
    cells = [cell(Atsp(), "tmat", (n,), alone, search) for n, alone, search in ((10, 1.0, 0.0), (40, 3.0, 0.5))]

    def at(size: int, cells: Any = cells) -> Any:
        (one,) = expected(Atsp(), Atsp().sample(1, (size,), np.random.default_rng(0)), cells)
        return one

    assert (at(10).model, at(10).search, at(10).beyond) == (1.0, 0.0, False)
    assert (at(20).model, at(20).search) == (pytest.approx(2.0), pytest.approx(0.25))
    assert (at(5).model, at(5).search) == (1.0, 0.0)
    assert at(80).model == pytest.approx(4.0)
    assert at(80).search == pytest.approx(0.75)
    assert at(80).beyond
    falling = [dict(one, alone=alone) for one, alone in zip(cells, (3.0, 1.0), strict=True)]
    assert at(80, falling).model == 1.0  # what shrank does not go on to nothing


@pytest.mark.parametrize(("alone", "said"), [(NOTICEABLE + 0.1, False), (NOTICEABLE + 0.3, True)])
def test_only_what_is_noticeably_worse_than_search_is_said(alone: float, said: bool) -> None:
    cells = [cell(Pmsp(), "paper", (20, 4), round(alone, 6), 0.2)]
    arrays = Pmsp().sample(2, (20, 4), np.random.default_rng(0))
    words = worse_than_search(Pmsp(), arrays, cells)
    assert [sentence is not None for sentence in words] == [said, said]
    assert worse_than_search(Pmsp(), arrays, cells, with_search=True) == [None, None]
    if said:
        assert words[0] == (
            "it is most like paper matrices, and at 20×4 the model alone is about 2.3 % above the best known there, "
            "search 0.2 % in the same time (as measured)"
        )
        (larger,) = worse_than_search(Pmsp(), Pmsp().sample(1, (50, 4), np.random.default_rng(0)), cells)
        assert "(as measured on smaller ones)" in (larger or "")


def test_nothing_measured_and_no_matrix_say_nothing() -> None:
    arrays = Pmsp().sample(2, (20, 4), np.random.default_rng(0))
    assert worse_than_search(Pmsp(), arrays, []) == [None, None]
    maps = Navigation().sample(2, (6,), np.random.default_rng(0))
    known = cell(Atsp(), "tmat", (6,), 50.0)
    assert len(worse_than_search(Navigation(), maps, [known])) == 2


def model(**card: Any) -> Model:
    tiny = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)
    return Model(Pmsp(), ModelConfig(network=tiny), card=card)


def test_a_card_with_measurements_decides_by_them() -> None:
    arrays = drawn(Pmsp(), "job-correlated", 2, (30, 4))
    bad = [cell(Pmsp(), "job-correlated", (30, 4), 9.0)]
    good = [cell(Pmsp(), "job-correlated", (30, 4), 0.1)]
    assert all(model(sizes=[[20, 4]], home=bad).unfamiliar(arrays))
    assert model(sizes=[[20, 4]], home=good).unfamiliar(arrays) == [None, None]
    assert all(model(sizes=[[20, 4]]).unfamiliar(arrays))  # another size, and nothing was measured


def test_how_search_inside_the_chain_is_used() -> None:
    entries = [
        {"size": [20, 4], "with_search": True, "options": {"improve_rounds": 10}},
        {"size": [100, 10], "with_search": True, "options": {"improve_rounds": 120}},
        {"size": [200, 20], "with_search": True, "options": {"decodes": 3}},
        {"size": [200, 20], "options": {"improve_rounds": 7}},
    ]
    assert changes_advised({"solving": entries}, (30, 4)) == 10
    assert changes_advised({"solving": entries}, (200, 20)) == 120
    assert changes_advised({}, (200, 20)) is None
    assert model(solving=entries).improvement((20, 4)) == {"improve_rounds": 10, "steps": 20}
    assert model().improvement((20, 4)) == {}


def test_advice_to_merge_is_followed_without_it_where_decodes_are_not_merged() -> None:
    card = {"sizes": [[20]], "solving": [{"size": [20], "options": {"temperature": 0.8, "merge": 9}}]}
    assert advised(card, (20,), 1) == {"temperature": 0.8, "merge": 9}
    assert advised(card, (20,), 1, merging=False) == {"temperature": 0.8}


GOOD = {"family": "paper", "size": [20, 4], "alone": 0.1, "with_search": 0, "search": 0.0, "numbers": {"ties": [0, 1]}}


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ({"home": {}}, "'home' of its card: it must be a list"),
        ({"home": [{**GOOD, "family": 3}]}, "'family' must be a text"),
        ({"home": [{k: v for k, v in GOOD.items() if k != "size"}]}, "lacks size"),
        ({"home": [{**GOOD, "size": [20]}]}, "its sizes must be of as many numbers each"),
        ({"home": [{**GOOD, "search": None}]}, "'search' must be a number"),
        ({"home": [{**GOOD, "alone": math.inf}]}, "'alone' must be a finite number"),
        ({"home": [{**GOOD, "numbers": {"ties": [1]}}]}, "two numbers for every name"),
        ({"solving": [{"size": [20, 0]}]}, "'solving' of its card: it must have sizes"),
        ({"solving": [{"steps": 3}]}, "unknown setting 'steps'"),
    ],
)
def test_what_a_file_says_is_checked(card: dict[str, Any], words: str) -> None:
    assert checked_card({"sizes": [[20, 4]], "home": [GOOD]}, "x")
    with pytest.raises(InputError, match=words):
        checked_card({"sizes": [[20, 4]], **card}, "x")
