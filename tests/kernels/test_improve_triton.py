"""Local search as one program for each solution: the schedules of torch operations, the tours of loops on a CPU."""

import importlib.util

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import dispatch, improve
from icdc.kernels.improve import numba
from tests.kernels import oracles
from tests.kernels.support import DEVICE, NEEDS_TRITON, length, stays_permitted, successors

pytestmark = NEEDS_TRITON
# the interpreter takes seconds for what a GPU does at once
SAMPLES = 1 if dispatch.INTERPRETED else 20
SCHEDULES = (
    [(1, 1), (2, 2), (7, 3)] if dispatch.INTERPRETED else [(1, 1), (2, 2), (7, 3), (33, 5), (100, 20), (300, 70)]
)
TOURS = [3, 4, 8] if dispatch.INTERPRETED else [3, 4, 8, 20, 33, 64, 100, 300]
KINDS = [torch.int64, torch.float64]


def draw(shape: tuple[int, ...], kind: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    """Return numbers with ties, if whole, and which pairs are allowed."""
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randint(0, 40, shape, generator=generator)
    numbers = whole if kind == torch.int64 else torch.rand(shape, dtype=kind, generator=generator)
    return numbers.to(DEVICE), (torch.rand(shape, generator=generator) < 0.8).to(DEVICE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("rows", "columns"), SCHEDULES)
def test_schedules_are_those_of_torch_operations(rows: int, columns: int, masked: bool, kind: torch.dtype) -> None:
    times, mask = draw((2, rows, columns), kind, rows)
    allowed = mask if masked else None
    choice = torch.randint(columns, (2, SAMPLES, rows)).to(DEVICE)
    for rounds in (1, 2, 200):
        found = kernels.improve_schedules(times, choice, rounds, allowed)
        assert found.dtype == torch.int64
        assert torch.equal(found, oracles.improve_schedules(times, choice, rounds, allowed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", TOURS)
def test_tours_are_local_optima(size: int, masked: bool, kind: torch.dtype) -> None:
    """Torch operations look at every change, and find none."""
    distances, mask = draw((2, size, size), kind, size)
    allowed = mask if masked else None
    successor = successors(torch.rand(2, SAMPLES, size).argsort(-1).to(DEVICE))
    before = length(distances, successor)
    for rounds in (1, 2, 10**9):
        found = kernels.improve_tours(distances, successor, rounds, allowed)
        order = oracles.visiting_order(found)
        assert torch.equal(order.sort(-1).values, torch.arange(size, device=DEVICE).expand_as(order))
        assert (length(distances, found) <= before).all()
        assert ((found != successor).sum(-1) <= 3 * rounds).all()
    assert stays_permitted(allowed, successor, found)
    assert torch.equal(oracles.improve_tours(distances, found, 1, allowed), found)


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="needs numba")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", TOURS[:4])
def test_tours_are_those_of_the_loops_on_a_cpu(size: int, kind: torch.dtype) -> None:
    distances, _ = draw((2, size, size), kind, size)
    successor = successors(torch.rand(2, 1, size).argsort(-1))
    host = distances.cpu()
    step = host[:, None].gather(3, successor[..., None]).squeeze(3)
    least = improve.least_gain(host)[:, None]
    for rounds in (1, 3, 1000):
        expected = numba.improve_tours(host, successor, step, least, rounds)
        found = kernels.improve_tours(distances, successor.to(DEVICE), rounds)
        assert torch.equal(found.cpu(), expected)


def test_sizes_beyond_the_registers_are_left_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    times, _ = draw((1, 6, 3), torch.int64, 1)
    distances, _ = draw((1, 6, 6), torch.int64, 2)
    successor = torch.arange(6, device=DEVICE).roll(-1).view(1, 1, 6)
    choice = torch.zeros(1, 1, 6, dtype=torch.long, device=DEVICE)
    seen = []
    monkeypatch.setattr(numba, "improve_schedules", lambda *given: seen.append("schedules") or choice)
    monkeypatch.setattr(numba, "improve_tours", lambda *given: seen.append("tours") or successor)
    for name, limit in (("WIDEST_JOBS", 5), ("WIDEST_MACHINES", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(dispatch, name, limit)
            kernels.improve_schedules(times, choice, 5)
    monkeypatch.setattr(dispatch, "WIDEST_CITIES", 5)
    kernels.improve_tours(distances, successor, 5)
    assert seen == ["schedules", "schedules", "tours"]


@pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a GPU")
def test_a_graph_of_the_device_can_hold_them() -> None:
    """Nothing waits for the device."""
    times, _ = draw((2, 20, 4), torch.int64, 1)
    distances, _ = draw((2, 12, 12), torch.int64, 2)
    choice = torch.randint(4, (2, 3, 20), device=DEVICE)
    successor = successors(torch.rand(2, 3, 12, device=DEVICE).argsort(-1))

    def work() -> list[Tensor]:
        schedules, tours = kernels.improve_schedules(times, choice, 30), kernels.improve_tours(distances, successor, 5)
        prices = kernels.schedule_prices(times, rounds=3).bound, kernels.tour_prices(distances, rounds=3).bound
        return [schedules, tours, *prices]

    expected = work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = work()
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
