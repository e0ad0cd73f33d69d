"""Feasibility-enforced generation p̂: from log-odds to feasible solutions, and their exact probability.

Given that a row has exactly one 1 among its allowed columns, a product of independent Bernoullis renormalises
to a softmax over the log-odds of those columns. Following a rule's own order, p̂ is therefore a product of
masked softmaxes, one for each row, and its logarithm is exact and cheap. Sampling from a softmax is taking
the largest of log-odds plus Gumbel noise, so one deterministic rule serves for greedy decoding and sampling.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .. import kernels
from ..errors import UsageError
from ..kernels import Noise
from .features import Candidates
from .rules import Rule

_FAR = -1e6
"""The lowest score, in its unit: noise does not get there, and single precision tells it from what is forbidden."""

Order = Literal["rule", "confidence", "loads"]
"""Which row decides next.

"rule" : the rule's own order.
"confidence" : the row of the best-scored pair of all that are still allowed.
"loads" : the longest row left, by scores less a price of loads (`kernels.pick_by_loads`); for schedules only.
"""


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
    times: Tensor | None = None,
    candidates: Candidates | None = None,
) -> Tensor:
    """Return feasible choices (N · decodes, rows), `decodes` in a row for each matrix of log-odds (N, rows, columns).

    Parameters
    ----------
    order : "rule" decides in the rule's own order and samples exactly from p̂; "confidence" always takes the
        best-scored pair that is still allowed, wherever it is; "loads" decides longest first and with a price of loads,
        and samples exactly from the p̂ of that order.
    temperature : samples as if the log-odds were divided by it; without noise it changes nothing.
    noise : where random numbers come from, one key for each choice; None decodes greedily.
    first : (N · decodes,), the row that decides first in the rule's own order; row 0 unless given.
    mask : the pairs the instances permit, (N, rows, columns) bool, or one mask per instance, shared by its consecutive
        matrices. Others are chosen only where a rule is left without a permitted one.
    decodes : choices from each matrix.
    times : (batch, rows, columns), what a row adds to the load of a column; for the order "loads". Matrices of log-odds
        are then those of `batch` instances, as many of each.
    candidates : the columns that log-odds (N, rows, k) are of, where they are not of all. Others are chosen only where
        none of these may be, by least excess and without noise.
    """
    if first is None:
        first = torch.zeros(len(log_odds) * decodes, dtype=torch.long, device=log_odds.device)
    drawn = None if noise is None else noise.gumbel_later(temperature)
    if candidates is not None:
        scores = kernels.noisy_scores(log_odds, drawn, decodes)
        if order == "loads":
            return rule.by_loads(candidates.scores(scores), _required(times), mask, None)
        return rule.decode_candidates(scores, candidates, first, mask, order == "confidence")
    if order == "loads":
        return rule.by_loads(log_odds, _required(times), mask, drawn, decodes)
    return rule.decode(log_odds, first, mask, drawn, order == "confidence", decodes)


def log_probability(
    rule: Rule,
    log_odds: Tensor,
    choice: Tensor,
    first: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    order: Order = "rule",
    times: Tensor | None = None,
) -> Tensor:
    """Return log p̂(choice), exact and differentiable, (N,).

    In the rule's own order from row `first`, or by loads with `times` (batch, rows, columns). What decoding by
    confidence gives has no such closed form.
    """
    if order == "confidence":
        raise UsageError('log p̂ has no closed form in the order "confidence"; it has in "rule" and "loads"')
    if first is None:
        first = torch.zeros(len(choice), dtype=torch.long, device=choice.device)
    allowed = rule.allowed_along(choice, log_odds.shape[2], first, mask)
    scores = log_odds.float()
    if order == "loads":
        scores = scores - rule.load_prices(_required(times), choice)
    log_p = scores.masked_fill(~allowed, kernels.NEVER).log_softmax(-1)
    return log_p.gather(2, choice[:, :, None]).squeeze(2).sum(1)


def candidates_log_probability(
    rule: Rule, log_odds: Tensor, choice: Tensor, candidates: Candidates, first: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Return the logarithm of the chance that each row, at its turn, takes the candidate it took, summed up, (N,).

    From log-odds (N, rows, k), in the rule's own order. Rows that took no candidate do not count; where none did so,
    this is log p̂(choice).
    """
    allowed = candidates.of(rule.allowed_along(choice, candidates.columns, first, mask))
    log_p = log_odds.float().masked_fill(~allowed, kernels.NEVER).log_softmax(-1)
    return (log_p * candidates.mark(choice)).sum((1, 2))


def _required(times: Tensor | None) -> Tensor:
    if times is None:
        raise UsageError('the order "loads" needs to know what each row adds to the load of a column')
    return times


def random_choice(rule: Rule, shape: tuple[int, int], noise: Noise, mask: Tensor | None = None) -> Tensor:
    """Draw from q(X_0), the prior over feasible solutions: every allowed column equally likely, (N, rows).

    mask : (batch, rows, columns) bool, one for each instance; choices are instance-major.
    """
    rows, columns = shape
    flat = torch.zeros(1 if mask is None else len(mask), rows, columns, device=noise.keys.device)
    first = noise.integers(rows)
    return decode(rule, flat, noise=noise, first=first, mask=mask, decodes=len(noise.keys) // len(flat))


@dataclass(frozen=True)
class Starts:
    """Solutions to begin with, and the prices that led to them where a problem has some.

    choice : Tensor (batch, count, rows)
        Feasible solutions of every instance, the most promising first.
    row_prices, column_prices : Tensor (batch, rows) and (batch, columns), or None
        Dual prices; what a pair costs beyond them tells how much is given away by choosing it.
    bound : Tensor (batch,) or None
        A lower bound on the cost that follows from the prices.
    """

    choice: Tensor
    row_prices: Tensor | None = None
    column_prices: Tensor | None = None
    bound: Tensor | None = None


def fixed_noise(batch: int, count: int, device: torch.device) -> Noise:
    """Return noise for `count` solutions of every instance, always the same, and the same for every instance.

    So neither another seed nor the rest of a batch changes what an instance begins with.
    """
    return kernels.Noise(kernels.fold(kernels.root_key(0, device), torch.arange(count, device=device)).repeat(batch))


def decode_around(
    rule: Rule, scores: Tensor, unit: Tensor, count: int, order: Order, temperature: float, times: Tensor | None = None
) -> Tensor:
    """Decode scores (batch, rows, columns) greedily, and `count` − 1 times with noise: (batch, count, rows).

    unit : (batch, 1, 1), not negative, the scale of the scores; `temperature` is in terms of it.
    times : for the order "loads", as in `decode`.
    """
    batch, rows = scores.shape[:2]
    scores = (scores / unit.clamp_min(torch.finfo(unit.dtype).tiny)).clamp_min(_FAR).float()
    choices = [decode(rule, scores, order=order, times=times)[:, None]] if count else []
    if count > 1:
        noise = fixed_noise(batch, count - 1, scores.device)
        noisy = decode(rule, scores, order=order, temperature=temperature, noise=noise, decodes=count - 1, times=times)
        choices.append(noisy.view(batch, count - 1, rows))
    return torch.cat(choices, 1) if choices else torch.zeros(batch, 0, rows, dtype=torch.long, device=scores.device)
