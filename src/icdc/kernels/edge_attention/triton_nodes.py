# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Layer norms of edges on a GPU, and what happens to nodes, which are few: small operations do not fill the chip.

Layer norms keep statistics, scale and shift in float32, in registers. The backward kernel computes the statistics
again: it reads the input anyway. Each of its programs walks over many rows and keeps its share of the gradients of
scale and shift; the shares are added in a fixed order: results do not vary from run to run. Without gradients, one
kernel does all that comes before the attention and one all that comes after.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from .triton_mixer import Launch, gelu, standardise

FORWARD, BACKWARD = Launch(4096, 4, 0, 1), Launch(4096, 8, 3, 1)
"""Here a block is so many numbers, of as many rows as that makes."""
NODES, WARPS = 64, 4
"""Nodes of a program before or after the attention, and its warps."""


@triton.jit
def _forward(states, scale, shift, result, rows, WIDTH: constexpr, BLOCK: constexpr):
    row, channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    here, inside = row.to(tl.int64)[:, None] * WIDTH + channel[None, :], (row < rows)[:, None]
    x = standardise(tl.load(states + here, mask=inside, other=0.0), WIDTH)[0]
    x = x * tl.load(scale + channel)[None, :] + tl.load(shift + channel)[None, :]
    tl.store(result + here, x.to(result.dtype.element_ty), mask=inside)


@triton.jit
def _backward(states, scale, grad, grad_states, partial, rows, WIDTH: constexpr, BLOCK: constexpr):
    channel = tl.arange(0, WIDTH)
    gain = tl.load(scale + channel)[None, :]
    # summed over rows at the end only: until then every thread adds up its own
    to_scale, to_shift = tl.zeros((BLOCK, WIDTH), tl.float32), tl.zeros((BLOCK, WIDTH), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, BLOCK), tl.num_programs(0)):
        row = tile * BLOCK + tl.arange(0, BLOCK)
        here, inside = row.to(tl.int64)[:, None] * WIDTH + channel[None, :], (row < rows)[:, None]
        state = tl.load(states + here, mask=inside, other=0.0)
        into = tl.load(grad + here, mask=inside, other=0.0).to(tl.float32)  # beyond the last row nothing is added
        x, _, deviation = standardise(state, WIDTH)
        to_scale += into * x
        to_shift += into
        into *= gain
        along = tl.sum(into * x, 1, keep_dims=True) * (1.0 / WIDTH)
        into -= tl.sum(into, 1, keep_dims=True) * (1.0 / WIDTH) + x * along
        tl.store(grad_states + here, (into * deviation).to(grad_states.dtype.element_ty), mask=inside)
    at = partial + tl.program_id(0) * (2 * WIDTH) + channel
    tl.store(at, tl.sum(to_scale, 0))
    tl.store(at + WIDTH, tl.sum(to_shift, 0))


def _programs(launch: Launch, rows: int, block: int, device: torch.device) -> int:
    """Return how many programs share the rows: two tiles for each at least, so that few shares remain."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 3
    return max(1, min(-(-rows // (2 * block)), processors * launch.programs))


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        ctx.save_for_backward(states, scale)
        width = states.shape[-1]
        rows, block = states.numel() // width, FORWARD.block // width
        result = torch.empty_like(states)
        if rows:
            with torch.cuda.device_of(states):
                _forward[(triton.cdiv(rows, block),)](
                    states, scale, shift, result, rows, WIDTH=width, BLOCK=block, num_warps=FORWARD.warps
                )
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        states, scale = ctx.saved_tensors
        width = states.shape[-1]
        rows, block = states.numel() // width, BACKWARD.block // width
        grad_states, programs = torch.empty_like(states), _programs(BACKWARD, rows, block, states.device)
        partial = states.new_empty(programs, 2, width, dtype=torch.float32)
        with torch.cuda.device_of(states):
            _backward[(programs,)](
                states, scale, grad.contiguous(), grad_states, partial, rows, WIDTH=width, BLOCK=block,
                num_warps=BACKWARD.warps,
            )  # fmt: skip
        to_scale, to_shift = partial.sum(0)
        return grad_states, to_scale, to_shift


def layer_norm(states: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Normalise states (..., width) over their last axis, then scale and shift them by (width,); dtype is kept."""
    tensors = states.contiguous(), scale.float().contiguous(), shift.float().contiguous()
    result: Tensor = _LayerNorm.apply(*tensors)  # type: ignore[no-untyped-call]
    return result


@triton.jit
def _floats(pointer, COUNT: constexpr):
    """Return a row (1, COUNT) of parameters in float32."""
    return tl.load(pointer + tl.arange(0, COUNT)).to(tl.float32)[None, :]


@triton.jit
def _transposed(pointer, ROW: constexpr, first_row, first_column, ROWS: constexpr, COLUMNS: constexpr, TYPE: constexpr):
    """Return the transpose (COLUMNS, ROWS) of such a block."""
    i, j = first_row + tl.arange(0, ROWS)[None, :], first_column + tl.arange(0, COLUMNS)[:, None]
    return tl.load(pointer + i * ROW + j).to(TYPE)


@triton.jit
def _project(
    nodes, gain, shift, time, weight, out, items, total,
    WIDTH: constexpr, OUT: constexpr, TIMED: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = nodes.dtype.element_ty
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, at, channel = (node < total)[:, None], node.to(tl.int64)[:, None], tl.arange(0, WIDTH)[None, :]
    x = standardise(tl.load(nodes + at * WIDTH + channel, mask=inside, other=0.0), WIDTH)[0]
    x = x * _floats(gain, WIDTH) + _floats(shift, WIDTH)
    if TIMED:
        x += tl.load(time + (at // items) * WIDTH + channel, mask=inside, other=0.0).to(tl.float32)
    x = x.to(kind)
    for start in range(0, OUT, WIDTH):
        result = tl.dot(x, _transposed(weight, WIDTH, start, 0, WIDTH, WIDTH, kind), input_precision="ieee")
        tl.store(out + at * OUT + start + channel, result.to(kind), mask=inside)


@triton.jit
def _update(
    nodes, gathered, means, out_weight, out_bias, gain, shift, up, up_bias, down, down_bias, result, total,
    WIDTH: constexpr, EDGE: constexpr, HIDDEN: constexpr, FAST: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = nodes.dtype.element_ty
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, at = (node < total)[:, None], node.to(tl.int64)[:, None]
    channel, thin = tl.arange(0, WIDTH)[None, :], tl.arange(0, EDGE)[None, :]
    x = tl.load(nodes + at * WIDTH + channel, mask=inside, other=0.0).to(tl.float32)
    seen = tl.load(gathered + at * WIDTH + channel, mask=inside, other=0.0)
    weights = _transposed(out_weight, WIDTH + EDGE, 0, 0, WIDTH, WIDTH, kind)
    x = tl.dot(seen, weights, x, input_precision="ieee")
    seen = tl.load(means + at * EDGE + thin, mask=inside, other=0.0)
    weights = _transposed(out_weight, WIDTH + EDGE, 0, WIDTH, WIDTH, EDGE, kind)
    x = tl.dot(seen, weights, x, input_precision="ieee") + _floats(out_bias, WIDTH)
    normal = (standardise(x, WIDTH)[0] * _floats(gain, WIDTH) + _floats(shift, WIDTH)).to(kind)
    for start in range(0, HIDDEN, 64):
        inner = tl.dot(normal, _transposed(up, WIDTH, start, 0, 64, WIDTH, kind), input_precision="ieee")
        inner = gelu(inner + _floats(up_bias + start, 64), FAST)[0]
        x = tl.dot(inner.to(kind), _transposed(down, HIDDEN, 0, start, WIDTH, 64, kind), x, input_precision="ieee")
    x += _floats(down_bias, WIDTH)
    tl.store(result + at * WIDTH + channel, x.to(kind), mask=inside)


def _run(kernel: Any, nodes: Tensor, *arguments: Any, **sizes: Any) -> None:
    total = nodes.shape[:-1].numel()
    if total:
        with torch.cuda.device_of(nodes):
            # without prefetching several programs share a multiprocessor
            kernel[(triton.cdiv(total, NODES),)](
                nodes, *arguments, total, WIDTH=nodes.shape[-1], BLOCK=NODES, num_warps=WARPS, num_stages=1, **sizes
            )


def project_nodes(nodes: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, time: Tensor | None) -> Tensor:
    """Return (norm(nodes) + time) · weightᵀ, (N, items, OUT), for nodes (N, items, d) and time (N, d); no gradients."""
    given = nodes if time is None else time
    nodes, scale, shift, given, weight = (x.contiguous() for x in (nodes, scale, shift, given, weight))
    out = nodes.new_empty(*nodes.shape[:-1], len(weight))
    timed = time is not None
    _run(_project, nodes, scale, shift, given, weight, out, nodes.shape[-2], OUT=len(weight), TIMED=timed)
    return out


def update_nodes(nodes: Tensor, gathered: Tensor, means: Tensor, *weights: Tensor) -> Tensor:
    """Return nodes (N, items, d) after what they gathered (N, items, d), edge means (N, items, c), and feed-forward.

    `weights` are weight and bias of the output map (d, d + c), and those of a `NormedMLP`; no gradients.
    """
    nodes, *others = (tensor.contiguous() for tensor in (nodes, gathered, means, *weights))
    result = torch.empty_like(nodes)
    fast = nodes.is_cuda and nodes.dtype != torch.float32
    _run(_update, nodes, *others, result, EDGE=means.shape[-1], HIDDEN=len(weights[4]), FAST=fast)
    return result
