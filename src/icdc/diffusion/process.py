"""The binary diffusion process: how a solution matrix is noised, and how a noisy one is taken back.

Time: t = 0 is clean, t = T is noise; every module counts this way. Elements of the matrix are noised
independently by Q_t = α_t I + β_t 1 q̄ᵀ: with probability α_t an element stays, otherwise it is drawn anew
from q̄ = (1 − density, density). The process knows neither a network nor a problem; tensors it returns have
the shape of the matrices it is given, and t may be a different step for every item of the batch.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernels import Noise
from ..settings import Settings, setting

MOST_STEPS = 100_000
"""The table of ᾱ_t is as long, and neighbouring steps are the same to float32 long before."""


@dataclass(frozen=True)
class DiffusionConfig(Settings):
    """Number of steps T, and how the reverse step is read.

    reverse_as_printed : take equation 7 of the paper to the letter, Σ q(x_s, x_t | x_0) p_θ(x_0 | x_t), normalised:
        there x_t counts twice, in p_θ and beside it. Otherwise the sum is over q(x_s | x_t, x_0) p_θ(x_0 | x_t).
    """

    REMOVED = {"schedule": "cosine"}  # noqa: RUF012

    steps: int = setting(20, least=1, most=MOST_STEPS)
    reverse_as_printed: bool = False


def survival_table(steps: int) -> Tensor:
    """Return ᾱ_t = α_1 ⋯ α_t for t = 0 … T, float64 (T + 1,): the chance that an element is never redrawn.

    It falls like the square of a cosine.
    """
    t = torch.arange(steps + 1, dtype=torch.float64)
    curve = torch.cos((t / steps + 0.008) / 1.008 * math.pi / 2) ** 2
    # never exactly zero, so that the posterior of a stride from T stays defined
    return (curve / curve[0]).clamp(1e-4, 1.0)


class Diffusion:
    """The process, on one device.

    Parameters
    ----------
    config : the number of steps, and how the reverse step is read.
    device : where the table of ᾱ_t lies.
    """

    def __init__(self, config: DiffusionConfig, device: torch.device | str = "cpu") -> None:
        self.config = config
        self.steps = config.steps
        self.survival = survival_table(config.steps).float().to(device)

    def kept(self, t: Tensor) -> Tensor:
        """Return ᾱ_t (N, 1, 1) for steps t (N,)."""
        return self.survival[t][:, None, None]

    def q_marginal(self, x0: Tensor, t: Tensor, density: float) -> Tensor:
        """P(x_t = 1 | x_0), elementwise: ᾱ_t x_0 + (1 − ᾱ_t) q̄."""
        kept = self.kept(t)
        return kept * x0 + (1 - kept) * density

    def q_sample(self, x0: Tensor, t: Tensor, density: float, noise: Noise) -> Tensor:
        """Draw x_t ~ q(x_t | x_0); float matrices of zeros and ones (N, rows, columns)."""
        return noise.bernoulli(self.q_marginal(x0, t, density))

    def prior(self, rows: int, columns: int, density: float, noise: Noise) -> Tensor:
        """Draw x_T from q̄, one matrix for each key of the noise."""
        return (noise.uniform(rows, columns) < density).float()

    def posterior(self, xt: Tensor, p0: Tensor, t: Tensor, s: Tensor, density: float) -> Tensor:
        """P(x_s = 1 | x_t) for a stride from t down to s < t, when x_0 = 1 with probability p0.

        Σ_{x_0} q(x_s | x_t, x_0) p(x_0): with p0 in {0, 1} this is the posterior of the forward process, with
        a prediction it is the model's reverse step p_θ(x_s | x_t).
        """
        kept_s = self.kept(s)
        stay = self.kept(t) / kept_s  # ᾱ_t / ᾱ_s: not redrawn between s and t
        redrawn = (1 - stay) * torch.where(xt > 0.5, density, 1 - density)
        likelihood_one = stay * xt + redrawn  # q(x_t | x_s = 1)
        likelihood_zero = stay * (1 - xt) + redrawn

        def given(clean: float) -> Tensor:
            prior_one = kept_s * clean + (1 - kept_s) * density  # q(x_s = 1 | x_0)
            one, zero = likelihood_one * prior_one, likelihood_zero * (1 - prior_one)
            # where x_t cannot come from this x_0 at all, both are zero and so is their weight
            return one / (one + zero).clamp_min(torch.finfo(torch.float32).tiny)

        if self.config.reverse_as_printed:
            seen_one, seen_zero = (self._likelihood(xt, clean, t, density) for clean in (1.0, 0.0))
            joint_one, joint_zero = p0 * seen_one, (1 - p0) * seen_zero
            p0 = joint_one / (joint_one + joint_zero).clamp_min(torch.finfo(torch.float32).tiny)
        return p0 * given(1.0) + (1 - p0) * given(0.0)

    def _likelihood(self, xt: Tensor, clean: float, t: Tensor, density: float) -> Tensor:
        """q(x_t | x_0 = clean), elementwise."""
        one = self.kept(t) * clean + (1 - self.kept(t)) * density
        return torch.where(xt > 0.5, one, 1 - one)

    def p_sample(self, xt: Tensor, p0: Tensor, t: Tensor, s: Tensor, density: float, noise: Noise) -> Tensor:
        """Draw x_s ~ p(x_s | x_t) elementwise, given the predicted probabilities p0 of x_0 = 1."""
        return noise.bernoulli(self.posterior(xt, p0, t, s, density))


def strided_times(start: int, count: int) -> list[int]:
    """Return count + 1 distinct steps from `start` down to 0, as evenly spaced as integers allow."""
    count = min(count, start)
    return [round(start * (count - i) / count) for i in range(count + 1)]
