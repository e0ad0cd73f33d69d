"""Merging as one program for each solution: the solutions of torch operations, ties and limits included."""

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import dispatch, merge
from icdc.kernels.merge import numba
from tests.kernels import oracles
from tests.kernels.support import DEVICE, NEEDS_TRITON, successors

pytestmark = NEEDS_TRITON
# the interpreter takes seconds for what a GPU does at once
SAMPLES = 2 if dispatch.INTERPRETED else 20
SCHEDULES = [(1, 1), (2, 2), (7, 3), (20, 4)]
SCHEDULES += [] if dispatch.INTERPRETED else [(33, 5), (100, 20), (300, 70), (1500, 200)]
TOURS = [3, 4, 8, 20, 40] if dispatch.INTERPRETED else [3, 4, 8, 20, 33, 64, 100, 200, 300, 600, 1024]
KINDS = [torch.int64, torch.float64]


def draw(shape: tuple[int, ...], kind: torch.dtype, seed: int) -> Tensor:
    """Return numbers with many ties, if whole; real ones have few digits, so that no sum of them is rounded."""
    generator = torch.Generator().manual_seed(seed)
    if kind == torch.int64:
        return torch.randint(0, 8, shape, generator=generator).to(DEVICE)
    return (torch.randint(0, 2**24, shape, generator=generator).to(kind) / 2**20).to(DEVICE)


def similar_tours(size: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return tours (2, samples, n) and others that differ from them by short pieces in another order."""
    generator = torch.Generator().manual_seed(seed)
    orders = torch.rand(2 * SAMPLES, 1, size, generator=generator).argsort(-1).repeat(1, count + 1, 1)
    for own in orders:
        for order in own[1:]:
            for _ in range(size // 6 + 1):
                start = int(torch.randint(size, (), generator=generator))
                width = torch.randint(min(size, 12), (4,), generator=generator)
                a, b, c, d = (min(start + one, size) for one in sorted(width.tolist()))
                order[a:d] = torch.cat([order[c:d], order[b:c], order[a:b]])
    successor = successors(orders).view(2, SAMPLES, count + 1, size)
    return successor[:, :, 0].to(DEVICE), successor[:, :, 1:].to(DEVICE)


def schedules(rows: int, columns: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return schedules (2, samples, rows) and others, half of whose rows are elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    choice = torch.randint(columns, (2, SAMPLES, rows), generator=generator)
    others = torch.randint(columns, (2, SAMPLES, count, rows), generator=generator)
    stays = torch.rand(others.shape, generator=generator) < 0.5
    return choice.to(DEVICE), torch.where(stays, choice[:, :, None], others).to(DEVICE)


def assert_same_tours(distances: Tensor, successor: Tensor, others: Tensor) -> Tensor:
    """Compare with torch operations; return the tours."""
    found = kernels.merge_tours(distances, successor, others)
    assert found.dtype == torch.int64
    assert torch.equal(found, oracles.merge_tours(distances, successor, others))
    return found


def assert_same_schedules(times: Tensor, choice: Tensor, others: Tensor) -> Tensor:
    """Compare with torch operations; return the schedules."""
    found = kernels.merge_schedules(times, choice, others)
    assert found.dtype == torch.int64
    assert torch.equal(found, oracles.merge_schedules(times, choice, others))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", TOURS)
def test_tours_are_those_of_torch_operations(size: int, kind: torch.dtype) -> None:
    for seed in range(3):
        successor, others = similar_tours(size, 4, seed)
        found = assert_same_tours(draw((2, size, size), kind, seed), successor, others)
        assert size < 8 or bool((found != successor).any())  # there is something to take over


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", TOURS[-3:])
def test_tours_take_parts_of_any_others(size: int, kind: torch.dtype) -> None:
    """Of those that have little in common with them, and of themselves."""
    successor, _ = similar_tours(size, 1, size)
    mixed = torch.stack([successor.roll(1, 0), successor, successor.roll(1, 1)], 2)
    assert_same_tours(draw((2, size, size), kind, size), successor, mixed)


@pytest.mark.parametrize("kind", KINDS)
def test_of_more_parts_than_are_looked_at_the_best_are_taken(kind: torch.dtype) -> None:
    """Of every three cities in a row the other tour visits two the other way round: a part of three steps."""
    size = 3 * merge.MOST_PARTS + 24
    order = torch.arange(size, device=DEVICE)
    turned = order.view(-1, 3)[:, [0, 2, 1]].flatten()
    successor, other = (torch.zeros_like(one).scatter(0, one, one.roll(-1)) for one in (order, turned))
    distances = draw((1, size, size), kind, 1)
    distances[0, order, successor] += 16 - order // 24  # so that all of them gain
    found = assert_same_tours(distances, successor.view(1, 1, -1), other.view(1, 1, 1, -1))
    assert int((found != successor).sum()) == 3 * merge.MOST_PARTS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("parts", "trials"), [(2, 32), (4, 2), (32, 1), (32, 3)])
def test_tours_are_those_of_torch_operations_at_every_limit(
    parts: int, trials: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from icdc.kernels.merge import triton

    for module in (merge, triton):
        monkeypatch.setattr(module, "MOST_PARTS", parts)
        monkeypatch.setattr(module, "MOST_TRIALS", trials)
    for seed in range(6):
        successor, others = similar_tours(40, 2, seed)
        assert_same_tours(draw((2, 40, 40), kind, seed), successor, others)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_gain_more_than_asked_for(kind: torch.dtype) -> None:
    """By every tour for itself; a gain of just as much is none."""
    from icdc.kernels.merge import triton

    successor, others = similar_tours(40, 2, 3)
    whole = draw((2, 40, 40), torch.int64, 4)
    for seed in range(3):
        distances, least = whole.to(kind), draw((2, SAMPLES), torch.int64, seed).to(kind)
        found = triton.merge_tours(distances, successor, others, least)
        expected = oracles.merge_tours(distances, successor, others, least)
        assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "columns"), SCHEDULES)
def test_schedules_are_those_of_torch_operations(rows: int, columns: int, kind: torch.dtype) -> None:
    for seed in range(3):
        choice, others = schedules(rows, columns, 3, seed)
        found = assert_same_schedules(draw((2, rows, columns), kind, seed), choice, others)
        assert rows < 7 or bool((found != choice).any())  # there is something to take over


def test_of_equal_changes_the_first_is_made() -> None:
    """One row goes before two, then the first row, then the first that goes with it."""
    for seed in range(5):
        choice, others = schedules(20, 4, 3, seed)
        assert_same_schedules(draw((2, 20, 4), torch.int64, seed) // 3 + 1, choice, others)


@pytest.mark.parametrize("most", [1, 2])
def test_schedules_are_those_of_torch_operations_at_every_limit(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from icdc.kernels.merge import triton

    for module in (merge, triton):
        monkeypatch.setattr(module, "MOST_CHANGES", most)
    for seed in range(3):
        choice, others = schedules(30, 4, 2, seed)
        assert_same_schedules(draw((2, 30, 4), torch.float64, seed), choice, others)


def test_machines_almost_as_full_as_the_fullest_are_relieved() -> None:
    """Real times differ by less than the tolerance, and no sum is rounded."""
    for seed in range(4):
        whole, little = draw((2, 16, 4), torch.int64, seed), draw((2, 16, 4), torch.int64, seed + 100)
        choice, others = schedules(16, 4, 3, seed)
        assert_same_schedules(whole.double() + little.double() / 2**36, choice, others)


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_may_lie_anyhow_in_memory(kind: torch.dtype) -> None:
    """Spread over solutions, transposed, or parts of larger ones."""
    distances, times = draw((2, 20, 20), kind, 1).mT, draw((2, 4, 20), kind, 2).mT
    successor, others = similar_tours(20, 3, 2)
    assert_same_tours(distances, successor.mT.contiguous().mT, others[:, :1, ::2].expand(-1, SAMPLES, -1, -1))
    choice, others = schedules(20, 4, 3, 3)
    assert_same_schedules(times, choice.mT.contiguous().mT, others[:, :1, ::2].expand(-1, SAMPLES, -1, -1))


def test_sizes_beyond_the_registers_are_left_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    successor, other_tours = similar_tours(6, 2, 1)
    choice, others = schedules(6, 3, 2, 1)
    distances, times = draw((2, 6, 6), torch.int64, 1), draw((2, 6, 3), torch.int64, 2)
    seen = []
    monkeypatch.setattr(numba, "merge_schedules", lambda *given: seen.append("schedules") or choice)
    monkeypatch.setattr(numba, "merge_tours", lambda *given: seen.append("tours") or successor)
    for name, limit in (("WIDEST_JOBS", 5), ("WIDEST_MACHINES", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(dispatch, name, limit)
            kernels.merge_schedules(times, choice, others)
    monkeypatch.setattr(dispatch, "WIDEST_CITIES", 5)
    kernels.merge_tours(distances, successor, other_tours)
    assert seen == ["schedules", "schedules", "tours"]


@pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a GPU")
def test_a_graph_of_the_device_can_hold_them() -> None:
    """Nothing waits for the device."""
    distances, times = draw((2, 40, 40), torch.int64, 1), draw((2, 20, 4), torch.int64, 2)
    successor, other_tours = similar_tours(40, 3, 1)
    choice, others = schedules(20, 4, 3, 2)

    def work() -> list[Tensor]:
        return [kernels.merge_tours(distances, successor, other_tours), kernels.merge_schedules(times, choice, others)]

    expected = work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = work()
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
