"""Merging on a CPU: what another solution does better is taken over as by hand, and nothing gets worse."""

import itertools

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import merge
from icdc.kernels.merge import numba
from tests.kernels import oracles
from tests.kernels.support import ON_HOST, is_tour, length, loads, makespan, successors

pytestmark = ON_HOST
SCHEDULES = [(1, 1), (1, 3), (2, 2), (5, 3), (9, 4), (14, 3), (40, 12)]


def draw_schedules(rows: int, columns: int, highest: int = 30, count: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Return whole times with ties and zeros, random schedules, and others for each of them."""
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    times = torch.randint(0, highest, (2, rows, columns), generator=generator)
    choice = torch.randint(columns, (2, 3, rows), generator=generator)
    return times, choice, torch.randint(columns, (2, 3, count, rows), generator=generator)


def draw_tours(
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


def schedules_by_hand(times: Tensor, choice: list[int], other: list[int]) -> list[int]:
    """Take over one change after the other, each looked for among all by adding up loads."""
    matrix, chosen = times.tolist(), list(choice)
    for _ in range(merge.MOST_CHANGES):
        load = loads(matrix, chosen)
        top = max(load)
        rows = [row for row in range(len(chosen)) if chosen[row] != other[row]]
        for source in (column for column in range(len(load)) if load[column] == top):
            best: tuple[tuple[int, int, int, int], list[int]] | None = None
            for first in (row for row in rows if chosen[row] == source):
                seconds = [row for row in rows if chosen[row] == other[first]]
                for together, moving in [(0, [first]), *((1, [first, row]) for row in seconds)]:
                    after = [other[row] if row in moving else chosen[row] for row in range(len(chosen))]
                    touched = {chosen[row] for row in moving} | {other[row] for row in moving}
                    value = max(loads(matrix, after)[column] for column in touched)
                    key = value, together, first, moving[-1]
                    if value < top and (best is None or key < best[0]):
                        best = key, after
            if best is not None:
                chosen = best[1]
                break
        else:
            break
    return chosen


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


def tours_by_hand(distances: Tensor, tour: list[int], other: list[int]) -> list[int]:
    """Merge one tour into another: of all parts and pairs of parts the best, as long as one gains and leaves a tour."""
    matrix, tour = distances.tolist(), list(tour)
    differing = parts(tour, other)
    change = [sum(matrix[c][other[c]] - matrix[c][tour[c]] for c in part) for part in differing]
    ranked = sorted(range(len(differing)), key=lambda part: change[part])[: merge.MOST_PARTS]
    places = range(len(ranked))
    pairs = [(i, i) for i in places] + list(itertools.combinations(places, 2))
    totals = {pair: sum(change[ranked[i]] for i in {*pair}) for pair in pairs}
    gone: set[int] = set()
    trials = 0
    for pair in sorted(totals, key=lambda pair: (totals[pair], pair)):
        rows = [city for i in {*pair} for city in differing[ranked[i]]]
        odd = {len(differing[ranked[i]]) % 2 for i in pair}
        possible = odd == {1} if pair[0] == pair[1] else len(odd) == 1
        if totals[pair] >= 0 or not possible or gone & {*pair}:
            continue
        trials += 1
        if trials > merge.MOST_TRIALS:
            break
        trial = [other[city] if city in rows else tour[city] for city in range(len(tour))]
        if is_tour(torch.tensor(trial)):
            tour, gone = trial, gone | {*pair}
    return tour


@pytest.mark.parametrize(("rows", "columns"), SCHEDULES)
@pytest.mark.parametrize("highest", [4, 30])
def test_schedules_are_merged_as_by_hand(rows: int, columns: int, highest: int) -> None:
    """One other after the other; the tensors passed in stay as they are."""
    times, choice, others = draw_schedules(rows, columns, highest)
    before = choice.clone(), others.clone()
    merged = kernels.merge_schedules(times, choice, others)
    assert merged.dtype == torch.int64
    assert torch.equal(choice, before[0])
    assert torch.equal(others, before[1])
    for b, k in itertools.product(range(2), range(3)):
        expected = choice[b, k].tolist()
        for other in others[b, k].tolist():
            expected = schedules_by_hand(times[b], expected, other)
        assert merged[b, k].tolist() == expected
    assert (makespan(times, merged) <= makespan(times, choice)).all()
    assert rows < 9 or bool((makespan(times, merged) < makespan(times, choice)).all())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 13, 40])
@pytest.mark.parametrize("highest", [3, 50, 10**6])
def test_tours_are_merged_as_by_hand(size: int, highest: int) -> None:
    """One other after the other; tours stay tours, and the tensors passed in as they are."""
    samples = 12 if size == 40 else 3
    distances, tours, others = draw_tours(size, highest, samples=samples)
    before = tours.clone(), others.clone()
    merged = kernels.merge_tours(distances, tours, others)
    assert merged.dtype == torch.int64
    assert torch.equal(tours, before[0])
    assert torch.equal(others, before[1])
    assert (length(distances, merged) <= length(distances, tours)).all()
    for b, k in itertools.product(range(2), range(samples)):
        expected = tours[b, k].tolist()
        for other in others[b, k].tolist():
            expected = tours_by_hand(distances[b], expected, other)
        assert merged[b, k].tolist() == expected
        assert is_tour(merged[b, k])
    assert size < 8 or bool((merged != tours).any())


def test_a_job_makes_room_for_another_on_a_third_machine() -> None:
    """No job can go alone, two going on in a row can."""
    times = torch.tensor([[[6, 4, 9], [9, 5, 3], [9, 9, 1]]])
    choice, other = torch.tensor([[[0, 1, 2]]]), torch.tensor([[[[1, 2, 2]]]])
    assert torch.equal(kernels.merge_schedules(times, choice, other), other[:, :, 0])
    times[0, 1, 2] = 5  # the third machine would be as full as the first was
    assert torch.equal(kernels.merge_schedules(times, choice, other), choice)


def test_every_fullest_machine_is_looked_at() -> None:
    """The first cannot be relieved, the second can; then only one reaches the makespan."""
    times = torch.tensor([[[5, 9, 9], [9, 5, 1]]])
    choice, other = torch.tensor([[[0, 1]]]), torch.tensor([[[[0, 2]]]])
    assert torch.equal(kernels.merge_schedules(times, choice, other), other[:, :, 0])


def test_parts_that_cannot_leave_a_tour() -> None:
    """An even part never does, and an odd and an even one together do not: what need not be tried is none of it."""
    for size in (6, 7, 8):
        _, tours, others = draw_tours(size, count=20)
        for b, k, m in itertools.product(range(2), range(3), range(20)):
            tour, other = tours[b, k].tolist(), others[b, k, m].tolist()
            differing = parts(tour, other)
            for chosen in (*((part, []) for part in differing), *itertools.combinations(differing, 2)):
                trial = [other[c] if c in (*chosen[0], *chosen[1]) else tour[c] for c in range(size)]
                if is_tour(torch.tensor(trial)):
                    assert (len(chosen[0]) + len(chosen[1])) % 2 == (0 if chosen[1] else 1)


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
    assert torch.equal(kernels.merge_tours(distances, tour, other[:, :, None]), other)
    # as long as one part loses no more than the other gains
    distances[0, 7, 4] += 3
    assert torch.equal(kernels.merge_tours(distances, tour, other[:, :, None]), other)
    distances[0, 7, 4] += 1
    assert torch.equal(kernels.merge_tours(distances, tour, other[:, :, None]), tour)


def test_only_so_many_parts_and_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where limits are met, they are those by hand, and nothing is tried that cannot leave one tour."""
    distances, tours, others = draw_tours(40, 10**6, samples=80, count=1)
    lengths = []
    for most in ((1, 32), (2, 32), (32, 1), (32, 2), (5, 5)):
        for name, limit in zip(("MOST_PARTS", "MOST_TRIALS"), most, strict=True):
            monkeypatch.setattr(merge, name, limit)
        merged = kernels.merge_tours(distances, tours, others)
        lengths.append(length(distances, merged))
        for b, k in itertools.product(range(2), range(80)):
            expected = tours_by_hand(distances[b], tours[b, k].tolist(), others[b, k, 0].tolist())
            assert merged[b, k].tolist() == expected
    for few, more in ((0, 1), (2, 3), (0, 4)):
        assert (lengths[few] > lengths[more]).any()


def test_only_so_many_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    times, choice, others = draw_schedules(40, 12, count=1)
    spans = []
    for most in (0, 1, 3):
        monkeypatch.setattr(merge, "MOST_CHANGES", most)
        merged = kernels.merge_schedules(times, choice, others)
        assert ((merged != choice).sum(-1) <= 2 * most).all()
        spans.append(makespan(times, merged).sum())
    assert spans[0] > spans[1] > spans[2]


def test_large_integers_are_compared_exactly() -> None:
    """A gain of one in 2⁴⁰ counts; with reals it is below what a change must gain."""
    huge = 2**40
    times = torch.tensor([[[huge, huge - 1]]])
    choice, other = torch.tensor([[[0]]]), torch.tensor([[[[1]]]])
    assert kernels.merge_schedules(times, choice, other).tolist() == [[[1]]]
    assert kernels.merge_schedules(times.double(), choice, other).tolist() == [[[0]]]
    distances = torch.full((1, 3, 3), huge)
    distances[0, 0, 1] -= 1
    worse, better = torch.tensor([[[2, 0, 1]]]), torch.tensor([[[[1, 2, 0]]]])
    assert torch.equal(kernels.merge_tours(distances, worse, better), better[:, :, 0])
    assert torch.equal(kernels.merge_tours(distances, better[:, :, 0], worse[:, :, None]), better[:, :, 0])
    assert torch.equal(kernels.merge_tours(distances.double(), worse, better), worse)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32, torch.uint8])
def test_every_dtype(kind: torch.dtype) -> None:
    """Whole numbers give the same solutions in any dtype; reals get no worse as their own dtype adds them up."""
    times, choice, others = draw_schedules(20, 4)
    expected = kernels.merge_schedules(times, choice, others)
    assert torch.equal(kernels.merge_schedules(times.to(kind), choice, others), expected)
    distances, tours, other_tours = draw_tours(13)
    expected = kernels.merge_tours(distances, tours, other_tours)
    assert torch.equal(kernels.merge_tours(distances.to(kind), tours, other_tours), expected)
    if kind.is_floating_point:
        reals = torch.rand(2, 20, 4, dtype=kind)
        merged = kernels.merge_schedules(reals, choice, others)
        assert (makespan(reals, merged) < makespan(reals, choice)).all()
        reals = torch.rand(2, 13, 13, dtype=kind)
        merged = kernels.merge_tours(reals, tours, other_tours)
        assert (length(reals, merged) <= length(reals, tours)).all()
        assert (length(reals, merged) < length(reals, tours)).any()


def test_what_is_no_tour_is_left_alone() -> None:
    """Neither several tours instead of one nor cities that do not exist change anything."""
    distances, tours, others = draw_tours(6, samples=1)
    apart = torch.tensor([1, 0, 3, 2, 5, 4]).expand(2, 1, 6)
    assert torch.equal(kernels.merge_tours(distances, apart, others), apart)
    early = torch.tensor([1, 2, 0, 0, 1, 2])
    for wrong in (apart, early.expand(2, 1, 6), tours.clone().fill_(99), tours - 7, torch.zeros_like(tours)):
        assert torch.equal(kernels.merge_tours(distances, tours, wrong[:, :, None]), tours)
        both = torch.cat([wrong[:, :, None], others], 2)
        expected = kernels.merge_tours(distances, tours, others)
        assert torch.equal(kernels.merge_tours(distances, tours, both), expected)


def test_infinite_steps_cancel_out() -> None:
    """A part that has as many of them before as after counts by its other steps."""
    distances, tours, others = draw_tours(12, samples=20)
    distances = distances.double().masked_fill(torch.rand(2, 12, 12) < 0.2, torch.inf)
    merged = kernels.merge_tours(distances, tours, others)
    assert torch.equal(oracles.merge_tours(distances, tours, others), merged)
    before, after = length(distances, tours), length(distances, merged)
    assert (after <= before).all()
    assert (after.isfinite() & before.isinf()).any()


def test_what_rounding_makes_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should merging return worse solutions of reals, those passed in are returned."""
    one, other = torch.tensor([[[1, 2, 0]]]), torch.tensor([[[2, 0, 1]]])
    distances = torch.ones(1, 3, 3)
    distances[0, 0, 1] = 0.5
    monkeypatch.setattr(numba, "merge_tours", lambda *arguments: other)
    assert torch.equal(kernels.merge_tours(distances, one, other[:, :, None]), one)
    assert torch.equal(kernels.merge_tours(-distances, one, other[:, :, None]), other)
    monkeypatch.setattr(numba, "merge_schedules", lambda times, choice, *others: choice * 0)
    times, choice = torch.tensor([[[1.0, 2.0], [1.5, 1.0]]]), torch.tensor([[[0, 1], [1, 1]]])
    assert kernels.merge_schedules(times, choice, choice[:, :, None]).tolist() == [[[0, 1], [0, 0]]]


def test_solutions_are_those_of_torch_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are divided among threads."""
    for rows, columns in ((100, 20), (70, 3)):
        times, choice, others = draw_schedules(rows, columns, 1000, 8)
        expected = oracles.merge_schedules(times, choice, others)
        for threads in (1, 2):
            monkeypatch.setattr(torch, "get_num_threads", lambda count=threads: count)
            assert torch.equal(kernels.merge_schedules(times, choice, others), expected)
    distances, tours, others = draw_tours(60, 1000, 3, 5, 8)
    expected = oracles.merge_tours(distances, tours, others)
    for threads in (1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=threads: count)
        assert torch.equal(kernels.merge_tours(distances, tours, others), expected)


def test_reals_are_rounded_as_by_torch_operations() -> None:
    """Tenths have sums that depend on their order, and ties that rounding would decide."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        times = torch.randint(1, 10, (2, 8, 3), generator=generator).double() / 10
        choice = torch.randint(3, (2, 4, 8), generator=generator)
        others = torch.randint(3, (2, 4, 5, 8), generator=generator)
        merged = kernels.merge_schedules(times, choice, others)
        assert torch.equal(oracles.merge_schedules(times, choice, others), merged)


def test_nothing_to_merge() -> None:
    times, choice, others = draw_schedules(5, 3)
    assert torch.equal(kernels.merge_schedules(times, choice, others[:, :, :0]), choice)
    assert torch.equal(kernels.merge_schedules(times, choice, choice[:, :, None]), choice)
    distances, tours, others = draw_tours(5)
    for none in (others[:, :, :0], others[:, :0], others[:0]):
        some = tours[: len(none), : none.shape[1]]
        assert torch.equal(kernels.merge_tours(distances[: len(none)], some, none), some)
    assert torch.equal(kernels.merge_tours(distances, tours, tours[:, :, None]), tours)
