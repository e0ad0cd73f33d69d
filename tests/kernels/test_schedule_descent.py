"""Local search for schedules: never worse, at a local optimum, the same from plain operations and compiled loops."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import choosing, compiled_descent, schedule_descent
from icdc.kernels.prices import schedule_prices
from tests.kernels.ways import needs_numba

SIZES = [(1, 1), (1, 3), (2, 2), (5, 3), (9, 4), (14, 3), (40, 12)]


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


def by_hand(times: Tensor, choice: list[int], allowed: Tensor | None = None) -> list[int]:
    """Make one change as it is described, looked for among all of them by adding up loads."""
    matrix, rows, columns = times.tolist(), *times.shape
    may = [[True] * columns for _ in range(rows)] if allowed is None else allowed.tolist()
    given = schedule_descent.given_away(times[None], None if allowed is None else allowed[None])[0].tolist()
    before = loads(matrix, choice)
    top = max(before)
    Key = tuple[int, int, float, int, int, int]
    found: list[tuple[Key, list[int]]] = []

    def look_at(kind: int, machine: int, steps: list[tuple[int, int]], number: int) -> None:
        """Note a change, rows and where they go; kinds come one after the other, number breaks ties of one row."""
        after = list(choice)
        for row, column in steps:
            after[row] = column
        touched, now = {choice[row] for row, _ in steps} | {column for _, column in steps}, loads(matrix, after)
        if all(now[column] < top for column in touched) and all(may[row][column] for row, column in steps):
            more = [given[row][column] - given[row][choice[row]] for row, column in steps]
            value = more[0] if len(more) == 1 else more[0] + more[1]
            if kind < 3 or value < 0:
                found.append(((kind, machine, value, len(steps), steps[0][0], number), after))

    for row in range(rows):
        full = before[choice[row]] == top
        if not full and given[row][choice[row]] <= 0:
            continue
        kind, machine = (1, choice[row]) if full else (3, 0)
        for column in range(columns):
            if column != choice[row]:
                look_at(kind, machine, [(row, column)], column)
        for other in range(rows):
            if choice[other] != choice[row]:
                look_at(kind, machine, [(row, choice[other]), (other, choice[row])], other)
                if full:
                    for third in set(range(columns)) - {choice[row], choice[other]}:
                        look_at(2, machine, [(row, choice[other]), (other, third)], other * columns + third)
    return min(found)[1] if found else choice


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
@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("highest", [4, 30])
def test_every_change_is_the_one_that_gives_away_least(rows: int, columns: int, highest: int) -> None:
    """As by hand, change after change, all kinds of them, with ties and with forbidden pairs."""
    times, choice = draw(rows, columns, highest, batch=1, samples=2 if rows > 20 else 4)
    for allowed in (None, torch.rand(times.shape, generator=torch.Generator().manual_seed(1)) < 0.8):
        mask = None if allowed is None else allowed[0]
        for sample in range(choice.shape[1]):
            expected = choice[0, sample].tolist()
            for _ in range(40):
                found = kernels.improve_schedules(times, torch.tensor([[expected]]), 1, allowed)
                expected = by_hand(times[0], expected, mask)
                assert found.tolist() == [[expected]]


@pytest.mark.usefixtures("way")
def test_a_row_passes_on_where_nothing_else_helps() -> None:
    """Row 0 fits nowhere, and nobody fits where it was; row 1 makes place for it and goes to the third machine."""
    times = torch.tensor([[[9, 4, 9], [9, 5, 7], [9, 9, 1]]])
    assert kernels.improve_schedules(times, torch.tensor([[[0, 1, 2]]]), 1).tolist() == [[[1, 2, 2]]]


@pytest.mark.usefixtures("way")
def test_room_is_gathered_where_nothing_is_relieved() -> None:
    """Rows 1 and 2 are on the wrong machines; when they have changed places, row 0 can be moved."""
    times = torch.tensor([[[10, 8, 99], [99, 6, 2], [99, 1, 9]]])
    one = kernels.improve_schedules(times, torch.tensor([[[0, 1, 2]]]), 1)
    assert one.tolist() == [[[0, 2, 1]]]
    assert kernels.improve_schedules(times, one, 1).tolist() == [[[1, 2, 1]]]


@needs_numba
def test_the_best_exchange_may_be_of_rows_that_give_away_less_each() -> None:
    """Rows 1 and 2 are found first and gain 3 together, more than rows 3 and 4 give away each; these gain 4."""
    choice, away = np.arange(5), np.array([0.0, 1.5, 1.5, 2.0, 2.0])
    given = np.full((5, 5), 9.0)
    for row, own in enumerate(away):
        given[row, row] = own
    for row, other in ((1, 2), (2, 1), (3, 4), (4, 3)):
        given[row, other] = 0.0
    times, load = np.ones((5, 5), dtype=np.int64), np.array([100, 10, 10, 10, 10])
    nowhere = np.full(5, np.inf), np.zeros(5, dtype=np.int64)
    found = compiled_descent._best_gathering(times, given, choice, load, load - 1, away, 100, *nowhere)
    assert found == (3, 4, 4, 3)


def test_what_is_given_away() -> None:
    """Times at prices beyond the least of their row, the same whatever else is priced with an instance."""
    times, _ = draw(50, 7, highest=100, batch=16)
    given, priced = schedule_descent.given_away(times), schedule_prices(times, rounds=schedule_descent.PRICE_ROUNDS)
    at_prices = times * priced.prices[:, None]
    assert torch.allclose(given, at_prices - at_prices.amin(2, keepdim=True), atol=100 * schedule_descent.PRICE_UNIT)
    assert (given.amin(2) == 0).all()
    for start, count in itertools.product(range(13), (1, 2, 3)):
        part = slice(start, start + count)
        assert torch.equal(schedule_descent.given_away(times[part]), given[part])
    free = torch.zeros(1, 2, 3, dtype=torch.int64)
    assert schedule_descent.given_away(free).tolist() == [[[0.0] * 3] * 2]


@pytest.mark.usefixtures("way")
def test_a_row_without_a_permitted_column_stays() -> None:
    """And all others are improved as if it were not there."""
    times = torch.tensor([[[5, 5, 5], [9, 9, 2], [9, 1, 9]]])
    allowed = torch.tensor([[[False] * 3, [True] * 3, [True] * 3]])
    assert kernels.improve_schedules(times, torch.tensor([[[0, 0, 0]]]), 10, allowed).tolist() == [[[0, 2, 1]]]


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
    monkeypatch.setattr(schedule_descent, "_improve", lambda target, given, choice, own, load, rounds: choice * 0)
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


def test_rows_are_looked_at_in_blocks() -> None:
    """However few at a time, and also those that are not meant, as on a GPU, which is never asked how many are."""
    times, choice = draw(9, 4)
    flat, wide = choice.flatten(0, 1), times.repeat_interleave(4, 0)
    with kernels.only_plain():
        load = kernels.column_totals(times, choice).flatten(0, 1)
        own = wide.gather(2, flat[:, :, None]).squeeze(2)
        given = schedule_descent.given_away(wide)
        state = schedule_descent._Schedules(wide, given, flat, own, load)
        top = load.amax(1, keepdim=True)
        rest, more = load.gather(1, flat) - own, given - given.gather(2, flat[:, :, None])
        options = schedule_descent._Options(top, more, rest, more.amin(2), more.argmin(2))
        for rows, passing_on in itertools.product((load.gather(1, flat) == top, flat >= 0), (False, True)):
            at_once, one_by_one = (
                schedule_descent._best_partners(state, options, rows, room, passing_on) for room in (10**6, 1)
            )
            assert all(torch.equal(a, b) for a, b in zip(at_once, one_by_one, strict=True))
            assert bool((at_once[0] < torch.inf).any())


def test_nothing_to_improve() -> None:
    assert kernels.improve_schedules(torch.ones(2, 3, 2), torch.zeros(2, 0, 3, dtype=torch.long), 5).shape == (2, 0, 3)


def test_numba_is_not_imported_until_it_is_needed() -> None:
    code = "import sys; from icdc import kernels; sys.exit('numba' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0
