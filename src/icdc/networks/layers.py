"""The pieces that encoders and denoisers share."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import fused_norm

NormKind = Literal["layer", "batch"]


class LayerNorm(nn.Module):
    """Layer normalisation that keeps the dtype of its input, so that autocast does not widen the edge state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        if fused_norm.supports(x):
            return fused_norm.layer_norm(x, self.weight, self.bias)
        return F.layer_norm(x, x.shape[-1:], self.weight.to(x.dtype), self.bias.to(x.dtype)).to(x.dtype)


class BatchNorm(nn.Module):
    """Batch normalisation over every axis but the last, as the paper has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        flat: Tensor = self.norm(x.reshape(-1, x.shape[-1]))
        return flat.view_as(x)


class InstanceNorm(nn.Module):
    """Normalisation of every channel over the items of one instance, (N, items, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        centred = wide - wide.mean(1, keepdim=True)
        scaled = centred * (centred.square().mean(1, keepdim=True) + 1e-5).rsqrt()
        return (scaled * self.weight + self.bias).to(x.dtype)


def make_norm(kind: NormKind, width: int) -> nn.Module:
    """Return the normalisation layer of a kind."""
    return LayerNorm(width) if kind == "layer" else BatchNorm(width)


def gelu(x: Tensor) -> Tensor:
    """GELU by its tanh form, the cheaper one to fuse."""
    return F.gelu(x, approximate="tanh")


class Linear(nn.Linear):
    """A linear map whose bias gets its gradient at less cost, where there is a kernel for it.

    A compiler finds its own way to sum over rows, along with whatever else reads them.
    """

    def forward(self, x: Tensor) -> Tensor:
        learns = torch.is_grad_enabled() and self.bias is not None and self.bias.requires_grad
        if learns and not torch.compiler.is_compiling() and fused_norm.sums_bias(x, self.out_features):
            return fused_norm.linear(x, self.weight, self.bias)
        return super().forward(x)


class FeedForward(nn.Module):
    """Two linear maps with a GELU between them."""

    def __init__(self, width: int, hidden: int, out: int | None = None) -> None:
        super().__init__()
        self.up = Linear(width, hidden)
        self.down = Linear(hidden, width if out is None else out)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(gelu(self.up(x)))
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


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(N, items, width) to (N, heads, items, width / heads)."""
    split: Tensor = x.unflatten(-1, (heads, -1))
    return split.transpose(1, 2)


def head_scores(query: Tensor, key: Tensor, heads: int) -> Tensor:
    """Return scaled dot products of every row with every column, (N, heads, rows, columns)."""
    scale = (query.shape[-1] // heads) ** -0.5
    return split_heads(query * scale, heads) @ split_heads(key, heads).transpose(-1, -2)


def attend(weights: Tensor, values: Tensor, heads: int) -> Tensor:
    """Return weights (N, heads, items, others) applied to values (N, others, d), as (N, items, d)."""
    return (weights @ split_heads(values, heads)).transpose(1, 2).flatten(2)
