"""Denoisers: from an encoded instance, a noisy solution and its time to logits of the clean solution."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import kernels
from .config import NetworkConfig
from .edge import EdgeLayer
from .encoder import Encoding
from .layers import FeedForward, LayerNorm, TimeEmbedding, make_norm, normed_mlp


class EdgeInput(nn.Module):
    """Embed X_t on every edge and, if asked for, the relations and X_t times the relations."""

    def __init__(self, channels: int, width: int, with_relations: bool, with_products: bool = True) -> None:
        super().__init__()
        self.absent = channels if with_relations and not with_products else 0
        self.linear = nn.Linear(1 + (2 * channels - self.absent if with_relations else 0), width)

    def forward(self, x: Tensor, relations: Tensor, base: Tensor | None = None) -> Tensor:
        """Return (N, R, C, width) for x (N, R, C), relations (B, R, C, k) and, to be added, `base` (B, R, C, width)."""
        weight = F.pad(self.linear.weight, (0, self.absent)) if self.absent else self.linear.weight
        batch, samples, x = len(relations), len(x) // len(relations), x[..., None]
        # a linear map of ±1 is an embedding of two values, without the slow backward of a table look-up
        parts = [2 * x - 1]
        if weight.shape[1] > 1:
            relations = relations.repeat_interleave(samples, 0)
            parts += [relations, x * relations]
        edges = F.linear(torch.cat(parts, -1), weight, self.linear.bias)
        if base is None:
            return edges
        # the solutions of an instance share its base: no copy of it is made for each
        return (base[:, None] + edges.view(batch, samples, *base.shape[1:])).flatten(0, 1)


class EdgeOutput(nn.Module):
    """Read a logit off every edge: its state and one last set of attention scores."""

    def __init__(self, width: int, heads: int, edge_width: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_rows, self.norm_columns = LayerNorm(width), LayerNorm(width)
        self.norm_edges = LayerNorm(edge_width)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.mix = FeedForward(edge_width + heads, 2 * edge_width, 1)

    def forward(self, rows: Tensor, columns: Tensor, edges: Tensor, near: kernels.Neighbours | None = None) -> Tensor:
        """(N, R, d), (N, C, d) and (N, R, C, c) to (N, R, C); with neighbours, k in the place of C."""
        query, key = self.query(self.norm_rows(rows)), self.key(self.norm_columns(columns))
        scores = kernels.head_scores(query, key, self.heads, near)
        return kernels.read_edges(edges, scores, normed_mlp(self.norm_edges, self.mix.up, self.mix.down))


class EdgeDenoiser(nn.Module):
    """The default: attention layers with a thin edge state; the time is added to the nodes at every layer."""

    def __init__(self, config: NetworkConfig, channels: int) -> None:
        super().__init__()
        width, edge_width = config.width, config.edge_width
        self.input = EdgeInput(channels, edge_width, config.relations_in_denoiser, config.products_in_denoiser)
        self.time = TimeEmbedding(width)
        self.time_maps = nn.ModuleList(nn.Linear(width, width) for _ in range(config.denoiser_layers))
        self.layers = nn.ModuleList(
            EdgeLayer(width, config.heads, edge_width, config.feed_forward) for _ in range(config.denoiser_layers)
        )
        for layer in self.layers:
            assert isinstance(layer, EdgeLayer)
            layer.shrink_outputs(config.encoder_layers + config.denoiser_layers)
        self.output = EdgeOutput(width, config.heads, edge_width)

    def forward(self, encoding: Encoding, x: Tensor, t: Tensor) -> Tensor:
        """Return logits (N, R, C) for noisy matrices x (N, R, C) at steps t (N,), K of each of B instances.

        Where the encoding is of candidates, both are (N, R, k).
        """
        samples = len(x) // len(encoding.rows)
        rows, columns = (nodes.repeat_interleave(samples, 0) for nodes in (encoding.rows, encoding.columns))
        edges = self.input(x, encoding.relations, encoding.edges)
        time = self.time(t)
        for layer, time_map in zip(self.layers, self.time_maps, strict=True):
            rows, columns, edges = layer(rows, columns, edges, time_map(time), encoding.near)
        out: Tensor = self.output(rows, columns, edges, encoding.near)
        return out


class GatedDenoiser(nn.Module):
    """The paper's bipartite anisotropic graph network; the edge state is as wide as the nodes."""

    def __init__(self, config: NetworkConfig, channels: int) -> None:
        super().__init__()
        self.input = EdgeInput(channels, config.width, config.relations_in_denoiser, config.products_in_denoiser)
        self.time = TimeEmbedding(config.width)
        self.from_encoder = nn.Linear(config.edge_width, config.width) if config.encoder == "edge" else None
        self.layers = nn.ModuleList(GatedLayer(config) for _ in range(config.denoiser_layers))
        self.out = nn.Linear(config.width, 1)

    def forward(self, encoding: Encoding, x: Tensor, t: Tensor) -> Tensor:
        """Return logits (N, R, C) for noisy matrices x (N, R, C) at steps t (N,), K of each of B instances."""
        encoding = encoding.repeat(len(x) // len(encoding.rows))
        rows, columns = encoding.rows, encoding.columns
        edges = self.input(x, encoding.relations)
        if self.from_encoder is not None and encoding.edges is not None:
            edges = edges + self.from_encoder(encoding.edges)
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
