"""The replay memory: what goes in comes out, the newest first to stay, rewards weigh."""

import pytest
import torch

from icdc.kernels import Noise, fold, root_key
from icdc.problems.features import Features
from icdc.training.memory import ReplayMemory, Targets


def targets(values: list[int], rewards: list[float] | None = None) -> Targets:
    number = torch.tensor(values)
    choice = number[:, None].expand(-1, 3).contiguous()
    features = Features(number.float()[:, None, None, None].expand(-1, 3, 2, 1).contiguous())
    reward = torch.zeros(len(values)) if rewards is None else torch.tensor(rewards)
    return Targets(features, choice, reward, choice + 100, number % 7)


def noise(count: int, seed: int = 0) -> Noise:
    return Noise(fold(root_key(seed), torch.arange(count)))


def test_items_stay_together() -> None:
    memory = ReplayMemory(8, targets([0]))
    memory.store(targets([3, 1, 4, 5]))
    drawn = memory.draw(noise(200))
    number = drawn.choice[:, 0]
    assert set(number.tolist()) == {3, 1, 4, 5}
    assert torch.equal(drawn.features.relations[:, 0, 0, 0], number.float())
    assert torch.equal(drawn.draft[:, 0], number + 100)
    assert torch.equal(drawn.draft_time, number % 7)


def test_the_oldest_go_first() -> None:
    memory = ReplayMemory(4, targets([0]))
    memory.store(targets([1, 2, 3]))
    memory.store(targets([4, 5, 6]))
    assert set(memory.draw(noise(300)).choice[:, 0].tolist()) == {3, 4, 5, 6}


def test_too_much_at_once_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        ReplayMemory(2, targets([0])).store(targets([1, 2, 3]))


def test_uniform_draws_are_uniform() -> None:
    memory = ReplayMemory(16, targets([0]))
    memory.store(targets([0, 1, 2, 3]))
    counts = torch.bincount(memory.draw(noise(40000)).choice[:, 0], minlength=4) / 40000
    assert torch.allclose(counts, torch.full((4,), 0.25), atol=0.01)


def test_draws_weighted_by_exp_of_the_reward() -> None:
    """q̃ ∝ exp(R): frequencies match, and empty slots are never drawn."""
    rewards = [0.0, 1.0, -1.0, 2.0]
    memory = ReplayMemory(16, targets([0]), reward_weighted=True)
    memory.store(targets([0, 1, 2, 3], rewards))
    counts = torch.bincount(memory.draw(noise(60000)).choice[:, 0], minlength=4) / 60000
    assert torch.allclose(counts, torch.tensor(rewards).softmax(0), atol=0.01)


def test_large_rewards_do_not_overflow() -> None:
    memory = ReplayMemory(4, targets([0]), reward_weighted=True)
    memory.store(targets([1, 2], [5000.0, 4000.0]))
    assert set(memory.draw(noise(50)).choice[:, 0].tolist()) == {1}
