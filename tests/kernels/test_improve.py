"""Local search on a CPU: never worse, always feasible, at a local optimum, and every change as by hand."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import dispatch, improve
from icdc.kernels.improve import numba
from tests.kernels import oracles
from tests.kernels.support import (
    ON_HOST,
    is_tour,
    length,
    loads,
    makespan,
    stays_permitted,
    successors,
    visited,
)  # fmt: skip

pytestmark = ON_HOST
SCHEDULES = [(1, 1), (1, 3), (2, 2), (5, 3), (9, 4), (14, 3), (40, 12)]
TOURS = [1, 2, 3, 4, 5, 8, 13]


def draw_schedules(
    rows: int, columns: int, highest: int = 30, batch: int = 3, samples: int = 4
) -> tuple[Tensor, Tensor]:
    """Return whole times with ties and zeros, and random schedules."""
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    times = torch.randint(0, highest, (batch, rows, columns), generator=generator)
    return times, torch.randint(columns, (batch, samples, rows), generator=generator)


def draw_tours(size: int, highest: int = 50, batch: int = 3, samples: int = 4) -> tuple[Tensor, Tensor]:
    """Return whole distances with ties and zeros, and random tours as successors."""
    generator = torch.Generator().manual_seed(size)
    distances = torch.randint(0, highest, (batch, size, size), generator=generator)
    return distances, successors(torch.rand(batch, samples, size, generator=generator).argsort(-1))


def is_best_schedule(times: Tensor, choice: Tensor, allowed: Tensor | None = None) -> bool:
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


def is_best_tour(distances: Tensor, successor: Tensor, allowed: Tensor | None = None) -> bool:
    """Tell whether no two neighbouring segments can change places at a gain; tours are built and added up in full."""
    matrix, order = distances.tolist(), visited(successor)

    def total(tour: list[int]) -> int:
        return sum(matrix[a][b] for a, b in itertools.pairwise([*tour, tour[0]]))

    def permitted(tour: list[int]) -> bool:
        steps = itertools.pairwise([*tour, tour[0]])
        return allowed is None or all(bool(allowed[a, b]) or int(successor[a]) == b for a, b in steps)

    for i, j, k in itertools.combinations(range(len(order) + 1), 3):
        tour = order[:i] + order[j:k] + order[i:j] + order[k:]
        if permitted(tour) and total(tour) < total(order):
            return False
    return True


def changed_by_hand(times: Tensor, choice: list[int], allowed: Tensor | None = None) -> list[int]:
    """Make one change to a schedule as it is described, looked for among all of them by adding up loads."""
    matrix, rows, columns = times.tolist(), *times.shape
    may = [[True] * columns for _ in range(rows)] if allowed is None else allowed.tolist()
    excess = improve.schedule_excess(times[None], None if allowed is None else allowed[None])[0].tolist()
    before = loads(matrix, choice)
    top = max(before)
    Key = tuple[int, int, float, int, int, int]
    changes: list[tuple[Key, list[int]]] = []

    def look_at(kind: int, machine: int, steps: list[tuple[int, int]], number: int) -> None:
        """Note a change, rows and where they go; kinds come one after the other, number breaks ties of one row."""
        after = list(choice)
        for row, column in steps:
            after[row] = column
        touched, now = {choice[row] for row, _ in steps} | {column for _, column in steps}, loads(matrix, after)
        if all(now[column] < top for column in touched) and all(may[row][column] for row, column in steps):
            more = [excess[row][column] - excess[row][choice[row]] for row, column in steps]
            value = more[0] if len(more) == 1 else more[0] + more[1]
            if kind < 3 or value < 0:
                changes.append(((kind, machine, value, len(steps), steps[0][0], number), after))

    for row in range(rows):
        full = before[choice[row]] == top
        if not full and excess[row][choice[row]] <= 0:
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
    return min(changes)[1] if changes else choice


@pytest.mark.parametrize(("rows", "columns"), SCHEDULES)
@pytest.mark.parametrize("masked", [False, True])
def test_schedules_end_at_local_optima(rows: int, columns: int, masked: bool) -> None:
    times, choice = draw_schedules(rows, columns, highest=6 if rows == 14 else 30)
    allowed = torch.rand(times.shape) < 0.6 if masked else None
    improved = kernels.improve_schedules(times, choice, 10_000, allowed)
    assert improved.dtype == torch.int64
    assert (makespan(times, improved) <= makespan(times, choice)).all()
    assert stays_permitted(allowed, choice, improved)
    for b, k in itertools.product(range(3), range(4)):
        assert is_best_schedule(times[b], improved[b, k], None if allowed is None else allowed[b])
    # what gains nothing is not done, however many such changes there are
    assert torch.equal(kernels.improve_schedules(times, improved, 3, allowed), improved)


@pytest.mark.parametrize("size", TOURS)
@pytest.mark.parametrize("masked", [False, True])
def test_tours_end_at_local_optima(size: int, masked: bool) -> None:
    distances, successor = draw_tours(size)
    allowed = torch.rand(distances.shape) < 0.6 if masked else None
    improved = kernels.improve_tours(distances, successor, 10_000, allowed)
    assert improved.dtype == torch.int64
    assert (length(distances, improved) <= length(distances, successor)).all()
    assert stays_permitted(allowed, successor, improved)
    for b, k in itertools.product(range(3), range(4)):
        assert is_tour(improved[b, k])
        assert is_best_tour(distances[b], improved[b, k], None if allowed is None else allowed[b])


def test_a_schedule_changes_as_often_as_asked_for() -> None:
    """A change touches one row or two; none are made in no rounds, and the solutions passed in stay as they are."""
    times, choice = draw_schedules(14, 3)
    before = choice.clone()
    assert torch.equal(kernels.improve_schedules(times, choice, 0), choice)
    previous = choice
    for rounds in range(1, 6):
        improved = kernels.improve_schedules(times, choice, rounds)
        assert ((improved != previous).sum(-1) <= 2).all()
        assert torch.equal(kernels.improve_schedules(times, previous, 1), improved)
        previous = improved
    assert torch.equal(choice, before)
    assert (previous != choice).any()


def test_a_tour_changes_as_often_as_asked_for() -> None:
    """A change replaces three steps and makes the tour shorter."""
    distances, successor = draw_tours(13)
    before = successor.clone()
    assert torch.equal(kernels.improve_tours(distances, successor, 0), successor)
    previous = successor
    for rounds in range(1, 6):
        improved = kernels.improve_tours(distances, successor, rounds)
        changed = (improved != previous).sum(-1)
        assert ((changed == 3) | (changed == 0)).all()
        assert (length(distances, improved) < length(distances, previous))[changed == 3].all()
        assert all(is_tour(tour) for tour in improved.flatten(0, 1))
        previous = improved
    assert torch.equal(successor, before)
    assert (previous != successor).any()


@pytest.mark.parametrize(("rows", "columns"), SCHEDULES)
@pytest.mark.parametrize("highest", [4, 30])
def test_every_change_is_the_one_of_least_excess(rows: int, columns: int, highest: int) -> None:
    """As by hand, change after change, all kinds of them, with ties and with forbidden pairs."""
    times, choice = draw_schedules(rows, columns, highest, batch=1, samples=2 if rows > 20 else 4)
    for allowed in (None, torch.rand(times.shape, generator=torch.Generator().manual_seed(1)) < 0.8):
        mask = None if allowed is None else allowed[0]
        for sample in range(choice.shape[1]):
            expected = choice[0, sample].tolist()
            for _ in range(40):
                improved = kernels.improve_schedules(times, torch.tensor([[expected]]), 1, allowed)
                expected = changed_by_hand(times[0], expected, mask)
                assert improved.tolist() == [[expected]]


def test_a_row_passes_on_where_nothing_else_helps() -> None:
    """Row 0 fits nowhere, and none fits where it was; row 1 makes place for it and goes to the third machine."""
    times = torch.tensor([[[9, 4, 9], [9, 5, 7], [9, 9, 1]]])
    assert kernels.improve_schedules(times, torch.tensor([[[0, 1, 2]]]), 1).tolist() == [[[1, 2, 2]]]


def test_room_is_gathered_where_nothing_is_relieved() -> None:
    """Rows 1 and 2 are on the wrong machines; when they have changed places, row 0 can be moved."""
    times = torch.tensor([[[10, 8, 99], [99, 6, 2], [99, 1, 9]]])
    one = kernels.improve_schedules(times, torch.tensor([[[0, 1, 2]]]), 1)
    assert one.tolist() == [[[0, 2, 1]]]
    assert kernels.improve_schedules(times, one, 1).tolist() == [[[1, 2, 1]]]


def test_the_best_exchange_may_be_of_rows_of_less_excess_each() -> None:
    """Rows 1 and 2 come first and gain 3 together, more than the excess of 3 and of 4; these gain 4."""
    choice, away = np.arange(5), np.array([0.0, 1.5, 1.5, 2.0, 2.0])
    excess = np.full((5, 5), 9.0)
    for row, own in enumerate(away):
        excess[row, row] = own
    for row, other in ((1, 2), (2, 1), (3, 4), (4, 3)):
        excess[row, other] = 0.0
    times, load = np.ones((5, 5), dtype=np.int64), np.array([100, 10, 10, 10, 10])
    nowhere = np.full(5, np.inf), np.zeros(5, dtype=np.int64)
    change = numba._best_gathering(times, excess, choice, load, load - 1, away, 100, *nowhere)
    assert change == (3, 4, 4, 3)


def test_excess_of_schedules() -> None:
    """Times at prices beyond the least of their row, the same whatever else is priced with an instance."""
    times, _ = draw_schedules(50, 7, highest=100, batch=16)
    excess, priced = improve.schedule_excess(times), kernels.schedule_prices(times, rounds=improve.PRICE_ROUNDS)
    at_prices = times * priced.prices[:, None]
    assert torch.allclose(excess, at_prices - at_prices.amin(2, keepdim=True), atol=100 * improve.PRICE_UNIT)
    assert (excess.amin(2) == 0).all()
    for start, count in itertools.product(range(13), (1, 2, 3)):
        part = slice(start, start + count)
        assert torch.equal(improve.schedule_excess(times[part]), excess[part])
    free = torch.zeros(1, 2, 3, dtype=torch.int64)
    assert improve.schedule_excess(free).tolist() == [[[0.0] * 3] * 2]


def test_a_row_without_a_permitted_column_stays() -> None:
    """And all others are improved as if it were not there."""
    times = torch.tensor([[[5, 5, 5], [9, 9, 2], [9, 1, 9]]])
    allowed = torch.tensor([[[False] * 3, [True] * 3, [True] * 3]])
    assert kernels.improve_schedules(times, torch.tensor([[[0, 0, 0]]]), 10, allowed).tolist() == [[[0, 2, 1]]]


def test_plateaus_are_left() -> None:
    """Two machines reach the makespan: relieving either leaves it, relieving both does not."""
    times = torch.tensor([[[5, 9, 1], [9, 5, 1]]])
    once = kernels.improve_schedules(times, torch.tensor([[[0, 1]]]), 1)
    assert makespan(times, once).tolist() == [[5]]
    assert kernels.improve_schedules(times, torch.tensor([[[0, 1]]]), 2).tolist() == [[[2, 2]]]


def test_every_fullest_machine_is_looked_at() -> None:
    """The first cannot be relieved, the second can."""
    times = torch.tensor([[[5, 9, 9], [9, 5, 1]]])
    assert kernels.improve_schedules(times, torch.tensor([[[0, 1]]]), 5).tolist() == [[[0, 2]]]


def test_large_integers_are_compared_exactly() -> None:
    """A gain of one in 2⁴⁰ counts: neither float32 nor a tolerance decides."""
    huge = 2**40
    times = torch.tensor([[[huge, huge - 1]]])
    assert kernels.improve_schedules(times, torch.tensor([[[0]]]), 5).tolist() == [[[1]]]
    assert kernels.improve_schedules(times.double(), torch.tensor([[[0]]]), 5).tolist() == [[[0]]]
    distances = torch.full((1, 3, 3), huge)
    distances[0, 0, 1] -= 1  # 0 → 2 → 1 is one longer than 0 → 1 → 2
    worse, better = torch.tensor([[[2, 0, 1]]]), torch.tensor([[[1, 2, 0]]])
    assert torch.equal(kernels.improve_tours(distances, worse, 5), better)
    assert torch.equal(kernels.improve_tours(distances.double(), worse, 5), worse)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32, torch.uint8])
def test_every_dtype(kind: torch.dtype) -> None:
    """Whole numbers give the same solutions in any dtype; reals get no worse as their own dtype adds them up."""
    times, choice = draw_schedules(20, 4)
    expected = kernels.improve_schedules(times, choice, 100)
    assert torch.equal(kernels.improve_schedules(times.to(kind), choice, 100), expected)
    distances, successor = draw_tours(13)
    expected = kernels.improve_tours(distances, successor, 100)
    assert torch.equal(kernels.improve_tours(distances.to(kind), successor, 100), expected)
    if kind.is_floating_point:
        reals = torch.rand(3, 60, 4, dtype=kind) ** 4
        choice = torch.randint(4, (3, 50, 60))
        before, after = (makespan(reals, one) for one in (choice, kernels.improve_schedules(reals, choice, 1000)))
        assert (after <= before).all()
        assert after.mean() < 0.7 * before.mean()
        reals, successor = torch.rand(2, 20, 20, dtype=kind), draw_tours(20, batch=2, samples=10)[1]
        before, after = (length(reals, one) for one in (successor, kernels.improve_tours(reals, successor, 1000)))
        assert (after <= before).all()
        assert after.mean() < 0.4 * before.mean()


def test_what_rounding_makes_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a search return worse solutions of reals, those passed in are returned."""
    one, other = torch.tensor([[[1, 2, 0]]]), torch.tensor([[[2, 0, 1]]])
    distances = torch.ones(1, 3, 3)
    distances[0, 0, 1] = 0.5
    monkeypatch.setattr(numba, "improve_tours", lambda *arguments: other)
    assert torch.equal(kernels.improve_tours(distances, one, 5), one)
    assert torch.equal(kernels.improve_tours(-distances, one, 5), other)
    monkeypatch.setattr(numba, "improve_schedules", lambda target, excess, choice, *others: choice * 0)
    times, choice = torch.tensor([[[1.0, 2.0], [1.5, 1.0]]]), torch.tensor([[[0, 1], [1, 1]]])
    assert kernels.improve_schedules(times, choice, 5).tolist() == [[[0, 1], [0, 0]]]


def test_equal_costs_keep_what_was_searched() -> None:
    """Cheaper or as cheap: the new solution; dearer: the old one."""
    new, old = torch.tensor([[[1, 1], [2, 2], [3, 3]]]), torch.tensor([[[4, 0], [4, 0], [4, 1]]])
    kept = improve.no_worse(new, old, lambda choice: choice.sum(-1).double())
    assert kept.tolist() == [[[1, 1], [2, 2], [4, 1]]]


@pytest.mark.parametrize(("rows", "columns"), [*SCHEDULES, (100, 20), (70, 3)])
@pytest.mark.parametrize("kind", [torch.int64, torch.float64])
def test_schedules_are_those_of_torch_operations(
    rows: int, columns: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any number of rounds, however solutions are divided among threads."""
    times, choice = draw_schedules(rows, columns, samples=30 if rows < 50 else 8)
    times = times if kind == torch.int64 else torch.rand(times.shape, dtype=kind)
    allowed = torch.rand(times.shape) < 0.9
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(dispatch, "_FEWEST", 2)
    for rounds in (1, 2, 7, 1000):
        improved = kernels.improve_schedules(times, choice, rounds, allowed)
        assert torch.equal(improved, oracles.improve_schedules(times, choice, rounds, allowed))


@pytest.mark.parametrize(("size", "samples"), [(7, 500), (30, 64)])
def test_tours_are_as_good_as_those_of_torch_operations(
    size: int, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mean lengths of local optima from random tours agree, and looking at every change finds none that is left."""
    distances, successor = draw_tours(size, 10**6, 4, samples)
    improved = kernels.improve_tours(distances, successor, 10_000)
    assert torch.equal(oracles.improve_tours(distances, improved, 1), improved)
    reference = oracles.improve_tours(distances, successor, 10_000)
    assert torch.equal(kernels.improve_tours(distances, reference, 10_000), reference)
    ratio = length(distances, improved).double().mean() / length(distances, reference).double().mean()
    assert abs(float(ratio) - 1) < 0.05
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert torch.equal(kernels.improve_tours(distances, successor, 10_000), improved)


def test_nothing_to_improve() -> None:
    none = torch.zeros(2, 0, 3, dtype=torch.long)
    assert kernels.improve_schedules(torch.ones(2, 3, 2), none, 5).shape == (2, 0, 3)
    assert kernels.improve_tours(torch.ones(2, 3, 3), none, 5).shape == (2, 0, 3)


def test_what_counts_as_a_gain_depends_on_the_distances_alone() -> None:
    """However long the tour was at first: a local optimum is left as it is."""
    distances = (torch.rand(4, 40, 40) ** 6).float()
    improved = kernels.improve_tours(distances, draw_tours(40, batch=4, samples=16)[1], 10_000)
    assert torch.equal(kernels.improve_tours(distances, improved, 10_000), improved)


def test_gains_of_reals_are_above_rounding() -> None:
    """A share of the steps to nearest cities, the diagonal aside; and of the largest where that is huge."""
    distances = torch.tensor([[[0.0, 2.0, 9.0], [4.0, 0.0, 9.0], [9.0, 6.0, 0.0]]], dtype=torch.float64)
    assert improve.least_gain(distances).item() == pytest.approx(4e-9)
    distances[0, 0, 2] = 1e12
    assert improve.least_gain(distances).item() == pytest.approx(16 * 2.0**-52 * 1e12)
    assert improve.least_gain(torch.ones(2, 3, 3, dtype=torch.int64)).tolist() == [0, 0]
