"""What a network sees of instances: features of all pairs and of candidates, and features measured against prices."""

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment, linprog
from torch import Tensor

from icdc import kernels
from icdc.kernels import Noise
from icdc.problems import get_problem
from icdc.problems.atsp import Atsp
from icdc.problems.atsp_torch import tour_channels
from icdc.problems.base import Problem
from icdc.problems.decoding import candidates_log_probability, decode, log_probability, random_choice
from icdc.problems.families import sample_family
from icdc.problems.features import FARTHEST, Candidates, Features, best_candidates
from icdc.problems.pmsp import Pmsp
from icdc.problems.pmsp_torch import schedule_channels
from icdc.problems.rules import HamiltonianCycle, OneColumnPerRow, Rule
from icdc.problems.task import Task
from icdc.problems.tensors import one_hot, to_tensors
from icdc.problems.tours_torch import log_sinkhorn


def test_features_repeat_instance_by_instance() -> None:
    """Each instance several times in a row, in every part that is there."""
    features = Features(torch.randn(2, 3, 4, 1), rows=torch.randn(2, 3, 2))
    twice = features.repeat(2)
    assert torch.equal(twice.relations[1], features.relations[0])
    assert torch.equal(twice.relations[2], features.relations[1])
    assert twice.rows is not None
    assert features.rows is not None
    assert torch.equal(twice.rows[3], features.rows[1])
    assert twice.columns is None
    assert features.repeat(1) is features


def keys(count: int) -> Noise:
    return Noise(torch.arange(count) + 7)


def columns_of(candidates: Candidates) -> list[set[int]]:
    return [set(instance.flatten().tolist()) for instance in candidates.index]


def test_the_best_columns_are_candidates() -> None:
    """Where every column is among some row's best, these are all there are; each row lists them in order."""
    excess = torch.tensor([[[0.0, 1.0, 2.0, 3.0], [2.0, 0.0, 3.0, 1.0], [1.0, 3.0, 0.0, 2.0], [9.0, 8.0, 7.0, 0.0]]])
    found = best_candidates(excess, 2)
    assert found.index.tolist() == [[[0, 1], [1, 3], [0, 2], [2, 3]]]
    assert (found.columns, found.count) == (4, 2)


@pytest.mark.parametrize(("rows", "columns", "count"), [(6, 6, 1), (6, 6, 2), (30, 12, 3), (5, 20, 4), (7, 7, 7)])
def test_every_column_is_a_candidate(rows: int, columns: int, count: int) -> None:
    """Where rows all like the same few columns, too; nobody lists a column twice, and all lists ascend."""
    popular = torch.arange(columns).float().expand(3, rows, columns).clone()
    popular[1] = 0  # all tie
    popular[2] = torch.arange(rows)[:, None]  # one row is the best for every column
    found = best_candidates(popular, count)
    assert columns_of(found) == [set(range(columns))] * 3
    assert (found.index.diff(dim=2) > 0).all()
    assert found.index.shape == (3, rows, count)


def test_a_column_keeps_the_row_that_likes_it_best() -> None:
    """It is that row's candidate even where the row has better ones; the others lose only their worst."""
    excess = torch.tensor([[[0.0, 0.1, 0.2, 5.0], [0.1, 0.0, 0.2, 6.0], [0.1, 0.2, 0.0, 6.0], [0.0, 0.1, 0.2, 7.0]]])
    assert best_candidates(excess, 2).index.tolist() == [[[0, 3], [0, 1], [0, 2], [0, 1]]]


def test_rows_that_tie_share_the_columns() -> None:
    """Where all pairs are equal, each row is the best of one column: that, and the first of all."""
    found = best_candidates(torch.zeros(1, 5, 5), 2).index[0]
    assert [row.tolist() for row in found] == [[0, 1], [0, 1], [0, 2], [0, 3], [0, 4]]


def test_too_few_places_are_refused() -> None:
    with pytest.raises(ValueError, match="2 rows with 2 candidates each cannot have 5 columns"):
        best_candidates(torch.zeros(1, 2, 5), 2)


def test_matrices_of_candidates() -> None:
    """Ones where a candidate is chosen, none in a row whose choice is no candidate; entries and back again."""
    found = Candidates(torch.tensor([[[0, 2], [1, 2]]]), 3)
    assert found.mark(torch.tensor([[2, 0], [0, 1]])).tolist() == [[[0, 1], [0, 0]], [[1, 0], [1, 0]]]
    matrix = torch.arange(6.0).view(1, 2, 3)
    assert found.of(matrix).tolist() == [[[0, 2], [4, 5]]]
    assert found.spread(found.of(matrix)).tolist() == [[[0, 0, 2], [0, 4, 5]]]
    assert found.repeat(2).index.tolist() == found.index.tolist() * 2
    with pytest.raises(ValueError, match="not for decoding"):
        found.scores(torch.zeros(1, 2, 2))


@pytest.mark.parametrize(("name", "size"), [("tour", (11,)), ("schedule", (13, 6))])
def test_channels_of_candidates_are_those_of_all_columns(name: str, size: tuple[int, ...]) -> None:
    """The same numbers, at the candidates; and the best column of each row is one of them."""
    problem: Problem = Atsp() if name == "tour" else Pmsp()
    matrix = torch.from_numpy(next(iter(problem.sample(2, size, np.random.default_rng(0)).values())).astype(float))
    dense, few = (problem.priced_features({problem.arrays[0]: matrix}, count) for count in (0, 4))
    found, candidates = few.relations, few.candidates
    assert candidates is not None
    wide = candidates.index[..., None].expand_as(found)
    assert torch.equal(found, dense.relations.gather(2, wide))
    assert candidates.excess is not None
    assert torch.isfinite(candidates.excess).all()
    best = candidates.excess.argmin(2, keepdim=True)
    assert (candidates.index == best).any(2).all()
    if name == "tour":
        assert (candidates.index != torch.arange(11)[:, None]).all()


@pytest.mark.parametrize("family", ["crane", "uniform", "roads"])
def test_optimal_steps_are_mostly_candidates(family: str) -> None:
    """Ten of forty by reduced cost hold nearly all steps of the cheapest assignment; by distance they would not."""
    from scipy.optimize import linear_sum_assignment

    arrays = sample_family(Atsp(), family, 3, (40,), np.random.default_rng(3))
    distances = torch.from_numpy(next(iter(arrays.values())).astype(float))
    candidates = Atsp().priced_features({"distances": distances}, 10).candidates
    assert candidates is not None
    hits = []
    for matrix, index in zip(distances.numpy(), candidates.index.numpy(), strict=True):
        barred = np.where(np.eye(40, dtype=bool), 1e12, matrix)
        chosen = linear_sum_assignment(barred)[1]
        hits += [chosen[i] in index[i] for i in range(40)]
    assert np.mean(hits) > 0.97


def some_candidates(batch: int, rows: int, columns: int, count: int) -> Candidates:
    generator = torch.Generator().manual_seed(rows + columns)
    return best_candidates(4 * torch.rand(batch, rows, columns, generator=generator), count)


class LastFirst(OneColumnPerRow):
    """A rule of one's own: decides from the last row to the first."""

    def next_row(self, state: dict[str, Tensor]) -> Tensor:
        return state["open"].shape[1] - 1 - state["turn"]


@pytest.mark.parametrize("order", ["rule", "confidence"])
@pytest.mark.parametrize("rule", [HamiltonianCycle(), OneColumnPerRow(), LastFirst()], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("masked", [False, True])
def test_every_decode_is_feasible(rule: Rule, order: str, masked: bool) -> None:
    """With noise, several times each, with and without a mask; candidates are taken where they may be."""
    rows = columns = 9
    candidates = some_candidates(2, rows, columns, 2)
    log_odds = torch.randn(4, rows, 2)
    mask = None
    if masked:
        mask = torch.rand(12, rows, columns) < 0.7
        mask |= one_hot(torch.arange(rows).roll(-1).expand(12, -1), columns).bool()
    found = decode(
        rule, log_odds, order=order, noise=keys(12), decodes=3, candidates=candidates, mask=mask,
        first=torch.arange(12) % rows,
    )  # fmt: skip
    assert found.shape == (12, rows)
    taken = candidates.mark(found).sum(2)
    if isinstance(rule, HamiltonianCycle):
        assert Atsp().feasible({"distances": torch.zeros(1, rows, rows)}, found[None]).all()
        assert taken.mean() > 0.5
    elif mask is None:
        assert taken.all()
    else:
        assert mask.gather(2, found[..., None]).all()
        blocked = ~candidates.of(mask).any(2)
        assert torch.equal(taken == 0, blocked)


@pytest.mark.parametrize("rule", [HamiltonianCycle(), OneColumnPerRow()], ids=["tour", "schedule"])
@pytest.mark.parametrize("order", ["rule", "confidence"])
def test_all_columns_as_candidates_decode_alike(rule: Rule, order: str) -> None:
    """With as many candidates as columns a decode is the usual one, noise and all."""
    candidates = some_candidates(2, 6, 6, 6)
    log_odds = torch.randn(4, 6, 6)
    usual = decode(rule, log_odds, order=order, noise=keys(8), decodes=2)
    assert torch.equal(decode(rule, log_odds, order=order, noise=keys(8), decodes=2, candidates=candidates), usual)
    greedy = decode(rule, log_odds, order=order)
    assert torch.equal(decode(rule, log_odds, order=order, candidates=candidates), greedy)


def test_schedules_by_loads_take_candidates() -> None:
    """Prices of loads move jobs between their candidates, never to a machine that is none."""
    candidates = some_candidates(2, 20, 6, 3)
    times = 1 + torch.rand(2, 20, 6)
    found = decode(
        OneColumnPerRow(), torch.zeros(4, 20, 3), order="loads", noise=keys(4), candidates=candidates, times=times
    )
    assert (candidates.mark(found).sum(2) == 1).all()
    loads = one_hot(found, 6).sum(1)
    assert loads.amax() < 8


@pytest.mark.parametrize("rule", [HamiltonianCycle(), OneColumnPerRow()], ids=["tour", "schedule"])
def test_log_probability_of_candidates(rule: Rule) -> None:
    """With all columns as candidates it is log p̂; with few, a softmax over those that a row could have taken."""
    choice, first = random_choice(rule, (6, 6), keys(3)), torch.arange(3)
    log_odds = torch.randn(3, 6, 6)
    everything = some_candidates(3, 6, 6, 6)
    exact = log_probability(rule, log_odds, choice, first)
    torch.testing.assert_close(candidates_log_probability(rule, log_odds, choice, everything, first), exact)
    few = some_candidates(3, 6, 6, 2)
    found = candidates_log_probability(rule, few.of(log_odds), choice, few, first)
    allowed = rule.allowed_along(choice, 6, first)
    for n in range(3):
        total = 0.0
        for row in range(6):
            mine = [c for c in few.index[n, row].tolist() if allowed[n, row, c]]
            if int(choice[n, row]) in mine:
                total += float(log_odds[n, row, mine].log_softmax(0)[mine.index(int(choice[n, row]))])
        assert found[n].item() == pytest.approx(total, abs=1e-5)


def test_a_task_knows_the_shape_of_its_matrices() -> None:
    """The share of ones is that of one candidate among k; with k = n it is the usual one to the last bit."""
    instances = to_tensors(Atsp().sample(2, (7,), np.random.default_rng(0)))
    usual = Task(Atsp(), instances)
    assert (usual.width, usual.density) == (7, Atsp().density((7,)))
    few = Task(Atsp(), instances, candidates=some_candidates(2, 7, 7, 3))
    assert few.width == 3
    assert few.density == pytest.approx(1 / 3)
    assert Task(Atsp(), instances, candidates=some_candidates(2, 7, 7, 7)).density == usual.density
    tour = torch.arange(7).roll(-1).expand(4, -1)
    assert torch.equal(usual.marked(tour), one_hot(tour, 7))
    assert few.candidates is not None
    assert torch.equal(few.marked(tour), few.candidates.of(one_hot(tour, 7)))


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_masked_tours_are_joined_from_candidates_like_from_all_pairs(share: float) -> None:
    """Forbidden candidates come last, after permitted pairs that are no candidates."""
    generator = torch.Generator().manual_seed(int(10 * share))
    size, batch, samples, rule = 12, 20, 3, Atsp().rule
    excess = torch.rand(batch, size, size, generator=generator)
    permitted = torch.rand(batch, size, size, generator=generator) >= share
    candidates = best_candidates(excess, 4)  # by an excess that does not know what is forbidden
    scores = torch.randn(batch * samples, size, 4, generator=generator)
    first = torch.zeros(batch * samples, dtype=torch.int64)
    found = rule.decode_candidates(scores, candidates, first, permitted, True)
    plain = rule.decode(candidates.scores(scores), first, permitted, None, True)
    assert Atsp().feasible({"distances": torch.zeros(1, size, size)}, found[None]).all()
    taken = kernels.spread_over(permitted, len(found)).gather(2, found[..., None]).squeeze(2)
    sound = taken.all(1)
    assert torch.equal(found[sound], plain[sound])  # where it ends without a forbidden pair, no order differs
    assert sound.float().mean() > 0.2
    unmasked = rule.decode_candidates(scores, candidates, first, None, True)
    assert not torch.equal(unmasked, found)


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
