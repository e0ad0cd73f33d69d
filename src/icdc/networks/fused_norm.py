# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Layer normalisation of narrow states: one kernel forward and one backward, with no copy in float32 beside them.

Statistics, scale and shift are float32, in registers. The backward kernel computes the statistics again: it reads
the input anyway. Each of its programs walks over many rows and keeps its share of the gradients of scale and shift;
the shares are added in a fixed order: results do not vary from run to run. The gradient of a bias, a sum over rows
as well, is computed in the same way.
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

WIDTHS = (16, 32, 64, 128, 256)
FORWARD, BACKWARD = fused.Launch(4096, 4, 0, 1), fused.Launch(4096, 8, 3, 1)
SUMS = fused.Launch(8192, 8, 1, 1)
"""Here a block is so many numbers, of as many rows as that makes."""


@fused._jit
def _forward(states, scale, shift, result, rows, WIDTH: constexpr, BLOCK: constexpr):
    row, channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    here, inside = row.to(tl.int64)[:, None] * WIDTH + channel[None, :], (row < rows)[:, None]
    x = fused._standardise(tl.load(states + here, mask=inside, other=0.0), WIDTH)[0]
    x = x * tl.load(scale + channel)[None, :] + tl.load(shift + channel)[None, :]
    tl.store(result + here, x.to(result.dtype.element_ty), mask=inside)


@fused._jit
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
        x, _, deviation = fused._standardise(state, WIDTH)
        to_scale += into * x
        to_shift += into
        into *= gain
        along = tl.sum(into * x, 1, keep_dims=True) * (1.0 / WIDTH)
        into -= tl.sum(into, 1, keep_dims=True) * (1.0 / WIDTH) + x * along
        tl.store(grad_states + here, (into * deviation).to(grad_states.dtype.element_ty), mask=inside)
    at = partial + tl.program_id(0) * (2 * WIDTH) + channel
    tl.store(at, tl.sum(to_scale, 0))
    tl.store(at + WIDTH, tl.sum(to_shift, 0))


@fused._jit
def _shares(values, partial, rows, WIDTH: constexpr, BLOCK: constexpr):
    channel = tl.arange(0, WIDTH)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, BLOCK), tl.num_programs(0)):
        row = tile * BLOCK + tl.arange(0, BLOCK)
        here = row.to(tl.int64)[:, None] * WIDTH + channel[None, :]
        total += tl.load(values + here, mask=(row < rows)[:, None], other=0.0).to(tl.float32)
    tl.store(partial + tl.program_id(0) * WIDTH + channel, tl.sum(total, 0))


@fused._jit
def _total(partial, result, count, WIDTH: constexpr, SPAN: constexpr, BLOCK: constexpr):
    channel = tl.program_id(0) * SPAN + tl.arange(0, SPAN)
    total = tl.zeros((BLOCK, SPAN), tl.float32)
    for start in range(0, count, BLOCK):
        share = start + tl.arange(0, BLOCK)
        total += tl.load(partial + share[:, None] * WIDTH + channel[None, :], mask=(share < count)[:, None], other=0.0)
    tl.store(result + channel, tl.sum(total, 0).to(result.dtype.element_ty))


def supports(states: Tensor) -> bool:
    """Return whether `layer_norm` takes such states (..., width)."""
    kinds = (torch.float32, torch.float16) if fused.INTERPRETED else (torch.bfloat16, torch.float16)
    return states.dtype in kinds and states.shape[-1] in WIDTHS and fused.available(states.device)


def sums_bias(states: Tensor, width: int) -> bool:
    """Return whether `linear` takes such states to so many channels: under autocast, or narrow as they are."""
    device = states.device.type
    cast = torch.is_autocast_enabled(device)
    kinds = (torch.float32, torch.float16) if fused.INTERPRETED else (torch.bfloat16, torch.float16)
    dtype = torch.get_autocast_dtype(device) if cast else states.dtype
    return dtype in kinds and width in (*WIDTHS, 512) and fused.available(states.device)


def _programs(launch: fused.Launch, rows: int, block: int, device: torch.device) -> int:
    """Return how many programs share the rows: two tiles for each at least, so that few shares remain."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 3
    return max(1, min(-(-rows // (2 * block)), processors * launch.programs))


@torch.library.custom_op("icdc::layer_norm", mutates_args=())
def _norm(states: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    width = states.shape[-1]
    rows, block = states.numel() // width, FORWARD.block // width
    result = states.new_empty(states.shape)
    if rows:
        with torch.cuda.device_of(states):
            _forward[(triton.cdiv(rows, block),)](
                states.contiguous(), scale.contiguous(), shift.contiguous(), result, rows, WIDTH=width, BLOCK=block,
                num_warps=FORWARD.warps,
            )  # fmt: skip
    return result


@_norm.register_fake
def _like_states(states: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return states.new_empty(states.shape)


@torch.library.custom_op("icdc::layer_norm_backward", mutates_args=())
def _norm_backward(states: Tensor, scale: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of the states, and of scale and shift (2, width)."""
    width = states.shape[-1]
    rows, block = states.numel() // width, BACKWARD.block // width
    grad_states, total = _like_gradients(states, scale, grad)
    programs = _programs(BACKWARD, rows, block, states.device)
    partial = total.new_empty(programs, 2, width)
    with torch.cuda.device_of(states):
        _backward[(programs,)](
            states.contiguous(), scale.contiguous(), grad.contiguous(), grad_states, partial, rows, WIDTH=width,
            BLOCK=block, num_warps=BACKWARD.warps,
        )  # fmt: skip
    return grad_states, torch.sum(partial, 0, out=total)


@_norm_backward.register_fake
def _like_gradients(states: Tensor, scale: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    return states.new_empty(states.shape), states.new_empty(2, states.shape[-1], dtype=torch.float32)


def _save_inputs(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    grad_states, parameters = _norm_backward(*ctx.saved_tensors, grad)
    return grad_states, parameters[0], parameters[1]


_norm.register_autograd(_differentiate, setup_context=_save_inputs)


def layer_norm(states: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Normalise states (..., width) over their last axis, then scale and shift them by (width,); dtype is kept."""
    result: Tensor = _norm(states, scale.float(), shift.float())
    return result


@torch.library.custom_op("icdc::sum_rows", mutates_args=())
def sum_rows(values: Tensor) -> Tensor:
    """Return the sum of values (..., width) over all axes but the last, added up in float32; dtype is kept."""
    width = values.shape[-1]
    rows, block = values.numel() // width, SUMS.block // width
    programs, span = _programs(SUMS, rows, block, values.device), min(width, 32)
    partial = values.new_empty(programs, width, dtype=torch.float32)
    result = values.new_empty(width)
    with torch.cuda.device_of(values):
        _shares[(programs,)](values.contiguous(), partial, rows, WIDTH=width, BLOCK=block, num_warps=SUMS.warps)
        _total[(width // span,)](partial, result, programs, WIDTH=width, SPAN=span, BLOCK=64, num_warps=4)
    return result


@sum_rows.register_fake
def _like_row(values: Tensor) -> Tensor:
    return values.new_empty(values.shape[-1])


class _BiasGradient(torch.autograd.Function):
    """The identity, which hands the bias that is in its input already a gradient."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, bias: Tensor) -> Tensor:
        return states.view_as(states)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, sum_rows(grad)


def linear(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Map states (..., in) to (..., out) as `F.linear` does; the gradient of the bias comes from `sum_rows`."""
    out = F.linear(states, weight, bias.detach())
    result: Tensor = _BiasGradient.apply(out, bias)  # type: ignore[no-untyped-call]
    return result
