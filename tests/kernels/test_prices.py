"""Prices of whole batches: bounds that no solution undercuts, near those of exact duals."""

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from icdc import kernels
from icdc.problems.bounds import assignment_bound
from icdc.problems.tours import random_tmat
from icdc.search.schedule_bounds import price


def least_makespans(times: Tensor, allowed: Tensor | None = None) -> list[float]:
    """Return the best makespans by trying every schedule; ∞ where none is permitted."""
    _, rows, columns = times.shape
    every = torch.tensor(list(itertools.product(range(columns), repeat=rows)))
    every = every.expand(len(times), -1, -1).contiguous()
    found = kernels.column_totals(times, every).amax(-1).double()
    if allowed is not None:
        fine = allowed[:, None].expand(-1, every.shape[1], -1, -1).gather(3, every[..., None]).squeeze(3).all(-1)
        found = found.masked_fill(~fine, float("inf"))
    return found.amin(1).tolist()


def least_lengths(distances: Tensor, allowed: Tensor | None = None) -> list[float]:
    """Return the lengths of the shortest tours by trying every one; ∞ where none is permitted."""
    size = distances.shape[1]
    best = []
    for b, matrix in enumerate(distances.tolist()):
        lengths = [float("inf")]
        for rest in itertools.permutations(range(1, size)):
            steps = list(itertools.pairwise([0, *rest, 0]))
            if allowed is None or all(bool(allowed[b, i, j]) for i, j in steps):
                lengths.append(sum(matrix[i][j] for i, j in steps))
        best.append(min(lengths))
    return best


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 3), (5, 2), (6, 3), (4, 4)])
def test_no_schedule_is_below_the_bound(rows: int, columns: int, masked: bool, whole: bool) -> None:
    times = torch.randint(0, 12, (20, rows, columns))
    times = times if whole else times * torch.rand(times.shape, dtype=torch.float64)
    allowed = (torch.rand(times.shape) < 0.6) if masked else None
    if allowed is not None:
        allowed[:, :, 0] |= ~allowed.any(2)
    found = kernels.schedule_prices(times, allowed)
    assert found.prices.shape == (20, columns)
    assert (found.prices >= 0).all()
    torch.testing.assert_close(found.prices.sum(1), torch.ones(20, dtype=torch.float64))
    best = torch.tensor(least_makespans(times, allowed), dtype=torch.float64)
    assert (found.bound <= best).all()
    if whole:
        assert torch.equal(found.bound, found.bound.round())


def families(rows: int, columns: int, rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
    pairs, row, column = rng.random((4, rows, columns)), rng.random((4, rows, 1)), rng.random((4, 1, columns))
    made = {"any": 99 * pairs, "row": 99 * row + 20 * pairs, "column": 99 * column + 20 * pairs, "narrow": 18 * pairs}
    return {name: (1 + times).astype(np.int64) for name, times in made.items()}


@pytest.mark.parametrize(("rows", "columns", "within"), [(20, 4, 0.003), (60, 12, 0.003), (100, 20, 0.003)])
def test_schedules_are_priced_nearly_as_by_the_linear_program(rows: int, columns: int, within: float) -> None:
    """Within 0.3 % of its bound, whatever the durations depend on."""
    for name, times in families(rows, columns, np.random.default_rng(rows)).items():
        exact = np.array([price(one.astype(np.float64)).bound for one in times])
        found = kernels.schedule_prices(torch.from_numpy(times).double()).bound.numpy()
        assert (found <= exact * (1 + 1e-9)).all(), name
        assert (found >= exact * (1 - within)).all(), name


def test_whole_bounds_of_schedules_are_rounded_up() -> None:
    """Two rows of five on two machines alike: 5 either way; three of them need 7.5 and so 8."""
    assert kernels.schedule_prices(torch.full((1, 3, 2), 5)).bound.tolist() == [8.0]
    assert kernels.schedule_prices(torch.full((1, 3, 2), 5.0)).bound.item() == pytest.approx(7.5)
    assert kernels.schedule_prices(torch.tensor([[[9, 9, 9]]])).bound.tolist() == [9.0]


def test_times_of_zero_have_a_bound_of_zero() -> None:
    found = kernels.schedule_prices(torch.zeros(2, 4, 3, dtype=torch.long))
    assert found.bound.tolist() == [0.0, 0.0]
    assert torch.isfinite(found.prices).all()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7])
def test_no_tour_is_below_the_bound(size: int, masked: bool, whole: bool) -> None:
    distances = torch.randint(0, 50, (8, size, size))
    distances = distances if whole else distances * torch.rand(distances.shape, dtype=torch.float64)
    allowed = (torch.rand(distances.shape) < 0.8) if masked and size > 1 else None
    found = kernels.tour_prices(distances, allowed)
    assert found.leaving.shape == found.entering.shape == (8, size)
    best = torch.tensor(least_lengths(distances, allowed), dtype=torch.float64)
    assert (found.bound <= best).all()
    # no permitted step costs less than its prices, and together they are the bound
    excess = distances.double() - found.leaving[:, :, None] - found.entering[:, None]
    usable = ~torch.eye(size, dtype=torch.bool) if allowed is None else allowed & ~torch.eye(size, dtype=torch.bool)
    assert (excess[usable.expand_as(excess)] >= -1e-9).all()
    paid = found.leaving.sum(1) + found.entering.sum(1)
    assert ((found.bound - paid).abs() <= (1 if whole else 1e-9)).all()
    if whole:
        assert torch.equal(found.bound, found.bound.round())


@pytest.mark.parametrize("size", [6, 20, 50])
def test_tours_are_priced_nearly_as_by_the_cheapest_assignment(size: int) -> None:
    """Within 0.5 %, for random matrices closed or not, and for places on a line, with many ties."""
    rng = np.random.default_rng(size)
    line = rng.integers(0, 50, (4, size))
    made = {
        "tmat": random_tmat(4, size, rng).astype(np.int64),
        "uniform": rng.integers(1, 1000, (4, size, size)),
        "line": np.abs(line[:, :, None] - line[:, None]) * 10,
    }
    for name, distances in made.items():
        exact = assignment_bound(distances)
        found = kernels.tour_prices(torch.from_numpy(distances)).bound.numpy()
        assert (found <= exact).all(), name
        assert (found >= 0.995 * exact - 1e-9).all(), name
    if size == 50:  # more rounds come nearer
        few, many = (kernels.tour_prices(torch.from_numpy(made["tmat"]), rounds=rounds).bound for rounds in (10, 200))
        assert (few < many).all()


def test_distances_that_are_all_alike() -> None:
    """No spread is no reason for numbers that are none; negative distances are priced as well."""
    assert kernels.tour_prices(torch.full((1, 5, 5), 7)).bound.tolist() == [35.0]
    assert kernels.tour_prices(torch.zeros(1, 5, 5)).bound.item() == pytest.approx(0.0, abs=1e-9)
    assert kernels.tour_prices(torch.full((1, 4, 4), -3)).bound.tolist() == [-12.0]
