"""Local search for schedules: never worse, at a local optimum, the same from plain operations and compiled loops."""

import itertools
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import choosing, compiled_descent, schedule_descent
from icdc.search import compiled

SIZES = [(1, 1), (1, 3), (2, 2), (5, 3), (9, 4), (14, 3), (40, 12)]
needs_numba = pytest.mark.skipif(not compiled.available(), reason="needs numba")


def draw(rows: int, columns: int, highest: int = 30, batch: int = 3, samples: int = 4) -> tuple[Tensor, Tensor]:
    """Return whole times with ties and zeros, and random schedules."""
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    times = torch.randint(0, highest, (batch, rows, columns), generator=generator)
    return times, torch.randint(columns, (batch, samples, rows), generator=generator)


def makespan(times: Tensor, choice: Tensor) -> Tensor:
    with kernels.only_plain():
        return kernels.column_totals(times, choice).amax(-1)


def loads(times: list[list[int]], choice: list[int]) -> list[int]:
    found = [0] * len(times[0])
    for row, column in enumerate(choice):
        found[column] += times[row][column]
    return found


def is_local_optimum(times: Tensor, choice: Tensor, allowed: Tensor | None = None) -> bool:
    """Tell whether no move and no exchange takes a machine off the makespan and leaves both it touches below."""
    matrix, chosen = times.tolist(), choice.tolist()
    rows, columns = times.shape
    before = loads(matrix, chosen)
    top = max(before)
    changes: list[list[tuple[int, int]]] = [[(r, c)] for r, c in itertools.product(range(rows), range(columns))]
    changes += [[(r, chosen[s]), (s, chosen[r])] for r, s in itertools.combinations(range(rows), 2)]
    for change in changes:
        if all(allowed is None or chosen[r] == c or bool(allowed[r, c]) for r, c in change):
            after = list(chosen)
            for r, c in change:
                after[r] = c
            touched = {c for _, c in change} | {chosen[r] for r, _ in change}
            now = loads(matrix, after)
            if max(before[c] for c in touched) == top and max(now[c] for c in touched) < top:
                return False
    return True


@pytest.fixture(params=["plain", pytest.param("compiled", marks=needs_numba)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each implementation that a CPU has."""
    monkeypatch.setattr(choosing, "_only_plain", request.param == "plain")
    monkeypatch.setattr(choosing, "INSTALLED", False)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("masked", [False, True])
def test_schedules_end_at_local_optima(rows: int, columns: int, masked: bool) -> None:
    times, choice = draw(rows, columns, highest=6 if rows == 14 else 30)
    allowed = torch.rand(times.shape) < 0.6 if masked else None
    found = kernels.improve_schedules(times, choice, 10_000, allowed)
    assert found.shape == choice.shape
    assert found.dtype == torch.int64
    assert (makespan(times, found) <= makespan(times, choice)).all()
    for b, k in itertools.product(range(3), range(4)):
        assert is_local_optimum(times[b], found[b, k], None if allowed is None else allowed[b])
    if allowed is not None:
        taken = allowed[:, None].expand(-1, 4, -1, -1).gather(3, found[..., None]).squeeze(3)
        assert (taken | (found == choice)).all()


@pytest.mark.usefixtures("way")
def test_as_many_changes_as_rounds() -> None:
    """A change touches one row or two; none are made in no rounds, and the given schedules stay as they are."""
    times, choice = draw(14, 3)
    before = choice.clone()
    assert torch.equal(kernels.improve_schedules(times, choice, 0), choice)
    previous = choice
    for rounds in range(1, 6):
        found = kernels.improve_schedules(times, choice, rounds)
        assert ((found != previous).sum(-1) <= 2).all()
        assert torch.equal(kernels.improve_schedules(times, previous, 1), found)
        previous = found
    assert torch.equal(choice, before)
    assert (previous != choice).any()


@pytest.mark.usefixtures("way")
def test_plateaus_are_left() -> None:
    """Two machines reach the makespan: relieving either leaves it, relieving both does not."""
    times = torch.tensor([[[5, 9, 1], [9, 5, 1]]])
    found = kernels.improve_schedules(times, torch.tensor([[[0, 1]]]), 1)
    assert makespan(times, found).tolist() == [[5]]
    found = kernels.improve_schedules(times, torch.tensor([[[0, 1]]]), 2)
    assert found.tolist() == [[[2, 2]]]


@pytest.mark.usefixtures("way")
def test_every_fullest_machine_is_looked_at() -> None:
    """The first cannot be relieved, the second can."""
    times = torch.tensor([[[5, 9, 9], [9, 5, 1]]])
    assert kernels.improve_schedules(times, torch.tensor([[[0, 1]]]), 5).tolist() == [[[0, 2]]]


@pytest.mark.usefixtures("way")
def test_what_is_done_stays_done() -> None:
    """Changes that gain nothing are not made, however many there are among small numbers."""
    times, choice = draw(14, 3, highest=4, samples=20)
    found = kernels.improve_schedules(times, choice, 10_000)
    assert torch.equal(kernels.improve_schedules(times, found, 3), found)


@pytest.mark.usefixtures("way")
def test_large_integers_are_compared_exactly() -> None:
    """A gain of one in 2⁴⁰ counts: neither float32 nor a tolerance decides."""
    huge = 2**40
    times = torch.tensor([[[huge, huge - 1]]])
    assert kernels.improve_schedules(times, torch.tensor([[[0]]]), 5).tolist() == [[[1]]]
    assert kernels.improve_schedules(times.double(), torch.tensor([[[0]]]), 5).tolist() == [[[0]]]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32, torch.uint8])
def test_every_dtype(kind: torch.dtype) -> None:
    """Whole numbers give the same schedules in any dtype; reals get no worse as their own dtype adds them up."""
    times, choice = draw(20, 4)
    assert torch.equal(
        kernels.improve_schedules(times.to(kind), choice, 100), kernels.improve_schedules(times, choice, 100)
    )
    if kind.is_floating_point:
        reals = torch.rand(3, 60, 4, dtype=kind) ** 4
        choice = torch.randint(4, (3, 50, 60))
        found = kernels.improve_schedules(reals, choice, 1000)
        assert (makespan(reals, found) <= makespan(reals, choice)).all()
        assert makespan(reals, found).mean() < 0.7 * makespan(reals, choice).mean()


def test_what_rounding_makes_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a search return longer schedules of reals, the given ones are returned."""
    monkeypatch.setattr(schedule_descent, "_improve", lambda target, choice, own, load, rounds: choice * 0)
    times = torch.tensor([[[1.0, 2.0], [1.5, 1.0]]])
    with kernels.only_plain():
        found = kernels.improve_schedules(times, torch.tensor([[[0, 1], [1, 1]]]), 5)
    assert found.tolist() == [[[0, 1], [0, 0]]]


@needs_numba
@pytest.mark.parametrize(("rows", "columns"), [*SIZES, (100, 20), (70, 3)])
@pytest.mark.parametrize("kind", [torch.int64, torch.float64])
def test_compiled_loops_give_the_plain_schedules(
    rows: int, columns: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any number of rounds, however solutions are divided into blocks and threads."""
    monkeypatch.setattr(choosing, "INSTALLED", False)
    times, choice = draw(rows, columns, samples=30 if rows < 50 else 8)
    times = times if kind == torch.int64 else torch.rand(times.shape, dtype=kind)
    allowed = torch.rand(times.shape) < 0.9
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(compiled_descent, "_FEWEST", 2)
    for rounds in (1, 2, 7, 1000):
        found = kernels.improve_schedules(times, choice, rounds, allowed)
        monkeypatch.setattr(schedule_descent, "_BLOCK", {"cpu": rows * max(rows, columns) * (1 + rounds % 3)})
        with kernels.only_plain():
            assert torch.equal(found, kernels.improve_schedules(times, choice, rounds, allowed))


def test_rows_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few at a time, and also those of no fullest machine, as on a GPU, which is never asked how many are."""
    times, choice = draw(9, 4)
    flat = choice.flatten(0, 1)
    with kernels.only_plain():
        load = kernels.column_totals(times, choice).flatten(0, 1)
        own = times.repeat_interleave(4, 0).gather(2, flat[:, :, None]).squeeze(2)
        state = schedule_descent._Schedules(times.repeat_interleave(4, 0), flat, own, load)
        top = load.amax(1, keepdim=True)
        for full in (load.gather(1, flat) == top, torch.ones_like(flat, dtype=torch.bool)):
            wide, narrow = (schedule_descent._best_swaps(state, top, full, room) for room in (10**6, 1))
            assert all(torch.equal(a, b) for a, b in zip(wide, narrow, strict=True))


def test_nothing_to_improve() -> None:
    assert kernels.improve_schedules(torch.ones(2, 3, 2), torch.zeros(2, 0, 3, dtype=torch.long), 5).shape == (2, 0, 3)


def test_numba_is_not_imported_until_it_is_needed() -> None:
    code = "import sys; from icdc import kernels; sys.exit('numba' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0
