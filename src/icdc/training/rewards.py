"""R on one scale for all instances: how far a solution is above random ones, in units of their spread.

Costs of different instances cannot be compared as they are, and exp(R) compares them all: with a scale from a few
random solutions, a single instance whose sample happened to be narrow would outweigh the whole memory. So the mean and
the spread of random solutions come from a formula where there is one, and else from many samples.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..kernels import Noise
from ..problems.decoding import random_choice
from ..problems.task import Task


class RewardScale(NamedTuple):
    """Mean and standard deviation of the cost of random solutions, (B, 1) each."""

    mean: Tensor
    spread: Tensor

    def rewards(self, cost: Tensor) -> Tensor:
        """Return R (B, K) of solutions with costs (B, K): standard deviations below the mean of random ones."""
        return (self.mean - cost) / self.spread


def reward_scale(task: Task, noise: Noise, samples: int) -> RewardScale:
    """Return the scale of a batch of instances.

    Parameters
    ----------
    task : B instances.
    noise : B keys, for random solutions.
    samples : random solutions of each instance; 0 takes the formula where there is one, else `ENOUGH` samples.
    """
    # a formula counts solutions with forbidden pairs; random ones have none
    exact = task.problem.random_cost(task.instances) if samples == 0 and task.mask(1) is None else None
    if exact is not None:
        mean, spread = (value[:, None].float() for value in exact)
        return _safe(mean, spread)
    count = samples or ENOUGH
    mask = task.mask(count)
    choice = random_choice(task.rule, (task.rows, task.columns), noise.spawn(count), mask)
    return sampled_scale(task.cost(choice))


ENOUGH = 256
"""Random solutions that fix a scale: its spread is then known to about 5 %."""


def sampled_scale(cost: Tensor) -> RewardScale:
    """Return the scale from the costs (B, M) of random solutions."""
    cost = cost.float()
    return _safe(cost.mean(1, keepdim=True), cost.std(1, keepdim=True))


def _safe(mean: Tensor, spread: Tensor) -> RewardScale:
    """Return a scale whose spread is not zero: where all solutions cost the same, all rewards are about zero."""
    smallest = (1e-6 * mean.abs()).clamp_min(1e-9)
    return RewardScale(mean, torch.maximum(spread, smallest))
