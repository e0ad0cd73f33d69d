# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""What `EdgeLayer` does to its nodes, on a GPU and without gradients: one kernel before the attention, one after.

Solving and making targets run the network forward only, on many nodes; written as separate operations, every layer
norm, bias, GELU and residual would travel to device memory and back.
"""

from typing import Any

import torch
from torch import Tensor

from . import fused

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:  # a build of torch without a GPU comes without triton
    triton, constexpr = None, int

WIDTHS = (64, 128)
BLOCK, WARPS = 64, 4


def supports(nodes: Tensor, edge_width: int, hidden: int) -> bool:
    """Return whether the kernels take nodes (N, items, d) with an edge state and a feed-forward part so wide."""
    kinds = (torch.float32, torch.float16) if fused.INTERPRETED else (torch.bfloat16, torch.float16)
    fits = nodes.shape[-1] in WIDTHS and edge_width in fused.WIDTHS and hidden % 64 == 0
    return fits and nodes.dtype in kinds and not torch.is_grad_enabled() and fused.available(nodes.device)


@fused._jit
def _normalise(x, gain, shift, WIDTH: constexpr):
    """Return the layer norm of x (nodes, d), float32."""
    channel = tl.arange(0, WIDTH)
    x, _, _ = fused._standardise(x, WIDTH)
    return x * tl.load(gain + channel).to(tl.float32)[None, :] + tl.load(shift + channel).to(tl.float32)[None, :]


@fused._jit
def _weights(pointer, FROM: constexpr, START: constexpr, IN: constexpr, OUT_START, OUT: constexpr, TYPE: constexpr):
    """Return a block (IN, OUT) of the transpose of weights with rows of length FROM."""
    source, target = tl.arange(0, IN), tl.arange(0, OUT)
    return tl.load(pointer + (OUT_START + target)[None, :] * FROM + START + source[:, None]).to(TYPE)


@fused._jit
def _project(
    nodes, gain, shift, time, weight, out, items, total,
    WIDTH: constexpr, OUT: constexpr, TIMED: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = nodes.dtype.element_ty
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (node < total)[:, None]
    channel = tl.arange(0, WIDTH)[None, :]
    at = node.to(tl.int64)[:, None]
    x = _normalise(tl.load(nodes + at * WIDTH + channel, mask=inside, other=0.0), gain, shift, WIDTH)
    if TIMED:
        x += tl.load(time + (at // items) * WIDTH + channel, mask=inside, other=0.0).to(tl.float32)
    x = x.to(kind)
    for start in range(0, OUT, WIDTH):
        result = tl.dot(x, _weights(weight, WIDTH, 0, WIDTH, start, WIDTH, kind), input_precision="ieee")
        tl.store(out + at * OUT + start + channel, result.to(kind), mask=inside)


@fused._jit
def _update(
    nodes, gathered, means, out_weight, out_bias, gain, shift, up, up_bias, down, down_bias, result, total,
    WIDTH: constexpr, EDGE: constexpr, HIDDEN: constexpr, FAST: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = nodes.dtype.element_ty
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (node < total)[:, None]
    channel, thin, hidden = tl.arange(0, WIDTH)[None, :], tl.arange(0, EDGE)[None, :], tl.arange(0, 64)[None, :]
    at = node.to(tl.int64)[:, None]
    x = tl.load(nodes + at * WIDTH + channel, mask=inside, other=0.0).to(tl.float32)
    seen = tl.load(gathered + at * WIDTH + channel, mask=inside, other=0.0)
    x = tl.dot(seen, _weights(out_weight, WIDTH + EDGE, 0, WIDTH, 0, WIDTH, kind), x, input_precision="ieee")
    seen = tl.load(means + at * EDGE + thin, mask=inside, other=0.0)
    x = tl.dot(seen, _weights(out_weight, WIDTH + EDGE, WIDTH, EDGE, 0, WIDTH, kind), x, input_precision="ieee")
    x += tl.load(out_bias + channel).to(tl.float32)
    normal = _normalise(x, gain, shift, WIDTH).to(kind)
    for start in range(0, HIDDEN, 64):
        inner = tl.dot(normal, _weights(up, WIDTH, 0, WIDTH, start, 64, kind), input_precision="ieee")
        inner, _ = fused._gelu(inner + tl.load(up_bias + start + hidden).to(tl.float32), FAST)
        column = start + tl.arange(0, 64)[:, None]
        part = tl.load(down + channel * HIDDEN + column).to(kind)
        x = tl.dot(inner.to(kind), part, x, input_precision="ieee")
    x += tl.load(down_bias + channel).to(tl.float32)
    tl.store(result + at * WIDTH + channel, x.to(kind), mask=inside)


def _run(kernel: Any, nodes: Tensor, *arguments: Any, **sizes: Any) -> None:
    total = nodes.shape[:-1].numel()
    if total:
        with torch.cuda.device_of(nodes):
            kernel[(triton.cdiv(total, BLOCK),)](
                nodes,
                *arguments,
                total,
                WIDTH=nodes.shape[-1],
                BLOCK=BLOCK,
                num_warps=WARPS,
                num_stages=1,
                **sizes,  # without prefetching several programs share a multiprocessor
            )


def project(
    nodes: Tensor, norm_weight: Tensor, norm_bias: Tensor, weight: Tensor, time: Tensor | None = None
) -> Tensor:
    """Return (norm(nodes) + time) · weightᵀ, (N, items, OUT), for nodes (N, items, d) and time (N, d)."""
    nodes, weight = nodes.contiguous(), weight.contiguous()
    out = nodes.new_empty(*nodes.shape[:-1], len(weight))
    given = nodes if time is None else time.contiguous()
    arguments = norm_weight, norm_bias, given, weight, out, nodes.shape[-2]
    _run(_project, nodes, *arguments, OUT=len(weight), TIMED=time is not None)
    return out


def update(nodes: Tensor, gathered: Tensor, means: Tensor, *parameters: Tensor) -> Tensor:
    """Return nodes (N, items, d) after what they gathered (N, items, d), edge means (N, items, c), and feed-forward.

    `parameters` are weight and bias of the output map (d, d + c), of the norm, and of the two feed-forward maps.
    """
    nodes, result = nodes.contiguous(), torch.empty_like(nodes, memory_format=torch.contiguous_format)
    arguments = gathered.contiguous(), means.contiguous(), *(p.contiguous() for p in parameters), result
    fast = nodes.is_cuda and nodes.dtype != torch.float32
    _run(_update, nodes, *arguments, EDGE=means.shape[-1], HIDDEN=len(parameters[4]), FAST=fast)
    return result
