"""Problem encoders: the paper's block by loops over its equations, and what the first embeddings see."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from icdc.errors import UsageError
from icdc.kernels import gelu
from icdc.networks.encoder import DualBlock, DualEncoder, EdgeEncoder, InputEmbedding, relation_channels
from icdc.networks.layers import BatchNorm, LayerNorm
from icdc.networks.network import NetworkConfig
from icdc.problems.base import FeatureSizes
from icdc.problems.features import Features

SMALL = {"width": 8, "heads": 2, "edge_width": 4, "mixer_width": 3, "encoder_layers": 2, "denoiser_layers": 2}


def softmax(values: list[float]) -> list[float]:
    top = max(values)
    total = sum(math.exp(v - top) for v in values)
    return [math.exp(v - top) / total for v in values]


def dot(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum())


def block_by_loops(block: DualBlock, own: Tensor, other: Tensor, relations: Tensor) -> Tensor:
    """Ã + A of one instance, element by element from the equations; own (n, d), other (m, d), D (n, m, k)."""
    rows, columns, width, heads = len(own), len(other), own.shape[1], block.heads
    part = width // heads
    weights: list[list[list[float]]] = [[[0.0] * columns for _ in range(rows)] for _ in range(heads)]
    mixed_scores = torch.zeros(rows, columns, heads)
    for h in range(heads):
        span = slice(h * part, (h + 1) * part)
        inter_map, intra_map = own @ block.inter.weight.T, own @ block.intra.weight.T
        inter = [
            softmax([dot(inter_map[i, span], own[k, span]) / math.sqrt(part) for k in range(rows)]) for i in range(rows)
        ]  # S_inter
        intra = [
            [max(0.0, dot(intra_map[k, span], other[j, span]) / math.sqrt(part)) for j in range(columns)]
            for k in range(rows)
        ]  # S_intra
        for i in range(rows):
            for j in range(columns):
                mixed_scores[i, j, h] = sum(inter[i][k] * intra[k][j] for k in range(rows))
    logits = torch.zeros(rows, columns, heads)  # D̃ = MLP(concat(S_inter S_intra, D))
    for i in range(rows):
        for j in range(columns):
            logits[i, j] = block.mix(torch.cat([mixed_scores[i, j], relations[i, j]]))
    result = own.clone()
    values = other @ block.value.weight.T
    for h in range(heads):
        for i in range(rows):
            weights[h][i] = softmax(logits[i, :, h].tolist())
            for j in range(columns):
                span = slice(h * part, (h + 1) * part)
                result[i, span] += weights[h][i][j] * values[j, span]
    return result


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_the_papers_block_equals_its_equations(heads: int, norm: str) -> None:
    """S_inter, S_intra, D̃, Ã, Â and A' against plain loops, for one and several heads and relations."""
    block = DualBlock(NetworkConfig(**{**SMALL, "heads": heads}, norm=norm), channels=2)
    own, other, relations = torch.randn(3, 4, 8), torch.randn(3, 5, 8), torch.randn(3, 4, 5, 2)
    if norm == "batch":
        for layer in (block.norm_1, block.norm_2):
            layer.norm.running_mean.normal_()
            layer.norm.running_var.uniform_(0.5, 2)
    block.eval()
    with torch.no_grad():
        found = block(own, other, relations)
        for b in range(3):
            summed = block_by_loops(block, own[b], other[b], relations[b])
            hat = block.norm_1(summed[None])[0]
            feed = gelu(hat @ block.feed.up.weight.T + block.feed.up.bias)
            expected = block.norm_2((hat + feed @ block.feed.down.weight.T + block.feed.down.bias)[None])[0]
            torch.testing.assert_close(found[b], expected, atol=1e-5, rtol=1e-4)


def test_both_sides_of_a_dual_layer_see_the_other_as_it_was() -> None:
    """B' comes from A and not from A': the update is in parallel, with D transposed for the columns."""
    encoder = DualEncoder(NetworkConfig(**SMALL, encoder="dual", summaries=False), FeatureSizes(1, 1)).eval()
    features, identifiers = Features(torch.randn(2, 3, 4, 1)), torch.randn(2, 7, 16)
    with torch.no_grad():
        relations = encoder.embed.relations(features)
        rows, columns = encoder.embed(features, relations, identifiers)
        for a, b in zip(encoder.row_blocks, encoder.column_blocks, strict=True):
            rows, columns = a(rows, columns, relations), b(columns, rows, relations.transpose(1, 2))
        encoding = encoder(features, identifiers)
    torch.testing.assert_close(encoding.rows, rows)
    torch.testing.assert_close(encoding.columns, columns)
    assert encoding.edges is None


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
    config = NetworkConfig(**SMALL)
    encoder = kind(config, FeatureSizes(1, 1))
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


def test_repeating_an_encoding_is_instance_major() -> None:
    """Trajectories of one instance lie side by side, as everywhere else."""
    encoder = EdgeEncoder(NetworkConfig(**SMALL), FeatureSizes(1, 1))
    encoding = encoder(Features(torch.randn(2, 3, 4, 1)), torch.randn(2, 7, 16))
    repeated = encoding.repeat(3)
    for name in ("rows", "columns", "relations", "edges"):
        once, thrice = getattr(encoding, name), getattr(repeated, name)
        assert torch.equal(thrice, torch.stack([once[0]] * 3 + [once[1]] * 3))
    assert encoding.repeat(1) is encoding


@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        ([1, 1], "different numbers"),
        ([-1], "different numbers"),
        (3, "different numbers"),
        (["1"], "different numbers"),
        ([True], "different numbers"),
    ],
)
def test_hidden_channels_are_numbers_of_channels(hidden: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        NetworkConfig(hidden_relations=hidden)


def test_some_channels_must_be_seen() -> None:
    sizes = FeatureSizes(relations=2, raw_relations=1)
    assert relation_channels(NetworkConfig(hidden_relations=[1]), sizes) == 1  # type: ignore[arg-type]
    for hidden in ((2,), (0, 1)):
        with pytest.raises(UsageError, match="must leave some of the channels 0 to 1"):
            relation_channels(NetworkConfig(hidden_relations=hidden), sizes)
    with pytest.raises(UsageError, match="need rich_relations"):
        NetworkConfig(hidden_relations=(0,), rich_relations=False)
