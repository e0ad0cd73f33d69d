"""First embeddings: what items see, which relations there are, and the layers that all networks share."""

import math

import pytest
import torch
from torch import Tensor

from icdc.errors import UsageError
from icdc.networks import NetworkConfig
from icdc.networks.edge import EdgeEncoder
from icdc.networks.layers import BatchNorm, InputEmbedding, LayerNorm, TimeEmbedding, relation_channels
from icdc.networks.paper import DualEncoder
from icdc.problems.base import FeatureSizes
from icdc.problems.features import Features

SMALL = {"width": 8, "heads": 2, "edge_width": 4, "mixer_width": 3, "encoder_layers": 2, "denoiser_layers": 2}


def test_layer_norm_is_layer_norm() -> None:
    """Zero mean and unit variance per item, in the dtype it was given."""
    norm = LayerNorm(16)
    x = torch.randn(5, 7, 16) * 3 + 2
    y = norm(x)
    torch.testing.assert_close(y.mean(-1), torch.zeros(5, 7), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var(-1, correction=0), torch.ones(5, 7), atol=1e-3, rtol=0)
    assert norm(x.bfloat16()).dtype == torch.bfloat16


def test_batch_norm_is_over_every_axis_but_the_last() -> None:
    """In training each channel has zero mean and unit variance over batch, rows and columns together."""
    norm = BatchNorm(6).train()
    y = norm(torch.randn(4, 5, 3, 6) * 2 + 1)
    assert y.shape == (4, 5, 3, 6)
    torch.testing.assert_close(y.mean((0, 1, 2)), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var((0, 1, 2), correction=0), torch.ones(6), atol=1e-3, rtol=0)


def embedding(config: NetworkConfig, sizes: FeatureSizes, features: Features, ids: Tensor) -> tuple[Tensor, Tensor]:
    embed = InputEmbedding(config, sizes)
    rows, columns = embed(features, embed.relations(features), ids)
    return rows, columns


def test_identifiers_break_the_symmetry() -> None:
    """Items with identical relations get different embeddings, and only because of their identifiers."""
    features, sizes = Features(torch.ones(1, 3, 2, 1)), FeatureSizes(1, 1)
    config = NetworkConfig(**SMALL)
    rows, columns = embedding(config, sizes, features, torch.randn(1, 5, 16))
    for items in (rows[0], columns[0]):
        assert torch.pdist(items).min() > 1e-3
    rows, _ = embedding(config, sizes, features, torch.zeros(1, 5, 16))
    torch.testing.assert_close(rows[0, 0], rows[0, 1])


@pytest.mark.parametrize("same", [True, False])
def test_the_same_items_get_the_same_identifier(same: bool) -> None:
    """Rows and columns that are the same items share identifiers; others have their own."""
    sizes = FeatureSizes(1, 1, same_items=same)
    embed = InputEmbedding(NetworkConfig(**SMALL, summaries=False), sizes)
    embed.columns.load_state_dict(embed.rows.state_dict())
    features = Features(torch.randn(1, 3, 3, 1))
    rows, columns = embed(features, embed.relations(features), torch.randn(1, 6, 16))
    assert torch.equal(rows, columns) == same


@pytest.mark.parametrize("same", [True, False])
def test_one_hot_identifiers_are_different_and_redrawn(same: bool) -> None:
    """Columns have one 1 each, in different places that the noise decides; rows the same ones, or none."""
    config = NetworkConfig(**SMALL, identifiers=6, identifier_kind="one_hot", summaries=False)
    embed = InputEmbedding(config, FeatureSizes(relations=1, raw_relations=1, same_items=same))
    for side in (embed.rows, embed.columns):
        torch.nn.init.eye_(side.weight)
        torch.nn.init.zeros_(side.bias)
    relations = torch.zeros(5, 4, 4, 1)
    rows, columns = embed(Features(relations), relations, torch.randn(5, 8, 6))
    assert torch.equal(columns.sum(2), torch.ones(5, 4))
    assert torch.equal((columns > 0).sum(2), torch.ones(5, 4, dtype=torch.long))
    assert bool((columns.sum(1) <= 1).all())
    assert len({tuple(order) for order in columns.argmax(2).tolist()}) > 1
    assert torch.equal(rows, columns) if same else not bool(rows.any())


def test_more_items_than_one_hot_identifiers() -> None:
    embed = InputEmbedding(
        NetworkConfig(**SMALL, identifiers=3, identifier_kind="one_hot"), FeatureSizes(relations=1, raw_relations=1)
    )
    relations = torch.zeros(1, 2, 4, 1)
    with pytest.raises(UsageError, match="4 items need as many one-hot identifiers"):
        embed(Features(relations), relations, torch.randn(1, 6, 3))


def test_summaries_are_mean_least_most_and_spread() -> None:
    """What an item sees of its relations, in this order, for rows and for columns."""
    embed = InputEmbedding(NetworkConfig(**SMALL, identifiers=2), FeatureSizes(1, 1))
    relations = torch.tensor([[[[1.0], [3.0]], [[2.0], [8.0]]]])
    seen = []
    for linear in (embed.rows, embed.columns):
        linear.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0, :, 2:]))
    embed(Features(relations), relations, torch.zeros(1, 4, 2))
    torch.testing.assert_close(seen[0], torch.tensor([[2.0, 1, 3, 1], [5, 2, 8, 3]]))
    torch.testing.assert_close(seen[1], torch.tensor([[1.5, 1, 2, 0.5], [5.5, 3, 8, 2.5]]))


def test_which_relations_a_network_sees() -> None:
    """Raw ones only, or all of them, and a mark on the diagonal where rows and columns are the same items."""
    features = Features(torch.randn(2, 3, 3, 5))
    for rich, same, expected in ((False, True, 2), (False, False, 2), (True, True, 6), (True, False, 5)):
        sizes = FeatureSizes(5, 2, same_items=same)
        config = NetworkConfig(**SMALL, rich_relations=rich)
        seen = InputEmbedding(config, sizes).relations(features)
        assert seen.shape[-1] == relation_channels(config, sizes) == expected
        assert torch.equal(seen[..., :2], features.relations[..., :2])
        if expected == 6:
            assert torch.equal(seen[..., 5], torch.eye(3).expand(2, -1, -1))


@pytest.mark.parametrize("kind", [EdgeEncoder, DualEncoder])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (2, 2)])
def test_smallest_instances_encode(kind: type, shape: tuple[int, int]) -> None:
    """One job, one machine, two cities: finite encodings of the right shape, with finite gradients."""
    encoder = kind(NetworkConfig(**SMALL), FeatureSizes(1, 1))
    features = Features(torch.zeros(2, *shape, 1))
    encoding = encoder(features, torch.randn(2, sum(shape), 16))
    assert encoding.rows.shape == (2, shape[0], 8)
    assert encoding.columns.shape == (2, shape[1], 8)
    (encoding.rows.square().sum() + encoding.columns.square().sum()).backward()
    for parameter in encoder.parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()


def test_item_features_reach_their_side() -> None:
    """Row features change the embeddings of rows, column features those of columns."""
    sizes = FeatureSizes(1, 1, rows=2, columns=3)
    embed = InputEmbedding(NetworkConfig(**SMALL), sizes)
    relations, ids = torch.randn(1, 2, 4, 1), torch.randn(1, 6, 16)
    rows, columns = torch.randn(1, 2, 2), torch.randn(1, 4, 3)

    def run(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = embed(Features(relations, a, b), relations, ids)
        return found

    before, after = run(rows, columns), run(rows + 1, columns)
    assert not torch.allclose(before[0], after[0])
    assert torch.equal(before[1], after[1])
    after = run(rows, columns + 1)
    assert torch.equal(before[0], after[0])
    assert not torch.allclose(before[1], after[1])


def test_time_embedding_is_sinusoidal() -> None:
    """sin and cos of t at frequencies from 1 down towards 1/10⁴, by the formula."""
    embed = TimeEmbedding(6)
    found = embed(torch.tensor([0, 7]))
    for t, row in zip((0, 7), found.tolist(), strict=True):
        angles = [t * 10000 ** (-k / 3) for k in range(3)]
        assert row == pytest.approx([math.sin(a) for a in angles] + [math.cos(a) for a in angles], abs=1e-5)


def test_time_embedding_tells_every_step_apart() -> None:
    """No two of a thousand steps look alike."""
    assert torch.pdist(TimeEmbedding(16)(torch.arange(1000)).double()).min() > 1e-3
