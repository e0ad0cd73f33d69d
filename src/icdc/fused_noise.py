# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""The draws of `icdc.noise` as one GPU kernel each: the hash is some thirty tiny operations otherwise.

Uniform numbers are the same to the last bit as those of the plain operations; Gumbel noise differs by the rounding
of the logarithm.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:  # a build of torch without a GPU comes without triton
    triton, constexpr = None, int

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # kernels run in Python, on tensors of the CPU
_BLOCK = 1024


def available(device: torch.device) -> bool:
    """Return whether the kernels run on a device."""
    return triton is not None and (device.type == "cuda" or INTERPRETED)


def _jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    return lambda function: function if triton is None else triton.jit(function, **options)


@_jit()
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


# the number of a draw is not to be compiled into the kernel
@_jit(do_not_specialize=["mixed_draw"])
def _draw(keys, out, mixed_draw, count, total, GUMBEL: constexpr, BLOCK: constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < total
    key = tl.load(keys + index // count, mask=inside, other=0).to(tl.uint32)
    element = (index % count).to(tl.uint32)
    golden = tl.full((), 0x9E3779B9, tl.uint32)
    stream = _mix(_mix(key + golden) ^ mixed_draw.to(tl.uint32))
    bits = _mix(stream + _mix(element * golden))
    value = ((bits >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
    if GUMBEL:
        value = -tl.log(-tl.log(value))
    tl.store(out + index, value, mask=inside)


@torch.library.custom_op("icdc::draw", mutates_args=())
def draw(keys: Tensor, mixed_draw: int, count: int, gumbel: bool) -> Tensor:
    """Return uniform or Gumbel noise (N, count), float32, for keys (N,) and the hashed number of the draw."""
    out = torch.empty(len(keys), count, device=keys.device)
    total = out.numel()
    if total:
        signed = mixed_draw - 2**32 if mixed_draw >= 2**31 else mixed_draw  # always 32 bits wide for the kernel
        grid = (triton.cdiv(total, _BLOCK),)
        _draw[grid](keys.contiguous(), out, signed, count, total, GUMBEL=gumbel, BLOCK=_BLOCK)
    return out


@draw.register_fake
def _like_output(keys: Tensor, mixed_draw: int, count: int, gumbel: bool) -> Tensor:
    return torch.empty(len(keys), count, device=keys.device)
