# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""The first and the last thing `EdgeDenoiser` does with edges, on a GPU and without gradients, as one kernel each."""

import math

import torch
from torch import Tensor

from . import fused

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:  # a build of torch without a GPU comes without triton
    triton, constexpr = None, int

BLOCK = 64


def supports(edges: Tensor, heads: int) -> bool:
    """Return whether the kernels take such an edge state (N, R, C, c); without scores there are no heads."""
    return not torch.is_grad_enabled() and fused.supports(edges, heads or fused.HEADS[0])


@fused._jit
def _begin(x, constant, slope, edges, cells, samples, total, WIDTH: constexpr, BLOCK: constexpr):
    edge = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = edge < total
    channel = tl.arange(0, WIDTH)[None, :]
    source = (edge // cells // samples * cells + edge % cells)[:, None] * WIDTH + channel
    first = tl.load(constant + source, mask=inside[:, None], other=0.0).to(tl.float32)
    chosen = tl.load(x + edge, mask=inside, other=0.0)[:, None]
    more = tl.load(slope + source, mask=inside[:, None], other=0.0).to(tl.float32)
    result = (first + chosen.to(tl.float32) * more).to(edges.dtype.element_ty)
    tl.store(edges + edge[:, None] * WIDTH + channel, result, mask=inside[:, None])


@fused._jit
def _read_out(
    edges, scores, gain, shift, up, up_bias, down, down_bias, logits, cells, total,
    WIDTH: constexpr, HEADS: constexpr, PAD: constexpr, ALIGN: constexpr, FAST: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = edges.dtype.element_ty
    half_a = fused._up_weights(gain, shift, up, up_bias, 0, WIDTH, HEADS, PAD, kind)
    half_b = fused._up_weights(gain, shift, up, up_bias, WIDTH, WIDTH, HEADS, PAD, kind)
    wide = tl.arange(0, WIDTH)
    down_a = tl.load(down + wide).to(tl.float32)[None, :]
    down_b = tl.load(down + WIDTH + wide).to(tl.float32)[None, :]
    bias = tl.load(down_bias).to(tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(total, BLOCK), tl.num_programs(0)):
        edge = tile * BLOCK + tl.arange(0, BLOCK)
        inside = edge < total
        here = edge.to(tl.int64)[:, None] * WIDTH + wide[None, :]
        state = tl.load(edges + here, mask=inside[:, None], other=0.0)
        offset, mask = fused._by_head(edge, cells, total, HEADS, PAD, ALIGN)
        score = fused._scores(scores, offset, mask, HEADS, PAD, kind)
        x = fused._standardise(state, WIDTH)[0].to(kind)
        hidden, _ = fused._hidden(x, score, half_a, FAST)
        result = tl.sum(hidden.to(tl.float32) * down_a, 1)
        hidden, _ = fused._hidden(x, score, half_b, FAST)
        result += tl.sum(hidden.to(tl.float32) * down_b, 1) + bias
        tl.store(logits + edge, result, mask=inside)


def begin(x: Tensor, constant: Tensor, slope: Tensor) -> Tensor:
    """Return constant + x · slope (N, R, C, c), in the dtype of `constant`.

    x (N, R, C) holds K solutions of each instance, instance-major; constant and slope (B, R, C, c), N = B · K.
    """
    width = constant.shape[-1]
    edges = constant.new_empty(*x.shape, width)
    if total := x.numel():
        with torch.cuda.device_of(x):
            _begin[(triton.cdiv(total, BLOCK),)](
                x.contiguous(), constant.contiguous(), slope.contiguous(), edges,
                x.shape[1] * x.shape[2], len(x) // len(constant), total, WIDTH=width, BLOCK=BLOCK, num_warps=4,
            )  # fmt: skip
    return edges


def read_out(edges: Tensor, scores: Tensor, *parameters: Tensor) -> Tensor:
    """Return logits (N, R, C), float32, from edges (N, R, C, c) and scores (N, heads, R, C).

    `parameters` are scale and shift of the layer norm, and weight and bias of the two maps of the feed-forward part.
    """
    heads, (rows, columns), width = scores.shape[1], edges.shape[1:3], edges.shape[3]
    logits = edges.new_empty(edges.shape[:3], dtype=torch.float32)
    launch, cells, total = fused.FORWARD, rows * columns, logits.numel()
    if total:
        with torch.cuda.device_of(edges):
            _read_out[(fused._programs(launch, edges),)](
                edges.contiguous(), scores.contiguous(), *(p.contiguous() for p in parameters), logits, cells, total,
                WIDTH=width, HEADS=heads, PAD=16 if heads <= 8 else 32, ALIGN=math.gcd(cells, 8), BLOCK=launch.block,
                FAST=edges.is_cuda and edges.dtype != torch.float32, num_warps=launch.warps,
            )  # fmt: skip
    return logits
