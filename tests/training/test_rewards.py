"""The scale of R: from a formula or from samples, which agree, and weights that do not collapse."""

import pytest
import torch

from icdc.kernels import Noise, fold, root_key
from icdc.problems import get_problem
from icdc.problems.features import Features
from icdc.problems.task import Task
from icdc.problems.tensors import to_tensors
from icdc.training.memory import ReplayMemory, Targets
from icdc.training.rewards import reward_scale, sampled_scale


def noise(count: int, seed: int = 0) -> Noise:
    return Noise(fold(root_key(seed), torch.arange(count)))


def task_of(name: str, size: tuple[int, ...], count: int, seed: int = 0) -> Task:
    import numpy as np

    problem = get_problem(name)
    return Task(problem, to_tensors(problem.sample(count, size, np.random.default_rng(seed))))


@pytest.mark.parametrize("name", ["atsp", "navigation"])
def test_tours_are_scaled_by_the_formula_and_samples_agree(name: str) -> None:
    task = task_of(name, (8,), 3)
    exact, few = reward_scale(task, noise(3), 0), reward_scale(task, noise(3), 3000)
    assert torch.allclose(exact.mean, few.mean, rtol=0.02)
    assert torch.allclose(exact.spread, few.spread, rtol=0.06)
    assert torch.equal(exact.mean, reward_scale(task, noise(3, seed=1), 0).mean)  # no chance in it


def test_one_tour_is_no_reward() -> None:
    """All tours through two cities cost the same: R is about zero, not 0/0."""
    task = task_of("atsp", (2,), 3)
    scale = reward_scale(task, noise(3), 0)
    assert bool((scale.rewards(scale.mean.expand(3, 4)) == 0).all())
    assert bool((scale.spread > 0).all())


def test_schedules_are_scaled_by_many_samples() -> None:
    task = task_of("pmsp", (6, 3), 4)
    one, other = (reward_scale(task, noise(4, seed), 0) for seed in (0, 1))
    assert not torch.equal(one.mean, other.mean)
    assert torch.allclose(one.spread, other.spread, rtol=0.3)
    assert torch.allclose(one.mean, reward_scale(task, noise(4), 4000).mean, rtol=0.05)


def test_rewards_are_standard_deviations_below_the_mean() -> None:
    scale = sampled_scale(torch.tensor([[1.0, 2.0, 3.0], [10.0, 10.0, 10.0]]))
    rewards = scale.rewards(torch.tensor([[0.0, 4.0], [10.0, 10.0]]))
    assert torch.allclose(rewards, torch.tensor([[2.0, -2.0], [0.0, 0.0]]))


@pytest.mark.parametrize(("name", "size"), [("atsp", (12,)), ("pmsp", (12, 4))])
def test_weights_keep_a_tenth_of_the_memory(name: str, size: tuple[int, ...]) -> None:
    """exp(R) of typical costs, from random to far better, does not leave a handful of items; a narrow scale does."""
    count, each = 64, 16
    task = task_of(name, size, count)
    scale = reward_scale(task, noise(count), 0)
    better = 2.5 + 0.5 * torch.randn(count, each // 2, generator=torch.Generator().manual_seed(0))
    random = torch.randn(count, each // 2, generator=torch.Generator().manual_seed(1))
    cost = scale.mean - torch.cat([better, random], 1) * scale.spread
    few = reward_scale(task, noise(count), 8)
    assert _effective(scale.rewards(cost)) > 0.1
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
