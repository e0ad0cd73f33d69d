"""Mixing edges on a CPU in tiles: what the plain operations give, whatever the tiles are."""

import pytest
import torch

from icdc import kernels
from icdc.kernels import choosing, tiled
from icdc.networks.edge import EdgeMixer

pytestmark = pytest.mark.skipif(choosing.INTERPRETED, reason="triton's interpreter takes the place of tiles")


@pytest.mark.parametrize(
    ("count", "rows", "columns"),
    [
        (1, 1, 1),
        (3, 4, 5),  # all in one tile
        (7, 6, 7),  # several instances in a tile, fewer in the last
        (2, 23, 9),  # several tiles in an instance, the last one thin
        (2, 2, 131),  # a row is longer than a tile
    ],
)
def test_tiles_do_what_the_definition_says(
    count: int, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without gradients a CPU goes by tiles; with them it does not, and both agree."""
    monkeypatch.setattr(tiled, "TILE", 100)
    torch.manual_seed(rows)
    mixer = EdgeMixer(16, 4)
    with torch.no_grad():
        for parameter in mixer.parameters():  # scale and shift of the norm must matter
            parameter.add_(0.3 * torch.randn_like(parameter))
    edges = (3 * torch.randn(count, columns, rows, 16) + 1).transpose(1, 2)
    edges[0, 0, 0] = 2.5  # nothing to normalise
    scores = torch.randn(count, 4, rows, columns)
    before = edges.clone()
    plain = kernels.mix_edges(edges, scores, mixer.weights())
    with torch.no_grad():
        assert tiled.fits(edges)
        mixed = kernels.mix_edges(edges, scores, mixer.weights())
    assert torch.equal(edges, before)
    assert not torch.equal(mixed[0], plain[0])  # another way, other roundings
    for value, reference in zip(mixed, plain, strict=True):
        torch.testing.assert_close(value, reference.detach(), atol=1e-5, rtol=1e-5)


def test_tiles_are_only_for_plain_cpu_inference() -> None:
    """Gradients, other precisions and empty batches take the plain way."""
    edges = torch.zeros(1, 2, 3, 4)
    assert not tiled.fits(edges)
    with torch.no_grad():
        assert tiled.fits(edges)
        assert not tiled.fits(edges.double())
        assert not tiled.fits(edges[:0])
        assert not tiled.fits(edges.to("meta"))
