"""Local search for tours: never longer, always tours, and no exchange of neighbouring segments left that gains."""

import itertools

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import tour_descent
from tests.kernels.ways import needs_numba

SIZES = [1, 2, 3, 4, 5, 8, 13]


def draw(size: int, highest: int = 50, batch: int = 3, samples: int = 4) -> tuple[Tensor, Tensor]:
    """Return whole distances with ties and zeros, and random tours as successors."""
    generator = torch.Generator().manual_seed(size)
    distances = torch.randint(0, highest, (batch, size, size), generator=generator)
    order = torch.rand(batch, samples, size, generator=generator).argsort(-1)
    return distances, torch.zeros_like(order).scatter(2, order, order.roll(-1, 2))


def length(distances: Tensor, successor: Tensor) -> Tensor:
    spread = distances[:, None].expand(-1, successor.shape[1], -1, -1)
    return spread.gather(3, successor[..., None]).squeeze(3).sum(-1)


def visited(successor: Tensor) -> list[int]:
    order = [0]
    for _ in range(len(successor) - 1):
        order.append(int(successor[order[-1]]))
    return order


def assert_is_tour(successor: Tensor) -> None:
    order = visited(successor)
    assert sorted(order) == list(range(len(successor)))
    assert int(successor[order[-1]]) == 0


def is_local_optimum(distances: Tensor, successor: Tensor, allowed: Tensor | None = None) -> bool:
    """Tell whether no two neighbouring segments can change places at a gain; tours are built and added up in full."""
    matrix, order = distances.tolist(), visited(successor)
    size = len(order)

    def total(tour: list[int]) -> int:
        return sum(matrix[a][b] for a, b in itertools.pairwise([*tour, tour[0]]))

    def permitted(tour: list[int]) -> bool:
        steps = itertools.pairwise([*tour, tour[0]])
        return allowed is None or all(bool(allowed[a, b]) or int(successor[a]) == b for a, b in steps)

    for i, j, k in itertools.combinations(range(size + 1), 3):
        tour = order[:i] + order[j:k] + order[i:j] + order[k:]
        if permitted(tour) and total(tour) < total(order):
            return False
    return True


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("masked", [False, True])
def test_tours_end_at_local_optima(size: int, masked: bool) -> None:
    distances, successor = draw(size)
    allowed = torch.rand(distances.shape) < 0.6 if masked else None
    found = kernels.improve_tours(distances, successor, 10_000, allowed)
    assert found.shape == successor.shape
    assert found.dtype == torch.int64
    assert (length(distances, found) <= length(distances, successor)).all()
    for b, k in itertools.product(range(3), range(4)):
        assert_is_tour(found[b, k])
        assert is_local_optimum(distances[b], found[b, k], None if allowed is None else allowed[b])
    if allowed is not None:
        taken = allowed[:, None].expand(-1, 4, -1, -1).gather(3, found[..., None]).squeeze(3)
        assert (taken | (found == successor)).all()


@pytest.mark.usefixtures("way")
def test_as_many_changes_as_rounds() -> None:
    """A change replaces three steps; none are made in no rounds, and the given tours stay as they are."""
    distances, successor = draw(13)
    before = successor.clone()
    assert torch.equal(kernels.improve_tours(distances, successor, 0), successor)
    previous = successor
    for rounds in range(1, 6):
        found = kernels.improve_tours(distances, successor, rounds)
        changed = (found != previous).sum(-1)
        assert ((changed == 3) | (changed == 0)).all()
        assert (length(distances, found) < length(distances, previous))[changed == 3].all()
        for tour in found.flatten(0, 1):
            assert_is_tour(tour)
        previous = found
    assert torch.equal(successor, before)
    assert (previous != successor).any()


def test_plain_operations_make_the_best_change() -> None:
    distances, successor = draw(8)
    with kernels.only_plain():
        found = kernels.improve_tours(distances, successor, 1)
    for b, k in itertools.product(range(3), range(4)):
        order, matrix = visited(successor[b, k]), distances[b]
        cuts = itertools.combinations(range(9), 3)
        tours = [order[:x] + order[y:z] + order[x:y] + order[z:] for x, y, z in cuts]
        best = min(int(sum(matrix[x, y] for x, y in itertools.pairwise([*t, t[0]]))) for t in [*tours, order])
        assert int(length(distances, found)[b, k]) == best


@pytest.mark.usefixtures("way")
def test_large_integers_are_compared_exactly() -> None:
    """A gain of one in 2⁴⁰ counts: neither float32 nor a tolerance decides."""
    distances = torch.full((1, 3, 3), 2**40)
    distances[0, 0, 1] -= 1  # 0 → 2 → 1 is one longer than 0 → 1 → 2
    worse, better = torch.tensor([[[2, 0, 1]]]), torch.tensor([[[1, 2, 0]]])
    assert torch.equal(kernels.improve_tours(distances, worse, 5), better)
    assert torch.equal(kernels.improve_tours(distances.double(), worse, 5), worse)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32])
def test_every_dtype(kind: torch.dtype) -> None:
    """Whole numbers give the same tours in any dtype; reals get no longer as their own dtype adds them up."""
    distances, successor = draw(13)
    assert torch.equal(
        kernels.improve_tours(distances.to(kind), successor, 100), kernels.improve_tours(distances, successor, 100)
    )
    if kind.is_floating_point:
        reals = torch.rand(2, 20, 20, dtype=kind)
        successor = draw(20, batch=2, samples=10)[1]
        found = kernels.improve_tours(reals, successor, 1000)
        assert (length(reals, found) <= length(reals, successor)).all()
        assert length(reals, found).mean() < 0.4 * length(reals, successor).mean()


def test_what_rounding_makes_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a search return longer tours of reals, the given ones are returned."""
    one, other = torch.tensor([[[1, 2, 0]]]), torch.tensor([[[2, 0, 1]]])
    distances = torch.ones(1, 3, 3)
    distances[0, 0, 1] = 0.5
    monkeypatch.setattr(tour_descent, "_improve", lambda target, successor, step, least, rounds: other)
    with kernels.only_plain():
        assert torch.equal(kernels.improve_tours(distances, one, 5), one)
        assert torch.equal(kernels.improve_tours(-distances, one, 5), other)


@needs_numba
def test_both_ways_are_as_good() -> None:
    """Mean lengths of local optima from random tours agree; threads and blocks change nothing.

    Plain operations look at every change each time, and find none that compiled loops have left.
    """
    distances, successor = draw(30, 10**6, 4, 64)
    found = kernels.improve_tours(distances, successor, 10_000)
    with kernels.only_plain():
        assert torch.equal(kernels.improve_tours(distances, found, 1), found)
    short, start = draw(7, 10**6, 4, 500)
    few = kernels.improve_tours(short, start, 10_000)
    with kernels.only_plain():
        assert torch.equal(kernels.improve_tours(short, few, 1), few)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 2)
        assert torch.equal(kernels.improve_tours(distances, successor, 10_000), found)
    with kernels.only_plain(), pytest.MonkeyPatch.context() as patch:
        plain = kernels.improve_tours(distances, successor, 10_000)
        patch.setattr(tour_descent, "_BLOCK", {"cpu": 1})
        assert torch.equal(kernels.improve_tours(distances[:1], successor[:1, :8], 10_000), plain[:1, :8])
    ratio = length(distances, found).double().mean() / length(distances, plain).double().mean()
    assert abs(float(ratio) - 1) < 0.05


def test_cities_in_visiting_order() -> None:
    assert tour_descent.visiting_order(torch.tensor([[2, 0, 3, 1]])).tolist() == [[0, 2, 3, 1]]


def test_nothing_to_improve() -> None:
    assert kernels.improve_tours(torch.ones(2, 3, 3), torch.zeros(2, 0, 3, dtype=torch.long), 5).shape == (2, 0, 3)


@pytest.mark.usefixtures("way")
def test_what_is_done_stays_done() -> None:
    """What counts as a gain depends on the distances alone, however long the tour was at first."""
    distances = (torch.rand(4, 40, 40) ** 6).float()
    found = kernels.improve_tours(distances, draw(40, batch=4, samples=16)[1], 10_000)
    assert torch.equal(kernels.improve_tours(distances, found, 10_000), found)


def test_gains_of_reals_are_above_rounding() -> None:
    """A share of the steps to nearest cities, the diagonal aside; and of the largest where that is huge."""
    distances = torch.tensor([[[0.0, 2.0, 9.0], [4.0, 0.0, 9.0], [9.0, 6.0, 0.0]]], dtype=torch.float64)
    assert tour_descent.least_gain(distances).item() == pytest.approx(4e-9)
    distances[0, 0, 2] = 1e12
    assert tour_descent.least_gain(distances).item() == pytest.approx(16 * 2.0**-52 * 1e12)
    assert tour_descent.least_gain(torch.ones(2, 3, 3, dtype=torch.int64)).tolist() == [0, 0]
