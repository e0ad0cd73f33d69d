"""The default network: attention between rows and columns with a thin state on every edge."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import kernels
from ..problems.base import FeatureSizes
from ..problems.features import Features
from .config import NetworkConfig
from .layers import Encoding, FeedForward, InputEmbedding, LayerNorm, TimeEmbedding, normed_mlp


class EdgeMixer(nn.Module):
    """What happens on every edge: its state and the attention scores give an update and new attention logits."""

    def __init__(self, edge_width: int, heads: int) -> None:
        super().__init__()
        self.norm = LayerNorm(edge_width)
        self.up = nn.Linear(edge_width + heads, 2 * edge_width)
        self.down = nn.Linear(2 * edge_width, edge_width + 2 * heads)

    def weights(self) -> kernels.NormedMLP:
        """Return its weights as operations take them."""
        return normed_mlp(self.norm, self.up, self.down)


class EdgeLayer(nn.Module):
    """Rows attend over columns and columns over rows; the attention logits come from the edges.

    With scores s_ij = q_i · k_j / √(d / heads) of the normalised rows r and columns c, the edges e become
    e'_ij = e_ij + Δ_ij where (Δ_ij, ℓ_ij, ℓ'_ij) = MLP([norm(e_ij), s_ij]); a row then
    r'_i = r_i + W [Σ_j softmax_j(ℓ_ij) v_j, mean_j relu(e'_ij)] and r''_i = r'_i + MLP(norm(r'_i)); and a column
    likewise, with ℓ'_ij and sums over i.

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
        self.out_rows = nn.Linear(width + edge_width, width)
        self.out_columns = nn.Linear(width + edge_width, width)
        self.norm_rows_2, self.norm_columns_2 = LayerNorm(width), LayerNorm(width)
        self.feed_rows = FeedForward(width, feed_forward * width)
        self.feed_columns = FeedForward(width, feed_forward * width)

    def forward(
        self,
        rows: Tensor,
        columns: Tensor,
        edges: Tensor,
        time: Tensor | None = None,
        near: kernels.Neighbours | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Update rows (N, R, d), columns (N, C, d) and edges (N, R, C, c); `time` (N, d) is added to the nodes.

        With `near` edges are (N, R, k, c): each row's own k columns, over which it attends, while a column attends over
        the rows that have it among theirs.
        """
        from_rows = _project(rows, self.norm_rows, self.query_value, time)
        from_columns = _project(columns, self.norm_columns, self.key_value, time)
        edges, to_rows, to_columns, row_means, column_means = kernels.edge_attention(
            edges, from_rows, from_columns, self.heads, self.mixer.weights(), near
        )
        rows = _update(rows, to_rows, row_means, self.out_rows, self.norm_rows_2, self.feed_rows)
        columns = _update(columns, to_columns, column_means, self.out_columns, self.norm_columns_2, self.feed_columns)
        return rows, columns, edges

    def shrink_outputs(self, depth: int) -> None:
        """Start the residual branches small, so that a stack of `depth` layers begins near the identity."""
        for linear in (self.out_rows, self.out_columns, self.feed_rows.down, self.feed_columns.down):
            nn.init.normal_(linear.weight, std=0.02 / (2 * depth) ** 0.5)
            nn.init.zeros_(linear.bias)


class EdgeEncoder(nn.Module):
    """A stack of `EdgeLayer`, so edges carry a state from the start."""

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
        near = None if seen is None else kernels.neighbours(seen.index, seen.columns)
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


class EdgeInput(nn.Module):
    """Embed X_t on every edge, with the relations and X_t times the relations where they are wanted."""

    def __init__(self, channels: int, width: int, with_relations: bool = True, with_products: bool = True) -> None:
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
    """A stack of `EdgeLayer`; the time is added to the nodes at every layer."""

    def __init__(self, config: NetworkConfig, channels: int) -> None:
        super().__init__()
        width, edge_width = config.width, config.edge_width
        self.input = EdgeInput(channels, edge_width)
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


def _project(nodes: Tensor, norm: LayerNorm, linear: nn.Linear, time: Tensor | None) -> Tensor:
    """Return what nodes (N, items, d) bring to the attention, (N, items, 2d): query or key, and value."""
    return kernels.project_nodes(nodes, norm.weight, norm.bias, linear.weight, time)


def _update(
    nodes: Tensor, gathered: Tensor, means: Tensor, out: nn.Linear, norm: LayerNorm, feed: FeedForward
) -> Tensor:
    """Return nodes (N, items, d) after what they gathered (N, items, d), the means of their edges, and feed-forward."""
    mlp = normed_mlp(norm, feed.up, feed.down)
    return kernels.update_nodes(nodes, gathered, means, out.weight, out.bias, mlp)
