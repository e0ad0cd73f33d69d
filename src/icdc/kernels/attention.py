"""Attention between rows and columns with a state on every edge: the operations of the default network's layers.

Shapes: N instances with R rows and C columns, nodes of width d (N, items, d), edges of width c (N, R, C, c). Where
only k candidate columns of each row have edges, these are (N, R, k, c), with `Neighbours` beside them; everything else
that is said of edges then has k in the place of C.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from . import candidate_edges, tiled
from .choosing import INTERPRETED, is_narrow, network_kernels_run_on
from .neighbours import Neighbours

# what the Triton kernels are written for
_EDGE_WIDTHS, _HEADS, _NODE_WIDTHS = (32, 64), (4, 8, 16), (64, 128)
_NORM_WIDTHS = (16, 32, 64, 128, 256)
_MOST_ITEMS = 128  # rows or columns whose attention weights still fit a program's registers
_MOST_EDGES = 64  # edges of a row whose columns do


class NormedMLP(NamedTuple):
    """Weights of a layer norm and of the two linear maps after it, with a GELU between them.

    scale, shift (width,); up (hidden, in) with its bias (hidden,); down (out, hidden) with its bias (out,). Where
    attention scores join the normalised states, `in` is wider than `width` by the number of heads.
    """

    scale: Tensor
    shift: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor


def gelu(x: Tensor) -> Tensor:
    """GELU by its tanh form, the cheaper one to fuse."""
    return F.gelu(x, approximate="tanh")


def layer_norm(states: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Normalise states (..., width) over their last axis, then scale and shift them by (width,); dtype is kept."""
    if states.shape[-1] in _NORM_WIDTHS and is_narrow(states.dtype) and network_kernels_run_on(states.device):
        from . import triton_nodes

        return triton_nodes.layer_norm(states, scale, shift)
    return F.layer_norm(states, states.shape[-1:], scale.to(states.dtype), shift.to(states.dtype)).to(states.dtype)


def linear(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Map states (..., in) to states · weightᵀ + bias, (..., out).

    The kernel is for the gradient of the bias, a sum over rows, which costs a multiple of what it should otherwise.
    """
    if torch.is_grad_enabled() and bias.requires_grad and _sums_bias(states, len(weight)):
        from . import triton_nodes

        return triton_nodes.linear(states, weight, bias)
    return F.linear(states, weight, bias)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(N, items, width) to (N, heads, items, width / heads)."""
    split: Tensor = x.unflatten(-1, (heads, -1))
    return split.transpose(1, 2)


def head_scores(query: Tensor, key: Tensor, heads: int, near: Neighbours | None = None) -> Tensor:
    """Return scaled dot products q_i · k_j / √(d / heads) of every row with every column, (N, heads, R, C)."""
    if near is not None:
        if not torch.is_grad_enabled() and _candidates_fit(near, query.shape[-1], heads, query):
            from . import triton_candidates

            return triton_candidates.candidate_scores(query, key, heads, near)
        seen = candidate_edges.at_candidates(key, near.of_all(len(key)))
        return candidate_edges.candidate_scores(query, seen, heads)
    scale = (query.shape[-1] // heads) ** -0.5
    return split_heads(query * scale, heads) @ split_heads(key, heads).transpose(-1, -2)


def attend(weights: Tensor, values: Tensor, heads: int) -> Tensor:
    """Return weights (N, heads, items, others) applied to values (N, others, d), as (N, items, d)."""
    return (weights @ split_heads(values, heads)).transpose(1, 2).flatten(2)


def project_nodes(nodes: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, time: Tensor | None) -> Tensor:
    """Return what nodes bring to the attention: (norm(h) + time) · weightᵀ, (N, items, out).

    From nodes h (N, items, d), scale and shift of the norm (d,), weight (out, d) and time (N, d) or None.
    """
    if _nodes_fit(nodes, len(weight)):
        from . import triton_nodes

        return triton_nodes.project_nodes(nodes, scale, shift, weight, time)
    seen = layer_norm(nodes, scale, shift)
    return F.linear(seen if time is None else seen + time[:, None], weight)


def update_nodes(
    nodes: Tensor, gathered: Tensor, means: Tensor, out: Tensor, out_bias: Tensor, mlp: NormedMLP
) -> Tensor:
    """Return nodes after the attention: h' + MLP(norm(h')) with h' = h + [gathered, means] · outᵀ + bias.

    From nodes h (N, items, d), what they gathered (N, items, d), the means of their edges (N, items, c), the map
    `out` (d, d + c) with its bias (d,), and an MLP from d to d.
    """
    if means.shape[-1] in _EDGE_WIDTHS and _nodes_fit(nodes, len(mlp.up)):
        from . import triton_nodes

        return triton_nodes.update_nodes(nodes, gathered, means, out, out_bias, *mlp)
    nodes = nodes + linear(torch.cat([gathered, means.to(gathered.dtype)], -1), out, out_bias)
    hidden = gelu(linear(layer_norm(nodes, mlp.scale, mlp.shift), mlp.up, mlp.up_bias))
    return nodes + linear(hidden, mlp.down, mlp.down_bias)


def relu_means(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of relu(edges) over columns (N, R, c) and over rows (N, C, c)."""
    width = edges.shape[-1]
    fits = width & (width - 1) == 0 and width <= 256 and (INTERPRETED or is_narrow(edges.dtype))
    if fits and network_kernels_run_on(edges.device):
        from . import triton_attention

        return triton_attention.relu_means(edges)
    active = F.relu(edges)
    return active.mean(2), active.mean(1)


def mix_edges(edges: Tensor, scores: Tensor, mlp: NormedMLP) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Update every edge by its state and its attention scores; this is where nearly all time and memory go.

    (Δ_ij, ℓ_ij) = MLP([norm(e_ij), s_ij]) and e'_ij = e_ij + Δ_ij, for edges e (N, R, C, c) and scores s
    (N, heads, R, C), by an MLP from c + heads over 2c to c + 2 · heads.

    Returns
    -------
    New edges e' (N, R, C, c), attention logits ℓ (N, 2 · heads, R, C), and the means of relu(e') over columns
    (N, R, c) and over rows (N, C, c).
    """
    if _edges_fit(edges, scores.shape[1]):
        from . import triton_mixer

        edges, logits = triton_mixer.mix_edges(edges, scores, *mlp)
        return edges, logits, *relu_means(edges)
    if tiled.fits(edges):
        return tiled.mix_edges(edges, scores, *mlp)
    seen = torch.cat([layer_norm(edges, mlp.scale, mlp.shift), scores.permute(0, 2, 3, 1).to(edges.dtype)], -1)
    out = F.linear(gelu(F.linear(seen, mlp.up, mlp.up_bias)), mlp.down, mlp.down_bias)
    update, logits = out.split([edges.shape[-1], 2 * scores.shape[1]], -1)
    edges = edges + update.to(edges.dtype)
    return edges, logits.permute(0, 3, 1, 2), *relu_means(edges)


def edge_attention(
    edges: Tensor, from_rows: Tensor, from_columns: Tensor, heads: int, mlp: NormedMLP, near: Neighbours | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Mix edges with the attention scores of rows and columns, and attend by the result in both directions.

    Row i gathers Σ_j softmax_j(ℓ_ij) v_j over columns j, and column j gathers Σ_i softmax_i(ℓ'_ij) v_i over rows i,
    where ℓ and ℓ' are the first and the second half of the logits that `mix_edges` gives.

    Parameters
    ----------
    edges : edge state (N, R, C, c).
    from_rows, from_columns : queries and row values side by side (N, R, 2d), keys and column values (N, C, 2d).
    heads : number of heads.
    mlp : weights of the mixer.
    near : which pairs have an edge, where not all of them do.

    Returns
    -------
    The new edge state, what rows (N, R, d) and columns (N, C, d) gather, and the means of relu of the new edge state
    over columns (N, R, c) and over rows (N, C, c).
    """
    width = from_rows.shape[-1] // 2
    if near is not None:
        if _edges_fit(edges, heads) and _candidates_fit(near, width, heads, edges):
            from . import triton_candidates

            return triton_candidates.candidate_attention(edges, from_rows, from_columns, heads, mlp, near)
        return _candidate_attention(edges, from_rows, from_columns, heads, mlp, near.of_all(len(edges)))
    if max(edges.shape[1:3]) <= _MOST_ITEMS and _heads_fit(width, heads) and _edges_fit(edges, heads):
        from . import triton_attention

        return triton_attention.edge_attention(edges, from_rows, from_columns, heads, mlp)
    query, row_value = from_rows.chunk(2, -1)
    key, column_value = from_columns.chunk(2, -1)
    edges, logits, row_means, column_means = mix_edges(edges, head_scores(query, key, heads), mlp)
    over_columns, over_rows = logits.chunk(2, 1)
    to_rows = attend(over_columns.softmax(-1).to(query.dtype), column_value, heads)
    to_columns = attend(over_rows.softmax(-2).to(query.dtype).transpose(-1, -2), row_value, heads)
    return edges, to_rows, to_columns, row_means, column_means


def _candidate_attention(
    edges: Tensor, from_rows: Tensor, from_columns: Tensor, heads: int, mlp: NormedMLP, candidates: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Do what `edge_attention` says for edges (N, R, k, c) to candidates (N, R, k)."""
    query, row_value = from_rows.chunk(2, -1)
    parts = []
    for part in candidate_edges.row_tiles(candidates, from_columns.shape[-1]):
        key, column_value = candidate_edges.at_candidates(from_columns, candidates[:, part]).chunk(2, -1)
        scores = candidate_edges.candidate_scores(query[:, part], key, heads)
        mixed, logits, row_means, _ = mix_edges(edges[:, part], scores, mlp)
        over_columns, over_rows = logits.chunk(2, 1)
        to_rows = candidate_edges.attend_to_candidates(over_columns, column_value)
        parts.append((mixed, over_rows.transpose(1, 2), to_rows, row_means))
    edges, over_rows, to_rows, row_means = (_joined(tensors) for tensors in zip(*parts, strict=True))
    to_columns, column_means = candidate_edges.attend_to_rows(
        over_rows.transpose(1, 2), row_value, edges, candidates, from_columns.shape[1]
    )
    return edges, to_rows, to_columns, row_means, column_means


def _joined(tensors: tuple[Tensor, ...]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, 1)


def first_edges(x: Tensor, relations: Tensor, weight: Tensor, bias: Tensor, base: Tensor | None = None) -> Tensor:
    """Return the edge state (N, R, C, c) before the first layer: base + [2x − 1, r, x · r] · weightᵀ + bias.

    The product lets a layer that sums over a row or a column see loads and lengths of the noisy solution.

    Parameters
    ----------
    x : noisy solutions of zeros and ones (N, R, C): K of each instance, instance-major, N = B · K.
    relations : r (B, R, C, k).
    weight, bias : (c, 1 + 2k), or (c, 1) to leave both parts with r out, and (c,).
    base : what the encoder says of the edges (B, R, C, c), if anything.
    """
    related = weight.shape[1] > 1
    if base is not None and not torch.is_grad_enabled() and _edges_fit(base, _HEADS[0]):
        from . import triton_attention

        # what an edge starts with and what x = 1 adds to it are the same for all solutions of an instance
        constant, slope = bias - weight[:, 0], 2 * weight[:, 0]
        if related:
            with_relations, with_product = weight[:, 1:].chunk(2, 1)
            constant, slope = F.linear(relations, with_relations, constant), F.linear(relations, with_product, slope)
        return triton_attention.first_edges(x, (base + constant).to(base.dtype), slope.expand(base.shape))
    samples, x = len(x) // len(relations), x[..., None]
    relations = _repeat(relations, samples)
    # a linear map of ±1 is an embedding of two values, without the slow backward of a table look-up
    parts = [2 * x - 1, relations, x * relations] if related else [2 * x - 1]
    edges = F.linear(torch.cat(parts, -1), weight, bias)
    return edges if base is None else _repeat(base, samples) + edges


def read_edges(edges: Tensor, scores: Tensor, mlp: NormedMLP) -> Tensor:
    """Return a logit for every edge: MLP([norm(e_ij), s_ij]), (N, R, C), float32.

    From edges e (N, R, C, c) and scores s (N, heads, R, C), by an MLP from c + heads over 2c to 1.
    """
    if not torch.is_grad_enabled() and _edges_fit(edges, scores.shape[1]):
        from . import triton_mixer

        return triton_mixer.read_edges(edges, scores, *mlp)
    seen = torch.cat([layer_norm(edges, mlp.scale, mlp.shift), scores.permute(0, 2, 3, 1).to(edges.dtype)], -1)
    return linear(gelu(linear(seen, mlp.up, mlp.up_bias)), mlp.down, mlp.down_bias).squeeze(-1).float()


def _repeat(tensor: Tensor, samples: int) -> Tensor:
    return tensor if samples == 1 else tensor.repeat_interleave(samples, 0)


def _edges_fit(edges: Tensor, heads: int) -> bool:
    known = edges.shape[-1] in _EDGE_WIDTHS and heads in _HEADS
    return known and is_narrow(edges.dtype) and network_kernels_run_on(edges.device)


def _heads_fit(width: int, heads: int) -> bool:
    each = width // heads
    return each >= 16 and each & (each - 1) == 0


def _candidates_fit(near: Neighbours, width: int, heads: int, states: Tensor) -> bool:
    """Return whether rows with so few edges have kernels, for states of this kind; their edges are sorted then."""
    known = near.order is not None and near.index.shape[2] <= _MOST_EDGES and _heads_fit(width, heads)
    return known and is_narrow(states.dtype) and network_kernels_run_on(states.device)


def _nodes_fit(nodes: Tensor, hidden: int) -> bool:
    """Return whether nodes have kernels: without gradients only, for with them they saved 3 % of a training step."""
    known = nodes.shape[-1] in _NODE_WIDTHS and hidden % nodes.shape[-1] == 0 and not torch.is_grad_enabled()
    return known and is_narrow(nodes.dtype) and network_kernels_run_on(nodes.device)


def _sums_bias(states: Tensor, width: int) -> bool:
    device = states.device
    dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else states.dtype
    return width in (*_NORM_WIDTHS, 512) and is_narrow(dtype) and network_kernels_run_on(device)
