"""Renumbering rows and columns renumbers the logits, for both networks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from icdc.networks import Network, NetworkConfig
from icdc.problems.base import FeatureSizes
from icdc.problems.features import Features

SMALL = {
    "width": 16,
    "heads": 2,
    "edge_width": 8,
    "mixer_width": 4,
    "encoder_layers": 2,
    "denoiser_layers": 2,
}
KINDS = [("edge", "edge", "layer"), ("dual", "gated", "layer"), ("dual", "gated", "batch")]


def make(encoder: str, denoiser: str, norm: str, sizes: FeatureSizes) -> Network:
    """A network whose batch statistics are not the trivial ones."""
    torch.manual_seed(0)
    config = NetworkConfig(**SMALL, encoder=encoder, denoiser=denoiser, norm=norm)  # type: ignore[arg-type]
    network = Network(config, sizes)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return network.eval()


def logits(network: Network, features: Features, ids: Tensor, x: Tensor, t: Tensor) -> Tensor:
    with torch.no_grad():
        return network.denoise(network.encode(features, ids), x, t)


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
    assert expected.std() > 1e-4 or expected.numel() < 8  # a constant would be equivariant too


@pytest.mark.parametrize(("encoder", "denoiser", "norm"), KINDS)
@settings(max_examples=6)
@given(rows=st.integers(1, 5), columns=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_rows_and_columns_apart(encoder: str, denoiser: str, norm: str, rows: int, columns: int, seed: int) -> None:
    """Two sets of items: each may be renumbered on its own, identifiers and item features along with it."""
    network = make(encoder, denoiser, norm, FeatureSizes(3, 1, rows=2, columns=1))
    g = torch.Generator().manual_seed(seed)
    relations = torch.randn(2, rows, columns, 3, generator=g)
    own, others = torch.randn(2, rows, 2, generator=g), torch.randn(2, columns, 1, generator=g)
    ids = torch.randn(2, rows + columns, 16, generator=g)
    x = (torch.rand(4, rows, columns, generator=g) < 0.4).float()
    t = torch.randint(1, 20, (4,), generator=g)
    a, b = torch.randperm(rows, generator=g), torch.randperm(columns, generator=g)
    plain = logits(network, Features(relations, own, others), ids, x, t)
    moved = logits(
        network,
        Features(relations[:, a][:, :, b], own[:, a], others[:, b]),
        torch.cat([ids[:, :rows][:, a], ids[:, rows:][:, b]], 1),
        x[:, a][:, :, b],
        t,
    )
    assert_close(moved, plain[:, a][:, :, b])


@pytest.mark.parametrize(("encoder", "denoiser", "norm"), KINDS)
@settings(max_examples=6)
@given(size=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_the_same_items_together(encoder: str, denoiser: str, norm: str, size: int, seed: int) -> None:
    """Rows and columns that are the same items are renumbered together, the diagonal mark staying theirs."""
    network = make(encoder, denoiser, norm, FeatureSizes(3, 1, same_items=True))
    g = torch.Generator().manual_seed(seed)
    relations, ids = torch.randn(2, size, size, 3, generator=g), torch.randn(2, 2 * size, 16, generator=g)
    x = (torch.rand(4, size, size, generator=g) < 0.4).float()
    t = torch.randint(1, 20, (4,), generator=g)
    order = torch.randperm(size, generator=g)
    both = torch.cat([order, size + order])
    plain = logits(network, Features(relations), ids, x, t)
    moved = logits(network, Features(relations[:, order][:, :, order]), ids[:, both], x[:, order][:, :, order], t)
    assert_close(moved, plain[:, order][:, :, order])


@pytest.mark.parametrize(("encoder", "denoiser", "norm"), KINDS)
def test_the_diagonal_is_seen(encoder: str, denoiser: str, norm: str) -> None:
    """The test above would miss a network that ignores which pairs are the same item; this one does not."""
    network = make(encoder, denoiser, norm, FeatureSizes(3, 1, same_items=True))
    relations, ids = torch.randn(1, 4, 4, 3), torch.randn(1, 8, 16)
    x, t, order = torch.zeros(1, 4, 4), torch.tensor([3]), torch.tensor([1, 2, 3, 0])
    plain = logits(network, Features(relations), ids, x, t)
    only_rows = logits(network, Features(relations[:, order]), ids, x[:, order], t)
    assert not torch.allclose(only_rows, plain[:, order], atol=1e-4)
