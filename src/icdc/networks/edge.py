"""The layer of the default network: attention between rows and columns with a thin state on every edge."""

from torch import Tensor, nn

from .. import kernels
from .layers import FeedForward, LayerNorm, normed_mlp


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


def _project(nodes: Tensor, norm: LayerNorm, linear: nn.Linear, time: Tensor | None) -> Tensor:
    """Return what nodes (N, items, d) bring to the attention, (N, items, 2d): query or key, and value."""
    return kernels.project_nodes(nodes, norm.weight, norm.bias, linear.weight, time)


def _update(
    nodes: Tensor, gathered: Tensor, means: Tensor, out: nn.Linear, norm: LayerNorm, feed: FeedForward
) -> Tensor:
    """Return nodes (N, items, d) after what they gathered (N, items, d), the means of their edges, and feed-forward."""
    mlp = normed_mlp(norm, feed.up, feed.down)
    return kernels.update_nodes(nodes, gathered, means, out.weight, out.bias, mlp)
