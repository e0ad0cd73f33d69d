"""Merging schedules: jobs go where another schedule has them, if a fullest machine gets less to do; all ways agree."""

import itertools

import pytest
import torch
from torch import Tensor

from icdc import jit, kernels
from icdc.kernels import choosing, schedule_merging
from tests.kernels.test_schedule_descent import loads, makespan
from tests.kernels.ways import needs_numba

SIZES = [(1, 1), (1, 3), (2, 2), (5, 3), (9, 4), (14, 3), (40, 12)]


def draw(rows: int, columns: int, highest: int = 30, count: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Return whole times with ties and zeros, random schedules, and others for each of them."""
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    times = torch.randint(0, highest, (2, rows, columns), generator=generator)
    choice = torch.randint(columns, (2, 3, rows), generator=generator)
    return times, choice, torch.randint(columns, (2, 3, count, rows), generator=generator)


def by_hand(times: Tensor, choice: list[int], other: list[int]) -> list[int]:
    """Take over one change after the other, each looked for among all by adding up loads."""
    matrix, chosen = times.tolist(), list(choice)
    for _ in range(schedule_merging.MOST_CHANGES):
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


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("highest", [4, 30])
def test_others_are_merged_as_by_hand(rows: int, columns: int, highest: int) -> None:
    """One other after the other; what was given stays as it is."""
    times, choice, others = draw(rows, columns, highest)
    before = choice.clone(), others.clone()
    found = kernels.merge_schedules(times, choice, others)
    assert found.shape == choice.shape
    assert found.dtype == torch.int64
    assert torch.equal(choice, before[0])
    assert torch.equal(others, before[1])
    for b, k in itertools.product(range(2), range(3)):
        expected = choice[b, k].tolist()
        for other in others[b, k].tolist():
            expected = by_hand(times[b], expected, other)
        assert found[b, k].tolist() == expected
    assert (makespan(times, found) <= makespan(times, choice)).all()
    assert rows < 9 or bool((makespan(times, found) < makespan(times, choice)).all())


@pytest.mark.usefixtures("way")
def test_a_job_makes_room_for_another_on_a_third_machine() -> None:
    """No job can go alone, two going on in a row can."""
    times = torch.tensor([[[6, 4, 9], [9, 5, 3], [9, 9, 1]]])
    choice, other = torch.tensor([[[0, 1, 2]]]), torch.tensor([[[[1, 2, 2]]]])
    assert torch.equal(kernels.merge_schedules(times, choice, other), other[:, :, 0])
    times[0, 1, 2] = 5  # the third machine would be as full as the first was
    assert torch.equal(kernels.merge_schedules(times, choice, other), choice)


@pytest.mark.usefixtures("way")
def test_every_fullest_machine_is_looked_at() -> None:
    """The first cannot be relieved, the second can; then only one reaches the makespan."""
    times = torch.tensor([[[5, 9, 9], [9, 5, 1]]])
    choice, other = torch.tensor([[[0, 1]]]), torch.tensor([[[[0, 2]]]])
    assert torch.equal(kernels.merge_schedules(times, choice, other), other[:, :, 0])


@pytest.mark.usefixtures("way")
def test_only_so_many_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from icdc.kernels import compiled_merging

    times, choice, others = draw(40, 12, count=1)
    spans = []
    for most in (0, 1, 3):
        monkeypatch.setattr(schedule_merging, "MOST_CHANGES", most)
        monkeypatch.setattr(compiled_merging, "MOST_CHANGES", most)
        found = kernels.merge_schedules(times, choice, others)
        assert ((found != choice).sum(-1) <= 2 * most).all()
        spans.append(makespan(times, found).sum())
    assert spans[0] > spans[1] > spans[2]


@pytest.mark.usefixtures("way")
def test_large_integers_are_compared_exactly() -> None:
    huge = 2**40
    times = torch.tensor([[[huge, huge - 1]]])
    choice, other = torch.tensor([[[0]]]), torch.tensor([[[[1]]]])
    assert kernels.merge_schedules(times, choice, other).tolist() == [[[1]]]
    assert kernels.merge_schedules(times.double(), choice, other).tolist() == [[[0]]]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32, torch.uint8])
def test_every_dtype(kind: torch.dtype) -> None:
    """Whole numbers give the same schedules in any dtype; reals get no worse as their own dtype adds them up."""
    times, choice, others = draw(20, 4)
    expected = kernels.merge_schedules(times, choice, others)
    assert torch.equal(kernels.merge_schedules(times.to(kind), choice, others), expected)
    if kind.is_floating_point:
        reals = torch.rand(2, 20, 4, dtype=kind)
        found = kernels.merge_schedules(reals, choice, others)
        assert (makespan(reals, found) < makespan(reals, choice)).all()


def test_what_rounding_makes_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_merging, "_merge", lambda times, choice, others, load: choice * 0)
    times = torch.tensor([[[1.0, 2.0], [1.5, 1.0]]])
    choice = torch.tensor([[[0, 1], [1, 1]]])
    with kernels.only_plain():
        assert kernels.merge_schedules(times, choice, choice[:, :, None]).tolist() == [[[0, 1], [0, 0]]]


@needs_numba
def test_both_ways_agree_however_schedules_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "INSTALLED", False)
    for rows, columns in ((100, 20), (70, 3)):
        times, choice, others = draw(rows, columns, 1000, 8)
        found = kernels.merge_schedules(times, choice, others)
        with kernels.only_plain(), pytest.MonkeyPatch.context() as patch:
            assert torch.equal(kernels.merge_schedules(times, choice, others), found)
            patch.setattr(schedule_merging, "_BLOCK", {"cpu": 1})
            assert torch.equal(kernels.merge_schedules(times, choice, others), found)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "get_num_threads", lambda: 2)
            assert torch.equal(kernels.merge_schedules(times, choice, others), found)
        with jit.plain():
            assert torch.equal(kernels.merge_schedules(times[:1], choice[:1], others[:1]), found[:1])


@needs_numba
def test_both_ways_round_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenths have sums that depend on their order, and ties that rounding would decide."""
    monkeypatch.setattr(choosing, "INSTALLED", False)
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        times = torch.randint(1, 10, (2, 8, 3), generator=generator).double() / 10
        choice = torch.randint(3, (2, 4, 8), generator=generator)
        others = torch.randint(3, (2, 4, 5, 8), generator=generator)
        found = kernels.merge_schedules(times, choice, others)
        with kernels.only_plain():
            assert torch.equal(kernels.merge_schedules(times, choice, others), found)


def test_nothing_to_merge() -> None:
    times, choice, others = draw(5, 3)
    assert torch.equal(kernels.merge_schedules(times, choice, others[:, :, :0]), choice)
    assert torch.equal(kernels.merge_schedules(times, choice, choice[:, :, None]), choice)
