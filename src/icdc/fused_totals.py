# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""What the rows that took a column add up to there, as one GPU kernel that reads every choice once."""

import torch
from torch import Tensor

from .fused_noise import _jit, available

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:  # a build of torch without a GPU comes without triton
    triton, constexpr = None, int

WIDEST = 64
"""Columns of a matrix; a program keeps the totals of a few solutions in registers."""
TILE = 64


@_jit()
def _totals(matrix, choice, totals, solutions, samples, rows, columns, TILE: constexpr, PADDED: constexpr):
    solution = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    known = solution < solutions
    matrix += solution // samples * rows * columns
    choice += solution * rows
    column = tl.arange(0, PADDED)[None, :]
    total = tl.zeros((TILE, PADDED), totals.dtype.element_ty)
    for row in range(rows):
        taken = tl.load(choice + row, mask=known, other=-1)
        value = tl.load(matrix + row * columns + taken, mask=(taken >= 0) & (taken < columns), other=0)
        total += tl.where(taken[:, None] == column, value[:, None].to(total.dtype), 0)
    inside = known[:, None] & (column < columns)
    tl.store(totals + solution[:, None] * columns + column, total, mask=inside)


def supports(matrix: Tensor) -> bool:
    """Return whether the kernel takes a matrix (batch, rows, columns) of this width, on its device."""
    return matrix.shape[2] <= WIDEST and available(matrix.device)


@torch.library.custom_op("icdc::column_totals", mutates_args=())
def column_totals(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return Σ of matrix[b, r, c] over the rows r with choice[b, k, r] = c, (batch, samples, columns).

    Rows are added in their order, so that the last bits of a sum are the same in every run. A choice of no column adds
    nothing.
    """
    totals: Tensor = _like_totals(matrix, choice)
    batch, samples, rows = choice.shape
    if choice.numel():
        columns = matrix.shape[2]
        _totals[(triton.cdiv(batch * samples, TILE),)](
            matrix.contiguous(), choice.contiguous(), totals, batch * samples, samples, rows, columns,
            TILE=TILE, PADDED=triton.next_power_of_2(columns),
        )  # fmt: skip
    return totals


@column_totals.register_fake
def _like_totals(matrix: Tensor, choice: Tensor) -> Tensor:
    kind = matrix.dtype if matrix.is_floating_point() else torch.int64  # sums of small integers need more room
    return matrix.new_empty(*choice.shape[:2], matrix.shape[2], dtype=kind)
