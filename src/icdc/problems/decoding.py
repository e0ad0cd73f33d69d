"""Feasibility-enforced generation p̂: from log-odds to feasible solutions, and their exact probability.

Given that a row has exactly one 1 among its allowed columns, a product of independent Bernoullis renormalises
to a softmax over the log-odds of those columns. Following a rule's own order, p̂ is therefore a product of
masked softmaxes, one for each row, and its logarithm is exact and cheap. Sampling from a softmax is taking
the largest of log-odds plus Gumbel noise, so one deterministic rule serves for greedy decoding and sampling.
"""

from typing import Literal

import torch
from torch import Tensor

from ..kernels import Noise
from .rules import NEVER, Rule

Order = Literal["rule", "confidence"]


def decode(
    rule: Rule,
    log_odds: Tensor,
    *,
    order: Order = "rule",
    temperature: float = 1.0,
    noise: Noise | None = None,
    first: Tensor | None = None,
    mask: Tensor | None = None,
    decodes: int = 1,
) -> Tensor:
    """Return feasible choices (N · decodes, rows), `decodes` in a row for each matrix of log-odds (N, rows, columns).

    Parameters
    ----------
    order : "rule" decides in the rule's own order and samples exactly from p̂; "confidence" always takes the
        best-scored pair that is still allowed, wherever it is.
    temperature : samples as if the log-odds were divided by it; without noise it changes nothing.
    noise : where random numbers come from, one key for each choice; None decodes greedily.
    first : (N · decodes,), the row that decides first in the rule's own order; row 0 unless given.
    mask : (N · decodes, rows, columns) bool, the pairs the instances permit.
    decodes : choices from each matrix.
    """
    if first is None:
        first = torch.zeros(len(log_odds) * decodes, dtype=torch.long, device=log_odds.device)
    drawn = None if noise is None else noise.gumbel_later(temperature)
    return rule.decode(log_odds, first, mask, drawn, order == "confidence", decodes)


def log_probability(
    rule: Rule, log_odds: Tensor, choice: Tensor, first: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """Return log p̂(choice), exact and differentiable, (N,), in the rule's own order from row `first`."""
    if first is None:
        first = torch.zeros(len(choice), dtype=torch.long, device=choice.device)
    allowed = rule.allowed_along(choice, log_odds.shape[2], first, mask)
    log_p = log_odds.float().masked_fill(~allowed, NEVER).log_softmax(-1)
    return log_p.gather(2, choice[:, :, None]).squeeze(2).sum(1)


def random_choice(rule: Rule, shape: tuple[int, int], noise: Noise, mask: Tensor | None = None) -> Tensor:
    """Draw from q(X_0), the prior over feasible solutions: every allowed column equally likely, (N, rows)."""
    rows, columns = shape
    flat = torch.zeros(1, rows, columns, device=noise.keys.device)
    first = noise.integers(rows)
    return decode(rule, flat, noise=noise, first=first, mask=mask, decodes=len(noise.keys))
