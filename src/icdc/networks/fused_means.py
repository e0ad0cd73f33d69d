# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""The means of relu(edges) over columns and over rows in one kernel, and their gradient in one.

A program holds the running sums of some rows, or of some columns, and walks along the other axis: neighbouring
threads read neighbouring channels, and nothing is ever exchanged between threads. Programs of both kinds take turns,
so that those of one instance run at the same time and the second finds its edges in the cache.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import fused

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:  # a build of torch without a GPU comes without triton
    triton, constexpr = None, int

BLOCK = 32
"""Rows or columns of a program."""


@fused._jit
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


@fused._jit
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


def supports(edges: Tensor) -> bool:
    """Return whether the kernels take such an edge state (N, R, C, c)."""
    kinds = (torch.bfloat16, torch.float16)
    width = edges.shape[-1]
    fits = width & (width - 1) == 0 and width <= 256
    return (edges.dtype in kinds or fused.INTERPRETED) and fits and fused.available(edges.device)


def means(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of relu(edges) over columns (N, R, c) and over rows (N, C, c); knows no gradients.

    The edges (N, R, C, c) are contiguous, and `supports` says that there is a kernel for them.
    """
    count, rows, columns, width = edges.shape
    row_means, column_means = _like_outputs(edges)
    if edges.numel():
        totals = count * rows, count * columns
        with torch.cuda.device_of(edges):
            _means[(2 * triton.cdiv(max(totals), BLOCK),)](
                edges, row_means, column_means, rows, columns, *totals, BLOCK=BLOCK, WIDTH=width, num_warps=4
            )
    return row_means, column_means


def _gradient(edges: Tensor, grad_rows: Tensor, grad_columns: Tensor, into: Tensor | None) -> Tensor:
    _, rows, columns, width = edges.shape
    total, block = edges.numel() // width, max(1, 8192 // width)
    grad_edges = torch.empty_like(edges)
    if total:
        with torch.cuda.device_of(edges):
            _means_gradient[(triton.cdiv(total, block),)](
                edges, grad_rows, grad_columns, edges if into is None else into, grad_edges, rows, columns, total,
                ADDS=into is not None, BLOCK=block, WIDTH=width, num_warps=8,
            )  # fmt: skip
    return grad_edges


def add_means_gradient(edges: Tensor, grad_rows: Tensor, grad_columns: Tensor, into: Tensor) -> Tensor:
    """Return `into` plus the gradient of the edges (N, R, C, c) behind their `means`; knows no gradients itself.

    Parameters
    ----------
    edges, into : edge state and a gradient of it, of one dtype and contiguous.
    grad_rows, grad_columns : gradients of the means over columns (N, R, c) and over rows (N, C, c), contiguous.
    """
    return _gradient(edges, grad_rows, grad_columns, into)


@torch.library.custom_op("icdc::relu_means", mutates_args=())
def _relu_means(edges: Tensor) -> tuple[Tensor, Tensor]:
    return means(edges.contiguous())


@_relu_means.register_fake
def _like_outputs(edges: Tensor) -> tuple[Tensor, Tensor]:
    count, rows, columns, width = edges.shape
    return edges.new_empty(count, rows, width), edges.new_empty(count, columns, width)


@torch.library.custom_op("icdc::relu_means_backward", mutates_args=())
def _relu_means_backward(edges: Tensor, grad_rows: Tensor, grad_columns: Tensor) -> Tensor:
    return _gradient(edges.contiguous(), grad_rows.contiguous(), grad_columns.contiguous(), None)


@_relu_means_backward.register_fake
def _like_edges(edges: Tensor, grad_rows: Tensor, grad_columns: Tensor) -> Tensor:
    return edges.new_empty(edges.shape)


def _save_edges(ctx: Any, inputs: tuple[Tensor], output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def _differentiate(ctx: Any, grad_rows: Tensor, grad_columns: Tensor) -> Tensor:
    (edges,) = ctx.saved_tensors
    gradient: Tensor = _relu_means_backward(edges, grad_rows, grad_columns)
    return gradient


_relu_means.register_autograd(_differentiate, setup_context=_save_edges)


def relu_means(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of relu(edges) over columns (N, R, c) and over rows (N, C, c), for edges (N, R, C, c)."""
    if supports(edges):
        result: tuple[Tensor, Tensor] = _relu_means(edges)
        return result
    active = F.relu(edges)
    return active.mean(2), active.mean(1)
