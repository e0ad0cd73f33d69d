# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Attention over candidate columns on a GPU: what `triton` does where only some pairs have an edge.

One program works on a row, whose few columns it reads from wherever they lie, or on a column, whose edges it finds in a
list that was sorted once for all layers. Nothing is copied to the edges in device memory, and every sum has one program
and one order: results do not vary from run to run. Queries and row values arrive side by side, (N, R, 2d), keys and
column values likewise, and their gradients leave so.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from . import triton_mixer
from .sparse import Neighbours

EDGES = 16
"""Edges of a column that a program reads at a time."""
WARPS = 4


@triton.jit
def _vector(pointer, HEADS: constexpr, DIM: constexpr):
    """Load a vector as (1, HEADS, DIM), in float32."""
    head, place = tl.arange(0, HEADS)[None, :, None], tl.arange(0, DIM)[None, None, :]
    return tl.load(pointer + head * DIM + place).to(tl.float32)


@triton.jit
def _vectors(pointer, items, inside, STRIDE: constexpr, HEADS: constexpr, DIM: constexpr):
    """Load the vectors of some items as (items, HEADS, DIM), in float32; one begins every STRIDE numbers."""
    head, place = tl.arange(0, HEADS)[None, :, None], tl.arange(0, DIM)[None, None, :]
    at = items[:, None, None] * STRIDE + head * DIM + place
    return tl.load(pointer + at, mask=inside[:, None, None], other=0.0).to(tl.float32)


@triton.jit
def _store(pointer, vector, HEADS: constexpr, DIM: constexpr):
    """Store a vector (HEADS, DIM)."""
    at = tl.arange(0, HEADS)[:, None] * DIM + tl.arange(0, DIM)[None, :]
    tl.store(pointer + at, vector.to(pointer.dtype.element_ty))


@triton.jit
def _edges_of_row(index, rows, columns, samples, EACH: constexpr, PAD: constexpr):
    """Return this program's row, the places (PAD,) of its edges, their columns, and which places there are."""
    row, place = tl.program_id(0).to(tl.int64), tl.arange(0, PAD)
    instance, inside = row // rows, place < EACH
    column = tl.load(index + (instance // samples * rows + row % rows) * EACH + place, mask=inside, other=0)
    return row, row % rows * EACH + place, instance * columns + column, inside


@triton.jit
def _by_head(instance, edge, cells, first, ALL: constexpr, HEADS: constexpr):
    """Return offsets (edges, HEADS) of edges in (N, ALL, cells), for HEADS heads from the first on."""
    return (instance * ALL + first + tl.arange(0, HEADS)[None, :]) * cells + edge[:, None]


@triton.jit
def _scores(
    rows_in, columns_in, index, scores, rows, columns, samples, scale,
    STRIDE: constexpr, EACH: constexpr, PAD: constexpr, HEADS: constexpr, DIM: constexpr,
):  # fmt: skip
    row, edge, column, inside = _edges_of_row(index, rows, columns, samples, EACH, PAD)
    query = _vector(rows_in + row * STRIDE, HEADS, DIM)
    key = _vectors(columns_in, column, inside, STRIDE, HEADS, DIM)
    result = (tl.sum(query * key, 2) * scale).to(scores.dtype.element_ty)
    tl.store(scores + _by_head(row // rows, edge, rows * EACH, 0, HEADS, HEADS), result, mask=inside[:, None])


@triton.jit
def _attend_rows(
    logits, columns_in, edges, index, gathered, means, totals, rows, columns, samples,
    EACH: constexpr, PAD: constexpr, HEADS: constexpr, DIM: constexpr, THIN: constexpr,
):  # fmt: skip
    row, edge, column, inside = _edges_of_row(index, rows, columns, samples, EACH, PAD)
    at = _by_head(row // rows, edge, rows * EACH, 0, 2 * HEADS, HEADS)
    logit = tl.load(logits + at, mask=inside[:, None], other=-1e30).to(tl.float32)
    highest = tl.max(logit, 0)
    total = highest + tl.log(tl.sum(tl.exp(logit - highest[None, :]), 0))
    tl.store(totals + row * HEADS + tl.arange(0, HEADS), total)
    weight = tl.exp(logit - total[None, :])
    value = _vectors(columns_in + HEADS * DIM, column, inside, 2 * HEADS * DIM, HEADS, DIM)
    _store(gathered + row * HEADS * DIM, tl.sum(weight[:, :, None] * value, 0), HEADS, DIM)
    thin = tl.arange(0, THIN)
    at = (row // rows * rows * EACH + edge)[:, None] * THIN + thin[None, :]
    state = tl.load(edges + at, mask=inside[:, None], other=0.0).to(tl.float32)
    mean = tl.sum(tl.maximum(state, 0.0), 0) * (1.0 / EACH)
    tl.store(means + row * THIN + thin, mean.to(means.dtype.element_ty))


@triton.jit
def _attend_columns(
    logits, rows_in, edges, order, starts, gathered, means, totals, rows, columns, samples,
    EACH: constexpr, HEADS: constexpr, DIM: constexpr, THIN: constexpr, BLOCK: constexpr,
):  # fmt: skip
    item, cells = tl.program_id(0).to(tl.int64), rows * EACH
    instance, place, thin = item // columns, tl.arange(0, BLOCK), tl.arange(0, THIN)
    own = starts + instance // samples * (columns + 1) + item % columns
    begin, end = tl.load(own), tl.load(own + 1)
    highest, total = tl.full((HEADS,), -1e30, tl.float32), tl.zeros((HEADS,), tl.float32)
    result, active = tl.zeros((HEADS, DIM), tl.float32), tl.zeros((THIN,), tl.float32)
    for start in range(begin, end, BLOCK):
        inside = start + place < end
        edge = tl.load(order + instance // samples * cells + start + place, mask=inside, other=0).to(tl.int64)
        at = _by_head(instance, edge, cells, HEADS, 2 * HEADS, HEADS)
        logit = tl.load(logits + at, mask=inside[:, None], other=-1e30).to(tl.float32)
        higher = tl.maximum(highest, tl.max(logit, 0))
        weight = tl.where(inside[:, None], tl.exp(logit - higher[None, :]), 0.0)
        fade = tl.exp(highest - higher)
        total = total * fade + tl.sum(weight, 0)
        value = _vectors(rows_in + HEADS * DIM, instance * rows + edge // EACH, inside, 2 * HEADS * DIM, HEADS, DIM)
        result = result * fade[:, None] + tl.sum(weight[:, :, None] * value, 0)
        highest = higher
        state = (instance * cells + edge)[:, None] * THIN + thin[None, :]
        active += tl.sum(tl.maximum(tl.load(edges + state, mask=inside[:, None], other=0.0).to(tl.float32), 0.0), 0)
    total = tl.where(total > 0.0, total, 1.0)  # a column that no row has gathers nothing
    tl.store(totals + item * HEADS + tl.arange(0, HEADS), highest + tl.log(total))
    _store(gathered + item * HEADS * DIM, result / total[:, None], HEADS, DIM)
    mean = active / tl.maximum(end - begin, 1).to(tl.float32)
    tl.store(means + item * THIN + thin, mean.to(means.dtype.element_ty))


@triton.jit
def _rows_backward(
    logits, rows_in, columns_in, edges, index, starts, row_totals, column_totals, from_rows, from_columns,
    along_columns, mean_rows, mean_columns, grad_new, grad_logits, grad_rows, into, rows, columns, samples,
    EACH: constexpr, PAD: constexpr, HEADS: constexpr, DIM: constexpr, THIN: constexpr,
):  # fmt: skip
    row, edge, column, inside = _edges_of_row(index, rows, columns, samples, EACH, PAD)
    instance, head, here = row // rows, tl.arange(0, HEADS), inside[:, None]
    # over columns
    at = _by_head(instance, edge, rows * EACH, 0, 2 * HEADS, HEADS)
    logit = tl.load(logits + at, mask=here, other=-1e30).to(tl.float32)
    weight = tl.exp(logit - tl.load(row_totals + row * HEADS + head)[None, :])
    value = _vectors(columns_in + HEADS * DIM, column, inside, 2 * HEADS * DIM, HEADS, DIM)
    to_weight = tl.sum(_vector(from_rows + row * HEADS * DIM, HEADS, DIM) * value, 2)
    grad = weight * (to_weight - tl.sum(weight * to_weight, 0)[None, :])
    tl.store(grad_logits + at, grad.to(grad_logits.dtype.element_ty), mask=here)
    # over rows
    at = _by_head(instance, edge, rows * EACH, HEADS, 2 * HEADS, HEADS)
    logit = tl.load(logits + at, mask=here, other=-1e30).to(tl.float32)
    by_column = column[:, None] * HEADS + head[None, :]
    weight = tl.exp(logit - tl.load(column_totals + by_column, mask=here, other=0.0))
    value = _vector(rows_in + row * 2 * HEADS * DIM + HEADS * DIM, HEADS, DIM)
    given = _vectors(from_columns, column, inside, HEADS * DIM, HEADS, DIM)
    grad = weight * (tl.sum(given * value, 2) - tl.load(along_columns + by_column, mask=here, other=0.0))
    tl.store(grad_logits + at, grad.to(grad_logits.dtype.element_ty), mask=here)
    _store(grad_rows + row * 2 * HEADS * DIM + HEADS * DIM, tl.sum(weight[:, :, None] * given, 0), HEADS, DIM)
    # means
    thin = tl.arange(0, THIN)[None, :]
    at = (instance * rows * EACH + edge)[:, None] * THIN + thin
    listed = starts + column // columns // samples * (columns + 1) + column % columns
    many = tl.load(listed + 1, mask=inside, other=1) - tl.load(listed, mask=inside, other=0)
    by_row = tl.load(mean_rows + row * THIN + thin).to(tl.float32) * (1.0 / EACH)
    by_column = tl.load(mean_columns + column[:, None] * THIN + thin, mask=here, other=0.0).to(tl.float32)
    grad = tl.where(tl.load(edges + at, mask=here, other=0.0) > 0, by_row + by_column / many[:, None], 0.0)
    grad += tl.load(grad_new + at, mask=here, other=0.0).to(tl.float32)
    tl.store(into + at, grad.to(into.dtype.element_ty), mask=here)


@triton.jit
def _queries_backward(
    grad_scores, columns_in, index, grad_rows, rows, columns, samples, scale,
    EACH: constexpr, PAD: constexpr, HEADS: constexpr, DIM: constexpr,
):  # fmt: skip
    row, edge, column, inside = _edges_of_row(index, rows, columns, samples, EACH, PAD)
    at = _by_head(row // rows, edge, rows * EACH, 0, HEADS, HEADS)
    grad = tl.load(grad_scores + at, mask=inside[:, None], other=0.0).to(tl.float32)
    key = _vectors(columns_in, column, inside, 2 * HEADS * DIM, HEADS, DIM)
    _store(grad_rows + row * 2 * HEADS * DIM, tl.sum(grad[:, :, None] * key, 0) * scale, HEADS, DIM)


@triton.jit
def _columns_backward(
    grad_scores, logits, row_totals, rows_in, from_rows, order, starts, grad_columns, rows, columns, samples, scale,
    EACH: constexpr, HEADS: constexpr, DIM: constexpr, BLOCK: constexpr,
):  # fmt: skip
    item, cells = tl.program_id(0).to(tl.int64), rows * EACH
    instance, place, head = item // columns, tl.arange(0, BLOCK), tl.arange(0, HEADS)[None, :]
    own = starts + instance // samples * (columns + 1) + item % columns
    begin, end = tl.load(own), tl.load(own + 1)
    to_key, to_value = tl.zeros((HEADS, DIM), tl.float32), tl.zeros((HEADS, DIM), tl.float32)
    for start in range(begin, end, BLOCK):
        inside = start + place < end
        here = inside[:, None]
        edge = tl.load(order + instance // samples * cells + start + place, mask=inside, other=0).to(tl.int64)
        row = instance * rows + edge // EACH
        at = _by_head(instance, edge, cells, 0, HEADS, HEADS)
        grad = tl.load(grad_scores + at, mask=here, other=0.0).to(tl.float32)
        query = _vectors(rows_in, row, inside, 2 * HEADS * DIM, HEADS, DIM)
        to_key += tl.sum(grad[:, :, None] * query, 0)
        at = _by_head(instance, edge, cells, 0, 2 * HEADS, HEADS)
        logit = tl.load(logits + at, mask=here, other=-1e30).to(tl.float32)
        weight = tl.exp(logit - tl.load(row_totals + row[:, None] * HEADS + head, mask=here, other=0.0))
        to_value += tl.sum(weight[:, :, None] * _vectors(from_rows, row, inside, HEADS * DIM, HEADS, DIM), 0)
    _store(grad_columns + item * 2 * HEADS * DIM, to_key * scale, HEADS, DIM)
    _store(grad_columns + item * 2 * HEADS * DIM + HEADS * DIM, to_value, HEADS, DIM)


class _Sizes:
    """What all launches of a layer share: how many matrices, rows, columns, edges of a row and solutions there are."""

    def __init__(self, count: int, width: int, near: Neighbours, heads: int) -> None:
        assert near.order is not None
        assert near.starts is not None
        self.index, self.order, self.starts = near.index.contiguous(), near.order, near.starts
        instances, self.rows, self.each = near.index.shape
        self.count, self.columns, self.samples = count, near.columns, count // instances
        self.heads, self.dim = heads, width // heads
        self.scale = self.dim**-0.5

    def of_rows(self, kernel: Any, *arguments: Any, **sizes: int) -> None:
        """Launch a program for every row."""
        pad = triton.next_power_of_2(self.each)
        self._run(kernel, self.rows, arguments, PAD=pad, **sizes)

    def of_columns(self, kernel: Any, *arguments: Any, **sizes: int) -> None:
        """Launch a program for every column."""
        self._run(kernel, self.columns, arguments, BLOCK=EDGES, **sizes)

    def _run(self, kernel: Any, items: int, arguments: Any, **sizes: int) -> None:
        if self.count * items:
            with torch.cuda.device_of(self.index):
                kernel[(self.count * items,)](
                    *arguments, EACH=self.each, HEADS=self.heads, DIM=self.dim, num_warps=WARPS, **sizes
                )

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of rows, of columns and of solutions of an instance."""
        return self.rows, self.columns, self.samples


def _scored(rows_in: Tensor, columns_in: Tensor, sizes: _Sizes) -> Tensor:
    """Return scaled dot products (N, heads, R, k) of queries and keys, the first d of (N, R | C, d or more)."""
    scores, stride = rows_in.new_empty(sizes.count, sizes.heads, sizes.rows, sizes.each), rows_in.shape[-1]
    sizes.of_rows(_scores, rows_in, columns_in, sizes.index, scores, *sizes.counts, sizes.scale, STRIDE=stride)
    return scores


def _attended(
    logits: Tensor, edges: Tensor, rows_in: Tensor, columns_in: Tensor, sizes: _Sizes
) -> tuple[tuple[Tensor, ...], tuple[Tensor, Tensor]]:
    """Return what rows and columns gather, and the means of their edges; and the logarithms of their softmax's sums."""
    thin, width = edges.shape[-1], rows_in.shape[-1] // 2
    gathered = [rows_in.new_empty(sizes.count, items, width) for items in (sizes.rows, sizes.columns)]
    means = [edges.new_empty(sizes.count, items, thin) for items in (sizes.rows, sizes.columns)]
    row_totals = edges.new_empty(sizes.count, sizes.rows, sizes.heads, dtype=torch.float32)
    column_totals = edges.new_empty(sizes.count, sizes.columns, sizes.heads, dtype=torch.float32)
    into_rows = gathered[0], means[0], row_totals
    sizes.of_rows(_attend_rows, logits, columns_in, edges, sizes.index, *into_rows, *sizes.counts, THIN=thin)
    listed, into_columns = (sizes.order, sizes.starts), (gathered[1], means[1], column_totals)
    sizes.of_columns(_attend_columns, logits, rows_in, edges, *listed, *into_columns, *sizes.counts, THIN=thin)
    return (*gathered, *means), (row_totals, column_totals)


class _CandidateAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, rows_in: Tensor, columns_in: Tensor, sizes: _Sizes, *weights: Tensor) -> Any:
        seen = _scored(rows_in, columns_in, sizes)
        new_edges, logits = triton_mixer.mixed(edges, seen, *weights)
        found, totals = _attended(logits, new_edges, rows_in, columns_in, sizes)
        ctx.sizes = sizes
        ctx.save_for_backward(edges, rows_in, columns_in, seen, logits, new_edges, found[1], *totals, *weights[:-1])
        return new_edges, *found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        edges, rows_in, columns_in, seen, logits, new_edges, gathered, *totals_and_weights = ctx.saved_tensors
        (row_totals, column_totals, *weights), sizes = totals_and_weights, ctx.sizes
        grad_new, from_rows, from_columns, mean_rows, mean_columns = (grad.contiguous() for grad in grads)
        grad_rows, grad_columns = torch.empty_like(rows_in), torch.empty_like(columns_in)
        grad_logits, into = torch.empty_like(logits), torch.empty_like(new_edges)
        along = (from_columns.float() * gathered.float()).unflatten(-1, (sizes.heads, -1)).sum(-1)
        sizes.of_rows(
            _rows_backward, logits, rows_in, columns_in, new_edges, sizes.index, sizes.starts, row_totals,
            column_totals, from_rows, from_columns, along, mean_rows, mean_columns, grad_new, grad_logits, grad_rows,
            into, *sizes.counts, THIN=edges.shape[-1],
        )  # fmt: skip
        grad_edges, grad_scores, to_weights = triton_mixer.mixed_backward(edges, seen, *weights, into, grad_logits)
        shared = *sizes.counts, sizes.scale
        sizes.of_rows(_queries_backward, grad_scores, columns_in, sizes.index, grad_rows, *shared)
        listed = sizes.order, sizes.starts
        sizes.of_columns(
            _columns_backward, grad_scores, logits, row_totals, rows_in, from_rows, *listed, grad_columns, *shared
        )
        return grad_edges, grad_rows, grad_columns, None, *to_weights


def candidate_attention(
    edges: Tensor, from_rows: Tensor, from_columns: Tensor, heads: int, weights: tuple[Tensor, ...], near: Neighbours
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Do what `edge_attention` says for edges (N, R, k, c) to neighbours."""
    tensors = edges.contiguous(), from_rows.contiguous(), from_columns.contiguous()
    sizes = _Sizes(len(edges), from_rows.shape[-1] // 2, near, heads)
    result: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    result = _CandidateAttention.apply(*tensors, sizes, *(w.float().contiguous() for w in weights))  # type: ignore[no-untyped-call]
    return result


def candidate_scores(query: Tensor, key: Tensor, heads: int, near: Neighbours) -> Tensor:
    """Return scaled dot products (N, heads, R, k) of rows (N, R, d) with neighbours in (N, C, d); no gradients."""
    return _scored(query.contiguous(), key.contiguous(), _Sizes(len(query), query.shape[-1], near, heads))
