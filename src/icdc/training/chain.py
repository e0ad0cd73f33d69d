"""The reverse process as a policy: trajectories, and their log-probability one reverse step at a time (DDPO).

A trajectory is a sequence of decisions whose distributions the network sets. Where elements are denoised
independently a decision is x_s ~ p_θ(x_s | x_t), down to x_0, which greedy decoding makes feasible: a row takes a
column that x_0 marks and the rule still allows, at random where there are several or none. Where a feasible X̂_0
is decoded and noised again, a decision is X̂_0 ~ p̂(· | x_t), and the last one is the solution; the noise is not the
network's.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..decoding import decode, log_probability
from ..diffusion import Diffusion
from ..noise import Noise
from ..sampling import Predict, SamplingOptions, Step, Task, generate

_SMALLEST = 1e-6
"""Probabilities are kept this far from 0 and 1 before their logarithm is taken."""
_TIES = 1e-3
"""Scale of the noise that decides between equal scores: far below the difference of 0 and 1."""


@dataclass(frozen=True)
class Decision:
    """One reverse step of N trajectories, and what they did there.

    x : (N, rows, columns), x_t at step `t`.
    following : (N, rows, columns), x_s at step `s`, where elements are denoised independently; else None.
    decoded, first : (N, rows) and (N,), the solution decoded and the row it began at; else None.
    """

    t: int
    s: int
    x: Tensor
    following: Tensor | None = None
    decoded: Tensor | None = None
    first: Tensor | None = None


@torch.no_grad()
def trajectories(
    predict: Predict, task: Task, diffusion: Diffusion, noise: Noise, options: SamplingOptions
) -> tuple[list[Decision], Tensor]:
    """Run a trajectory for each key of the noise; return its decisions from T down, and the costs (B, K)."""
    steps: list[Step] = []
    generated = generate(predict, task, diffusion, noise, options, callback=steps.append)
    if options.reverse != "independent":
        decisions = [Decision(step.t, step.s, step.x, decoded=step.decoded, first=step.first) for step in steps]
        return decisions, generated.last_cost
    x0 = noise.bernoulli((steps[-1].log_odds / options.step_temperature).sigmoid())
    states = [*(step.x for step in steps[1:]), x0]
    decisions = [Decision(step.t, step.s, step.x, following=x) for step, x in zip(steps, states, strict=True)]
    mask = task.mask(len(x0) // task.batch)
    choice = decode(task.rule, x0, temperature=_TIES, noise=noise, first=generated.last_first, mask=mask)
    return decisions, task.cost(choice)


def decision_log_probability(
    decision: Decision, log_odds: Tensor, task: Task, diffusion: Diffusion, temperature: float = 1.0
) -> Tensor:
    """Return the log-probability (N,) of a decision under log-odds (N, rows, columns) predicted from its x_t."""
    log_odds = log_odds / temperature
    if decision.following is None:
        assert decision.decoded is not None
        mask = task.mask(len(log_odds) // task.batch)
        return log_probability(task.rule, log_odds, decision.decoded, decision.first, mask)
    t = torch.full((len(log_odds),), decision.t, dtype=torch.long, device=log_odds.device)
    s = torch.full_like(t, decision.s)
    p = diffusion.posterior(decision.x, log_odds.sigmoid(), t, s, task.density).clamp(_SMALLEST, 1 - _SMALLEST)
    return torch.where(decision.following > 0.5, p.log(), (1 - p).log()).sum((1, 2))
