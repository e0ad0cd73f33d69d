"""Solutions to begin a search with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..later import kernels, torch
from .decoding import Order, decode
from .rules import Rule

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise

_FAR = -1e6
"""The lowest score, in its unit: noise does not get there, and single precision tells it from what is forbidden."""


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
    made = [decode(rule, scores, order=order, times=times)[:, None]] if count else []
    if count > 1:
        noise = fixed_noise(batch, count - 1, scores.device)
        noisy = decode(rule, scores, order=order, temperature=temperature, noise=noise, decodes=count - 1, times=times)
        made.append(noisy.view(batch, count - 1, rows))
    return torch.cat(made, 1) if made else torch.zeros(batch, 0, rows, dtype=torch.long, device=scores.device)
