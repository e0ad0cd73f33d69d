"""The paper's network: its dual encoder and its gated denoiser."""

import torch
from torch import Tensor, nn

from ..kernels import attend, split_heads
from ..problems.base import FeatureSizes
from ..problems.features import Features
from .config import NetworkConfig
from .edge import EdgeInput
from .layers import Encoding, FeedForward, InputEmbedding, TimeEmbedding, make_norm


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


class GatedDenoiser(nn.Module):
    """The paper's bipartite anisotropic graph network; the edge state is as wide as the nodes."""

    def __init__(self, config: NetworkConfig, channels: int) -> None:
        super().__init__()
        self.input = EdgeInput(channels, config.width, config.relations_in_denoiser, config.products_in_denoiser)
        self.time = TimeEmbedding(config.width)
        self.layers = nn.ModuleList(GatedLayer(config) for _ in range(config.denoiser_layers))
        self.out = nn.Linear(config.width, 1)

    def forward(self, encoding: Encoding, x: Tensor, t: Tensor) -> Tensor:
        """Return logits (N, R, C) for noisy matrices x (N, R, C) at steps t (N,), K of each of B instances."""
        samples = len(x) // len(encoding.rows)
        rows, columns = (nodes.repeat_interleave(samples, 0) for nodes in (encoding.rows, encoding.columns))
        edges = self.input(x, encoding.relations)
        time = self.time(t)
        for layer in self.layers:
            rows, columns, edges = layer(rows, columns, edges, time)
        out: Tensor = self.out(edges)
        return out.squeeze(-1).float()


class GatedLayer(nn.Module):
    """One layer of the paper's denoiser.

    x̂_ij = P x_ij + Q h_i + R h_j;  x'_ij = x_ij + MLP_x(BN(x̂_ij)) + MLP_t(t);
    h'_i = h_i + ReLU(BN(U_a h_i + Σ_j σ(x̂_ij) ⊙ V_b h_j)), and likewise for h_j.
    The sum over neighbours is a mean when the normalisation is by layer, so that size does not matter.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.mean = config.norm == "layer"
        self.edge = nn.Linear(width, width, bias=False)  # P
        self.from_row, self.from_column = (nn.Linear(width, width, bias=False) for _ in range(2))  # Q, R
        self.own_row, self.own_column = (nn.Linear(width, width, bias=False) for _ in range(2))  # U_a, U_b
        self.row_message, self.column_message = (nn.Linear(width, width, bias=False) for _ in range(2))  # V_a, V_b
        self.norm_edge, self.norm_row, self.norm_column = (make_norm(config.norm, width) for _ in range(3))
        self.edge_mlp = FeedForward(width, width)
        self.time_mlp = FeedForward(width, width)

    def forward(self, rows: Tensor, columns: Tensor, edges: Tensor, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Update rows (N, R, d), columns (N, C, d) and edges (N, R, C, d) at time features (N, d)."""
        mixed = self.edge(edges) + self.from_row(rows)[:, :, None] + self.from_column(columns)[:, None]
        gate = mixed.sigmoid()
        to_rows = gate * self.column_message(columns)[:, None]
        to_columns = gate * self.row_message(rows)[:, :, None]
        gathered_rows = to_rows.mean(2) if self.mean else to_rows.sum(2)
        gathered_columns = to_columns.mean(1) if self.mean else to_columns.sum(1)
        edges = edges + self.edge_mlp(self.norm_edge(mixed)) + self.time_mlp(time)[:, None, None]
        rows = rows + self.norm_row(self.own_row(rows) + gathered_rows).relu()
        columns = columns + self.norm_column(self.own_column(columns) + gathered_columns).relu()
        return rows, columns, edges
