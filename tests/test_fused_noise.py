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


def test_no_keys_no_numbers() -> None:
    assert Noise(torch.zeros(0, dtype=torch.long, device=DEVICE)).uniform(4).shape == (0, 4)
