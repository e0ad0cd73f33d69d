"""The pieces that encoders and denoisers share."""

import math

import torch
from torch import Tensor, nn

from .. import kernels


class LayerNorm(nn.Module):
    """Layer normalisation that keeps the dtype of its input, so that autocast does not widen the edge state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return kernels.layer_norm(x, self.weight, self.bias)


class BatchNorm(nn.Module):
    """Batch normalisation over every axis but the last, as the paper has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        flat: Tensor = self.norm(x.reshape(-1, x.shape[-1]))
        return flat.view_as(x)


def make_norm(kind: str, width: int) -> nn.Module:
    """Return the normalisation layer of a kind, "layer" or "batch"."""
    return LayerNorm(width) if kind == "layer" else BatchNorm(width)


class FeedForward(nn.Module):
    """Two linear maps with a GELU between them."""

    def __init__(self, width: int, hidden: int, out: int | None = None) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width if out is None else out)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(kernels.gelu(self.up(x)))
        return out


class TimeEmbedding(nn.Module):
    """Sinusoidal features of the step t; (N,) to (N, width)."""

    frequencies: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        frequencies = torch.exp(-math.log(1e4) * torch.arange(half) / half)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, t: Tensor) -> Tensor:
        angle = t[:, None].float() * self.frequencies
        return torch.cat([angle.sin(), angle.cos()], -1)


def normed_mlp(norm: LayerNorm, up: nn.Linear, down: nn.Linear) -> kernels.NormedMLP:
    """Return the weights of a norm and the two linear maps after it, as operations take them."""
    return kernels.NormedMLP(norm.weight, norm.bias, up.weight, up.bias, down.weight, down.bias)
