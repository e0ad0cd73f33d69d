"""The dual encoder: rows attend over columns and columns over rows, with scores mixed with the matrix itself."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...kernels import attend, head_scores
from ...networks.layers import FeedForward, InstanceNorm
from ...problems.base import FeatureSizes
from ...problems.features import Features
from ...problems.tensors import one_hot
from .config import MatNetNetworkConfig
from .decoder import PointerDecoder


class MatNetEncoding(NamedTuple):
    """An encoded batch: rows (B, R, d), columns (B, C, d) and the relations (B, R, C, k) that were seen."""

    rows: Tensor
    columns: Tensor
    relations: Tensor


class MixedScores(nn.Module):
    """Every head's own MLP from its attention score and the matrix entries of a pair to a new score.

    score_h, D_1, …, D_k → mixer_width → 1, for each head h with weights of its own.
    """

    def __init__(self, heads: int, channels: int, hidden: int) -> None:
        super().__init__()
        inputs = 1 + channels
        self.up = nn.Parameter(torch.empty(heads, inputs, hidden).uniform_(-1, 1) * inputs**-0.5)
        self.up_bias = nn.Parameter(torch.empty(heads, hidden).uniform_(-1, 1) * inputs**-0.5)
        self.down = nn.Parameter(torch.empty(heads, hidden).uniform_(-1, 1) * hidden**-0.5)

    def forward(self, scores: Tensor, relations: Tensor) -> Tensor:
        """Mix scores (N, heads, own, other) with relations (N, own, other, k), in full precision, as `scores`."""
        # sums of products, not matrix products: they fuse into one kernel, and autocast leaves them alone
        hidden = scores.float()[..., None] * self.up[:, None, None, 0] + self.up_bias[:, None, None]
        for channel in range(relations.shape[-1]):
            hidden = hidden + relations[:, None, :, :, channel, None] * self.up[:, None, None, 1 + channel]
        # no bias of its own: the softmax that follows would not see it
        return (hidden.relu() * self.down[:, None, None]).sum(-1)


class MixedScoreBlock(nn.Module):
    """One side of a layer: mixed-score attention over the other side, then a feed-forward part, both residual."""

    def __init__(self, config: MatNetNetworkConfig, channels: int) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.mix = MixedScores(config.heads, channels, config.mixer_width)
        self.combine = nn.Linear(width, width)
        self.norm_1, self.norm_2 = InstanceNorm(width), InstanceNorm(width)
        self.feed = FeedForward(width, config.feed_forward)

    def forward(self, own: Tensor, other: Tensor, relations: Tensor) -> Tensor:
        """Update `own` (B, own, d) from `other` (B, other, d) and relations (B, own, other, k)."""
        scores = self.mix(head_scores(self.query(own), self.key(other), self.heads), relations)
        weights, value = scores.softmax(-1), self.value(other)
        message = self.combine(attend(weights.to(value.dtype), value, self.heads))
        own = self.norm_1(own + message)
        updated: Tensor = self.norm_2(own + self.feed(own))
        return updated


class MatNetNetwork(nn.Module):
    """Encoder and decoder together, sized from feature dimensions alone.

    It sees the raw relations of a problem and nothing else: no features of items, no derived relations.
    """

    def __init__(self, config: MatNetNetworkConfig, sizes: FeatureSizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        channels = sizes.raw_relations
        self.row_blocks = nn.ModuleList(MixedScoreBlock(config, channels) for _ in range(config.layers))
        self.column_blocks = nn.ModuleList(MixedScoreBlock(config, channels) for _ in range(config.layers))
        self.decoder = PointerDecoder(config, several_rows_a_column=not sizes.same_items)

    def encode(self, features: Features, one_hots: Tensor) -> MatNetEncoding:
        """Encode B instances; `one_hots` (B, C) int64 says which one-hot vector each column has; rows have zeros."""
        relations = features.relations[..., : self.sizes.raw_relations]
        columns = one_hot(one_hots, self.config.width)
        rows = columns.new_zeros(relations.shape[0], relations.shape[1], self.config.width)
        flipped = relations.transpose(1, 2)
        for row_block, column_block in zip(self.row_blocks, self.column_blocks, strict=True):
            rows, columns = row_block(rows, columns, relations), column_block(columns, rows, flipped)
        return MatNetEncoding(rows, columns, relations)

    def worth_compiling(self) -> list[nn.Module]:
        """Return the parts that move most memory: the blocks, with their hidden scores of every pair and head."""
        return [module for module in self.modules() if isinstance(module, MixedScoreBlock)]
