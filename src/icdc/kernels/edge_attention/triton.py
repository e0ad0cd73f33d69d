# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Attention by the edges on a GPU: scores, edge mixer, both softmaxes and the means as one differentiable step.

In the attention one program works on one head of one instance, whose matrices fit its registers. Queries and row values
arrive side by side, (N, R, 2d), keys and column values likewise, and their gradients leave so: nothing is split,
transposed, padded or added up in device memory on the way. In the means of relu(edges) a program holds the running sums
of some rows, or of some columns, and walks along the other axis: neighbouring threads read neighbouring channels, and
nothing is ever exchanged between threads. Programs of both kinds take turns, so that those of one instance run at the
same time and the second finds its edges in the cache.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from . import triton_mixer

MEANS_BLOCK = 32
"""Rows or columns of a program that takes means."""


@triton.jit
def _means(edges, row_means, column_means, rows, columns, row_total, column_total, BLOCK: constexpr, WIDTH: constexpr):
    item = (tl.program_id(0) // 2 * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    if tl.program_id(0) % 2 == 0:
        first, stride, length, total, result = item * columns, 1, columns, row_total, row_means
    else:
        first = item // columns * (rows * columns) + item % columns
        stride, length, total, result = columns, rows, column_total, column_means
    inside = (item < total)[:, None]
    channel = tl.arange(0, WIDTH)[None, :]
    at = edges + first[:, None] * WIDTH + channel
    sums = tl.zeros((BLOCK, WIDTH), tl.float32)
    for place in tl.range(0, length, loop_unroll_factor=4):
        tile = tl.load(at + place * stride * WIDTH, mask=inside, other=0.0)
        sums += tl.maximum(tile.to(tl.float32), 0.0)
    mean = (sums * (1.0 / length)).to(row_means.dtype.element_ty)
    tl.store(result + item[:, None] * WIDTH + channel, mean, mask=inside)


@triton.jit
def _means_gradient(
    edges, grad_rows, grad_columns, into, grad_edges, rows, columns, total,
    ADDS: constexpr, BLOCK: constexpr, WIDTH: constexpr,
):  # fmt: skip
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, inside = tl.arange(0, WIDTH)[None, :], (cell < total)[:, None]
    here = cell.to(tl.int64)[:, None] * WIDTH + channel
    row = cell // columns
    column = row // rows * columns + cell % columns
    state = tl.load(edges + here, mask=inside, other=0.0)
    by_row = tl.load(grad_rows + row.to(tl.int64)[:, None] * WIDTH + channel, mask=inside, other=0.0)
    by_column = tl.load(grad_columns + column.to(tl.int64)[:, None] * WIDTH + channel, mask=inside, other=0.0)
    grad = by_row.to(tl.float32) * (1.0 / columns) + by_column.to(tl.float32) * (1.0 / rows)
    grad = tl.where(state > 0, grad, 0.0)
    if ADDS:
        grad += tl.load(into + here, mask=inside, other=0.0).to(tl.float32)
    tl.store(grad_edges + here, grad.to(grad_edges.dtype.element_ty), mask=inside)


def means(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of relu(edges) over columns (N, R, c) and over rows (N, C, c); knows no gradients.

    The edges (N, R, C, c) are contiguous.
    """
    count, rows, columns, width = edges.shape
    row_means, column_means = edges.new_empty(count, rows, width), edges.new_empty(count, columns, width)
    if edges.numel():
        totals = count * rows, count * columns
        with torch.cuda.device_of(edges):
            _means[(2 * triton.cdiv(max(totals), MEANS_BLOCK),)](
                edges, row_means, column_means, rows, columns, *totals, BLOCK=MEANS_BLOCK, WIDTH=width, num_warps=4
            )
    return row_means, column_means


def add_means_gradient(edges: Tensor, grad_rows: Tensor, grad_columns: Tensor, into: Tensor) -> Tensor:
    """Return `into` plus the gradient of the edges (N, R, C, c) behind their `means`; knows no gradients itself.

    Parameters
    ----------
    edges, into : edge state and a gradient of it, of one dtype and contiguous.
    grad_rows, grad_columns : gradients of the means over columns (N, R, c) and over rows (N, C, c), contiguous.
    """
    _, rows, columns, width = edges.shape
    total, block = edges.numel() // width, max(1, 8192 // width)
    grad_edges = torch.empty_like(edges)
    if total:
        with torch.cuda.device_of(edges):
            _means_gradient[(triton.cdiv(total, block),)](
                edges, grad_rows, grad_columns, into, grad_edges, rows, columns, total,
                ADDS=True, BLOCK=block, WIDTH=width, num_warps=8,
            )  # fmt: skip
    return grad_edges


@triton.jit
def _cells(own, other, own_stride, other_stride, OWN: constexpr, OTHER: constexpr):
    """Return offsets and mask (OWN, OTHER) of the entries of a matrix, or of its transpose."""
    i, j = tl.arange(0, OWN)[:, None], tl.arange(0, OTHER)[None, :]
    return i * own_stride + j * other_stride, (i < own) & (j < other)


@triton.jit
def _head(instance, head, count, PAD: constexpr, WIDTH: constexpr, DIM: constexpr):
    """Return offsets and mask (PAD, DIM) of one head in (N, count, WIDTH)."""
    item, place = tl.arange(0, PAD)[:, None], tl.arange(0, DIM)[None, :]
    return (instance * count + item) * WIDTH + head * DIM + place, (item < count) & (place < DIM)


@triton.jit
def _half(instance, head, count, PAD: constexpr, WIDTH: constexpr, DIM: constexpr):
    """Return offsets and mask (PAD, DIM) of one head in the first half of (N, count, 2 · WIDTH)."""
    item, place = tl.arange(0, PAD)[:, None], tl.arange(0, DIM)[None, :]
    return (instance * count + item) * (2 * WIDTH) + head * DIM + place, (item < count) & (place < DIM)


@triton.jit
def _scores(
    rows_in, columns_in, scores, rows, columns, scale,
    HEADS: constexpr, WIDTH: constexpr, DIM: constexpr, OWN: constexpr, OTHER: constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    instance, head = program // HEADS, program % HEADS
    place, inside = _half(instance, head, rows, OWN, WIDTH, DIM)
    query = tl.load(rows_in + place, mask=inside, other=0.0)
    place, inside = _half(instance, head, columns, OTHER, WIDTH, DIM)
    key = tl.load(columns_in + place, mask=inside, other=0.0)
    result = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
    cell, inside = _cells(rows, columns, columns, 1, OWN, OTHER)
    tl.store(scores + program * rows * columns + cell, result.to(scores.dtype.element_ty), mask=inside)


@triton.jit
def _scores_backward(
    grad_scores, rows_in, columns_in, grad_rows, grad_columns, rows, columns, scale,
    HEADS: constexpr, WIDTH: constexpr, DIM: constexpr, OWN: constexpr, OTHER: constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    instance, head = program // HEADS, program % HEADS
    cell, inside = _cells(rows, columns, columns, 1, OWN, OTHER)
    grad = tl.load(grad_scores + program * rows * columns + cell, mask=inside, other=0.0)
    at_rows, row_inside = _half(instance, head, rows, OWN, WIDTH, DIM)
    at_columns, column_inside = _half(instance, head, columns, OTHER, WIDTH, DIM)
    key = tl.load(columns_in + at_columns, mask=column_inside, other=0.0)
    result = tl.dot(grad.to(key.dtype), key, input_precision="ieee") * scale
    tl.store(grad_rows + at_rows, result.to(grad_rows.dtype.element_ty), mask=row_inside)
    query = tl.load(rows_in + at_rows, mask=row_inside, other=0.0)
    result = tl.dot(tl.trans(grad).to(query.dtype), query, input_precision="ieee") * scale
    tl.store(grad_columns + at_columns, result.to(grad_columns.dtype.element_ty), mask=column_inside)


@triton.jit
def _softmax(logits, inside):
    """Return the softmax of each row of logits (own, other); 0 beyond the matrix."""
    logits = tl.where(inside, logits.to(tl.float32), -1e30)
    weights = tl.where(inside, tl.exp(logits - tl.max(logits, 1, keep_dims=True)), 0.0)
    total = tl.sum(weights, 1, keep_dims=True)
    return weights / tl.where(total > 0.0, total, 1.0)


@triton.jit
def _attend(
    logits, others, gathered, own, other, own_stride, other_stride, first_head,
    HEADS: constexpr, WIDTH: constexpr, DIM: constexpr, OWN: constexpr, OTHER: constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    instance, head = program // HEADS, program % HEADS
    cell, inside = _cells(own, other, own_stride, other_stride, OWN, OTHER)
    cell += (instance * 2 * HEADS + first_head + head) * own * other
    at, there = _half(instance, head, other, OTHER, WIDTH, DIM)
    values = tl.load(others + WIDTH + at, mask=there, other=0.0)
    weights = _softmax(tl.load(logits + cell, mask=inside, other=0.0), inside)
    result = tl.dot(weights.to(values.dtype), values, input_precision="ieee")
    at, here = _head(instance, head, own, OWN, WIDTH, DIM)
    tl.store(gathered + at, result.to(gathered.dtype.element_ty), mask=here)


@triton.jit
def _attend_backward(
    logits, others, grad_gathered, grad_logits, grad_others, own, other, own_stride, other_stride, first_head,
    HEADS: constexpr, WIDTH: constexpr, DIM: constexpr, OWN: constexpr, OTHER: constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    instance, head = program // HEADS, program % HEADS
    cell, inside = _cells(own, other, own_stride, other_stride, OWN, OTHER)
    cell += (instance * 2 * HEADS + first_head + head) * own * other
    at, here = _head(instance, head, own, OWN, WIDTH, DIM)
    grad = tl.load(grad_gathered + at, mask=here, other=0.0)
    at, there = _half(instance, head, other, OTHER, WIDTH, DIM)
    values = tl.load(others + WIDTH + at, mask=there, other=0.0)
    weights = _softmax(tl.load(logits + cell, mask=inside, other=0.0), inside)
    to_values = tl.dot(tl.trans(weights.to(grad.dtype)), grad, input_precision="ieee")
    tl.store(grad_others + WIDTH + at, to_values.to(grad_others.dtype.element_ty), mask=there)
    to_weights = tl.dot(grad, tl.trans(values), input_precision="ieee")
    along = tl.sum(weights * to_weights, 1, keep_dims=True)
    result = (weights * (to_weights - along)).to(grad_logits.dtype.element_ty)
    tl.store(grad_logits + cell, result, mask=inside)


def _run(kernel: Any, heads: int, width: int, own: int, other: int, *arguments: Any) -> None:
    """Launch a kernel for every head of every instance, on matrices of own × other entries."""
    count = len(arguments[0])
    padded = [max(16, triton.next_power_of_2(size)) for size in (own, other)]
    if count:
        with torch.cuda.device_of(arguments[0]):
            kernel[(count * heads,)](
                *arguments, HEADS=heads, WIDTH=width, DIM=width // heads, OWN=padded[0], OTHER=padded[1],
                num_warps=min(8, max(1, padded[0] * padded[1] // 1024)),
            )  # fmt: skip


def _sides(rows: int, columns: int, heads: int) -> list[tuple[int, ...]]:
    """Return for rows and for columns: how many they are, how many the others, strides of both, and the first head."""
    return [(rows, columns, columns, 1, 0), (columns, rows, 1, columns, heads)]


def scores(rows_in: Tensor, columns_in: Tensor, heads: int) -> Tensor:
    """Return scaled dot products (N, heads, R, C) of queries and keys, the first halves of (N, R | C, 2d)."""
    (count, rows, double), columns = rows_in.shape, columns_in.shape[1]
    result, width = rows_in.new_empty(count, heads, rows, columns), double // 2
    scale = (width // heads) ** -0.5
    _run(_scores, heads, width, rows, columns, rows_in, columns_in, result, rows, columns, scale)
    return result


def attend(logits: Tensor, rows_in: Tensor, columns_in: Tensor) -> tuple[Tensor, Tensor]:
    """Return what rows (N, R, d) and columns (N, C, d) gather from each other's values by logits."""
    heads, (rows, columns), width = logits.shape[1] // 2, logits.shape[2:], rows_in.shape[2] // 2
    results = rows_in.new_empty(*rows_in.shape[:2], width), rows_in.new_empty(*columns_in.shape[:2], width)
    for sizes, others, result in zip(_sides(rows, columns, heads), (columns_in, rows_in), results, strict=True):
        _run(_attend, heads, width, *sizes[:2], logits, others, result, *sizes)
    return results


def _attend_gradient(
    logits: Tensor, rows_in: Tensor, columns_in: Tensor, from_rows: Tensor, from_columns: Tensor,
    grad_rows: Tensor, grad_columns: Tensor,
) -> Tensor:  # fmt: skip
    """Return the gradient of the logits, and write those of the values into the second halves."""
    grad_logits = torch.empty_like(logits)
    heads, (rows, columns), width = logits.shape[1] // 2, logits.shape[2:], rows_in.shape[2] // 2
    of_rows, of_columns = (columns_in, from_rows, grad_columns), (rows_in, from_columns, grad_rows)
    for sizes, (others, grad, grad_others) in zip(_sides(rows, columns, heads), (of_rows, of_columns), strict=True):
        _run(_attend_backward, heads, width, *sizes[:2], logits, others, grad, grad_logits, grad_others, *sizes)
    return grad_logits


def _scores_gradient(
    grad_scores: Tensor, rows_in: Tensor, columns_in: Tensor, grad_rows: Tensor, grad_columns: Tensor
) -> None:
    """Write the gradients of queries and keys into the first halves."""
    _, heads, rows, columns = grad_scores.shape
    width = rows_in.shape[2] // 2
    tensors = grad_scores, rows_in, columns_in, grad_rows, grad_columns
    _run(_scores_backward, heads, width, rows, columns, *tensors, rows, columns, (width // heads) ** -0.5)


class _EdgeAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, rows_in: Tensor, columns_in: Tensor, heads: int, *weights: Tensor) -> Any:
        seen = scores(rows_in, columns_in, heads)
        new_edges, logits = triton_mixer.mixed(edges, seen, *weights)
        to_rows, to_columns = attend(logits, rows_in, columns_in)
        row_means, column_means = means(new_edges)
        ctx.save_for_backward(edges, rows_in, columns_in, seen, logits, new_edges, *weights[:-1])
        return new_edges, to_rows, to_columns, row_means, column_means

    @staticmethod
    def backward(ctx: Any, grad_new: Tensor, from_rows: Tensor, from_columns: Tensor, *from_means: Tensor) -> Any:
        edges, rows_in, columns_in, seen, logits, new_edges, *weights = ctx.saved_tensors
        of_rows, of_columns = (grad.contiguous() for grad in from_means)
        into = add_means_gradient(new_edges, of_rows, of_columns, grad_new.contiguous())
        grad_rows, grad_columns = torch.empty_like(rows_in), torch.empty_like(columns_in)
        given = from_rows.contiguous(), from_columns.contiguous()
        grad_logits = _attend_gradient(logits, rows_in, columns_in, *given, grad_rows, grad_columns)
        grad_edges, grad_scores, to_weights = triton_mixer.mixed_backward(edges, seen, *weights, into, grad_logits)
        _scores_gradient(grad_scores, rows_in, columns_in, grad_rows, grad_columns)
        return grad_edges, grad_rows, grad_columns, None, *to_weights


def edge_attention(
    edges: Tensor, from_rows: Tensor, from_columns: Tensor, heads: int, weights: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Do what `edge_attention` says."""
    tensors = edges.contiguous(), from_rows.contiguous(), from_columns.contiguous()
    result: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    result = _EdgeAttention.apply(*tensors, heads, *(w.float().contiguous() for w in weights))  # type: ignore[no-untyped-call]
    return result
