"""Random numbers as a pure function of (key, draw, element): a counter-based generator.

Every trajectory carries a 32-bit key. A draw hashes the key, the number of the draw and the position of
the element, so a trajectory sees the same numbers on any device, in any batch and in any chunk, a captured
CUDA graph needs no generator state, and a training run resumes from one integer.
"""

import math

import torch
from torch import Tensor

from . import fused_noise

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


def mix(x: Tensor) -> Tensor:
    """Avalanche the low 32 bits of an int64 tensor: each input bit flips every output bit half the time."""
    x = x & _WORD
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _WORD
    return x ^ (x >> 16)


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


def fold(key: Tensor, *parts: Tensor | int) -> Tensor:
    """Derive a new key from a key and further parts (any integers, broadcast against each other)."""
    for part in parts:
        key = mix(mix(key + _GOLDEN) ^ (mix(part + 1) if isinstance(part, Tensor) else _mix_int(part + 1)))
    return key


def _mix_int(x: int) -> int:
    """`mix` of a Python integer, so that no tensor has to be copied from the host inside a captured graph."""
    x &= _WORD
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _WORD
    return x ^ (x >> 16)


def root_key(seed: int, device: torch.device | str = "cpu") -> Tensor:
    """Return the scalar key of a seed; all 64 bits of the seed count."""
    key = torch.tensor(seed & _WORD, dtype=torch.int64, device=device)
    return fold(key, (seed >> 32) & _WORD)


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
        if fused_noise.available(self.keys.device):
            keys: Tensor = fused_noise.draw_keys(self.keys, self.next_draw(), count)
            return Noise(keys.flatten())
        children = torch.arange(count, device=self.keys.device)
        self._draws += 1
        return Noise(fold(fold(self.keys, self._draws)[:, None], children[None, :]).flatten())

    def bits(self, *shape: int) -> Tensor:
        """Return 32 random bits per element as int64, shape (N, *shape)."""
        return self._words(*shape).long() & _WORD

    def _words(self, *shape: int) -> Tensor:
        """Return the same bits as int32."""
        self._draws += 1
        elements = torch.arange(math.prod(shape), device=self.keys.device)
        stream = fold(self.keys, self._draws)
        words = _narrow(stream)[:, None] + _narrow(mix(elements * _GOLDEN))
        return _mix_in_place(words).view(-1, *shape)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform on the open interval (0, 1), float32, shape (N, *shape)."""
        if fused_noise.available(self.keys.device):
            return self._fused(shape, gumbel=False)
        # 23 bits and a half: the largest value is exactly representable below one, so logarithms stay finite
        return _shift_in_place(self._words(*shape), 9).float().add_(0.5).mul_(2.0**-23)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Integers uniform on {0, …, high − 1}, int64, shape (N, *shape)."""
        if fused_noise.available(self.keys.device):
            values: Tensor = fused_noise.draw_integers(self.keys, self.next_draw(), math.prod(shape), high)
            return values.view(-1, *shape)
        return (self.bits(*shape) * high) >> 32

    def gumbel(self, *shape: int) -> Tensor:
        """Standard Gumbel noise, float32, shape (N, *shape)."""
        if fused_noise.available(self.keys.device):
            return self._fused(shape, gumbel=True)
        return self.uniform(*shape).log_().neg_().log_().neg_()

    def normal(self, *shape: int) -> Tensor:
        """Standard normal (Box-Muller), float32, shape (N, *shape)."""
        radius = torch.sqrt(-2.0 * torch.log(self.uniform(*shape)))
        return radius * torch.cos(2.0 * math.pi * self.uniform(*shape))

    def bernoulli(self, p: Tensor) -> Tensor:
        """Return ones with probability p (N, *shape), as the dtype of p."""
        return (self.uniform(*p.shape[1:]) < p).to(p.dtype)

    def next_draw(self) -> int:
        """Count one draw and return its hashed number, for a kernel that draws the numbers itself."""
        self._draws += 1
        return _mix_int(self._draws + 1)

    def _fused(self, shape: tuple[int, ...], gumbel: bool) -> Tensor:
        values: Tensor = fused_noise.draw(self.keys, self.next_draw(), math.prod(shape), gumbel)
        return values.view(-1, *shape)
