# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""The means of relu(edges) over columns and over rows in one pass over the edge state, and their gradient in one.

Written as two reductions, a compiler reads the largest tensor of the network twice, and badly: the axes it sums
over are not the ones that lie side by side in memory. Here one program walks over the rows of one instance, every
warp over its own: neighbouring threads hold neighbouring channels, and columns lie first in a thread's registers,
then across its warp, so that the mean of a row never leaves the warp. Sums over rows meet once, at the end. Where
the sums of all columns do not fit a thread's registers, programs share an instance by its channels.
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

WIDEST = 256
"""Columns of an instance whose running sums still fit a program's registers."""
SUMS = 64  # running sums of a thread


@fused._jit
def _means(
    edges, row_means, column_means, rows, columns,
    ROWS: constexpr, GROUPS: constexpr, LANES: constexpr, SPAN: constexpr, WIDTH: constexpr,
):  # fmt: skip
    parts: constexpr = WIDTH // SPAN
    instance = (tl.program_id(0) // parts).to(tl.int64)
    channel = (tl.program_id(0) % parts) * SPAN + tl.arange(0, SPAN)
    # the order of the axes decides where they lie: the last and first across a warp, then warps, then registers
    lane = tl.arange(0, LANES)
    column = lane[:, None, None, None] + (tl.arange(0, GROUPS) * LANES)[None, None, :, None]
    cell = column * WIDTH + channel[None, None, None, :]
    edges += instance * rows * columns * WIDTH
    row_means += instance * rows * WIDTH
    total = tl.zeros((LANES, ROWS, GROUPS, SPAN), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (column < columns) & (row < rows)[None, :, None, None]
        tile = tl.load(edges + row[None, :, None, None] * (columns * WIDTH) + cell, mask=inside, other=0.0)
        tile = tl.maximum(tile.to(tl.float32), 0.0)
        total += tile
        mean = tl.sum(tl.sum(tile, 2), 0, keep_dims=True) * (1.0 / columns)
        mean = tl.broadcast_to(mean, (LANES, ROWS, SPAN)).to(row_means.dtype.element_ty)
        # written by the threads that hold it, where a smaller tensor would first move between warps
        at = row_means + (row * WIDTH)[None, :, None] + channel[None, None, :] + lane[:, None, None] * 0
        tl.store(at, mean, mask=(row < rows)[None, :, None] & (lane == 0)[:, None, None])
    column = lane[:, None, None] + (tl.arange(0, GROUPS) * LANES)[None, :, None]
    result = (tl.sum(total, 1) * (1.0 / rows)).to(column_means.dtype.element_ty)
    at = column_means + instance * columns * WIDTH + column * WIDTH + channel[None, None, :]
    tl.store(at, result, mask=column < columns)


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
    fits = width & (width - 1) == 0 and edges.shape[2] <= WIDEST and width <= 256
    return (edges.dtype in kinds or fused.INTERPRETED) and fits and fused.available(edges.device)


def means(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of relu(edges) over columns (N, R, c) and over rows (N, C, c); knows no gradients.

    The edges (N, R, C, c) are contiguous, and `supports` says that there is a kernel for them.
    """
    count, rows, columns, width = edges.shape
    row_means, column_means = _like_outputs(edges)
    if edges.numel():
        # a thread reads 8 channels at once; `lanes` columns lie across a warp
        span, padded = min(width, 64), triton.next_power_of_2(columns)
        while span > 8 and max(padded, 256 // span) * span > 32 * SUMS:
            span //= 2
        lanes = min(32, 256 // span)
        groups = max(1, padded // lanes)
        warps = 8 if rows > 64 else 4
        tall = warps * max(1, SUMS // (8 * groups))  # few columns: a warp takes several rows at once
        tall = min(tall, max(warps, triton.next_power_of_2(rows)))
        with torch.cuda.device_of(edges):
            _means[(count * (width // span),)](
                edges, row_means, column_means, rows, columns, ROWS=tall, GROUPS=groups, LANES=lanes, SPAN=span,
                WIDTH=width, num_warps=warps,
            )  # fmt: skip
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
