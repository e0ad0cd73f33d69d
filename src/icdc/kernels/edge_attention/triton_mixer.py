# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""The edge mixer as one GPU kernel forward and one backward: no hidden layer ever reaches device memory.

The layer norm's scale and shift are folded into the first linear map, whose bias becomes the weight of two
further "scores" that are always one (a coarse and a fine part: the bias keeps its precision in bfloat16). So
hidden = gelu(x̂ W₁ᵀ + s W₂ᵀ) and (update, logits) = hidden W₃ᵀ + b, with x̂ the standardised edge state and s
the padded scores. The backward kernel computes this again from the saved inputs. Both take the hidden units
in two halves, for want of registers. Each program walks over many tiles of edges and keeps its share of the
weight gradients in registers; the shares are added in a fixed order: results do not vary from run to run.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr


class Launch(NamedTuple):
    """How a kernel is launched; `registers` bounds those of a thread, so that all programs fit at once."""

    block: int  # edges per tile
    warps: int  # of 32 threads, per program
    programs: int  # per multiprocessor
    stages: int  # loads under way, 1 for no prefetching
    registers: int | None = None


# The fastest of four each that were timed on an H200 at c = 64, heads = 8
FORWARD, BACKWARD = Launch(64, 4, 3, 1, 168), Launch(128, 8, 1, 1)


@triton.jit
def standardise(x, WIDTH: constexpr):
    """Return x (edges, c) with mean 0 and variance 1 along c, its mean and its reciprocal deviation."""
    x = x.to(tl.float32)
    middle = tl.sum(x, 1, keep_dims=True) * (1.0 / WIDTH)
    x -= middle
    scale = tl.rsqrt(tl.sum(x * x, 1, keep_dims=True) * (1.0 / WIDTH) + 1e-5)
    return x * scale, middle, scale


@triton.jit
def gelu(x, FAST: constexpr):
    """Return GELU by its tanh form and its derivative (which costs nothing where it is not used)."""
    square = x * x
    inner = x * (0.7978845608 + 0.0356774081 * square)
    if FAST:  # one instruction, good to 11 bits; what follows is rounded to 8 (or, in float16, to 11)
        tanh = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [inner], tl.float32, True, 1)
    else:
        tanh = 1.0 - 2.0 / (tl.exp(2.0 * tl.minimum(inner, 20.0)) + 1.0)
    gate = 0.5 + 0.5 * tanh
    slope = gate + x * (0.5 - 0.5 * tanh * tanh) * (0.7978845608 + 0.1070322243 * square)
    return x * gate, slope


@triton.jit
def _up_weights(
    gain, shift, up, up_bias, START: constexpr, WIDTH: constexpr, HEADS: constexpr, PAD: constexpr, TYPE: constexpr
):
    """Return weights of c hidden units: from x̂ (c, c) and from scores (c, PAD)."""
    hidden, wide = START + tl.arange(0, WIDTH), tl.arange(0, WIDTH)
    raw = tl.load(up + hidden[:, None] * (WIDTH + HEADS) + wide[None, :]).to(tl.float32)
    bias = tl.load(up_bias + hidden).to(tl.float32) + tl.sum(raw * tl.load(shift + wide).to(tl.float32)[None, :], 1)
    coarse = bias.to(TYPE).to(tl.float32)
    head = tl.arange(0, PAD)[None, :]
    extra = tl.load(up + hidden[:, None] * (WIDTH + HEADS) + WIDTH + head, mask=head < HEADS, other=0.0).to(tl.float32)
    extra = tl.where(head == HEADS, coarse[:, None], extra)
    extra = tl.where(head == HEADS + 1, (bias - coarse)[:, None], extra)
    return (raw * tl.load(gain + wide).to(tl.float32)[None, :]).to(TYPE), extra.to(TYPE)


@triton.jit
def _weights(
    gain, shift, up, up_bias, down, START: constexpr, WIDTH: constexpr, HEADS: constexpr,
    PAD: constexpr, OUT: constexpr, TYPE: constexpr,
):  # fmt: skip
    """Return weights of c hidden units: from x̂ (c, c) and scores (c, PAD), to update (c, c) and logits."""
    from_state, from_scores = _up_weights(gain, shift, up, up_bias, START, WIDTH, HEADS, PAD, TYPE)
    hidden, wide, out = START + tl.arange(0, WIDTH), tl.arange(0, WIDTH), tl.arange(0, OUT)[:, None]
    update = tl.load(down + wide[:, None] * (2 * WIDTH) + hidden[None, :])
    logits = tl.load(down + (WIDTH + out) * (2 * WIDTH) + hidden[None, :], mask=out < 2 * HEADS, other=0.0)
    return from_state, from_scores, update.to(TYPE), logits.to(TYPE)


@triton.jit
def _by_head(edge, cells, total, COUNT: constexpr, PAD: constexpr, ALIGN: constexpr):
    """Return offsets and mask (PAD, edges) of edges in a tensor (N, COUNT, R, C) of `cells` = R · C."""
    head = tl.arange(0, PAD)[:, None]
    offset = (edge + (edge // cells).to(tl.int64) * cells * (COUNT - 1))[None, :] + head * cells
    # neighbours in memory stay together up to the largest power of two in R · C: that many load as one
    offset = tl.max_contiguous(tl.multiple_of(offset, (1, ALIGN)), (1, ALIGN))
    return offset, (head < COUNT) & (edge < total)[None, :]


@triton.jit
def _scores(pointer, offset, mask, HEADS: constexpr, PAD: constexpr, TYPE: constexpr):
    """Load scores (PAD, edges), with the two rows of ones that carry the bias."""
    head = tl.arange(0, PAD)[:, None]
    scores = tl.load(pointer + offset, mask=mask, other=0.0).to(tl.float32)
    return tl.where((head == HEADS) | (head == HEADS + 1), 1.0, scores).to(TYPE)


@triton.jit
def _hidden(x, score, weights, FAST: constexpr):
    """Return hidden units (edges, c), in the dtype of x̂, and the derivatives of their GELU."""
    hidden = tl.dot(x, tl.trans(weights[0]), input_precision="ieee")
    hidden = tl.dot(tl.trans(score), tl.trans(weights[1]), hidden, input_precision="ieee")
    hidden, slope = gelu(hidden, FAST)
    return hidden.to(x.dtype), slope


@triton.jit
def _forward(
    edges, scores, gain, shift, up, up_bias, down, down_bias, new_edges, logits, cells, total,
    WIDTH: constexpr, HEADS: constexpr, PAD: constexpr, OUT: constexpr,
    ALIGN: constexpr, FAST: constexpr, BLOCK: constexpr, STAGES: constexpr,
):  # fmt: skip
    kind: constexpr = edges.dtype.element_ty
    half_a = _weights(gain, shift, up, up_bias, down, 0, WIDTH, HEADS, PAD, OUT, kind)
    half_b = _weights(gain, shift, up, up_bias, down, WIDTH, WIDTH, HEADS, PAD, OUT, kind)
    wide, out = tl.arange(0, WIDTH), tl.arange(0, OUT)
    update_bias = tl.load(down_bias + wide)[None, :]
    logits_bias = tl.load(down_bias + WIDTH + out, mask=out < 2 * HEADS, other=0.0)[:, None]
    for tile in tl.range(tl.program_id(0), tl.cdiv(total, BLOCK), tl.num_programs(0), num_stages=STAGES):
        edge = tile * BLOCK + tl.arange(0, BLOCK)
        here, inside = edge.to(tl.int64)[:, None] * WIDTH + wide[None, :], (edge < total)[:, None]
        offset, mask = _by_head(edge, cells, total, HEADS, PAD, ALIGN)
        state = tl.load(edges + here, mask=inside, other=0.0)
        score = _scores(scores, offset, mask, HEADS, PAD, kind)
        x = standardise(state, WIDTH)[0].to(kind)
        hidden, _ = _hidden(x, score, half_a, FAST)
        update = tl.dot(hidden, tl.trans(half_a[2]), input_precision="ieee")
        result = tl.dot(hidden, tl.trans(half_a[3]), input_precision="ieee")
        hidden, _ = _hidden(x, score, half_b, FAST)
        update = tl.dot(hidden, tl.trans(half_b[2]), update, input_precision="ieee")
        result = tl.dot(hidden, tl.trans(half_b[3]), result, input_precision="ieee")
        tl.store(new_edges + here, (update + update_bias + state.to(tl.float32)).to(kind), mask=inside)
        offset, mask = _by_head(edge, cells, total, 2 * HEADS, OUT, ALIGN)
        tl.store(logits + offset, (tl.trans(result) + logits_bias).to(kind), mask=mask)


@triton.jit
def _read_out(
    edges, scores, gain, shift, up, up_bias, down, down_bias, logits, cells, total,
    WIDTH: constexpr, HEADS: constexpr, PAD: constexpr, ALIGN: constexpr, FAST: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = edges.dtype.element_ty
    half_a = _up_weights(gain, shift, up, up_bias, 0, WIDTH, HEADS, PAD, kind)
    half_b = _up_weights(gain, shift, up, up_bias, WIDTH, WIDTH, HEADS, PAD, kind)
    wide = tl.arange(0, WIDTH)
    down_a = tl.load(down + wide).to(tl.float32)[None, :]
    down_b = tl.load(down + WIDTH + wide).to(tl.float32)[None, :]
    bias = tl.load(down_bias).to(tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(total, BLOCK), tl.num_programs(0)):
        edge = tile * BLOCK + tl.arange(0, BLOCK)
        inside = edge < total
        here = edge.to(tl.int64)[:, None] * WIDTH + wide[None, :]
        state = tl.load(edges + here, mask=inside[:, None], other=0.0)
        offset, mask = _by_head(edge, cells, total, HEADS, PAD, ALIGN)
        score = _scores(scores, offset, mask, HEADS, PAD, kind)
        x = standardise(state, WIDTH)[0].to(kind)
        hidden, _ = _hidden(x, score, half_a, FAST)
        result = tl.sum(hidden.to(tl.float32) * down_a, 1)
        hidden, _ = _hidden(x, score, half_b, FAST)
        result += tl.sum(hidden.to(tl.float32) * down_b, 1) + bias
        tl.store(logits + edge, result, mask=inside)


@triton.jit
def _backward_half(given, weights, sums, grad_x, grad_score, FAST: constexpr):
    """Add what half of the hidden units contributes to the gradients of x̂ and scores, and to its weights'."""
    x, score, into, into_logits = given
    hidden, slope = _hidden(x, score, weights, FAST)
    grad = tl.dot(into, weights[2], input_precision="ieee")
    grad = tl.dot(tl.trans(into_logits), weights[3], grad, input_precision="ieee")
    grad = (grad * slope).to(x.dtype)
    to_update = tl.dot(tl.trans(into), hidden, sums[2], input_precision="ieee")
    to_logits = tl.dot(tl.trans(hidden), tl.trans(into_logits), sums[3], input_precision="ieee")
    from_x = tl.dot(tl.trans(grad), x, sums[0], input_precision="ieee")
    from_scores = tl.dot(tl.trans(grad), tl.trans(score), sums[1], input_precision="ieee")
    grad_x = tl.dot(grad, weights[0], grad_x, input_precision="ieee")
    grad_score = tl.dot(grad, weights[1], grad_score, input_precision="ieee")
    return (from_x, from_scores, to_update, to_logits), grad_x, grad_score


@triton.jit
def _write_half(
    at, gain, shift, up, sums, START: constexpr,
    WIDTH: constexpr, HEADS: constexpr, PAD: constexpr, OUT: constexpr,
):  # fmt: skip
    """Unfold the layer norm from half of the weight gradients; write them, return its scale's and shift's."""
    hidden, wide = START + tl.arange(0, WIDTH), tl.arange(0, WIDTH)
    head, out = tl.arange(0, PAD)[None, :], tl.arange(0, OUT)[None, :]
    row: constexpr = WIDTH + HEADS
    raw = tl.load(up + hidden[:, None] * row + wide[None, :])
    bias = tl.sum(tl.where(head == HEADS, sums[1], 0.0), 1)
    unfolded = sums[0] * tl.load(gain + wide)[None, :] + bias[:, None] * tl.load(shift + wide)[None, :]
    at += 2 * WIDTH
    tl.store(at + hidden[:, None] * row + wide[None, :], unfolded)
    tl.store(at + hidden[:, None] * row + WIDTH + head, sums[1], mask=head < HEADS)
    at += 2 * WIDTH * row
    tl.store(at + hidden, bias)
    at += 2 * WIDTH
    tl.store(at + wide[:, None] * (2 * WIDTH) + hidden[None, :], sums[2])
    tl.store(at + (WIDTH + out) * (2 * WIDTH) + hidden[:, None], sums[3], mask=out < 2 * HEADS)
    return tl.sum(raw * sums[0], 0), tl.sum(raw * bias[:, None], 0)


@triton.jit
def _backward(
    edges, scores, gain, shift, up, up_bias, down, grad_new, grad_logits,
    grad_edges, grad_scores, partial, cells, total,
    WIDTH: constexpr, HEADS: constexpr, PAD: constexpr, OUT: constexpr,
    ALIGN: constexpr, FAST: constexpr, BLOCK: constexpr, STAGES: constexpr,
):  # fmt: skip
    kind: constexpr = edges.dtype.element_ty
    half_a = _weights(gain, shift, up, up_bias, down, 0, WIDTH, HEADS, PAD, OUT, kind)
    half_b = _weights(gain, shift, up, up_bias, down, WIDTH, WIDTH, HEADS, PAD, OUT, kind)
    wide, out, head = tl.arange(0, WIDTH), tl.arange(0, OUT), tl.arange(0, PAD)
    square, sum_new = tl.zeros((WIDTH, WIDTH), tl.float32), tl.zeros((WIDTH, PAD), tl.float32)
    sums_a = (square, sum_new, square, tl.zeros((WIDTH, OUT), tl.float32))
    sums_b = sums_a
    sum_logits = tl.zeros((OUT, BLOCK // ALIGN), tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(total, BLOCK), tl.num_programs(0), num_stages=STAGES):
        edge = tile * BLOCK + tl.arange(0, BLOCK)
        here, inside = edge.to(tl.int64)[:, None] * WIDTH + wide[None, :], (edge < total)[:, None]
        # beyond the last edge every incoming gradient is 0, so nothing is added there
        state = tl.load(edges + here, mask=inside, other=0.0)
        into = tl.load(grad_new + here, mask=inside, other=0.0)
        offset, mask = _by_head(edge, cells, total, 2 * HEADS, OUT, ALIGN)
        into_logits = tl.load(grad_logits + offset, mask=mask, other=0.0)
        offset, mask = _by_head(edge, cells, total, HEADS, PAD, ALIGN)
        score = _scores(scores, offset, mask, HEADS, PAD, kind)
        x, middle, scale = standardise(state, WIDTH)
        # row HEADS of the scores is all ones: what it collects is a sum over the edges, a bias gradient
        sum_new = tl.dot(tl.trans(into), tl.trans(score), sum_new, input_precision="ieee")
        sum_logits += tl.sum(tl.reshape(into_logits.to(tl.float32), (OUT, BLOCK // ALIGN, ALIGN)), 2)
        grad_x, grad_score = tl.zeros((BLOCK, WIDTH), tl.float32), tl.zeros((BLOCK, PAD), tl.float32)
        given = (x.to(kind), score, into, into_logits)
        sums_a, grad_x, grad_score = _backward_half(given, half_a, sums_a, grad_x, grad_score, FAST)
        sums_b, grad_x, grad_score = _backward_half(given, half_b, sums_b, grad_x, grad_score, FAST)
        tl.store(grad_scores + offset, tl.trans(grad_score).to(grad_scores.dtype.element_ty), mask=mask)
        # read again, not kept: registers are scarcer than cached reads (the policy keeps the two reads apart)
        state = tl.load(edges + here, mask=inside, other=0.0, eviction_policy="evict_first")
        into = tl.load(grad_new + here, mask=inside, other=0.0, eviction_policy="evict_first")
        centred = (state.to(tl.float32) - middle) * scale
        along = tl.sum(grad_x * centred, 1, keep_dims=True) * (1.0 / WIDTH)
        grad_x -= tl.sum(grad_x, 1, keep_dims=True) * (1.0 / WIDTH) + centred * along
        tl.store(grad_edges + here, (grad_x * scale + into.to(tl.float32)).to(kind), mask=inside)

    size: constexpr = 2 * WIDTH * (2 * WIDTH + 3 * HEADS) + 5 * WIDTH + 2 * HEADS
    at = partial + tl.program_id(0) * size
    gain_a, shift_a = _write_half(at, gain, shift, up, sums_a, 0, WIDTH, HEADS, PAD, OUT)
    gain_b, shift_b = _write_half(at, gain, shift, up, sums_b, WIDTH, WIDTH, HEADS, PAD, OUT)
    tl.store(at + wide, gain_a + gain_b)
    tl.store(at + WIDTH + wide, shift_a + shift_b)
    at += size - WIDTH - 2 * HEADS
    tl.store(at + wide, tl.sum(tl.where((head == HEADS)[None, :], sum_new, 0.0), 1))
    tl.store(at + WIDTH + out, tl.sum(sum_logits, 1), mask=out < 2 * HEADS)


def _shapes(width: int, heads: int) -> list[tuple[int, ...]]:
    """Return the shapes of the parameters in the order in which `_backward` writes their gradients."""
    hidden, out = 2 * width, width + 2 * heads
    return [(width,), (width,), (hidden, width + heads), (hidden,), (out, hidden), (out,)]


def _programs(launch: Launch, edges: Tensor) -> int:
    """Return how many programs share the tiles: as many as run at once (in the interpreter: a few)."""
    processors = torch.cuda.get_device_properties(edges.device).multi_processor_count if edges.is_cuda else 3
    return min(launch.programs * processors, -(-edges.shape[:3].numel() // launch.block))


def _run(kernel: Any, launch: Launch, heads: int, edges: Tensor, *tensors: Tensor) -> None:
    total, cells, width = edges.shape[:3].numel(), edges.shape[1] * edges.shape[2], edges.shape[3]
    bound = {} if launch.registers is None else {"maxnreg": launch.registers}
    with torch.cuda.device_of(edges):
        kernel[(_programs(launch, edges),)](
            edges, *tensors, cells, total, WIDTH=width, HEADS=heads, PAD=16 if heads <= 8 else 32,
            OUT=max(16, 2 * heads), ALIGN=math.gcd(cells, 8), BLOCK=launch.block, STAGES=launch.stages,
            FAST=edges.is_cuda and edges.dtype != torch.float32, num_warps=launch.warps, **bound,
        )  # fmt: skip


def mixed(edges: Tensor, scores: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return new edges and logits as `mix_edges` does; knows no gradients, and takes weights in float32."""
    new_edges, logits = torch.empty_like(edges), edges.new_empty(len(edges), 2 * scores.shape[1], *edges.shape[1:3])
    _run(_forward, FORWARD, scores.shape[1], edges, scores, *weights, new_edges, logits)
    return new_edges, logits


def mixed_backward(
    edges: Tensor, scores: Tensor, *weights_and_gradients: Tensor
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the gradients of edges, of scores and of each weight.

    After edges and scores come all weights but the last, which no gradient depends on, and the gradients of new edges
    and logits; every tensor is contiguous.
    """
    width, heads = edges.shape[-1], scores.shape[1]
    grad_edges, grad_scores, shapes = torch.empty_like(edges), torch.empty_like(scores), _shapes(width, heads)
    sizes = [math.prod(shape) for shape in shapes]
    total = edges.new_empty(sum(sizes), dtype=torch.float32)
    partial = total.new_empty(_programs(BACKWARD, edges), total.numel())
    _run(_backward, BACKWARD, heads, edges, scores, *weights_and_gradients, grad_edges, grad_scores, partial)
    pieces = torch.sum(partial, 0, out=total).split(sizes)
    return grad_edges, grad_scores, [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, scores: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(edges, scores, *weights[:-1])
        return mixed(edges, scores, *weights)

    @staticmethod
    def backward(ctx: Any, grad_new: Tensor, grad_logits: Tensor) -> tuple[Tensor, ...]:
        gradients = mixed_backward(*ctx.saved_tensors, grad_new.contiguous(), grad_logits.contiguous())
        return gradients[0], gradients[1], *gradients[2]


def mix_edges(edges: Tensor, scores: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return new edges (N, R, C, c) and logits (N, 2 · heads, R, C), both in the dtype of the edges (N, R, C, c).

    Scores (N, heads, R, C) have any floating dtype; the weights are those of a `NormedMLP`.
    """
    tensors = (edges, scores, *(weight.float() for weight in weights))
    result: tuple[Tensor, Tensor] = _Mix.apply(*(x.contiguous() for x in tensors))  # type: ignore[no-untyped-call]
    return result


def read_edges(edges: Tensor, scores: Tensor, *weights: Tensor) -> Tensor:
    """Return logits (N, R, C), float32, from edges (N, R, C, c), scores (N, heads, R, C) and a `NormedMLP`."""
    heads, (rows, columns), width = scores.shape[1], edges.shape[1:3], edges.shape[3]
    logits = edges.new_empty(edges.shape[:3], dtype=torch.float32)
    launch, cells, total = FORWARD, rows * columns, logits.numel()
    if total:
        with torch.cuda.device_of(edges):
            _read_out[(_programs(launch, edges),)](
                edges.contiguous(), scores.contiguous(), *(w.contiguous() for w in weights), logits, cells, total,
                WIDTH=width, HEADS=heads, PAD=16 if heads <= 8 else 32, ALIGN=math.gcd(cells, 8), BLOCK=launch.block,
                FAST=edges.is_cuda and edges.dtype != torch.float32, num_warps=launch.warps,
            )  # fmt: skip
    return logits
