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
def _place(rows, columns, R: constexpr, C: constexpr):
    """Return offsets and mask (R, C) of the entries of a matrix of rows × columns."""
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    return i * columns + j, (i < rows) & (j < columns)


@fused._jit
def _half(instance, head, count, PAD: constexpr, WIDTH: constexpr, DIM: constexpr):
    """Return offsets and mask (PAD, DIM) of one head in the first half of (N, count, 2 · WIDTH)."""
    item = tl.arange(0, PAD)
    place = (instance * count + item)[:, None] * (2 * WIDTH) + head * DIM + tl.arange(0, DIM)[None, :]
    return place, (item < count)[:, None] & (tl.arange(0, DIM) < DIM)[None, :]


@fused._jit
def _scores(
    rows_in, columns_in, scores, rows, columns, scale,
    HEADS: constexpr, WIDTH: constexpr, DIM: constexpr, R: constexpr, C: constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    instance, head = program // HEADS, program % HEADS
    place, inside = _half(instance, head, rows, R, WIDTH, DIM)
    query = tl.load(rows_in + place, mask=inside, other=0.0)
    place, inside = _half(instance, head, columns, C, WIDTH, DIM)
    key = tl.load(columns_in + place, mask=inside, other=0.0)
    result = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
    cell, inside = _place(rows, columns, R, C)
    tl.store(scores + program * rows * columns + cell, result.to(scores.dtype.element_ty), mask=inside)


@fused._jit
def _scores_backward(
    grad_scores, rows_in, columns_in, grad_rows, grad_columns, rows, columns, scale,
    HEADS: constexpr, WIDTH: constexpr, DIM: constexpr, R: constexpr, C: constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    instance, head = program // HEADS, program % HEADS
    cell, inside = _place(rows, columns, R, C)
    grad = tl.load(grad_scores + program * rows * columns + cell, mask=inside, other=0.0)
    at_rows, row_inside = _half(instance, head, rows, R, WIDTH, DIM)
    at_columns, column_inside = _half(instance, head, columns, C, WIDTH, DIM)
    key = tl.load(columns_in + at_columns, mask=column_inside, other=0.0)
    result = tl.dot(grad.to(key.dtype), key, input_precision="ieee") * scale
    tl.store(grad_rows + at_rows, result.to(grad_rows.dtype.element_ty), mask=row_inside)
    query = tl.load(rows_in + at_rows, mask=row_inside, other=0.0)
    result = tl.dot(tl.trans(grad).to(query.dtype), query, input_precision="ieee") * scale
    tl.store(grad_columns + at_columns, result.to(grad_columns.dtype.element_ty), mask=column_inside)


@fused._jit
def _softmax(logits, inside, AXIS: constexpr):
    """Return the softmax (R, C) along an axis; 0 beyond the matrix."""
    logits = tl.where(inside, logits.to(tl.float32), -1e30)
    weights = tl.exp(logits - tl.max(logits, AXIS, keep_dims=True))
    weights = tl.where(inside, weights, 0.0)
    total = tl.sum(weights, AXIS, keep_dims=True)
    return weights / tl.where(total > 0.0, total, 1.0)


@fused._jit
def _attend(
    logits, rows_in, columns_in, to_rows, to_columns, rows, columns,
    HEADS: constexpr, WIDTH: constexpr, DIM: constexpr, R: constexpr, C: constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    instance, head = program // HEADS, program % HEADS
    cell, inside = _place(rows, columns, R, C)
    first = logits + (instance * 2 * HEADS + head) * rows * columns
    second = first + HEADS * rows * columns
    at_rows, row_inside = _half(instance, head, rows, R, WIDTH, DIM)
    at_columns, column_inside = _half(instance, head, columns, C, WIDTH, DIM)
    values = tl.load(columns_in + WIDTH + at_columns, mask=column_inside, other=0.0)
    weights = _softmax(tl.load(first + cell, mask=inside, other=0.0), inside, 1).to(values.dtype)
    result = tl.dot(weights, values, input_precision="ieee")
    # the outputs are half as wide as the inputs
    place = at_rows - (instance * rows + tl.arange(0, R))[:, None] * WIDTH
    tl.store(to_rows + place, result.to(to_rows.dtype.element_ty), mask=row_inside)
    values = tl.load(rows_in + WIDTH + at_rows, mask=row_inside, other=0.0)
    weights = _softmax(tl.load(second + cell, mask=inside, other=0.0), inside, 0).to(values.dtype)
    result = tl.dot(tl.trans(weights), values, input_precision="ieee")
    place = at_columns - (instance * columns + tl.arange(0, C))[:, None] * WIDTH
    tl.store(to_columns + place, result.to(to_columns.dtype.element_ty), mask=column_inside)


@fused._jit
def _attend_backward(
    logits, rows_in, columns_in, from_rows, from_columns, grad_logits, grad_rows, grad_columns, rows, columns,
    HEADS: constexpr, WIDTH: constexpr, DIM: constexpr, R: constexpr, C: constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    instance, head = program // HEADS, program % HEADS
    cell, inside = _place(rows, columns, R, C)
    first = (instance * 2 * HEADS + head) * rows * columns + cell
    second = first + HEADS * rows * columns
    at_rows, row_inside = _half(instance, head, rows, R, WIDTH, DIM)
    at_columns, column_inside = _half(instance, head, columns, C, WIDTH, DIM)

    weights = _softmax(tl.load(logits + first, mask=inside, other=0.0), inside, 1)
    place = at_rows - (instance * rows + tl.arange(0, R))[:, None] * WIDTH
    grad = tl.load(from_rows + place, mask=row_inside, other=0.0)
    values = tl.load(columns_in + WIDTH + at_columns, mask=column_inside, other=0.0)
    to_weights = tl.dot(grad, tl.trans(values), input_precision="ieee")
    along = tl.sum(weights * to_weights, 1, keep_dims=True)
    result = (weights * (to_weights - along)).to(grad_logits.dtype.element_ty)
    tl.store(grad_logits + first, result, mask=inside)
    to_values = tl.dot(tl.trans(weights.to(grad.dtype)), grad, input_precision="ieee")
    tl.store(grad_columns + WIDTH + at_columns, to_values.to(grad_columns.dtype.element_ty), mask=column_inside)

    weights = _softmax(tl.load(logits + second, mask=inside, other=0.0), inside, 0)
    place = at_columns - (instance * columns + tl.arange(0, C))[:, None] * WIDTH
    grad = tl.load(from_columns + place, mask=column_inside, other=0.0)
    values = tl.load(rows_in + WIDTH + at_rows, mask=row_inside, other=0.0)
    to_weights = tl.dot(values, tl.trans(grad), input_precision="ieee")
    along = tl.sum(weights * to_weights, 0, keep_dims=True)
    result = (weights * (to_weights - along)).to(grad_logits.dtype.element_ty)
    tl.store(grad_logits + second, result, mask=inside)
    to_values = tl.dot(weights.to(grad.dtype), grad, input_precision="ieee")
    tl.store(grad_rows + WIDTH + at_rows, to_values.to(grad_rows.dtype.element_ty), mask=row_inside)


def _run(kernel: Any, heads: int, rows_in: Tensor, columns_in: Tensor, *arguments: Any) -> None:
    """Launch a kernel for every head of every instance; sizes and scale are the last of its `arguments`."""
    count, rows, double = rows_in.shape
    columns, width = columns_in.shape[1], double // 2
    padded = [max(16, triton.next_power_of_2(size)) for size in (rows, columns)]
    if count:
        with torch.cuda.device_of(rows_in):
            kernel[(count * heads,)](
                *arguments, HEADS=heads, WIDTH=width, DIM=width // heads, R=padded[0], C=padded[1],
                num_warps=min(8, max(1, padded[0] * padded[1] // 512)),
            )  # fmt: skip


@torch.library.custom_op("icdc::edge_scores", mutates_args=())
def scores(rows_in: Tensor, columns_in: Tensor, heads: int) -> Tensor:
    """Return scaled dot products (N, heads, R, C) of queries and keys, the first halves of (N, R | C, 2d)."""
    result: Tensor = _like_scores(rows_in, columns_in, heads)
    sizes = rows_in.shape[1], columns_in.shape[1], (rows_in.shape[2] // 2 // heads) ** -0.5
    _run(_scores, heads, rows_in, columns_in, rows_in, columns_in, result, *sizes)
    return result


@scores.register_fake
def _like_scores(rows_in: Tensor, columns_in: Tensor, heads: int) -> Tensor:
    return rows_in.new_empty(len(rows_in), heads, rows_in.shape[1], columns_in.shape[1])


@torch.library.custom_op("icdc::edge_attend", mutates_args=())
def attend(logits: Tensor, rows_in: Tensor, columns_in: Tensor) -> tuple[Tensor, Tensor]:
    """Return what rows (N, R, d) and columns (N, C, d) gather from each other's values by logits."""
    results: tuple[Tensor, Tensor] = _like_attended(logits, rows_in, columns_in)
    sizes = rows_in.shape[1], columns_in.shape[1]
    _run(_attend, logits.shape[1] // 2, rows_in, columns_in, logits, rows_in, columns_in, *results, *sizes)
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
    tensors = logits, rows_in, columns_in, from_rows, from_columns, grad_logits, grad_rows, grad_columns
    sizes = rows_in.shape[1], columns_in.shape[1]
    _run(_attend_backward, logits.shape[1] // 2, rows_in, columns_in, *tensors, *sizes)
    return grad_logits


@_attend_gradient.register_fake
def _like_logits(logits: Tensor, *others: Tensor) -> Tensor:
    return torch.empty_like(logits)


@torch.library.custom_op("icdc::edge_scores_backward", mutates_args=("grad_rows", "grad_columns"))
def _scores_gradient(
    grad_scores: Tensor, rows_in: Tensor, columns_in: Tensor, grad_rows: Tensor, grad_columns: Tensor
) -> None:
    """Write the gradients of queries and keys into the first halves."""
    heads = grad_scores.shape[1]
    sizes = rows_in.shape[1], columns_in.shape[1], (rows_in.shape[2] // 2 // heads) ** -0.5
    tensors = grad_scores, rows_in, columns_in, grad_rows, grad_columns
    _run(_scores_backward, heads, rows_in, columns_in, *tensors, *sizes)


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
