"""The draws of the noise as kernels: the same numbers as plain operations."""

import pytest
import torch

from icdc import fused_noise
from icdc.noise import Noise, fold, root_key

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(
    not fused_noise.available(torch.device(DEVICE)), reason="needs a GPU, or triton with TRITON_INTERPRET=1"
)


@pytest.mark.parametrize("shape", [(1,), (3, 4), (20, 20), (1023,)])
@pytest.mark.parametrize("skipped", [0, 1, 5])
def test_kernels_draw_what_plain_operations_draw(
    shape: tuple[int, ...], skipped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uniform numbers agree to the last bit at any draw, Gumbel noise up to the rounding of a logarithm."""
    keys = fold(root_key(3, DEVICE), torch.arange(7, device=DEVICE))

    def values() -> tuple[torch.Tensor, torch.Tensor]:
        noise = Noise(keys)
        for _ in range(skipped):
            noise.uniform(1)
        return noise.uniform(*shape), noise.gumbel(*shape)

    fused_uniform, fused_gumbel = values()
    monkeypatch.setattr(fused_noise, "available", lambda device: False)
    uniform, gumbel = values()
    assert torch.equal(fused_uniform, uniform)
    torch.testing.assert_close(fused_gumbel, gumbel, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("high", [1, 2, 20, 10**6, 2**31 - 1])
@pytest.mark.parametrize("skipped", [0, 4])
def test_kernels_draw_the_same_integers_and_children(high: int, skipped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, and draws are counted alike."""
    keys = fold(root_key(5, DEVICE), torch.arange(300, device=DEVICE))

    def values() -> list[torch.Tensor]:
        noise = Noise(keys)
        for _ in range(skipped):
            noise.uniform(1)
        children = noise.spawn(7)
        return [noise.integers(high), noise.integers(high, 3, 4), children.keys, children.integers(high), noise.keys]

    fused = values()
    monkeypatch.setattr(fused_noise, "available", lambda device: False)
    for found, expected in zip(fused, values(), strict=True):
        assert found.dtype == torch.long
        assert torch.equal(found, expected)


def test_no_keys_no_numbers() -> None:
    none = Noise(torch.zeros(0, dtype=torch.long, device=DEVICE))
    assert none.uniform(4).shape == (0, 4)
    assert none.integers(3).shape == (0,)
    assert none.spawn(2).keys.shape == (0,)


def test_shapes_are_known_without_values() -> None:
    keys = torch.empty(3, dtype=torch.long, device="meta")
    assert fused_noise.draw(keys, 0, 4, True).shape == (3, 4)
    for made in (fused_noise.draw_integers(keys, 0, 4, 9), fused_noise.draw_keys(keys, 0, 4)):
        assert (made.shape, made.dtype) == ((3, 4), torch.long)
