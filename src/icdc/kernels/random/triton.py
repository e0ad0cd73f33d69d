# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Random numbers on a GPU: one kernel a draw, where torch operations take some thirty tiny ones.

The numbers are the same function of (key, draw, element) as on a CPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

BLOCK = 1024
"""Numbers of a program."""


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _stream(key, mixed_draw):
    """Return what `fold` makes of keys and the hashed number of a draw."""
    golden = tl.full((), 0x9E3779B9, tl.uint32)
    return _mix(_mix(key.to(tl.uint32) + golden) ^ mixed_draw.to(tl.uint32))


@triton.jit
def _bits(stream, element):
    golden = tl.full((), 0x9E3779B9, tl.uint32)
    return _mix(stream + _mix(element.to(tl.uint32) * golden))


@triton.jit
def _uniform(stream, element):
    return ((_bits(stream, element) >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07


@triton.jit
def _gumbel(stream, element):
    return -tl.log(-tl.log(_uniform(stream, element)))


# the number of a draw is not to be compiled into the kernel
@triton.jit(do_not_specialize=["mixed_draw"])
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


def draw(keys: Tensor, mixed_draw: int, count: int, kind: str, high: int = 0) -> Tensor:
    """Return numbers (N, count) of a kind for keys (N,) and the hashed number of the draw.

    "uniform" and "gumbel" are float32, "integers" below `high` and "keys" of children int64.
    """
    dtype = torch.float32 if kind in ("uniform", "gumbel") else torch.long
    out = torch.empty(len(keys), count, dtype=dtype, device=keys.device)
    if total := out.numel():
        with torch.cuda.device_of(keys):
            _draw[(triton.cdiv(total, BLOCK),)](
                keys.contiguous(), out, signed(mixed_draw), count, total, high, KIND=kind, BLOCK=BLOCK
            )
    return out
