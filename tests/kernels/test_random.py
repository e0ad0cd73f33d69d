"""The counter-based generator: a pure function of (key, draw, element) that looks random, and the hash behind it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icdc import kernels
from icdc.kernels import Noise, fold, gumbel, random, root_key
from icdc.kernels.random import _mix_in_place, _narrow, _shift_in_place, mix, mix_integer

WORD = 2**32


def keys(count: int, seed: int = 0) -> torch.Tensor:
    """Return keys as a run makes them: children of one root."""
    return fold(root_key(seed), torch.arange(count))


def chi_square(counts: torch.Tensor) -> float:
    """Return how many standard deviations the chi-square of equally likely cells is from its mean."""
    expected = counts.sum().item() / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    freedom = len(counts) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def test_every_bit_of_a_seed_counts() -> None:
    """Seeds that differ in one of 64 bits, or in sign, give different keys."""
    seeds = [0, -1, 7] + [1 << bit for bit in range(63)]
    assert len({int(root_key(seed)) for seed in seeds}) == len(seeds)


def test_fold_tells_parts_and_their_order_apart() -> None:
    """(a, b), (b, a), (a) and (b) lead to four different keys."""
    key = root_key(0)
    assert len({int(fold(key, *parts)) for parts in ((1, 2), (2, 1), (1,), (2,), ())}) == 5


def test_uniform_is_open_and_uniform() -> None:
    """Values lie strictly inside (0, 1), evenly, whatever the axis they are counted along."""
    drawn = Noise(keys(512)).uniform(16, 32)
    assert 0 < drawn.min() < drawn.max() < 1
    assert abs(chi_square(torch.histc(drawn, 256, 0, 1))) < 4
    assert (drawn.mean((1, 2)) - 0.5).abs().max() < 5 / math.sqrt(12 * 512)  # each key
    assert (drawn.mean(0) - 0.5).abs().max() < 5 / math.sqrt(12 * 512)  # each element


@pytest.mark.parametrize("axis", ["keys", "draws", "elements", "seeds", "children"])
def test_neighbours_are_uncorrelated(axis: str) -> None:
    """Numbers of neighbouring keys, draws, elements, seeds and children share no linear relation."""
    count = 1 << 14
    if axis == "keys":
        drawn = Noise(keys(count + 1)).uniform(1)[:, 0]
        a, b = drawn[:-1], drawn[1:]
    elif axis == "draws":
        noise = Noise(keys(count))
        a, b = noise.uniform(1)[:, 0], noise.uniform(1)[:, 0]
    elif axis == "elements":
        drawn = Noise(keys(1)).uniform(count + 1)[0]
        a, b = drawn[:-1], drawn[1:]
    elif axis == "seeds":
        drawn = torch.stack([Noise(root_key(seed)[None]).uniform(1)[0, 0] for seed in range(2001)])
        a, b = drawn[:-1], drawn[1:]
    else:
        drawn = Noise(keys(1)).spawn(count + 1).uniform(1)[:, 0]
        a, b = drawn[:-1], drawn[1:]
    correlation = torch.corrcoef(torch.stack([a, b]))[0, 1]
    assert abs(correlation) < 4.5 / math.sqrt(len(a))
    cells = (a * 8).long() * 8 + (b * 8).long()
    assert abs(chi_square(torch.bincount(cells, minlength=64).double())) < 4.5


@given(st.lists(st.integers(0, WORD - 1), min_size=1, max_size=6), st.integers(0, 5), st.integers(1, 7))
def test_noise_of_a_key_ignores_the_other_keys(all_keys: list[int], index: int, elements: int) -> None:
    """A key sees the same numbers alone as in any company, at any place in the batch, in every draw."""
    index %= len(all_keys)
    together, alone = Noise(torch.tensor(all_keys)), Noise(torch.tensor([all_keys[index]]))
    for draw in ("uniform", "gumbel", "normal", "bits"):
        a, b = getattr(together, draw)(elements), getattr(alone, draw)(elements)
        assert torch.equal(a[index], b[0])
    children = together.spawn(3).uniform(2).view(len(all_keys), 3, 2)
    assert torch.equal(children[index], alone.spawn(5).uniform(2)[:3])


def test_same_keys_repeat_and_draws_differ() -> None:
    """Two streams of the same keys agree draw by draw; successive draws do not."""
    one, two = Noise(keys(4)), Noise(keys(4))
    first = one.uniform(9)
    assert torch.equal(first, two.uniform(9))
    second = one.uniform(9)
    assert torch.equal(second, two.uniform(9))
    assert not torch.equal(first, second)


def test_golden_numbers() -> None:
    """The stream of seed 0 is what it was: saved runs and answers depend on it."""
    assert [int(root_key(seed)) for seed in (7, 2**40 + 7)] == [2685183916, 1635920078]
    assert int(fold(root_key(7), 3, torch.tensor(5))) == 1822947876
    noise = Noise(fold(root_key(0), torch.arange(2)))
    assert noise.bits(2).tolist() == [[936850930, 2345314469], [3939784503, 661954030]]
    assert noise.uniform(2).flatten().tolist() == pytest.approx([0.53674179, 0.94476956, 0.16560751, 0.69899327])
    assert noise.integers(1000, 2).tolist() == [[701, 234], [600, 270]]
    assert noise.gumbel(2).flatten().tolist() == pytest.approx([-0.137016, -0.814712, 0.027402, 1.692401], abs=1e-6)
    assert noise.normal(2).flatten().tolist() == pytest.approx(
        [0.0695297, -1.6734387, -1.2249781, -0.5711133], abs=1e-6
    )
    assert noise.spawn(2).keys.tolist() == [3668517346, 225924651, 1325453480, 1860375181]
    assert noise.bits(1).tolist() == [[2455511379], [1619362034]]  # normal draws twice, a spawn once


def test_noise_drawn_later_counts_as_a_draw() -> None:
    """An operation that draws for itself gets the keys and the number of the draw, and the next draw is another."""
    plain, later = Noise(keys(3)), Noise(keys(3))
    for _ in range(3):
        drawn = later.gumbel_later(0.5)
        assert drawn.temperature == 0.5
        assert torch.equal(gumbel(drawn.keys, drawn.draw, 4), plain.gumbel(4))


def test_integers_are_uniform_and_in_range() -> None:
    """Each of `high` values comes equally often and none outside."""
    drawn = Noise(keys(100)).integers(18, 400)
    assert int(drawn.min()) == 0
    assert int(drawn.max()) == 17
    assert abs(chi_square(torch.bincount(drawn.flatten(), minlength=18).double())) < 4


def test_gumbel_and_normal_have_their_moments() -> None:
    """Mean and variance of the two transforms, and the quantiles of the normal."""
    noise = Noise(keys(200))
    gumbel, normal = noise.gumbel(500).double(), noise.normal(500).double()
    error = 5 / math.sqrt(gumbel.numel())
    assert abs(gumbel.mean() - 0.5772157) < error * math.pi / math.sqrt(6)
    assert abs(gumbel.var() - math.pi**2 / 6) < error * 4
    assert abs(normal.mean()) < error
    assert abs(normal.var() - 1) < error * math.sqrt(2)
    assert abs((normal < -1.2816).double().mean() - 0.1) < error


def test_bernoulli_follows_each_probability() -> None:
    """Zero never, one always, and the rest as often as they say; the dtype is that of p."""
    p = torch.tensor([0.0, 0.05, 0.5, 1.0]).expand(20000, 4)
    drawn = Noise(keys(20000)).bernoulli(p)
    assert drawn.dtype == p.dtype
    share = drawn.mean(0)
    assert share[0] == 0
    assert share[3] == 1
    assert abs(share[1] - 0.05) < 0.008
    assert abs(share[2] - 0.5) < 0.018


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_bits_are_the_same_on_every_device() -> None:
    """A GPU draws the very bits the CPU draws."""
    here, there = Noise(keys(5)), Noise(keys(5).cuda())
    assert torch.equal(here.bits(7, 3), there.bits(7, 3).cpu())


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
