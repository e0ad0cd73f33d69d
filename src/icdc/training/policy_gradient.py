"""The reverse process as a policy: the decisions of a trajectory, and their log-probability.

A trajectory is a sequence of decisions whose distributions the network sets. Where elements are denoised
independently a decision is x_s ~ p_θ(x_s | x_t), down to x_0, which greedy decoding makes feasible: a row takes a
column that x_0 marks and the rule still allows, at random where there are several or none. Where a feasible X̂_0
is decoded and noised again, a decision is X̂_0 ~ p̂(· | x_t), and the last one is the solution; the noise is not the
network's. IC/DC learns from the last decision alone, p̂ at the last reverse step; DDPO from all of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..diffusion.process import Diffusion
from ..diffusion.sampler import Predict, ReverseStep, SamplingOptions, generate
from ..kernels import Noise
from ..problems.decoding import decode, log_probability
from ..problems.task import Task

_SMALLEST = 1e-6
"""Probabilities are kept this far from 0 and 1 before their logarithm is taken."""
_TIES = 1e-3
"""Scale of the noise that decides between equal scores: far below the difference of 0 and 1."""


@dataclass(frozen=True)
class Decision:
    """What N trajectories did from time t to time s < t.

    t, s : (N,).
    x : (N, rows, columns), x_t.
    following : (N, rows, columns), x_s where elements are denoised independently; else None.
    decoded, first : (N · M, rows) and (N · M,), M solutions decoded from each x_t and the row each began at; else None.
    """

    t: Tensor
    s: Tensor
    x: Tensor
    following: Tensor | None = None
    decoded: Tensor | None = None
    first: Tensor | None = None

    def log_probability(self, log_odds: Tensor, task: Task, diffusion: Diffusion, options: SamplingOptions) -> Tensor:
        """Return log p of what was done, (N · M,) or (N,), under log-odds (N, rows, columns) predicted from x_t.

        Exact where `options` are those of the trajectory: temperatures and the row that decides first count.
        """
        if self.decoded is not None:
            decodes = len(self.decoded) // len(log_odds)
            mask = task.mask(len(self.decoded) // task.batch)
            warm = (log_odds / options.temperature).repeat_interleave(decodes, 0)
            return log_probability(task.rule, warm, self.decoded, self.first, mask)
        assert self.following is not None
        p0 = (log_odds / options.step_temperature).sigmoid()
        p = diffusion.posterior(self.x, p0, self.t, self.s, task.density).clamp(_SMALLEST, 1 - _SMALLEST)
        return torch.where(self.following > 0.5, p.log(), (1 - p).log()).sum((1, 2))


@dataclass(frozen=True)
class Trajectories:
    """The decisions of K trajectories of each of B instances that are learned from, and what they ended in.

    choice (B · K · M, rows) and cost (B, K · M), of M decodes in the end.
    """

    decisions: list[Decision]
    choice: Tensor
    cost: Tensor


@torch.no_grad()
def last_decision(
    predict: Predict, task: Task, diffusion: Diffusion, noise: Noise, options: SamplingOptions
) -> Trajectories:
    """Run a trajectory for each key of the noise; its last decision is p̂ at the last reverse step."""
    ended = generate(predict, task, diffusion, noise, options, greedy_end=False)  # a greedy end is no sample of p̂
    choice = ended.last_choice.flatten(0, 1)
    zero = torch.zeros_like(ended.last_t)
    decision = Decision(ended.last_t, zero, ended.last_x, decoded=choice, first=ended.last_first)
    return Trajectories([decision], choice, ended.last_cost)


@torch.no_grad()
def all_decisions(
    predict: Predict, task: Task, diffusion: Diffusion, noise: Noise, options: SamplingOptions
) -> Trajectories:
    """Run a trajectory for each key of the noise, decoding once a pass; its decisions from T down."""
    passes: list[ReverseStep] = []
    ended = generate(predict, task, diffusion, noise, options, greedy_end=False, callback=passes.append)
    times = [tuple(torch.full_like(noise.keys, time) for time in (one.t, one.s)) for one in passes]
    if options.reverse != "independent":
        decisions = [
            Decision(t, s, one.x, decoded=one.decoded, first=one.first)
            for (t, s), one in zip(times, passes, strict=True)
        ]
        return Trajectories(decisions, ended.last_choice.flatten(0, 1), ended.last_cost)
    x0 = noise.bernoulli((passes[-1].log_odds / options.step_temperature).sigmoid())
    followed = [*(one.x for one in passes[1:]), x0]
    decisions = [Decision(t, s, one.x, following=x) for (t, s), one, x in zip(times, passes, followed, strict=True)]
    mask = task.mask(len(x0) // task.batch)
    choice = decode(task.rule, x0, temperature=_TIES, noise=noise, first=ended.last_first, mask=mask)
    return Trajectories(decisions, choice, task.cost(choice))
