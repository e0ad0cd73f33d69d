"""The losses against values computed by hand, by enumeration and by finite differences; and the scale of R."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc.diffusion.process import Diffusion, DiffusionConfig
from icdc.kernels import Noise, fold, root_key
from icdc.problems import get_problem
from icdc.problems.atsp import Atsp
from icdc.problems.decoding import log_probability, random_choice
from icdc.problems.features import Features
from icdc.problems.pmsp import Pmsp
from icdc.problems.rules import HamiltonianCycle, OneColumnPerRow
from icdc.problems.task import Task
from icdc.problems.tensors import to_tensors
from icdc.training import losses
from icdc.training.losses import (
    RewardScale,
    advantages,
    bernoulli_kl,
    constraint_loss,
    improvement_loss,
    prediction_loss,
    reward_scale,
    variational_bound,
)
from icdc.training.memory import ReplayMemory, Targets


def test_bernoulli_kl_by_hand() -> None:
    value = bernoulli_kl(torch.tensor(0.5), torch.tensor(0.25)).item()
    assert value == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(0.5 / 0.75), rel=1e-6)
    assert bernoulli_kl(torch.tensor(0.3), torch.tensor(0.3)).item() == 0.0
    assert math.isfinite(bernoulli_kl(torch.tensor(1.0), torch.tensor(0.0)).item())


def test_variational_bound_is_the_divergence_of_posteriors() -> None:
    """One 1×2 matrix, every t: KL of the two posteriors from explicit 2×2 matrices, times T, and nothing at t = 1."""
    steps, density = 5, 0.3
    diffusion = Diffusion(DiffusionConfig(steps))
    kept = diffusion.survival.double()

    def q_bar(t: int) -> Tensor:
        return kept[t] * torch.eye(2).double() + (1 - kept[t]) * torch.tensor([[1 - density, density]] * 2).double()

    def q_step(t: int) -> Tensor:
        stay = kept[t] / kept[t - 1]
        return stay * torch.eye(2).double() + (1 - stay) * torch.tensor([[1 - density, density]] * 2).double()

    log_odds = torch.tensor([[[0.7, -1.2]]])
    x0 = torch.tensor([[[1.0, 0.0]]])
    for t, xt in itertools.product(range(1, steps + 1), ([0, 0], [0, 1], [1, 0], [1, 1])):
        expected = 0.0
        for element in range(2):
            posterior = [
                q_step(t)[:, xt[element]] * q_bar(t - 1)[clean] / q_bar(t)[clean, xt[element]] for clean in (0, 1)
            ]
            p1 = torch.sigmoid(log_odds[0, 0, element].double())
            true = posterior[int(x0[0, 0, element])]
            model = (1 - p1) * posterior[0] + p1 * posterior[1]
            if t > 1:
                expected += float((true * (true / model).log()).sum())
        xt_matrix = torch.tensor([[[float(v) for v in xt]]])
        value = variational_bound(diffusion, log_odds, x0, xt_matrix, torch.tensor([t]), density)
        assert value.item() == pytest.approx(steps * expected, abs=2e-4)


def test_prediction_loss_by_hand() -> None:
    log_odds = torch.tensor([[[0.0, 2.0], [-1.0, 3.0]]])
    x0 = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    expected = math.log(2) + math.log(1 + math.e**2) + math.log(1 + math.e**-1) + math.log(1 + math.e**-3)
    assert prediction_loss(log_odds, x0).item() == pytest.approx(expected, rel=1e-6)


def test_constraint_loss_vanishes_on_sure_feasible_predictions() -> None:
    noise = Noise(fold(root_key(0), torch.arange(1)))
    tour = torch.full((1, 3, 3), -200.0)
    tour[0, [0, 1, 2], [1, 2, 0]] = 200.0
    assert constraint_loss(Atsp().violation, tour, noise).item() == pytest.approx(0.0, abs=1e-8)
    both = torch.full((1, 2, 2), 200.0)  # every job on both machines: each row exceeds one by one
    assert constraint_loss(Pmsp().violation, both, noise).item() == pytest.approx(2.0, abs=1e-6)


def test_constraint_loss_is_differentiable_and_uses_gumbel_noise() -> None:
    """The mean of the relaxed sample over many draws approaches the probability at temperature zero's limit."""
    log_odds = torch.full((20000, 1, 1), 0.8, requires_grad=True)
    noise = Noise(fold(root_key(1), torch.arange(20000)))
    soft = constraint_loss(lambda x: x.sum((1, 2)), log_odds, noise, temperature=0.01)
    assert soft.mean().item() == pytest.approx(torch.sigmoid(torch.tensor(0.8)).item(), abs=0.01)
    soft.sum().backward()
    assert log_odds.grad is not None
    assert bool((log_odds.grad != 0).any())


def test_advantages_share_a_baseline() -> None:
    cost = torch.tensor([[1.0, 3.0, 5.0, 7.0]])
    assert advantages(cost).tolist() == [[-3.0, -1.0, 1.0, 3.0]]
    assert advantages(cost, groups=2).tolist() == [[-1.0, 1.0, -1.0, 1.0]]
    normalised = advantages(cost, normalise=True)  # the variance of the four is 5
    assert torch.allclose(normalised, torch.tensor([[-3.0, -1.0, 1.0, 3.0]]) / math.sqrt(5.0), atol=1e-4)
    grouped = advantages(cost, groups=2, normalise=True)
    assert torch.allclose(grouped, torch.tensor([[-1.0, 1.0, -1.0, 1.0]]) / math.sqrt(5.0), atol=1e-4)
    assert advantages(torch.full((2, 3), 4.0), normalise=True).abs().max().item() == 0.0
    assert bool(torch.isfinite(advantages(torch.zeros(1, 3), normalise=True)).all())


def _all_tours(size: int) -> Tensor:
    tours = []
    for order in itertools.permutations(range(1, size)):
        route = [0, *order]
        successor = [0] * size
        for here, there in zip(route, [*route[1:], 0], strict=True):
            successor[here] = there
        tours.append(successor)
    return torch.tensor(tours)


def _all_assignments(jobs: int, machines: int) -> Tensor:
    return torch.tensor(list(itertools.product(range(machines), repeat=jobs)))


@pytest.mark.parametrize("problem", ["atsp", "pmsp"])
def test_improvement_gradient_is_that_of_the_expected_cost(problem: str) -> None:
    """Exact: the surrogate's expectation over all pairs of samples, against finite differences of E[cost].

    With the baseline shared by K samples, each sample's own share biases the gradient by (K − 1)/K; K = 2 here.
    """
    torch.manual_seed(3)
    if problem == "atsp":
        rule, solutions = HamiltonianCycle(), _all_tours(4)
        matrix = torch.rand(1, 4, 4, dtype=torch.float64)
        cost = Atsp().cost({"distances": matrix}, solutions[None])[0]
    else:
        rule, solutions = OneColumnPerRow(), _all_assignments(3, 2)  # type: ignore[assignment]
        matrix = torch.rand(1, 3, 2, dtype=torch.float64)
        cost = Pmsp().cost({"durations": matrix}, solutions[None])[0]
    log_odds = torch.randn(1, *matrix.shape[1:])

    def log_p(theta: Tensor) -> Tensor:
        return log_probability(rule, theta.expand(len(solutions), -1, -1), solutions)

    def expected_cost(theta: Tensor) -> float:
        return float((log_p(theta).double().exp() * cost).sum())

    theta = log_odds.clone().requires_grad_()
    probabilities = log_p(theta).exp().detach()
    surrogate = torch.zeros(())
    for i, j in itertools.product(range(len(solutions)), repeat=2):
        pair = torch.stack([log_p(theta)[i], log_p(theta)[j]])[None]
        advantage = advantages(torch.stack([cost[i], cost[j]])[None])
        surrogate = surrogate + probabilities[i] * probabilities[j] * improvement_loss(pair, advantage).sum()
    (gradient,) = torch.autograd.grad(surrogate, theta)
    differences = torch.zeros_like(log_odds)
    for index in itertools.product(*map(range, log_odds.shape)):
        up, down = log_odds.clone(), log_odds.clone()
        up[index] += 1e-2
        down[index] -= 1e-2
        differences[index] = (expected_cost(up) - expected_cost(down)) / 2e-2
    assert torch.allclose(gradient, 0.5 * differences, atol=2e-4)
    assert gradient.abs().max() > 1e-3


def noise(count: int, seed: int = 0) -> Noise:
    return Noise(fold(root_key(seed), torch.arange(count)))


def task_of(name: str, size: tuple[int, ...], count: int, seed: int = 0) -> Task:
    problem = get_problem(name)
    return Task(problem, to_tensors(problem.sample(count, size, np.random.default_rng(seed))))


@pytest.mark.parametrize("name", ["atsp", "navigation"])
def test_tours_are_scaled_by_the_formula_and_samples_agree(name: str) -> None:
    task = task_of(name, (8,), 3)
    exact = reward_scale(task, noise(3))
    cost = task.cost(random_choice(task.rule, (8, 8), noise(3).spawn(3000), None)).float()
    few = RewardScale(cost.mean(1, keepdim=True), cost.std(1, keepdim=True))
    assert torch.allclose(exact.mean, few.mean, rtol=0.02)
    assert torch.allclose(exact.spread, few.spread, rtol=0.06)
    assert torch.equal(exact.mean, reward_scale(task, noise(3, seed=1)).mean)  # no chance in it


def test_one_tour_is_no_reward() -> None:
    """All tours through two cities cost the same: R is about zero, not 0/0."""
    task = task_of("atsp", (2,), 3)
    scale = reward_scale(task, noise(3))
    assert bool((scale.rewards(scale.mean.expand(3, 4)) == 0).all())
    assert bool((scale.spread > 0).all())


def test_schedules_are_scaled_by_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of("pmsp", (6, 3), 4)
    one, other = (reward_scale(task, noise(4, seed)) for seed in (0, 1))
    assert not torch.equal(one.mean, other.mean)
    assert torch.allclose(one.spread, other.spread, rtol=0.3)
    monkeypatch.setattr(losses, "ENOUGH", 4000)
    assert torch.allclose(one.mean, reward_scale(task, noise(4)).mean, rtol=0.05)


def test_rewards_are_standard_deviations_below_the_mean() -> None:
    scale = RewardScale(torch.tensor([[2.0]]), torch.tensor([[1.0]]))
    assert scale.rewards(torch.tensor([[0.0, 4.0]])).tolist() == [[2.0, -2.0]]


@pytest.mark.parametrize(("name", "size"), [("atsp", (12,)), ("pmsp", (12, 4))])
def test_weights_keep_a_tenth_of_the_memory(name: str, size: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(R) of typical costs, from random to far better, does not leave a handful of items; a narrow scale does."""
    count, each = 64, 16
    task = task_of(name, size, count)
    scale = reward_scale(task, noise(count))
    better = 2.5 + 0.5 * torch.randn(count, each // 2, generator=torch.Generator().manual_seed(0))
    random = torch.randn(count, each // 2, generator=torch.Generator().manual_seed(1))
    cost = scale.mean - torch.cat([better, random], 1) * scale.spread
    assert _effective(scale.rewards(cost)) > 0.1
    if name == "pmsp":
        monkeypatch.setattr(losses, "ENOUGH", 8)
        few = reward_scale(task, noise(count))
        assert _effective(few.rewards(cost)) < 0.6 * _effective(scale.rewards(cost))


def _effective(rewards: torch.Tensor) -> float:
    reward = rewards.flatten()
    choice = torch.zeros(len(reward), 2, dtype=torch.long)
    features = Features(torch.zeros(len(reward), 2, 2, 1))
    items = Targets(features, choice, reward, choice, torch.ones(len(reward), dtype=torch.long))
    memory = ReplayMemory(2 * len(reward), items, reward_weighted=True)  # half of it stays empty
    memory.store(items)
    return float(memory.effective_share())


def test_the_effective_share_of_known_weights() -> None:
    assert _effective(torch.zeros(6)) == pytest.approx(1.0)
    assert _effective(torch.tensor([0.0, -1000.0, -1000.0, -1000.0])) == pytest.approx(0.25)
    weight = torch.tensor([1.0, 2.0, 3.0])
    assert _effective(weight.log()) == pytest.approx(36 / 14 / 3)
