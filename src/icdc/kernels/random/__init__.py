"""Random numbers as a pure function of (key, draw, element): a counter-based generator.

Every trajectory carries a 32-bit key. A draw hashes the key, the number of the draw and the position of the element, so
a trajectory sees the same numbers on any device, in any batch and in any chunk, a captured CUDA graph needs no
generator state, and a training run resumes from one integer. `Noise` is such a stream; the functions are its draws.

A draw is counted from 1; keys are 32-bit words in int64, one for each item of a batch. Each function returns `count`
numbers for every key, (N, count): the same ones on every device, up to the rounding of logarithms in Gumbel noise.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .. import dispatch

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


class GumbelNoise(NamedTuple):
    """Noise that a decoding draws: keys (N · decodes,), the number of the draw, and the temperature it scales with."""

    keys: Tensor
    draw: int
    temperature: float


def root_key(seed: int, device: torch.device | str = "cpu") -> Tensor:
    """Return the scalar key of a seed; all 64 bits of the seed count."""
    low, high = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    return fold(torch.full((), low, dtype=torch.int64, device=device), high)  # filled there: nothing is copied


class Noise:
    """A stream of random tensors for a batch of keys.

    Parameters
    ----------
    keys : Tensor (N,), int64
        One key per batch item. Items with equal keys see equal numbers.

    Each call draws fresh numbers; two `Noise` of the same keys draw the same sequence.
    """

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys
        self._draws = 0

    def spawn(self, count: int) -> "Noise":
        """Return noise for `count` children of each key, shape (N * count,), item-major."""
        return Noise(child_keys(self.keys, self._next(), count).flatten())

    def bits(self, *shape: int) -> Tensor:
        """Return 32 random bits per element as int64, shape (N, *shape)."""
        return random_bits(self.keys, self._next(), math.prod(shape)).view(-1, *shape)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform on the open interval (0, 1), float32, shape (N, *shape)."""
        return uniform(self.keys, self._next(), math.prod(shape)).view(-1, *shape)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Integers uniform on {0, …, high − 1}, int64, shape (N, *shape)."""
        return integers(self.keys, self._next(), math.prod(shape), high).view(-1, *shape)

    def gumbel(self, *shape: int) -> Tensor:
        """Standard Gumbel noise, float32, shape (N, *shape)."""
        return gumbel(self.keys, self._next(), math.prod(shape)).view(-1, *shape)

    def gumbel_later(self, temperature: float) -> GumbelNoise:
        """Count one draw of Gumbel noise, to be scaled by a temperature, for an operation that draws it itself."""
        return GumbelNoise(self.keys, self._next(), temperature)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal (Box-Muller), float32, shape (N, *shape)."""
        radius = torch.sqrt(-2.0 * torch.log(self.uniform(*shape)))
        return radius * torch.cos(2.0 * math.pi * self.uniform(*shape))

    def bernoulli(self, p: Tensor) -> Tensor:
        """Return ones with probability p (N, *shape), as the dtype of p."""
        return (self.uniform(*p.shape[1:]) < p).to(p.dtype)

    def _next(self) -> int:
        self._draws += 1
        return self._draws


def mix(x: Tensor) -> Tensor:
    """Avalanche the low 32 bits of an int64 tensor: each input bit flips every output bit half the time."""
    x = x & _WORD
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _WORD
    return x ^ (x >> 16)


def mix_integer(x: int) -> int:
    """`mix` of a Python integer, so that no tensor has to be copied from the host inside a captured graph."""
    x &= _WORD
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _WORD
    return x ^ (x >> 16)


def fold(key: Tensor, *parts: Tensor | int) -> Tensor:
    """Derive a new key from a key and further parts (any integers, broadcast against each other)."""
    for part in parts:
        key = mix(mix(key + _GOLDEN) ^ (mix(part + 1) if isinstance(part, Tensor) else mix_integer(part + 1)))
    return key


def random_words(keys: Tensor, draw: int, count: int) -> Tensor:
    """Return 32 random bits an element, as int32."""
    elements = torch.arange(count, device=keys.device)
    return _mix_in_place(_narrow(fold(keys, draw))[:, None] + _narrow(mix(elements * _GOLDEN)))


def random_bits(keys: Tensor, draw: int, count: int) -> Tensor:
    """Return the same bits as integers from 0 to 2³² − 1, int64."""
    return random_words(keys, draw, count).long() & _WORD


def uniform(keys: Tensor, draw: int, count: int) -> Tensor:
    """Return numbers uniform on the open interval (0, 1), float32."""
    if dispatch.triton_runs_on(keys.device):
        return _drawn_by_kernel(keys, draw, count, "uniform")
    # 23 bits and a half: the largest value is exactly representable below one, so logarithms stay finite
    return _shift_in_place(random_words(keys, draw, count), 9).float().add_(0.5).mul_(2.0**-23)


def gumbel(keys: Tensor, draw: int, count: int) -> Tensor:
    """Return standard Gumbel noise −log(−log u) of uniform u, float32."""
    if dispatch.triton_runs_on(keys.device):
        return _drawn_by_kernel(keys, draw, count, "gumbel")
    return uniform(keys, draw, count).log_().neg_().log_().neg_()


def integers(keys: Tensor, draw: int, count: int, high: int) -> Tensor:
    """Return integers uniform on {0, …, high − 1}, int64."""
    if dispatch.triton_runs_on(keys.device):
        return _drawn_by_kernel(keys, draw, count, "integers", high)
    return (random_bits(keys, draw, count) * high) >> 32


def child_keys(keys: Tensor, draw: int, count: int) -> Tensor:
    """Return the keys of `count` children of every key, int64."""
    if dispatch.triton_runs_on(keys.device):
        return _drawn_by_kernel(keys, draw, count, "keys")
    return fold(fold(keys, draw)[:, None], torch.arange(count, device=keys.device)[None, :])


def _drawn_by_kernel(keys: Tensor, draw: int, count: int, kind: str, high: int = 0) -> Tensor:
    numbers: Tensor = dispatch.triton_kernels("random.triton").draw(keys, mix_integer(draw + 1), count, kind, high)
    return numbers


def _mix_in_place(x: Tensor) -> Tensor:
    """`mix` of an int32 tensor, which it overwrites: for draws of millions, where new tensors would cost the most."""
    spare = torch.empty_like(x)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B - 2**32), (16, 1)):
        torch.bitwise_right_shift(x, shift, out=spare)
        x ^= spare.bitwise_and_(_WORD >> shift)
        if factor != 1:
            x *= factor
    return x


def _shift_in_place(x: Tensor, by: int) -> Tensor:
    """Shift an int32 tensor to the right as if it had no sign, in place."""
    return x.bitwise_right_shift_(by).bitwise_and_(_WORD >> by)


def _narrow(x: Tensor) -> Tensor:
    """Return the low 32 bits of an int64 tensor as int32."""
    return torch.where(x >= 2**31, x - 2**32, x).int()
