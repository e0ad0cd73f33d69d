"""What both networks are made of: first embeddings of an instance's items and relations, norms, feed-forward parts."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import kernels
from ..errors import UsageError
from ..problems.base import FeatureSizes
from ..problems.features import Features
from .config import NetworkConfig


@dataclass(frozen=True)
class Encoding:
    """An encoded batch of instances.

    rows (B, R, d), columns (B, C, d), relations (B, R, C, k) as the network sees them, and edges (B, R, C, c)
    where the encoder keeps an edge state. Where the network sees candidate columns only, `near` says which, and
    relations and edges have k in the place of C.
    """

    rows: Tensor
    columns: Tensor
    relations: Tensor
    edges: Tensor | None
    near: kernels.Neighbours | None = None


class InputEmbedding(nn.Module):
    """First embeddings A and B of the items.

    Problems without item features give attention nothing to tell rows apart by: identical embeddings stay
    identical. So every item gets a random identifier, redrawn for every instance and pass; where rows and
    columns are the same items, both sides get the same one. On top, an item may see its own features and
    summaries (mean, minimum, maximum, spread) of its relations.
    """

    def __init__(self, config: NetworkConfig, sizes: FeatureSizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        self.channels = relation_channels(config, sizes)
        summary = 4 * self.channels if config.summaries else 0
        self.rows = nn.Linear(config.identifiers + sizes.rows + summary, config.width)
        self.columns = nn.Linear(config.identifiers + sizes.columns + summary, config.width)

    def relations(self, features: Features) -> Tensor:
        """Return the relation channels this network looks at, (B, R, C, k)."""
        if not self.config.rich_relations:
            return features.relations[..., : self.sizes.raw_relations]
        seen = features.relations
        if not self.sizes.same_items:
            return seen
        batch, size = seen.shape[:2]
        if features.candidates is not None:
            itself = torch.arange(size, device=seen.device)[:, None] == features.candidates.index
            return torch.cat([seen, itself[..., None].to(seen.dtype)], -1)
        diagonal = torch.eye(size, device=seen.device, dtype=seen.dtype)
        return torch.cat([seen, diagonal[None, :, :, None].expand(batch, -1, -1, 1)], -1)

    def forward(self, features: Features, relations: Tensor, identifiers: Tensor) -> tuple[Tensor, Tensor]:
        """Embed rows and columns; `identifiers` (B, R + C, width) are standard normal."""
        size = relations.shape[1]
        if self.config.identifier_kind == "one_hot":
            column_ids = _one_hot_identifiers(identifiers[:, 0], identifiers.shape[1] - size)
            row_ids = column_ids if self.sizes.same_items else torch.zeros_like(identifiers[:, :size])
        else:
            row_ids = identifiers[:, :size]
            column_ids = row_ids if self.sizes.same_items else identifiers[:, size:]
        parts: list[list[Tensor]] = [[row_ids], [column_ids]]
        for part, own in zip(parts, (features.rows, features.columns), strict=True):
            if own is not None:
                part.append(own)
        if self.config.summaries:
            parts[0].append(_summary(relations, 2))
            parts[1].append(_column_summary(features, relations))
        return self.rows(torch.cat(parts[0], -1)), self.columns(torch.cat(parts[1], -1))


def relation_channels(config: NetworkConfig, sizes: FeatureSizes) -> int:
    """Return how many relation channels a network sees: raw ones, or all of them and the diagonal's mark."""
    return sizes.relations + int(sizes.same_items) if config.rich_relations else sizes.raw_relations


def _one_hot_identifiers(order: Tensor, items: int) -> Tensor:
    """Return different one-hot vectors (B, items, width) for the items of each instance, in the order of (B, width)."""
    width = order.shape[1]
    if items > width:
        raise UsageError(f"{items} items need as many one-hot identifiers; the network has {width} (identifiers)")
    places = order.argsort(-1)[:, :items, None]
    return (places == torch.arange(width, device=order.device)).to(order.dtype)


def _column_summary(features: Features, relations: Tensor) -> Tensor:
    """Return the summary of each column: over all rows, or over those that have it among their candidates."""
    if features.candidates is None:
        return _summary(relations, 1)
    *flat, variance = kernels.summarise_columns(relations, features.candidates.index, features.candidates.columns)
    return torch.cat([*flat, variance.clamp_min(1e-12).sqrt()], -1)


def _summary(relations: Tensor, axis: int) -> Tensor:
    """Return mean, minimum, maximum and spread along an axis of (B, R, C, k)."""
    spread = relations.var(axis, correction=0).clamp_min(1e-12).sqrt()
    return torch.cat([relations.mean(axis), relations.amin(axis), relations.amax(axis), spread], -1)


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
