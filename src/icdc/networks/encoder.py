"""Problem encoders: from the features of an instance to embeddings of rows, columns and edges.

They run once for an instance, however many solutions are generated from it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..kernels import Neighbours, attend, neighbours, split_heads, summarise_columns
from ..problems.base import FeatureSizes
from ..problems.features import Features
from .config import NetworkConfig
from .edge import EdgeLayer
from .layers import FeedForward, make_norm


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
    near: Neighbours | None = None

    def repeat(self, samples: int) -> "Encoding":
        """Return the encoding for `samples` trajectories of every instance, instance-major."""
        if samples == 1:
            return self
        edges = None if self.edges is None else self.edges.repeat_interleave(samples, 0)
        return Encoding(
            self.rows.repeat_interleave(samples, 0),
            self.columns.repeat_interleave(samples, 0),
            self.relations.repeat_interleave(samples, 0),
            edges,
            self.near,
        )


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
        self.seen = [channel for channel in range(sizes.relations) if channel not in config.hidden_relations]
        summary = 4 * self.channels if config.summaries else 0
        self.rows = nn.Linear(config.identifiers + sizes.rows + summary, config.width)
        self.columns = nn.Linear(config.identifiers + sizes.columns + summary, config.width)

    def relations(self, features: Features) -> Tensor:
        """Return the relation channels this network looks at, (B, R, C, k)."""
        if not self.config.rich_relations:
            return features.relations[..., : self.sizes.raw_relations]
        seen = features.relations
        if len(self.seen) < self.sizes.relations:
            seen = torch.stack([seen[..., channel] for channel in self.seen], -1)
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


class EdgeEncoder(nn.Module):
    """Encoder of the default network: a stack of `EdgeLayer`, so edges carry a state from the start."""

    def __init__(self, config: NetworkConfig, sizes: FeatureSizes) -> None:
        super().__init__()
        self.embed = InputEmbedding(config, sizes)
        self.embed_edges = FeedForward(self.embed.channels, 2 * config.edge_width, config.edge_width)
        self.layers = nn.ModuleList(
            EdgeLayer(config.width, config.heads, config.edge_width, config.feed_forward)
            for _ in range(config.encoder_layers)
        )
        for layer in self.layers:
            assert isinstance(layer, EdgeLayer)
            layer.shrink_outputs(config.encoder_layers + config.denoiser_layers)

    def forward(self, features: Features, identifiers: Tensor) -> Encoding:
        """Encode features of B instances."""
        relations = self.embed.relations(features)
        rows, columns = self.embed(features, relations, identifiers)
        edges = self._embed_edges(relations)
        seen = features.candidates
        near = None if seen is None else neighbours(seen.index, seen.columns)
        for layer in self.layers:
            rows, columns, edges = layer(rows, columns, edges, near=near)
        return Encoding(rows, columns, relations, edges, near)

    def _embed_edges(self, relations: Tensor) -> Tensor:
        """Embed relations in full precision: bfloat16 would blur what tells two good solutions apart."""
        device = relations.device.type
        narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else relations.dtype
        with torch.autocast(device, enabled=False):
            edges: Tensor = self.embed_edges(relations)
        return edges.to(narrow)


class DualEncoder(nn.Module):
    """The paper's problem encoder: A and B updated in turn by attention whose scores are mixed with D."""

    def __init__(self, config: NetworkConfig, sizes: FeatureSizes) -> None:
        super().__init__()
        self.embed = InputEmbedding(config, sizes)
        self.row_blocks = nn.ModuleList(DualBlock(config, self.embed.channels) for _ in range(config.encoder_layers))
        self.column_blocks = nn.ModuleList(DualBlock(config, self.embed.channels) for _ in range(config.encoder_layers))

    def forward(self, features: Features, identifiers: Tensor) -> Encoding:
        """Encode features of B instances; both sides of a layer see the other as it was before the layer."""
        relations = self.embed.relations(features)
        rows, columns = self.embed(features, relations, identifiers)
        flipped = relations.transpose(1, 2)
        for row_block, column_block in zip(self.row_blocks, self.column_blocks, strict=True):
            rows, columns = row_block(rows, columns, relations), column_block(columns, rows, flipped)
        return Encoding(rows, columns, relations, None)


class DualBlock(nn.Module):
    """One side of a layer of the paper's encoder.

    S_inter = softmax(A W_inter Aᵀ), S_intra = ReLU(A W_intra Bᵀ), D̃ = MLP(concat(S_inter S_intra, D)),
    Ã = softmax(D̃) B W_v, Â = BN(A + Ã), A' = BN(Â + MLP(Â)). With several heads each has its own W and D̃.
    """

    def __init__(self, config: NetworkConfig, channels: int) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.inter = nn.Linear(width, width, bias=False)
        self.intra = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.mix = nn.Sequential(
            nn.Linear(self.heads + channels, config.mixer_width),
            nn.ReLU(),
            nn.Linear(config.mixer_width, self.heads),
        )
        self.norm_1, self.norm_2 = make_norm(config.norm, width), make_norm(config.norm, width)
        self.feed = FeedForward(width, config.feed_forward * width)

    def scores(self, own: Tensor, other: Tensor) -> Tensor:
        """Return S_inter S_intra for every head, (B, own, other, heads)."""
        scale = (own.shape[-1] // self.heads) ** -0.5
        own_heads, other_heads = split_heads(own, self.heads), split_heads(other, self.heads)
        inter = (split_heads(self.inter(own), self.heads) * scale @ own_heads.transpose(-1, -2)).softmax(-1)
        intra = (split_heads(self.intra(own), self.heads) * scale @ other_heads.transpose(-1, -2)).relu()
        scores: Tensor = inter @ intra
        return scores.permute(0, 2, 3, 1)

    def forward(self, own: Tensor, other: Tensor, relations: Tensor) -> Tensor:
        """Update `own` (B, own, d) from `other` (B, other, d) and relations (B, own, other, k)."""
        mixed = self.mix(torch.cat([self.scores(own, other), relations], -1))
        weights = mixed.permute(0, 3, 1, 2).softmax(-1)
        own = self.norm_1(own + attend(weights, self.value(other), self.heads))
        updated: Tensor = self.norm_2(own + self.feed(own))
        return updated


def relation_channels(config: NetworkConfig, sizes: FeatureSizes) -> int:
    """Return how many relation channels a network sees: raw ones, or all but the hidden and the diagonal's mark."""
    if not config.rich_relations:
        return sizes.raw_relations
    hidden = config.hidden_relations
    if max(hidden, default=0) >= sizes.relations or len(hidden) == sizes.relations:
        raise UsageError(
            f"hidden_relations must leave some of the channels 0 to {sizes.relations - 1}, got {list(hidden)}"
        )
    return sizes.relations - len(hidden) + int(sizes.same_items)


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
    *flat, variance = summarise_columns(relations, features.candidates.index, features.candidates.columns)
    return torch.cat([*flat, variance.clamp_min(1e-12).sqrt()], -1)


def _summary(relations: Tensor, axis: int) -> Tensor:
    """Return mean, minimum, maximum and spread along an axis of (B, R, C, k)."""
    spread = relations.var(axis, correction=0).clamp_min(1e-12).sqrt()
    return torch.cat([relations.mean(axis), relations.amin(axis), relations.amax(axis), spread], -1)
