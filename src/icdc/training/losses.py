"""The losses of CLONING and IMPROVEMENT, one value for every item of the batch, and R on one scale for all instances.

Costs of different instances cannot be compared as they are, and exp(R) compares them all: R is how far a solution is
below random ones, in units of their spread.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..diffusion.process import Diffusion
from ..kernels import Noise
from ..problems.decoding import random_choice
from ..problems.features import Candidates
from ..problems.task import Task

_SMALLEST = 1e-6
"""Probabilities are kept this far from 0 and 1 before their logarithm is taken."""


def bernoulli_kl(p: Tensor, q: Tensor) -> Tensor:
    """Return KL(p ‖ q) of Bernoulli distributions, elementwise."""
    p, q = p.clamp(_SMALLEST, 1 - _SMALLEST), q.clamp(_SMALLEST, 1 - _SMALLEST)
    return p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()


def variational_bound(
    diffusion: Diffusion, log_odds: Tensor, x0: Tensor, xt: Tensor, t: Tensor, density: float
) -> Tensor:
    """L_VB, equation 12: unbiased estimate (N,) of Σ_{t=2}^T KL(q(x_{t−1} | x_t, x_0) ‖ p_θ(x_{t−1} | x_t)).

    For steps t (N,) uniform on {1, …, T}; summed over the elements of matrices (N, rows, columns).
    """
    before = (t - 1).clamp_min(0)
    true = diffusion.posterior(xt, x0, t, before, density)
    model = diffusion.posterior(xt, log_odds.sigmoid(), t, before, density)
    divergence = bernoulli_kl(true, model).sum((1, 2))
    return torch.where(t > 1, divergence, 0.0) * diffusion.steps


def prediction_loss(log_odds: Tensor, x0: Tensor) -> Tensor:
    """L_prd, equation 13: −log p_θ(x_0 | x_t), (N,), summed over elements."""
    return F.binary_cross_entropy_with_logits(log_odds, x0, reduction="none").sum((1, 2))


def constraint_loss(
    violation: Callable[[Tensor], Tensor],
    log_odds: Tensor,
    noise: Noise,
    candidates: Candidates | None = None,
    temperature: float = 1.0,
) -> Tensor:
    """L_cst, equation 14: C of a Gumbel-softmax sample of X_0, (N,).

    Over two classes the softmax of logits plus Gumbel noise is a sigmoid of the log-odds plus their difference. With
    candidates, log-odds are (N, rows, k) and all other entries are zero.
    """
    shape = log_odds.shape[1:]
    soft = torch.sigmoid((log_odds + noise.gumbel(*shape) - noise.gumbel(*shape)) / temperature)
    return violation(soft if candidates is None else candidates.spread(soft))


def advantages(cost: Tensor, groups: int = 1, normalise: bool = False) -> Tensor:
    """Return cost minus the shared baseline, (B, K), for costs of K samples of each of B instances.

    The baseline is the mean over the samples of an instance or, with `groups` > 1, over consecutive groups of
    them (the decodes of one trajectory). `normalise` divides by the spread over all samples of the instance.
    """
    cost = cost.float()
    grouped = cost.view(len(cost), groups, -1)
    centred = (grouped - grouped.mean(2, keepdim=True)).view_as(cost)
    if normalise:
        smallest = 1e-6 * cost.mean(1, keepdim=True).abs()  # all samples alike: no advantage, not 0/0
        centred = centred / (cost.std(1, keepdim=True, correction=0) + smallest).clamp_min(1e-12)
    return centred


def improvement_loss(log_p: Tensor, advantage: Tensor) -> Tensor:
    """L_IMP (equation 16) as a surrogate whose gradient is that of equation 17, (B,).

    −1/K Σ (R − R̄) ∇ log p̂ with R = −cost, from log p̂ and advantages (B, K) of K samples of B instances.
    """
    return (advantage.detach() * log_p).mean(1)


ENOUGH = 256
"""Random solutions that fix a scale: its spread is then known to about 5 %."""


class RewardScale(NamedTuple):
    """Mean and standard deviation of the cost of random solutions, (B, 1) each."""

    mean: Tensor
    spread: Tensor

    def rewards(self, cost: Tensor) -> Tensor:
        """Return R (B, K) of solutions with costs (B, K): standard deviations below the mean of random ones."""
        return (self.mean - cost) / self.spread


def reward_scale(task: Task, noise: Noise) -> RewardScale:
    """Return the scale of a batch of B instances: by a formula where there is one (tours), else from random solutions.

    noise : B keys, for random solutions.
    """
    # a formula counts solutions with forbidden pairs; random ones have none
    exact = task.problem.random_cost(task.instances) if task.mask(1) is None else None
    if exact is not None:
        mean, spread = (value[:, None].float() for value in exact)
    else:
        choice = random_choice(task.rule, (task.rows, task.columns), noise.spawn(ENOUGH), task.mask(ENOUGH))
        cost = task.cost(choice).float()
        mean, spread = cost.mean(1, keepdim=True), cost.std(1, keepdim=True)
    # where all solutions cost the same, all rewards are about zero
    return RewardScale(mean, torch.maximum(spread, (1e-6 * mean.abs()).clamp_min(1e-9)))
