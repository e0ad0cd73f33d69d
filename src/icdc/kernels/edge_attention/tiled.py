"""Mixing edges, and the means of the result, on a CPU, without gradients, in tiles that stay in the cache.

On whole tensors every step of the mixer reads and writes the largest tensors of the network, and two of
them are slow: the layer norm of short rows, and the tanh within GELU, which takes as long as a matrix product. Here a
tile of edges goes through all steps in buffers that the second-level cache holds. The layer norm's scale and shift
are folded into the first linear map. GELU is written with a sigmoid, which is several times faster than tanh:
½ (1 + tanh z) = σ(2z), so gelu(x) = x σ(y + k y³) with y = a x, and a is folded into the linear maps around it.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

TILE = 1600
"""Edges of a tile, about: fewer would fit the cache better, but every tile costs some thirty calls."""

_A = 2 * math.sqrt(2 / math.pi)
_K = 0.044715 / _A**2


def mix_edges(
    edges: Tensor, scores: Tensor, scale: Tensor, shift: Tensor,
    up_weight: Tensor, up_bias: Tensor, down_weight: Tensor, down_bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Do what `edge_attention.mix_edges` says, in tiles."""
    count, rows, columns, width = edges.shape
    heads = scores.shape[1]
    # the standardised state below lacks a factor √c, which joins the layer norm's scale
    gain = scale * (_A * math.sqrt(width))
    up = torch.cat([up_weight[:, :width] * gain, up_weight[:, width:] * _A], 1).t()
    up_bias = (up_bias + up_weight[:, :width] @ shift) * _A
    down = down_weight.t() / _A

    new = edges.new_empty(edges.shape)
    logits = edges.new_empty(count, 2 * heads, rows, columns)
    row_means, column_means = edges.new_empty(count, rows, width), edges.new_zeros(count, columns, width)
    together, height = _tile(count, rows, columns)

    def tiles(tensor: Tensor, step: int) -> list[Tensor]:
        """Return what each tile sees of a tensor (N, items, channels): some items of some instances."""
        blocks = tensor.split(together)
        return list(blocks) if height == rows else [tile for block in blocks for tile in block.split(step, 1)]

    buffers = _Buffers(edges, together * height * columns, heads)
    for old, score, fresh, logit, row_sum, column_sum in zip(
        tiles(edges.contiguous().flatten(1, 2), height * columns),
        tiles(scores.flatten(2).transpose(1, 2), height * columns),
        tiles(new.flatten(1, 2), height * columns),
        tiles(logits.flatten(2).transpose(1, 2), height * columns),
        tiles(row_means, height),
        [block for block in column_means.split(together) for _ in range(0, rows, height)],
        strict=True,
    ):
        b = buffers.of_shape(len(old), old.shape[1], columns)
        # standardise the state: torch's sums of short rows are fast, its layer norm is not
        torch.sum(old, 2, keepdim=True, out=b.scale)
        torch.sub(old, b.scale, alpha=1 / width, out=b.state)
        torch.mul(b.state, b.state, out=b.squares)
        torch.sum(b.squares, 2, keepdim=True, out=b.scale)
        b.state.mul_(b.scale.add_(1e-5 * width).rsqrt_())
        b.scores.copy_(score)
        # y σ(y + k y³), up to the factor that is in `down`
        torch.addmm(up_bias, b.seen, up, out=b.hidden)
        torch.mul(b.hidden, b.hidden, out=b.gate)
        torch.addcmul(b.hidden, b.gate, b.hidden, value=_K, out=b.gate).sigmoid_()
        b.hidden.mul_(b.gate)
        torch.addmm(down_bias, b.hidden, down, out=b.out)
        torch.add(old, b.update, out=fresh)
        logit.copy_(b.logits)
        torch.clamp_min(fresh, 0, out=b.active)
        torch.sum(b.active_rows, 2, out=row_sum)
        column_sum += b.active_rows.sum(1)
    return new, logits, row_means.div_(columns), column_means.div_(rows)


def _tile(count: int, rows: int, columns: int) -> tuple[int, int]:
    """Return how many instances and how many of their rows make a tile: several only where all rows fit."""
    if rows * columns <= TILE:
        return min(count, TILE // (rows * columns)), rows
    # as many tiles as needed, of nearly the same height: a thin last one costs as many calls as any
    return 1, math.ceil(rows / math.ceil(rows / max(1, TILE // columns)))


class _Buffers:
    """Memory that all tiles use in turn, and views of it for tiles of a shape: steps that need none share it."""

    def __init__(self, edges: Tensor, size: int, heads: int) -> None:
        self.width, self.heads = edges.shape[-1], heads
        self.memory = [edges.new_empty(size * width) for width in (self.width + heads, 2 * self.width, 2 * self.width)]
        self.scale = edges.new_empty(size)
        self.views: dict[tuple[int, int], _Views] = {}

    def of_shape(self, instances: int, items: int, columns: int) -> "_Views":
        """Return the views for tiles of so many instances with so many edges each."""
        key = instances, items
        if key not in self.views:
            self.views[key] = self._views(instances, items, columns)
        return self.views[key]

    def _views(self, instances: int, items: int, columns: int) -> "_Views":
        width, heads, size = self.width, self.heads, instances * items

        def view(memory: Tensor, channels: int) -> Tensor:
            return memory[: size * channels].view(instances, items, channels)

        first, second, third = self.memory
        seen, hidden, gate = view(first, width + heads), view(second, 2 * width), view(third, 2 * width)
        out, active = view(third, width + 2 * heads), view(second, width)
        return _Views(
            seen.flatten(0, 1), seen[..., :width], seen[..., width:], view(third, width), view(self.scale, 1),
            hidden.flatten(0, 1), gate.flatten(0, 1), out.flatten(0, 1), out[..., :width], out[..., width:],
            active, active.unflatten(1, (-1, columns)),
        )  # fmt: skip


class _Views(NamedTuple):
    """Buffers as the steps see them; I instances with M edges each.

    seen (I · M, c + heads) is state (I, M, c) beside scores (I, M, heads); squares (I, M, c) and scale (I, M, 1) help
    to standardise; hidden and gate are (I · M, 2c); out (I · M, c + 2 · heads) is update (I, M, c) beside logits
    (I, M, 2 · heads); active is (I, M, c), by rows (I, M / C, C, c).
    """

    seen: Tensor
    state: Tensor
    scores: Tensor
    squares: Tensor
    scale: Tensor
    hidden: Tensor
    gate: Tensor
    out: Tensor
    update: Tensor
    logits: Tensor
    active: Tensor
    active_rows: Tensor
