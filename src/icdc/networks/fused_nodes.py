# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""What `EdgeLayer` does to its nodes, on a GPU: one kernel before the attention and one after, and one for each back.

Nodes are few beside edges, and every layer norm, bias, GELU and residual on them would be a kernel that is over before
it has filled the chip. Backward, a kernel computes again what it needs from the input of its part, and hands over both
factors of every weight gradient, which are ordinary matrix products; sums over nodes leave it as one share a program.
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
BLOCK = 64
"""Nodes of a program."""
FORWARD_WARPS, BACKWARD_WARPS = 4, 8
WITH_GRADIENTS = False
"""Whether training uses these kernels too: right in triton's interpreter, but not yet measured on a GPU."""


def supports(nodes: Tensor, edge_width: int, hidden: int) -> bool:
    """Return whether the kernels take nodes (N, items, d) with an edge state and a feed-forward part so wide."""
    kinds = (torch.float32, torch.float16) if fused.INTERPRETED else (torch.bfloat16, torch.float16)
    fits = nodes.shape[-1] in WIDTHS and edge_width in fused.WIDTHS and hidden % nodes.shape[-1] == 0
    wanted = WITH_GRADIENTS or not torch.is_grad_enabled()
    return fits and wanted and nodes.dtype in kinds and fused.available(nodes.device)


@fused._jit
def _floats(pointer, COUNT: constexpr):
    """Return a row (1, COUNT) of parameters in float32."""
    return tl.load(pointer + tl.arange(0, COUNT)).to(tl.float32)[None, :]


@fused._jit
def _block(pointer, ROW: constexpr, first_row, first_column, ROWS: constexpr, COLUMNS: constexpr, TYPE: constexpr):
    """Return a block (ROWS, COLUMNS) of weights with rows of length ROW."""
    i, j = first_row + tl.arange(0, ROWS)[:, None], first_column + tl.arange(0, COLUMNS)[None, :]
    return tl.load(pointer + i * ROW + j).to(TYPE)


@fused._jit
def _transposed(pointer, ROW: constexpr, first_row, first_column, ROWS: constexpr, COLUMNS: constexpr, TYPE: constexpr):
    """Return the transpose (COLUMNS, ROWS) of such a block."""
    i, j = first_row + tl.arange(0, ROWS)[None, :], first_column + tl.arange(0, COLUMNS)[:, None]
    return tl.load(pointer + i * ROW + j).to(TYPE)


@fused._jit
def _norm_gradient(grad, x, deviation, gain, WIDTH: constexpr):
    """Return the gradient of a layer norm's input from that of its output, for x standardised."""
    grad = grad * gain
    along = tl.sum(grad * x, 1, keep_dims=True) * (1.0 / WIDTH)
    return (grad - tl.sum(grad, 1, keep_dims=True) * (1.0 / WIDTH) - x * along) * deviation


@fused._jit
def _project(
    nodes, gain, shift, time, weight, out, items, total,
    WIDTH: constexpr, OUT: constexpr, TIMED: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = nodes.dtype.element_ty
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, at, channel = (node < total)[:, None], node.to(tl.int64)[:, None], tl.arange(0, WIDTH)[None, :]
    x = fused._standardise(tl.load(nodes + at * WIDTH + channel, mask=inside, other=0.0), WIDTH)[0]
    x = x * _floats(gain, WIDTH) + _floats(shift, WIDTH)
    if TIMED:
        x += tl.load(time + (at // items) * WIDTH + channel, mask=inside, other=0.0).to(tl.float32)
    x = x.to(kind)
    for start in range(0, OUT, WIDTH):
        result = tl.dot(x, _transposed(weight, WIDTH, start, 0, WIDTH, WIDTH, kind), input_precision="ieee")
        tl.store(out + at * OUT + start + channel, result.to(kind), mask=inside)


@fused._jit
def _project_backward(
    nodes, gain, shift, time, weight, grad, seen, grad_seen, grad_nodes, partial, items, total,
    WIDTH: constexpr, OUT: constexpr, TIMED: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = nodes.dtype.element_ty
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, at, channel = (node < total)[:, None], node.to(tl.int64)[:, None], tl.arange(0, WIDTH)[None, :]
    into = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, OUT, WIDTH):
        part = tl.load(grad + at * OUT + start + channel, mask=inside, other=0.0)
        into = tl.dot(part, _block(weight, WIDTH, start, 0, WIDTH, WIDTH, kind), into, input_precision="ieee")
    x, _, deviation = fused._standardise(tl.load(nodes + at * WIDTH + channel, mask=inside, other=0.0), WIDTH)
    scale = _floats(gain, WIDTH)
    given = x * scale + _floats(shift, WIDTH)
    if TIMED:
        given += tl.load(time + (at // items) * WIDTH + channel, mask=inside, other=0.0).to(tl.float32)
        tl.store(grad_seen + at * WIDTH + channel, into.to(kind), mask=inside)
    tl.store(seen + at * WIDTH + channel, given.to(kind), mask=inside)
    share = partial + tl.program_id(0) * (2 * WIDTH) + tl.arange(0, WIDTH)
    tl.store(share, tl.sum(into * x, 0))
    tl.store(share + WIDTH, tl.sum(into, 0))
    result = _norm_gradient(into, x, deviation, scale, WIDTH)
    tl.store(grad_nodes + at * WIDTH + channel, result.to(kind), mask=inside)


@fused._jit
def _update(
    nodes, gathered, means, out_weight, out_bias, gain, shift, up, up_bias, down, down_bias, result, middle, total,
    WIDTH: constexpr, EDGE: constexpr, HIDDEN: constexpr, KEEP: constexpr, FAST: constexpr, BLOCK: constexpr,
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
    if KEEP:  # what the backward kernel begins with, rounded as that will find it
        tl.store(middle + at * WIDTH + channel, x.to(kind), mask=inside)
        x = x.to(kind).to(tl.float32)
    normal = (fused._standardise(x, WIDTH)[0] * _floats(gain, WIDTH) + _floats(shift, WIDTH)).to(kind)
    for start in range(0, HIDDEN, 64):
        inner = tl.dot(normal, _transposed(up, WIDTH, start, 0, 64, WIDTH, kind), input_precision="ieee")
        inner = fused._gelu(inner + _floats(up_bias + start, 64), FAST)[0]
        x = tl.dot(inner.to(kind), _transposed(down, HIDDEN, 0, start, WIDTH, 64, kind), x, input_precision="ieee")
    x += _floats(down_bias, WIDTH)
    tl.store(result + at * WIDTH + channel, x.to(kind), mask=inside)


@fused._jit
def _update_backward(
    middle, out_weight, gain, shift, up, up_bias, down, grad,
    normal_out, inner_out, grad_inner, grad_middle, grad_gathered, grad_means, partial, total,
    WIDTH: constexpr, EDGE: constexpr, HIDDEN: constexpr, FAST: constexpr, BLOCK: constexpr,
):  # fmt: skip
    kind: constexpr = middle.dtype.element_ty
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, at = (node < total)[:, None], node.to(tl.int64)[:, None]
    channel, thin, part = tl.arange(0, WIDTH)[None, :], tl.arange(0, EDGE)[None, :], tl.arange(0, 64)[None, :]
    share = partial + tl.program_id(0) * (4 * WIDTH + HIDDEN)
    # beyond the last node the incoming gradient is 0, so nothing is added to any sum there
    into = tl.load(grad + at * WIDTH + channel, mask=inside, other=0.0)
    x, _, deviation = fused._standardise(tl.load(middle + at * WIDTH + channel, mask=inside, other=0.0), WIDTH)
    normal = (x * _floats(gain, WIDTH) + _floats(shift, WIDTH)).to(kind)
    tl.store(normal_out + at * WIDTH + channel, normal, mask=inside)
    to_normal = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, HIDDEN, 64):
        inner = tl.dot(normal, _transposed(up, WIDTH, start, 0, 64, WIDTH, kind), input_precision="ieee")
        inner, slope = fused._gelu(inner + _floats(up_bias + start, 64), FAST)
        tl.store(inner_out + at * HIDDEN + start + part, inner.to(kind), mask=inside)
        to_inner = tl.dot(into, _block(down, HIDDEN, 0, start, WIDTH, 64, kind), input_precision="ieee") * slope
        tl.store(share + 4 * WIDTH + start + tl.arange(0, 64), tl.sum(to_inner, 0))
        narrow = to_inner.to(kind)
        tl.store(grad_inner + at * HIDDEN + start + part, narrow, mask=inside)
        to_normal = tl.dot(narrow, _block(up, WIDTH, start, 0, 64, WIDTH, kind), to_normal, input_precision="ieee")
    share += tl.arange(0, WIDTH)
    tl.store(share, tl.sum(to_normal * x, 0))
    tl.store(share + WIDTH, tl.sum(to_normal, 0))
    tl.store(share + 2 * WIDTH, tl.sum(into.to(tl.float32), 0))
    result = _norm_gradient(to_normal, x, deviation, _floats(gain, WIDTH), WIDTH) + into.to(tl.float32)
    tl.store(share + 3 * WIDTH, tl.sum(result, 0))
    narrow = result.to(kind)
    tl.store(grad_middle + at * WIDTH + channel, narrow, mask=inside)
    weights = _block(out_weight, WIDTH + EDGE, 0, 0, WIDTH, WIDTH, kind)
    result = tl.dot(narrow, weights, input_precision="ieee")
    tl.store(grad_gathered + at * WIDTH + channel, result.to(kind), mask=inside)
    weights = _block(out_weight, WIDTH + EDGE, 0, WIDTH, WIDTH, EDGE, kind)
    result = tl.dot(narrow, weights, input_precision="ieee")
    tl.store(grad_means + at * EDGE + thin, result.to(kind), mask=inside)


def _programs(nodes: Tensor) -> int:
    return -(-nodes.shape[:-1].numel() // BLOCK)


def _run(kernel: Any, warps: int, nodes: Tensor, *arguments: Any, **sizes: Any) -> None:
    if nodes.numel():
        with torch.cuda.device_of(nodes):
            kernel[(_programs(nodes),)](
                nodes,
                *arguments,
                nodes.shape[:-1].numel(),
                WIDTH=nodes.shape[-1],
                BLOCK=BLOCK,
                num_warps=warps,
                num_stages=1,
                **sizes,
            )  # fmt: skip, without prefetching several programs share a multiprocessor


def _flat(tensor: Tensor) -> Tensor:
    return tensor.view(-1, tensor.shape[-1])


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, nodes: Tensor, gain: Tensor, shift: Tensor, weight: Tensor, time: Tensor | None) -> Tensor:
        ctx.save_for_backward(nodes, gain, shift, weight, time)
        return _projected(nodes, gain, shift, weight, time)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        nodes, gain, shift, weight, time = ctx.saved_tensors
        grad = grad.contiguous()
        seen, grad_nodes = torch.empty_like(nodes), torch.empty_like(nodes)
        grad_seen = seen if time is None else torch.empty_like(nodes)
        partial = grad.new_empty(_programs(nodes), 2, nodes.shape[-1], dtype=torch.float32)
        given = nodes if time is None else time
        arguments = gain, shift, given, weight, grad, seen, grad_seen, grad_nodes, partial, nodes.shape[-2]
        _run(_project_backward, BACKWARD_WARPS, nodes, *arguments, OUT=len(weight), TIMED=time is not None)
        to_gain, to_shift = partial.sum(0)
        to_time = None if time is None else grad_seen.sum(-2)
        return grad_nodes, to_gain, to_shift, _flat(grad).t() @ _flat(seen), to_time


def _projected(nodes: Tensor, gain: Tensor, shift: Tensor, weight: Tensor, time: Tensor | None) -> Tensor:
    out = nodes.new_empty(*nodes.shape[:-1], len(weight))
    arguments = gain, shift, nodes if time is None else time, weight, out, nodes.shape[-2]
    _run(_project, FORWARD_WARPS, nodes, *arguments, OUT=len(weight), TIMED=time is not None)
    return out


def project(
    nodes: Tensor, norm_weight: Tensor, norm_bias: Tensor, weight: Tensor, time: Tensor | None = None
) -> Tensor:
    """Return (norm(nodes) + time) · weightᵀ, (N, items, OUT), for nodes (N, items, d) and time (N, d)."""
    tensors = [tensor.contiguous() for tensor in (nodes, norm_weight, norm_bias, weight)]
    given = None if time is None else time.contiguous()
    if not torch.is_grad_enabled():
        return _projected(tensors[0], tensors[1], tensors[2], tensors[3], given)
    result: Tensor = _Project.apply(*tensors, given)  # type: ignore[no-untyped-call]
    return result


class _Update(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, nodes: Tensor, gathered: Tensor, means: Tensor, *parameters: Tensor) -> Tensor:
        middle = torch.empty_like(nodes)
        ctx.save_for_backward(middle, gathered, means, *parameters)
        return _updated(middle, nodes, gathered, means, *parameters)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        middle, gathered, means, out_weight, _, gain, shift, up, up_bias, down, _ = ctx.saved_tensors
        grad, (width, hidden) = grad.contiguous(), (middle.shape[-1], len(up))
        normal, grad_middle, grad_gathered = (torch.empty_like(middle) for _ in range(3))
        inner, grad_inner = (middle.new_empty(*middle.shape[:-1], hidden) for _ in range(2))
        grad_means = torch.empty_like(means)
        partial = grad.new_empty(_programs(middle), 4 * width + hidden, dtype=torch.float32)
        factors = normal, inner, grad_inner, grad_middle, grad_gathered, grad_means, partial
        weights = out_weight, gain, shift, up, up_bias, down
        _run(_update_backward, BACKWARD_WARPS, middle, *weights, grad, *factors, **_sizes(means, up))
        to_gain, to_shift, to_down_bias, to_out_bias, to_up_bias = partial.sum(0).split([width] * 4 + [hidden])
        into = _flat(grad_middle).t()
        to_out = torch.cat([into @ _flat(gathered), into @ _flat(means)], 1)
        to_up, to_down = _flat(grad_inner).t() @ _flat(normal), _flat(grad).t() @ _flat(inner)
        to_maps = to_out, to_out_bias, to_gain, to_shift, to_up, to_up_bias, to_down, to_down_bias
        return grad_middle, grad_gathered, grad_means, *to_maps


def _sizes(means: Tensor, up: Tensor) -> dict[str, int]:
    fast = means.is_cuda and means.dtype != torch.float32
    return {"EDGE": means.shape[-1], "HIDDEN": len(up), "FAST": fast}


def _updated(middle: Tensor | None, nodes: Tensor, gathered: Tensor, means: Tensor, *parameters: Tensor) -> Tensor:
    """Return the new nodes, and write what the backward kernel needs to `middle`, if there is one."""
    result, keep = torch.empty_like(nodes), middle is not None
    arguments = gathered, means, *parameters, result, middle if keep else result
    _run(_update, FORWARD_WARPS, nodes, *arguments, KEEP=keep, **_sizes(means, parameters[4]))
    return result


def update(nodes: Tensor, gathered: Tensor, means: Tensor, *parameters: Tensor) -> Tensor:
    """Return nodes (N, items, d) after what they gathered (N, items, d), edge means (N, items, c), and feed-forward.

    `parameters` are weight and bias of the output map (d, d + c), of the norm, and of the two feed-forward maps.
    """
    tensors = [tensor.contiguous() for tensor in (nodes, gathered, means, *parameters)]
    if not torch.is_grad_enabled():
        return _updated(None, *tensors)
    result: Tensor = _Update.apply(*tensors)  # type: ignore[no-untyped-call]
    return result
