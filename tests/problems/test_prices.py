"""Features measured against dual prices: what they are, and what they do not depend on."""

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment, linprog
from torch import Tensor

from icdc.problems import get_problem
from icdc.problems.atsp_torch import tour_channels
from icdc.problems.families import sample_family
from icdc.problems.features import FARTHEST
from icdc.problems.pmsp_torch import schedule_channels
from icdc.problems.tours_torch import log_sinkhorn

SCHEDULES, TOURS = get_problem("pmsp"), get_problem("atsp")


def drawn(problem: str, family: str, count: int, *size: int) -> Tensor:
    """Draw matrices of a family, float64."""
    arrays = sample_family(get_problem(problem), family, count, size, np.random.default_rng(1))
    return torch.from_numpy(next(iter(arrays.values())).astype(np.float64))


@pytest.mark.parametrize("family", SCHEDULES.families)
def test_schedules_do_not_depend_on_units(family: str) -> None:
    """Seconds or hours: the network sees the same."""
    times = drawn("pmsp", family, 3, 12, 4)
    found = schedule_channels(times)
    assert found.shape == (3, 12, 4, 8)
    assert found.dtype == torch.float32
    torch.testing.assert_close(schedule_channels(times * 7.3), found, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", TOURS.families)
def test_tours_do_not_depend_on_units_or_on_what_every_tour_pays(family: str) -> None:
    """Neither the unit nor a constant of a row or a column is seen; the step back has what the step there has."""
    steps = drawn("atsp", family, 3, 9)
    found = tour_channels(steps)
    assert found.shape == (3, 9, 9, 8)
    generator = torch.Generator().manual_seed(0)
    rows, columns = (torch.rand(3, *shape, generator=generator, dtype=torch.float64) for shape in ((9, 1), (1, 9)))
    moved = 2.5 * steps
    if not TOURS.families[family].forbids:  # where steps are forbidden, constants are seen a little
        moved = moved + 3 * steps.mean() * (rows + 2 * columns)
    torch.testing.assert_close(tour_channels(moved), found, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found[..., 2:4], found[..., :2].transpose(1, 2))
    assert not found[:, range(9), range(9)].any()


def test_what_a_pair_gives_away_by_hand() -> None:
    """Two jobs, two machines that are alike: prices are equal, the bound is half of the shortest times' sum."""
    found = schedule_channels(torch.tensor([[[2.0, 4.0], [4.0, 2.0]]]))[0]
    # prices ½ and ½ give the bound (2 + 2) / 2 = 2, and a job's mean time 2 · 2 / 2 = 2
    assert found[0, :, 1].tolist() == pytest.approx([0.0, 1.0], abs=1e-3)
    assert found[0, :, 0].tolist() == pytest.approx([0.0, np.log(2)], abs=1e-3)
    assert found[1, :, 2].tolist() == pytest.approx([2.0, 1.0], abs=1e-3)
    assert found[0, :, 3].tolist() == pytest.approx([0.0, 1.0], abs=1e-3)
    assert found[0, 1, 4].item() == pytest.approx(np.log1p(10) / 2, abs=1e-3)
    assert found[0, :, 5].tolist() == pytest.approx(
        (torch.tensor([0.0, -1 / 0.3]).log_softmax(0) / 4).tolist(), abs=1e-3
    )
    assert found[0, 1, 6].item() == pytest.approx(-3.0)  # far away, cut off
    assert found[..., 7].abs().max() < 1e-3


def test_a_slow_machine_has_a_low_price() -> None:
    """All times of a machine doubled: its price falls against the others', though not to a half, as it does less."""
    times = drawn("pmsp", "uniform-100", 2, 60, 3)
    slow = times * torch.tensor([1.0, 1.0, 2.0])
    change = (schedule_channels(slow) - schedule_channels(times))[:, 0, :, 7]
    fall = change[:, 2] - change[:, 0]
    assert (fall < -0.3).all()
    assert (fall > -np.log(2)).all()


@pytest.mark.parametrize("family", ["uniform-100", "machine-correlated"])
def test_good_columns_of_a_schedule_are_near(family: str) -> None:
    """The machine that the linear program gives a job is among its three nearest for nearly all jobs."""
    times = drawn("pmsp", family, 1, 40, 10)
    jobs, machines = 40, 10
    each_job = np.kron(np.eye(jobs), np.ones(machines))
    loads = np.stack(
        [np.where(np.arange(jobs * machines) % machines == m, times[0].flatten(), 0) for m in range(machines)]
    )
    program = linprog(
        np.append(np.zeros(jobs * machines), 1.0),
        A_ub=np.hstack([loads, -np.ones((machines, 1))]), b_ub=np.zeros(machines),
        A_eq=np.hstack([each_job, np.zeros((jobs, 1))]), b_eq=np.ones(jobs),
    )  # fmt: skip
    best = program.x[:-1].reshape(jobs, machines).argmax(1)
    ranks = schedule_channels(times)[0, :, :, 3].argsort(1).argsort(1).numpy()
    assert (ranks[np.arange(jobs), best] < 3).mean() > 0.95


@pytest.mark.parametrize("family", ["tmat", "noisy-plane", "crane"])
def test_steps_of_the_cheapest_assignment_have_no_excess(family: str) -> None:
    """Nearly all of them cost just their prices; other steps cost more."""
    steps = drawn("atsp", family, 1, 30)
    costs = steps[0].numpy() + 1e9 * np.eye(30)
    rows, columns = linear_sum_assignment(costs)
    found = tour_channels(steps)[0]
    assert found[rows, columns, 0].mean() < 0.1
    assert found[..., 0].mean() > 1.0
    # few steps of a city are cheaper
    assert found[rows, columns, 6].mean() < 0.3
    assert found[rows, columns, 7].mean() < 0.3


def test_ranks_count_what_is_smaller() -> None:
    """The third best step out of a city has rank 2, the second best into a city rank 1; equal ones share a rank."""
    steps = drawn("atsp", "uniform", 1, 8)
    found = tour_channels(steps)[0]
    off = ~torch.eye(8, dtype=torch.bool)
    for city in range(8):
        out = found[city, off[city], 1].double()
        expected = torch.stack([(out < value - 1e-6).sum() for value in out]).double().log1p() / 2
        torch.testing.assert_close(found[city, off[city], 6].double(), expected, atol=1e-5, rtol=0)
        into = found[off[city], city, 1].double()
        expected = torch.stack([(into < value - 1e-6).sum() for value in into]).double().log1p() / 2
        torch.testing.assert_close(found[off[city], city, 7].double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", TOURS.families)
def test_balanced_choices_are_those_of_sums_of_logarithms(family: str) -> None:
    """Channels 4 and 5, where logarithms are summed up instead of products; the excess itself is channel 1."""
    found = tour_channels(drawn("atsp", family, 2, 12).double())
    off = ~torch.eye(12, dtype=torch.bool)
    excess = (2 * found[..., 1].double()).expm1() / 4
    excess = torch.where(off, excess, FARTHEST)
    for channel, heat in ((4, 1.0), (5, 0.25)):
        expected = log_sinkhorn(excess / heat).clamp_min(-12) / 4
        torch.testing.assert_close(found[:, off, channel], expected[:, off].float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("value", [0.0, 1.0, 1e9])
def test_ties_give_finite_features(size: int, value: float) -> None:
    """All numbers equal, zero included: nothing is divided by zero."""
    same = torch.full((2, size, size), value)
    assert torch.isfinite(schedule_channels(same)).all()
    assert torch.isfinite(tour_channels(same)).all()


def test_huge_numbers_leave_the_others_as_they_are() -> None:
    """A pair written as impossible hardly changes what is seen of the rest."""
    times = drawn("pmsp", "uniform-100", 1, 10, 4)
    barred = times.clone()
    barred[0, 0, 0] = 1e12
    found = schedule_channels(barred)
    assert torch.isfinite(found).all()
    assert found.abs().max() <= 6.0
    steps = drawn("atsp", "tmat", 1, 8)
    steps[0, 1, 2] = 1e12
    found = tour_channels(steps)
    assert torch.isfinite(found).all()
    assert found[0, 3, 4:, 0].max() > 0.01
