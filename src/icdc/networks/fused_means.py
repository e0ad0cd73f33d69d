# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""The means of relu(edges) over columns and over rows in one pass over the edge state.

Written as two reductions, a compiler reads the largest tensor of the network twice, and badly: the axes it sums
over are not the ones that lie side by side in memory. Here one program walks over the rows of one instance.
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

WIDEST = 128
"""Columns of an instance whose running sums still fit a program's registers."""


@fused._jit
def _means(edges, row_means, column_means, rows, columns, PADDED: constexpr, WIDTH: constexpr):
    instance = tl.program_id(0).to(tl.int64)
    column, channel = tl.arange(0, PADDED), tl.arange(0, WIDTH)
    inside = (column < columns)[:, None]
    cell = column[:, None] * WIDTH + channel[None, :]
    edges += instance * rows * columns * WIDTH
    total = tl.zeros((PADDED, WIDTH), tl.float32)
    for row in range(rows):
        tile = tl.load(edges + row * columns * WIDTH + cell, mask=inside, other=0.0).to(tl.float32)
        tile = tl.maximum(tile, 0.0)
        total += tile
        mean = tl.sum(tile, 0) / columns
        tl.store(row_means + (instance * rows + row) * WIDTH + channel, mean.to(row_means.dtype.element_ty))
    total = (total / rows).to(column_means.dtype.element_ty)
    tl.store(column_means + instance * columns * WIDTH + cell, total, mask=inside)


@torch.library.custom_op("icdc::relu_means", mutates_args=())
def _relu_means(edges: Tensor) -> tuple[Tensor, Tensor]:
    count, rows, columns, width = edges.shape
    row_means, column_means = _like_outputs(edges)
    if count:
        padded = triton.next_power_of_2(columns)
        _means[(count,)](
            edges.contiguous(), row_means, column_means, rows, columns, PADDED=padded, WIDTH=width,
            num_warps=4 if padded > 8 else 1,
        )  # fmt: skip
    return row_means, column_means


@_relu_means.register_fake
def _like_outputs(edges: Tensor) -> tuple[Tensor, Tensor]:
    count, rows, columns, width = edges.shape
    return edges.new_empty(count, rows, width), edges.new_empty(count, columns, width)


def _save_edges(ctx: Any, inputs: tuple[Tensor], output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def _differentiate(ctx: Any, grad_rows: Tensor, grad_columns: Tensor) -> Tensor:
    (edges,) = ctx.saved_tensors
    _, rows, columns, _ = edges.shape
    # plain operations: a compiler fuses them with the rest of the gradient of the edge state
    spread = grad_rows[:, :, None] / columns + grad_columns[:, None] / rows
    return torch.where(edges > 0, spread, 0.0).to(edges.dtype)


_relu_means.register_autograd(_differentiate, setup_context=_save_edges)


def relu_means(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of relu(edges) over columns (N, R, c) and over rows (N, C, c), for edges (N, R, C, c)."""
    narrow = edges.dtype in (torch.bfloat16, torch.float16) or fused.INTERPRETED
    width = edges.shape[-1]
    if narrow and fused.available(edges.device) and edges.shape[2] <= WIDEST and width & (width - 1) == 0:
        result: tuple[Tensor, Tensor] = _relu_means(edges)
        return result
    active = F.relu(edges)
    return active.mean(2), active.mean(1)
