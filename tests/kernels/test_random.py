"""The hash behind the random numbers: wide, narrow and in Python the same, and no bit without its say."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icdc import kernels
from icdc.kernels import Noise, random, root_key
from icdc.kernels.random import _mix_in_place, _narrow, _shift_in_place, fold, mix, mix_integer

WORD = 2**32


@given(st.integers(0, 2**40))
def test_integers_and_tensors_mix_alike(value: int) -> None:
    """A part given as a Python integer derives the same key as one given as a tensor."""
    assert int(mix(torch.tensor(value))) == mix_integer(value)
    key = root_key(3)
    assert int(fold(key, value)) == int(fold(key, torch.tensor(value)))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_words_of_32_bits_mix_as_wide_ones_do(values: list[int]) -> None:
    """Signs and overflows of the narrow arithmetic change nothing."""
    wide = torch.tensor(values)
    narrow = _mix_in_place(_narrow(wide))
    assert narrow.dtype == torch.int32
    assert torch.equal(narrow.long() & (WORD - 1), mix(wide))


@given(st.integers(0, 2**32 - 1), st.integers(1, 31))
def test_shifts_know_no_sign(value: int, by: int) -> None:
    assert int(_shift_in_place(_narrow(torch.tensor([value])), by)) == value >> by


def test_mix_is_a_bijection_of_32_bit_words() -> None:
    """No two of a million words collide, so distinct elements of a draw never share a number."""
    words = torch.arange(1 << 20)
    mixed = mix(words)
    assert int(mixed.min()) >= 0
    assert int(mixed.max()) < WORD
    assert len(torch.unique(mixed)) == len(words)


def test_mix_avalanches() -> None:
    """Flipping any input bit flips every output bit about half the time."""
    words = torch.randint(0, WORD, (4096,))
    bit = torch.arange(32)
    for position in range(32):
        flips = mix(words) ^ mix(words ^ (1 << position))
        share = ((flips[:, None] >> bit) & 1).double().mean(0)
        assert (share - 0.5).abs().max() < 0.06, f"input bit {position}"


def test_a_draw_of_the_noise_is_the_operation_on_its_keys() -> None:
    """The first draw has the number 1, and every call takes the next."""
    keys = fold(root_key(3), torch.arange(4))
    noise = Noise(keys)
    assert torch.equal(noise.uniform(2, 3), kernels.uniform(keys, 1, 6).view(4, 2, 3))
    assert torch.equal(noise.gumbel(5), kernels.gumbel(keys, 2, 5))
    assert torch.equal(noise.integers(9, 2), kernels.integers(keys, 3, 2, 9))
    assert torch.equal(noise.spawn(3).keys, kernels.child_keys(keys, 4, 3).flatten())
    later = noise.gumbel_later(0.5)
    assert (later.draw, later.temperature) == (5, 0.5)
    assert torch.equal(later.keys, keys)
    assert torch.equal(noise.bits(1), kernels.random_bits(keys, 6, 1))


def test_extremes_of_uniform_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest and largest 32-bit words give numbers whose logarithms are finite."""
    words = torch.tensor([[0, -1]], dtype=torch.int32)
    monkeypatch.setattr(random, "random_words", lambda keys, draw, count: words.clone())
    keys = torch.zeros(1, dtype=torch.long)
    with kernels.without_triton():
        low, high = kernels.uniform(keys, 1, 2)[0].tolist()
        assert 0 < low < high < 1
        assert torch.isfinite(kernels.gumbel(keys, 1, 2)).all()
        assert kernels.integers(keys, 1, 2, 7).tolist() == [[0, 6]]
        assert torch.isfinite(Noise(keys).normal(2)).all()
