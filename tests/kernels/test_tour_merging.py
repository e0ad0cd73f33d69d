"""Merging tours: parts are what can change by itself, the best that leaves a tour is taken over, all ways agree."""

import itertools

import pytest
import torch
from torch import Tensor

from icdc import jit, kernels
from icdc.kernels import choosing, tour_merging
from tests.kernels.test_tour_descent import assert_is_tour, length, visited
from tests.kernels.ways import needs_numba


def draw(
    size: int, highest: int = 50, batch: int = 2, samples: int = 3, count: int = 6
) -> tuple[Tensor, Tensor, Tensor]:
    """Return whole distances with ties, random tours, and others for each of them that differ here and there."""
    generator = torch.Generator().manual_seed(size)
    distances = torch.randint(0, highest, (batch, size, size), generator=generator)
    order = torch.rand(batch, samples, 1, size, generator=generator).argsort(-1)
    # cities that go to a place not far from theirs: many small differences
    near = torch.arange(size) + 3.0 * torch.rand(batch, samples, count, size, generator=generator)
    shuffled = order.expand(-1, -1, count, -1).gather(3, near.argsort(-1))
    return distances, successors(order[:, :, 0]), successors(shuffled)


def successors(order: Tensor) -> Tensor:
    """Return tours as successors from their cities in visiting order, (…, n)."""
    return torch.zeros_like(order).scatter(-1, order, order.roll(-1, -1))


def parts(tour: list[int], other: list[int]) -> list[list[int]]:
    """Return the cities of each part in which two tours differ, by its least city."""
    left = [city for city in range(len(tour)) if tour[city] != other[city]]
    found = []
    while left:
        part = [left[0]]
        while (following := tour.index(other[part[-1]])) != part[0]:
            part.append(following)
        left = [city for city in left if city not in part]
        found.append(part)
    return found


def is_tour(successor: list[int]) -> bool:
    city, seen = 0, set()
    while city not in seen:
        seen.add(city)
        city = successor[city]
    return len(seen) == len(successor)


def by_hand(distances: Tensor, tour: list[int], other: list[int]) -> list[int]:
    """Merge one tour into another: of all parts and pairs of parts the best, as long as one gains and leaves a tour."""
    matrix, tour = distances.tolist(), list(tour)
    known = parts(tour, other)
    change = [sum(matrix[c][other[c]] - matrix[c][tour[c]] for c in part) for part in known]
    ranked = sorted(range(len(known)), key=lambda part: change[part])[: tour_merging.MOST_PARTS]
    places = range(len(ranked))
    pairs = [(i, i) for i in places] + list(itertools.combinations(places, 2))
    totals = {pair: sum(change[ranked[i]] for i in {*pair}) for pair in pairs}
    gone: set[int] = set()
    trials = 0
    for pair in sorted(totals, key=lambda pair: (totals[pair], pair)):
        rows = [city for i in {*pair} for city in known[ranked[i]]]
        odd = {len(known[ranked[i]]) % 2 for i in pair}
        possible = odd == {1} if pair[0] == pair[1] else len(odd) == 1
        if totals[pair] >= 0 or not possible or gone & {*pair}:
            continue
        trials += 1
        if trials > tour_merging.MOST_TRIALS:
            break
        trial = [other[city] if city in rows else tour[city] for city in range(len(tour))]
        if is_tour(trial):
            tour, gone = trial, gone | {*pair}
    return tour


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 13, 40])
@pytest.mark.parametrize("highest", [3, 50, 10**6])
def test_others_are_merged_as_by_hand(size: int, highest: int) -> None:
    """One other after the other; tours stay tours, no longer than before, and what was given stays as it is."""
    samples = 12 if size == 40 else 3
    distances, tours, others = draw(size, highest, samples=samples)
    before = tours.clone(), others.clone()
    found = kernels.merge_tours(distances, tours, others)
    assert found.shape == tours.shape
    assert found.dtype == torch.int64
    assert torch.equal(tours, before[0])
    assert torch.equal(others, before[1])
    assert (length(distances, found) <= length(distances, tours)).all()
    for b, k in itertools.product(range(2), range(samples)):
        expected = tours[b, k].tolist()
        for other in others[b, k].tolist():
            expected = by_hand(distances[b], expected, other)
        assert found[b, k].tolist() == expected
        assert_is_tour(found[b, k])
    assert size < 8 or bool((found != tours).any())


def test_parts_that_cannot_leave_a_tour() -> None:
    """An even part never does, and an odd and an even one together do not: what need not be tried is none of it."""
    for size in (6, 7, 8):
        _, tours, others = draw(size, count=20)
        for b, k, m in itertools.product(range(2), range(3), range(20)):
            tour, other = tours[b, k].tolist(), others[b, k, m].tolist()
            known = parts(tour, other)
            for chosen in (*((part, []) for part in known), *itertools.combinations(known, 2)):
                trial = [other[c] if c in (*chosen[0], *chosen[1]) else tour[c] for c in range(size)]
                if is_tour(trial):
                    assert (len(chosen[0]) + len(chosen[1])) % 2 == (0 if chosen[1] else 1)


@pytest.mark.usefixtures("way")
def test_two_parts_together() -> None:
    """Exchanging the ends of two pairs of steps: each alone would leave two tours, both leave one."""
    order = torch.tensor([[[0, 1, 2, 3, 4, 5, 6, 7]]])
    crossed = torch.tensor([[[0, 1, 6, 7, 4, 5, 2, 3]]])
    tour, other = successors(order), successors(crossed)
    assert sorted(map(len, parts(tour.flatten().tolist(), other.flatten().tolist()))) == [2, 2]
    distances = torch.full((1, 8, 8), 10)
    for city, following in enumerate(other.flatten().tolist()):
        distances[0, city, following] = 9
    distances[0, 0, 1] = 9
    merged = kernels.merge_tours(distances, tour, other[:, :, None])
    assert torch.equal(merged, other)
    # as long as one part loses no more than the other gains
    distances[0, 7, 4] += 3
    assert torch.equal(kernels.merge_tours(distances, tour, other[:, :, None]), other)
    distances[0, 7, 4] += 1
    assert torch.equal(kernels.merge_tours(distances, tour, other[:, :, None]), tour)


@pytest.mark.usefixtures("way")
def test_only_so_many_parts_and_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where limits are met, they are the same everywhere, and nothing is tried that cannot leave one tour."""
    from icdc.kernels import compiled_merging

    distances, tours, others = draw(40, 10**6, samples=80, count=1)
    lengths = []
    for most in ((1, 32), (2, 32), (32, 1), (32, 2), (5, 5)):
        for name, limit in zip(("MOST_PARTS", "MOST_TRIALS"), most, strict=True):
            monkeypatch.setattr(tour_merging, name, limit)
            monkeypatch.setattr(compiled_merging, name, limit)
        found = kernels.merge_tours(distances, tours, others)
        lengths.append(length(distances, found))
        for b, k in itertools.product(range(2), range(80)):
            assert found[b, k].tolist() == by_hand(distances[b], tours[b, k].tolist(), others[b, k, 0].tolist())
    for few, more in ((0, 1), (2, 3), (0, 4)):
        assert (lengths[few] > lengths[more]).any()


@pytest.mark.usefixtures("way")
def test_large_integers_are_compared_exactly() -> None:
    """A gain of one in 2⁴⁰ counts; with reals it is below what a change must gain."""
    distances = torch.full((1, 3, 3), 2**40)
    distances[0, 0, 1] -= 1
    worse, better = torch.tensor([[[2, 0, 1]]]), torch.tensor([[[[1, 2, 0]]]])
    assert torch.equal(kernels.merge_tours(distances, worse, better), better[:, :, 0])
    assert torch.equal(kernels.merge_tours(distances, better[:, :, 0], worse[:, :, None]), better[:, :, 0])
    assert torch.equal(kernels.merge_tours(distances.double(), worse, better), worse)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32])
def test_every_dtype(kind: torch.dtype) -> None:
    """Whole numbers give the same tours in any dtype; reals get no longer as their own dtype adds them up."""
    distances, tours, others = draw(13)
    expected = kernels.merge_tours(distances, tours, others)
    assert torch.equal(kernels.merge_tours(distances.to(kind), tours, others), expected)
    if kind.is_floating_point:
        reals = torch.rand(2, 13, 13, dtype=kind)
        found = kernels.merge_tours(reals, tours, others)
        assert (length(reals, found) <= length(reals, tours)).all()
        assert (length(reals, found) < length(reals, tours)).any()


@needs_numba
def test_what_is_no_tour_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither several tours instead of one nor cities that do not exist lead anywhere but back."""
    monkeypatch.setattr(choosing, "INSTALLED", False)
    distances, tours, others = draw(6, samples=1)
    apart = torch.tensor([1, 0, 3, 2, 5, 4]).expand(2, 1, 6)
    assert torch.equal(kernels.merge_tours(distances, apart, others), apart)
    early = torch.tensor([1, 2, 0, 0, 1, 2])
    for wrong in (apart, early.expand(2, 1, 6), tours.clone().fill_(99), tours - 7, torch.zeros_like(tours)):
        assert torch.equal(kernels.merge_tours(distances, tours, wrong[:, :, None]), tours)
        both = torch.cat([wrong[:, :, None], others], 2)
        expected = kernels.merge_tours(distances, tours, others)
        assert torch.equal(kernels.merge_tours(distances, tours, both), expected)


def test_plain_operations_never_leave_a_tour_either() -> None:
    """Others that enter a city twice have parts that would lead to city 0 and are no tour, however short they are."""
    generator = torch.Generator().manual_seed(1)
    tours = successors(torch.arange(5).expand(300, 1, 5))
    wrong = torch.randint(5, (300, 1, 2, 5), generator=generator)
    distances = torch.randint(0, 9, (300, 5, 5), generator=generator)
    with kernels.only_plain():
        found = kernels.merge_tours(distances, tours, wrong)
    assert all(is_tour(tour) for tour in found.flatten(0, 1).tolist())


@needs_numba
def test_infinite_steps_cancel_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that has as many of them before as after counts by its other steps, in all implementations alike."""
    monkeypatch.setattr(choosing, "INSTALLED", False)
    distances, tours, others = draw(12, samples=20)
    distances = distances.double().masked_fill(torch.rand(2, 12, 12) < 0.2, torch.inf)
    found = kernels.merge_tours(distances, tours, others)
    with kernels.only_plain():
        assert torch.equal(kernels.merge_tours(distances, tours, others), found)
    before, after = length(distances, tours), length(distances, found)
    assert (after <= before).all()
    assert (after.isfinite() & before.isinf()).any()


def test_what_rounding_makes_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = torch.tensor([[[1, 2, 0]]]), torch.tensor([[[2, 0, 1]]])
    distances = torch.ones(1, 3, 3)
    distances[0, 0, 1] = 0.5
    monkeypatch.setattr(tour_merging, "_merge", lambda distances, successor, others, least: other)
    with kernels.only_plain():
        assert torch.equal(kernels.merge_tours(distances, one, other[:, :, None]), one)
        assert torch.equal(kernels.merge_tours(-distances, one, other[:, :, None]), other)


@needs_numba
def test_both_ways_agree_however_tours_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "INSTALLED", False)
    distances, tours, others = draw(60, 1000, 3, 5, 8)
    found = kernels.merge_tours(distances, tours, others)
    with kernels.only_plain():
        assert torch.equal(kernels.merge_tours(distances, tours, others), found)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert torch.equal(kernels.merge_tours(distances, tours, others), found)
    with jit.plain():
        assert torch.equal(kernels.merge_tours(distances[:1], tours[:1], others[:1]), found[:1])


def test_nothing_to_merge() -> None:
    distances, tours, others = draw(5)
    for none in (others[:, :, :0], others[:, :0], others[:0]):
        some = tours[: len(none), : none.shape[1]]
        assert torch.equal(kernels.merge_tours(distances[: len(none)], some, none), some)
    same = kernels.merge_tours(distances, tours, tours[:, :, None])
    assert torch.equal(same, tours)
    assert visited(same[0, 0]) == visited(tours[0, 0])
