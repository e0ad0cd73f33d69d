# mypy: allow-untyped-defs, allow-incomplete-defs
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""The draws of `icdc.noise` as one GPU kernel each: the hash is some thirty tiny operations otherwise.

Keys, integers and uniform numbers are the same to the last bit as those of the plain operations; Gumbel noise
differs by the rounding of the logarithm.
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


@_jit()
def _stream(key, mixed_draw):
    """Return what `fold` makes of keys and the hashed number of a draw."""
    golden = tl.full((), 0x9E3779B9, tl.uint32)
    return _mix(_mix(key.to(tl.uint32) + golden) ^ mixed_draw.to(tl.uint32))


@_jit()
def _bits(stream, element):
    golden = tl.full((), 0x9E3779B9, tl.uint32)
    return _mix(stream + _mix(element.to(tl.uint32) * golden))


@_jit()
def _uniform(stream, element):
    return ((_bits(stream, element) >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07


@_jit()
def _gumbel(stream, element):
    return -tl.log(-tl.log(_uniform(stream, element)))


# the number of a draw is not to be compiled into the kernel
@_jit(do_not_specialize=["mixed_draw"])
def _draw(keys, out, mixed_draw, count, total, high, KIND: constexpr, BLOCK: constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < total
    stream = _stream(tl.load(keys + index // count, mask=inside, other=0), mixed_draw)
    element = (index % count).to(tl.uint32)
    if KIND == "uniform":
        value = _uniform(stream, element)
    elif KIND == "gumbel":
        value = _gumbel(stream, element)
    elif KIND == "integers":
        value = (_bits(stream, element).to(tl.int64) * high) >> 32
    else:  # "keys": those of an item's children
        value = _stream(stream, _mix(element + 1)).to(tl.int64)
    tl.store(out + index, value, mask=inside)


def signed(mixed_draw: int) -> int:
    """Return a hashed number as an integer that is always 32 bits wide for a kernel."""
    return mixed_draw - 2**32 if mixed_draw >= 2**31 else mixed_draw


def _launch(keys: Tensor, out: Tensor, mixed_draw: int, kind: str, high: int = 0) -> Tensor:
    total = out.numel()
    if total:
        grid = (triton.cdiv(total, _BLOCK),)
        count = out.shape[1]
        _draw[grid](keys.contiguous(), out, signed(mixed_draw), count, total, high, KIND=kind, BLOCK=_BLOCK)
    return out


@torch.library.custom_op("icdc::draw", mutates_args=())
def draw(keys: Tensor, mixed_draw: int, count: int, gumbel: bool) -> Tensor:
    """Return uniform or Gumbel noise (N, count), float32, for keys (N,) and the hashed number of the draw."""
    return _launch(keys, _like_noise(keys, mixed_draw, count, gumbel), mixed_draw, "gumbel" if gumbel else "uniform")


@draw.register_fake
def _like_noise(keys: Tensor, mixed_draw: int, count: int, gumbel: bool) -> Tensor:
    return torch.empty(len(keys), count, device=keys.device)


@torch.library.custom_op("icdc::draw_integers", mutates_args=())
def draw_integers(keys: Tensor, mixed_draw: int, count: int, high: int) -> Tensor:
    """Return integers (N, count) uniform on {0, …, high − 1}, int64."""
    return _launch(keys, _like_integers(keys, mixed_draw, count, high), mixed_draw, "integers", high)


@draw_integers.register_fake
def _like_integers(keys: Tensor, mixed_draw: int, count: int, high: int) -> Tensor:
    return torch.empty(len(keys), count, dtype=torch.long, device=keys.device)


@torch.library.custom_op("icdc::draw_keys", mutates_args=())
def draw_keys(keys: Tensor, mixed_draw: int, count: int) -> Tensor:
    """Return the keys of `count` children of every item, (N, count), int64."""
    return _launch(keys, _like_keys(keys, mixed_draw, count), mixed_draw, "keys")


@draw_keys.register_fake
def _like_keys(keys: Tensor, mixed_draw: int, count: int) -> Tensor:
    return torch.empty(len(keys), count, dtype=torch.long, device=keys.device)
