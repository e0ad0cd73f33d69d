"""The layer of the default network: attention between rows and columns with a thin state on every edge."""

import torch
from torch import Tensor, nn

from . import fused, fused_attention, fused_nodes, tiled
from .fused_means import relu_means
from .layers import FeedForward, LayerNorm, Linear, attend, gelu, head_scores
from .tiled import Mixed


class EdgeMixer(nn.Module):
    """What happens on every edge: its state and the attention scores give an update and new attention logits.

    This is where nearly all time and memory go, so it stands alone, and `fused` does it as one kernel on GPUs that
    have what it takes, `tiled` in small pieces on a CPU.
    """

    def __init__(self, edge_width: int, heads: int) -> None:
        super().__init__()
        self.edge_width, self.heads = edge_width, heads
        self.norm = LayerNorm(edge_width)
        self.up = nn.Linear(edge_width + heads, 2 * edge_width)
        self.down = nn.Linear(2 * edge_width, edge_width + 2 * heads)

    def forward(self, edges: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new edge state (N, R, C, c) and logits (N, 2 · heads, R, C) from scores (N, heads, R, C)."""
        if fused.supports(edges, self.heads):
            return fused.fused_mixer(edges, scores, *self.weights())
        seen = torch.cat([self.norm(edges), scores.permute(0, 2, 3, 1).to(edges.dtype)], -1)
        update, logits = self.down(gelu(self.up(seen))).split([self.edge_width, 2 * self.heads], -1)
        return edges + update.to(edges.dtype), logits.permute(0, 3, 1, 2)

    def with_means(self, edges: Tensor, scores: Tensor) -> Mixed:
        """Return the same, and the means of relu(new edges) over columns (N, R, c) and over rows (N, C, c)."""
        if tiled.supports(edges) and not fused.supports(edges, self.heads):
            return tiled.tiled_mixer(edges, scores, *self.weights())
        edges, logits = self(edges, scores)
        return Mixed(edges, logits, *relu_means(edges))

    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        norm, up, down = self.norm, self.up, self.down
        return norm.weight, norm.bias, up.weight, up.bias, down.weight, down.bias


class EdgeLayer(nn.Module):
    """Rows attend over columns and columns over rows; the attention logits come from the edges.

    Parameters
    ----------
    width : width d of the row and column states.
    heads : number of attention heads.
    edge_width : width c of the edge state.
    feed_forward : hidden width of the feed-forward parts, in units of d.
    """

    def __init__(self, width: int, heads: int, edge_width: int, feed_forward: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm_rows, self.norm_columns = LayerNorm(width), LayerNorm(width)
        self.query_value = nn.Linear(width, 2 * width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.mixer = EdgeMixer(edge_width, heads)
        self.out_rows = Linear(width + edge_width, width)
        self.out_columns = Linear(width + edge_width, width)
        self.norm_rows_2, self.norm_columns_2 = LayerNorm(width), LayerNorm(width)
        self.feed_rows = FeedForward(width, feed_forward * width)
        self.feed_columns = FeedForward(width, feed_forward * width)

    def forward(
        self, rows: Tensor, columns: Tensor, edges: Tensor, time: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Update rows (N, R, d), columns (N, C, d) and edges (N, R, C, c); `time` (N, d) is added to the nodes."""
        from_rows = _project(rows, self.norm_rows, self.query_value, time)
        from_columns = _project(columns, self.norm_columns, self.key_value, time)
        edges, to_rows, to_columns, row_means, column_means = self._attend(edges, from_rows, from_columns)
        rows = _update(rows, to_rows, row_means, self.out_rows, self.norm_rows_2, self.feed_rows)
        columns = _update(columns, to_columns, column_means, self.out_columns, self.norm_columns_2, self.feed_columns)
        return rows, columns, edges

    def _attend(
        self, edges: Tensor, from_rows: Tensor, from_columns: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the new edges, what rows (N, R, d) and columns (N, C, d) gather, and the means of relu(new edges)."""
        if fused_attention.supports(edges, from_rows.shape[-1] // 2, self.heads):
            return fused_attention.edge_attention(edges, from_rows, from_columns, self.heads, self.mixer.weights())
        query, row_value = from_rows.chunk(2, -1)
        key, column_value = from_columns.chunk(2, -1)
        edges, logits, row_means, column_means = self.mixer.with_means(edges, head_scores(query, key, self.heads))
        over_columns, over_rows = logits.chunk(2, 1)
        row_weights = over_columns.softmax(-1).to(query.dtype)
        column_weights = over_rows.softmax(-2).to(query.dtype).transpose(-1, -2)
        to_rows = attend(row_weights, column_value, self.heads)
        return edges, to_rows, attend(column_weights, row_value, self.heads), row_means, column_means

    def shrink_outputs(self, depth: int) -> None:
        """Start the residual branches small, so that a stack of `depth` layers begins near the identity."""
        for linear in (self.out_rows, self.out_columns, self.feed_rows.down, self.feed_columns.down):
            nn.init.normal_(linear.weight, std=0.02 / (2 * depth) ** 0.5)
            nn.init.zeros_(linear.bias)


def _project(nodes: Tensor, norm: LayerNorm, linear: nn.Linear, time: Tensor | None) -> Tensor:
    """Return what nodes (N, items, d) bring to the attention, (N, items, 2d): query or key, and value."""
    if fused_nodes.supports(nodes, fused.WIDTHS[0], linear.out_features):
        return fused_nodes.project(nodes, norm.weight, norm.bias, linear.weight, time)
    seen = norm(nodes) if time is None else norm(nodes) + time[:, None]
    out: Tensor = linear(seen)
    return out


def _update(
    nodes: Tensor, gathered: Tensor, means: Tensor, out: nn.Linear, norm: LayerNorm, feed: FeedForward
) -> Tensor:
    """Return nodes (N, items, d) after what they gathered (N, items, d), the means of their edges, and feed-forward."""
    if fused_nodes.supports(nodes, means.shape[-1], feed.up.out_features):
        maps = (out, norm, feed.up, feed.down)
        return fused_nodes.update(nodes, gathered, means, *(p for m in maps for p in (m.weight, m.bias)))
    nodes = nodes + out(torch.cat([gathered, means.to(gathered.dtype)], -1))
    updated: Tensor = nodes + feed(norm(nodes))
    return updated
