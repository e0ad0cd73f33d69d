"""Denoisers: from an encoded instance, a noisy solution and its time to logits of the clean solution."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import fused_ends
from .config import NetworkConfig
from .edge import EdgeLayer
from .encoder import Encoding
from .layers import FeedForward, LayerNorm, Linear, TimeEmbedding, head_scores, make_norm


class EdgeInput(nn.Module):
    """Embed X_t on every edge and, if asked for, the relations and X_t times the relations.

    The product lets a layer that sums over a row or a column see loads and lengths of the noisy solution.
    """

    def __init__(self, channels: int, width: int, with_relations: bool) -> None:
        super().__init__()
        self.with_relations = with_relations
        self.linear = nn.Linear(1 + (2 * channels if with_relations else 0), width)

    def forward(self, x: Tensor, relations: Tensor) -> Tensor:
        """(N, R, C) and (N, R, C, k) to (N, R, C, width)."""
        x = x[..., None]
        # a linear map of ±1 is an embedding of two values, without the slow backward of a table look-up
        parts = [2 * x - 1] + ([relations, x * relations] if self.with_relations else [])
        out: Tensor = self.linear(torch.cat(parts, -1))
        return out

    def parts(self, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Return what an edge starts with and what X_t = 1 adds to it, (B, R, C, width) each.

        For all solutions of an instance alike, so that a step of the reverse process has only to add them up.
        """
        sign, *others = self.linear.weight.split([1, *[relations.shape[-1]] * (2 if self.with_relations else 0)], 1)
        bias = self.linear.bias - sign.squeeze(1), 2 * sign.squeeze(1)
        if not others:
            shape = *relations.shape[:-1], -1
            return bias[0].expand(shape), bias[1].expand(shape)
        return F.linear(relations, others[0], bias[0]), F.linear(relations, others[1], bias[1])


class EdgeOutput(nn.Module):
    """Read a logit off every edge: its state and one last set of attention scores."""

    def __init__(self, width: int, heads: int, edge_width: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_rows, self.norm_columns = LayerNorm(width), LayerNorm(width)
        self.norm_edges = LayerNorm(edge_width)
        self.query, self.key = Linear(width, width), Linear(width, width)
        self.mix = FeedForward(edge_width + heads, 2 * edge_width, 1)

    def forward(self, rows: Tensor, columns: Tensor, edges: Tensor) -> Tensor:
        """(N, R, d), (N, C, d) and (N, R, C, c) to (N, R, C)."""
        query, key = self.query(self.norm_rows(rows)), self.key(self.norm_columns(columns))
        scores = head_scores(query, key, self.heads)
        if fused_ends.supports(edges, self.heads):
            norm, up, down = self.norm_edges, self.mix.up, self.mix.down
            return fused_ends.read_out(
                edges, scores, norm.weight, norm.bias, up.weight, up.bias, down.weight, down.bias
            )  # fmt: skip
        scores = scores.permute(0, 2, 3, 1)
        out: Tensor = self.mix(torch.cat([self.norm_edges(edges), scores.to(edges.dtype)], -1))
        return out.squeeze(-1).float()


class EdgeDenoiser(nn.Module):
    """The default: attention layers with a thin edge state; the time is added to the nodes at every layer."""

    def __init__(self, config: NetworkConfig, channels: int) -> None:
        super().__init__()
        width, edge_width = config.width, config.edge_width
        self.input = EdgeInput(channels, edge_width, config.relations_in_denoiser)
        self.time = TimeEmbedding(width)
        self.time_maps = nn.ModuleList(Linear(width, width) for _ in range(config.denoiser_layers))
        self.layers = nn.ModuleList(
            EdgeLayer(width, config.heads, edge_width, config.feed_forward) for _ in range(config.denoiser_layers)
        )
        for layer in self.layers:
            assert isinstance(layer, EdgeLayer)
            layer.shrink_outputs(config.encoder_layers + config.denoiser_layers)
        self.output = EdgeOutput(width, config.heads, edge_width)

    def forward(self, encoding: Encoding, x: Tensor, t: Tensor) -> Tensor:
        """Return logits (N, R, C) for noisy matrices x (N, R, C) at steps t (N,), K of each of B instances."""
        samples = len(x) // len(encoding.rows)
        rows, columns = (nodes.repeat_interleave(samples, 0) for nodes in (encoding.rows, encoding.columns))
        edges = self._first_edges(encoding, x, samples)
        time = self.time(t)
        for layer, time_map in zip(self.layers, self.time_maps, strict=True):
            rows, columns, edges = layer(rows, columns, edges, time_map(time))
        out: Tensor = self.output(rows, columns, edges)
        return out

    def _first_edges(self, encoding: Encoding, x: Tensor, samples: int) -> Tensor:
        """Return the edge state (N, R, C, c) before the first layer."""
        if encoding.edges is not None and fused_ends.supports(encoding.edges, 0):
            constant, slope = self.input.parts(encoding.relations)
            return fused_ends.begin(x, encoding.edges + constant, slope)
        encoding = encoding.repeat(samples)
        edges: Tensor = self.input(x, encoding.relations)
        return edges if encoding.edges is None else encoding.edges + edges


class GatedDenoiser(nn.Module):
    """The paper's bipartite anisotropic graph network; the edge state is as wide as the nodes."""

    def __init__(self, config: NetworkConfig, channels: int) -> None:
        super().__init__()
        self.input = EdgeInput(channels, config.width, config.relations_in_denoiser)
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
