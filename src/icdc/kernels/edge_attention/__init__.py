"""Attention between rows and columns with a state on every edge: the operations of the default network's layers.

Shapes: N instances with R rows and C columns, nodes of width d (N, items, d), edges of width c (N, R, C, c). Where
only k candidate columns of each row have edges, these are (N, R, k, c), with `Neighbours` beside them; everything else
that is said of edges then has k in the place of C.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import dispatch
from . import tiled
from .sparse import (
    Neighbours,
    at_candidates,
    attend_to_candidates,
    attend_to_rows,
    candidate_scores,
    neighbours,
    row_tiles,
    summarise_columns,
)

__all__ = [
    "Neighbours",
    "NormedMLP",
    "attend",
    "edge_attention",
    "gelu",
    "head_scores",
    "layer_norm",
    "mix_edges",
    "neighbours",
    "project_nodes",
    "read_edges",
    "split_heads",
    "summarise_columns",
    "update_nodes",
]

_OVER_COLUMNS, _OVER_CANDIDATES = "edge_attention.triton", "edge_attention.triton_candidates"
_ON_EDGES, _ON_NODES = "edge_attention.triton_mixer", "edge_attention.triton_nodes"


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
    return F.layer_norm(states, states.shape[-1:], scale.to(states.dtype), shift.to(states.dtype)).to(states.dtype)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(N, items, width) to (N, heads, items, width / heads)."""
    split: Tensor = x.unflatten(-1, (heads, -1))
    return split.transpose(1, 2)


def head_scores(query: Tensor, key: Tensor, heads: int, near: Neighbours | None = None) -> Tensor:
    """Return scaled dot products q_i · k_j / √(d / heads) of every row with every column, (N, heads, R, C)."""
    if near is not None:
        if not torch.is_grad_enabled() and _sorted_and_fit(near, query.shape[-1], heads, query):
            return _by_kernel(_OVER_CANDIDATES, "candidate_scores", query, key, heads, near)
        return candidate_scores(query, at_candidates(key, near.of_all(len(key))), heads)
    scale = (query.shape[-1] // heads) ** -0.5
    return split_heads(query * scale, heads) @ split_heads(key, heads).transpose(-1, -2)


def attend(weights: Tensor, values: Tensor, heads: int) -> Tensor:
    """Return weights (N, heads, items, others) applied to values (N, others, d), as (N, items, d)."""
    return (weights @ split_heads(values, heads)).transpose(1, 2).flatten(2)


def project_nodes(nodes: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, time: Tensor | None) -> Tensor:
    """Return what nodes bring to the attention: (norm(h) + time) · weightᵀ, (N, items, out).

    From nodes h (N, items, d), scale and shift of the norm (d,), weight (out, d) and time (N, d) or None.
    """
    if dispatch.nodes_fit(nodes, len(weight)):
        return _by_kernel(_ON_NODES, "project_nodes", nodes, scale, shift, weight, time)
    seen = layer_norm(nodes, scale, shift)
    return F.linear(seen if time is None else seen + time[:, None], weight)


def update_nodes(
    nodes: Tensor, gathered: Tensor, means: Tensor, out: Tensor, out_bias: Tensor, mlp: NormedMLP
) -> Tensor:
    """Return nodes after the attention: h' + MLP(norm(h')) with h' = h + [gathered, means] · outᵀ + bias.

    From nodes h (N, items, d), what they gathered (N, items, d), the means of their edges (N, items, c), the map
    `out` (d, d + c) with its bias (d,), and an MLP from d to d.
    """
    if means.shape[-1] in dispatch.EDGE_WIDTHS and dispatch.nodes_fit(nodes, len(mlp.up)):
        return _by_kernel(_ON_NODES, "update_nodes", nodes, gathered, means, out, out_bias, *mlp)
    nodes = nodes + F.linear(torch.cat([gathered, means.to(gathered.dtype)], -1), out, out_bias)
    hidden = gelu(F.linear(layer_norm(nodes, mlp.scale, mlp.shift), mlp.up, mlp.up_bias))
    return nodes + F.linear(hidden, mlp.down, mlp.down_bias)


def mix_edges(edges: Tensor, scores: Tensor, mlp: NormedMLP) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Update every edge by its state and its attention scores; this is where nearly all time and memory go.

    (Δ_ij, ℓ_ij) = MLP([norm(e_ij), s_ij]) and e'_ij = e_ij + Δ_ij, for edges e (N, R, C, c) and scores s
    (N, heads, R, C), by an MLP from c + heads over 2c to c + 2 · heads.

    Returns
    -------
    New edges e' (N, R, C, c), attention logits ℓ (N, 2 · heads, R, C), and the means of relu(e') over columns
    (N, R, c) and over rows (N, C, c).
    """
    if dispatch.edges_fit(edges, scores.shape[1]):
        edges, logits = dispatch.triton_kernels(_ON_EDGES).mix_edges(edges, scores, *mlp)
        return edges, logits, *_relu_means(edges)
    if dispatch.tiles_fit(edges):
        return tiled.mix_edges(edges, scores, *mlp)
    update, logits = _mapped(edges, scores, mlp).split([edges.shape[-1], 2 * scores.shape[1]], -1)
    edges = edges + update.to(edges.dtype)
    return edges, logits.permute(0, 3, 1, 2), *_relu_means(edges)


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
        if dispatch.edges_fit(edges, heads) and _sorted_and_fit(near, width, heads, edges):
            return _attended(_OVER_CANDIDATES, "candidate_attention", edges, from_rows, from_columns, heads, mlp, near)
        return _candidate_attention(edges, from_rows, from_columns, heads, mlp, near.of_all(len(edges)))
    if dispatch.attention_fits(edges, width, heads):
        return _attended(_OVER_COLUMNS, "edge_attention", edges, from_rows, from_columns, heads, mlp)
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
    for part in row_tiles(candidates, from_columns.shape[-1]):
        key, column_value = at_candidates(from_columns, candidates[:, part]).chunk(2, -1)
        scores = candidate_scores(query[:, part], key, heads)
        mixed, logits, row_means, _ = mix_edges(edges[:, part], scores, mlp)
        over_columns, over_rows = logits.chunk(2, 1)
        to_rows = attend_to_candidates(over_columns, column_value)
        parts.append((mixed, over_rows.transpose(1, 2), to_rows, row_means))
    edges, over_rows, to_rows, row_means = (_joined(tensors) for tensors in zip(*parts, strict=True))
    to_columns, column_means = attend_to_rows(
        over_rows.transpose(1, 2), row_value, edges, candidates, from_columns.shape[1]
    )
    return edges, to_rows, to_columns, row_means, column_means


def _joined(tensors: tuple[Tensor, ...]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, 1)


def read_edges(edges: Tensor, scores: Tensor, mlp: NormedMLP) -> Tensor:
    """Return a logit for every edge: MLP([norm(e_ij), s_ij]), (N, R, C), float32.

    From edges e (N, R, C, c) and scores s (N, heads, R, C), by an MLP from c + heads over 2c to 1.
    """
    if not torch.is_grad_enabled() and dispatch.edges_fit(edges, scores.shape[1]):
        return _by_kernel(_ON_EDGES, "read_edges", edges, scores, *mlp)
    return _mapped(edges, scores, mlp).squeeze(-1).float()


def _mapped(edges: Tensor, scores: Tensor, mlp: NormedMLP) -> Tensor:
    """Return MLP([norm(e_ij), s_ij]) of edges (N, R, C, c) and scores (N, heads, R, C), (N, R, C, out)."""
    if dispatch.edge_norm_fits(edges):
        normal = _by_kernel(_ON_NODES, "layer_norm", edges, mlp.scale, mlp.shift)
    else:
        normal = layer_norm(edges, mlp.scale, mlp.shift)
    seen = torch.cat([normal, scores.permute(0, 2, 3, 1).to(edges.dtype)], -1)
    return F.linear(gelu(F.linear(seen, mlp.up, mlp.up_bias)), mlp.down, mlp.down_bias)


def _relu_means(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of relu(edges) over columns (N, R, c) and over rows (N, C, c)."""
    active = F.relu(edges)
    return active.mean(2), active.mean(1)


def _sorted_and_fit(near: Neighbours, width: int, heads: int, states: Tensor) -> bool:
    """Return whether kernels attend to neighbours; those read edges that are sorted by columns."""
    return near.order is not None and dispatch.neighbours_fit(near.index, width, heads, states)


def _by_kernel(module: str, name: str, *arguments: Any) -> Tensor:
    result: Tensor = getattr(dispatch.triton_kernels(module), name)(*arguments)
    return result


def _attended(module: str, name: str, *arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    result: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    result = getattr(dispatch.triton_kernels(module), name)(*arguments)
    return result
