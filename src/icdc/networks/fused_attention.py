# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""The attention of `EdgeLayer` on a GPU: scores, edge mixer, both softmaxes and the means as one differentiable step.

One program works on one head of one instance, whose matrices fit its registers. Queries and row values arrive side
by side, (N, R, 2d), keys and column values likewise, and their gradients leave so: nothing is split, transposed,
padded or added up in device memory on the way.
"""

from typing import Any

import torch
from torch import Tensor

from . import fused
from .fused_means import add_means_gradient, means

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:  # a build of torch without a GPU comes without triton
    triton, constexpr = None, int

LARGEST = 128
"""Rows or columns whose attention weights still fit a program's registers."""


def supports(edges: Tensor, width: int, heads: int) -> bool:
    """Return whether the kernels take an edge state (N, R, C, c) with nodes of a width and this many heads."""
    each = width // heads
    fits = max(edges.shape[1:3]) <= LARGEST and each >= 16 and each & (each - 1) == 0
    return fits and fused.supports(edges, heads)


@fused._jit
def _cells(own, other, own_stride, other_stride, OWN: constexpr, OTHER: constexpr):
    """Return offsets and mask (OWN, OTHER) of the entries of a matrix, or of its transpose."""
    i, j = tl.arange(0, OWN)[:, None], tl.arange(0, OTHER)[None, :]
    return i * own_stride + j * other_stride, (i < own) & (j < other)


@fused._jit
def _head(instance, head, count, PAD: constexpr, WIDTH: constexpr, DIM: constexpr):
    """Return offsets and mask (PAD, DIM) of one head in (N, count, WIDTH)."""
    item, place = tl.arange(0, PAD)[:, None], tl.arange(0, DIM)[None, :]
    return (instance * count + item) * WIDTH + head * DIM + place, (item < count) & (place < DIM)


@fused._jit
def _half(instance, head, count, PAD: constexpr, WIDTH: constexpr, DIM: constexpr):
    """Return offsets and mask (PAD, DIM) of one head in the first half of (N, count, 2 · WIDTH)."""
    item, place = tl.arange(0, PAD)[:, None], tl.arange(0, DIM)[None, :]
    return (instance * count + item) * (2 * WIDTH) + head * DIM + place, (item < count) & (place < DIM)


@fused._jit
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


@fused._jit
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


@fused._jit
def _softmax(logits, inside):
    """Return the softmax of each row of logits (own, other); 0 beyond the matrix."""
    logits = tl.where(inside, logits.to(tl.float32), -1e30)
    weights = tl.where(inside, tl.exp(logits - tl.max(logits, 1, keep_dims=True)), 0.0)
    total = tl.sum(weights, 1, keep_dims=True)
    return weights / tl.where(total > 0.0, total, 1.0)


@fused._jit
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


@fused._jit
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


@torch.library.custom_op("icdc::edge_scores", mutates_args=())
def scores(rows_in: Tensor, columns_in: Tensor, heads: int) -> Tensor:
    """Return scaled dot products (N, heads, R, C) of queries and keys, the first halves of (N, R | C, 2d)."""
    result: Tensor = _like_scores(rows_in, columns_in, heads)
    (rows, columns), width = result.shape[2:], rows_in.shape[2] // 2
    scale = (width // heads) ** -0.5
    _run(_scores, heads, width, rows, columns, rows_in, columns_in, result, rows, columns, scale)
    return result


@scores.register_fake
def _like_scores(rows_in: Tensor, columns_in: Tensor, heads: int) -> Tensor:
    return rows_in.new_empty(len(rows_in), heads, rows_in.shape[1], columns_in.shape[1])


@torch.library.custom_op("icdc::edge_attend", mutates_args=())
def attend(logits: Tensor, rows_in: Tensor, columns_in: Tensor) -> tuple[Tensor, Tensor]:
    """Return what rows (N, R, d) and columns (N, C, d) gather from each other's values by logits."""
    results: tuple[Tensor, Tensor] = _like_attended(logits, rows_in, columns_in)
    heads, (rows, columns), width = logits.shape[1] // 2, logits.shape[2:], rows_in.shape[2] // 2
    for sizes, others, result in zip(_sides(rows, columns, heads), (columns_in, rows_in), results, strict=True):
        _run(_attend, heads, width, *sizes[:2], logits, others, result, *sizes)
    return results


@attend.register_fake
def _like_attended(logits: Tensor, rows_in: Tensor, columns_in: Tensor) -> tuple[Tensor, Tensor]:
    width = rows_in.shape[2] // 2
    return rows_in.new_empty(*rows_in.shape[:2], width), rows_in.new_empty(*columns_in.shape[:2], width)


@torch.library.custom_op("icdc::edge_attend_backward", mutates_args=("grad_rows", "grad_columns"))
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


@_attend_gradient.register_fake
def _like_logits(logits: Tensor, *others: Tensor) -> Tensor:
    return torch.empty_like(logits)


@torch.library.custom_op("icdc::edge_scores_backward", mutates_args=("grad_rows", "grad_columns"))
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
    def forward(ctx: Any, edges: Tensor, rows_in: Tensor, columns_in: Tensor, heads: int, *parameters: Tensor) -> Any:
        seen = scores(rows_in, columns_in, heads)
        new_edges, logits = fused._mix(edges, seen, *parameters)
        to_rows, to_columns = attend(logits, rows_in, columns_in)
        row_means, column_means = means(new_edges)
        ctx.save_for_backward(edges, rows_in, columns_in, seen, logits, new_edges, *parameters[:-1])
        return new_edges, to_rows, to_columns, row_means, column_means

    @staticmethod
    def backward(ctx: Any, grad_new: Tensor, from_rows: Tensor, from_columns: Tensor, *from_means: Tensor) -> Any:
        edges, rows_in, columns_in, seen, logits, new_edges, *parameters = ctx.saved_tensors
        of_rows, of_columns = (grad.contiguous() for grad in from_means)
        into = add_means_gradient(new_edges, of_rows, of_columns, grad_new.contiguous())
        grad_rows, grad_columns = torch.empty_like(rows_in), torch.empty_like(columns_in)
        given = from_rows.contiguous(), from_columns.contiguous()
        grad_logits = _attend_gradient(logits, rows_in, columns_in, *given, grad_rows, grad_columns)
        grad_edges, grad_scores, total = fused._mix_backward(edges, seen, *parameters, into, grad_logits)
        _scores_gradient(grad_scores, rows_in, columns_in, grad_rows, grad_columns)
        return grad_edges, grad_rows, grad_columns, None, *fused.unpack(total, edges.shape[-1], seen.shape[1])


def edge_attention(
    edges: Tensor, rows_in: Tensor, columns_in: Tensor, heads: int, parameters: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Mix edges with attention scores, and attend by the result in both directions.

    Parameters
    ----------
    edges : edge state (N, R, C, c).
    rows_in, columns_in : queries and row values (N, R, 2d), keys and column values (N, C, 2d).
    heads : number of heads.
    parameters : those of the mixer, in the order of `fused.fused_mixer`.

    Returns
    -------
    The new edge state, what rows (N, R, d) and columns (N, C, d) gather, and the means of relu of the new edge state
    over columns (N, R, c) and over rows (N, C, c).
    """
    tensors = edges.contiguous(), rows_in.contiguous(), columns_in.contiguous()
    result: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    result = _EdgeAttention.apply(*tensors, heads, *(p.float().contiguous() for p in parameters))  # type: ignore[no-untyped-call]
    return result
