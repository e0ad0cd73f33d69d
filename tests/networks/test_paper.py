"""The paper's network: its encoder's block and its denoiser's layer by loops over its equations."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from icdc.kernels import gelu
from icdc.networks import Network, NetworkConfig
from icdc.networks.layers import FeedForward
from icdc.networks.paper import DualBlock, DualEncoder, GatedLayer
from icdc.problems.base import FeatureSizes
from icdc.problems.features import Features

SMALL = {
    "encoder": "dual", "denoiser": "gated", "width": 8, "heads": 2, "mixer_width": 3, "encoder_layers": 2,
    "denoiser_layers": 2,
}  # fmt: skip


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
    encoder = DualEncoder(NetworkConfig(**SMALL, summaries=False), FeatureSizes(1, 1)).eval()
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


def feed(layer: FeedForward, x: Tensor) -> Tensor:
    return gelu(x @ layer.up.weight.T + layer.up.bias) @ layer.down.weight.T + layer.down.bias


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_the_gated_layer_equals_the_papers_equations(norm: str) -> None:
    """x̂, x', h_i and h_j element by element; sums as in the paper, means with layer normalisation."""
    layer = GatedLayer(NetworkConfig(**SMALL, norm=norm)).eval()
    if norm == "batch":
        for part in (layer.norm_edge, layer.norm_row, layer.norm_column):
            part.norm.running_mean.normal_()
            part.norm.running_var.uniform_(0.5, 2)
    rows, columns = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    edges, time = torch.randn(2, 3, 4, 8), torch.randn(2, 8)
    p, q, r = layer.edge.weight, layer.from_row.weight, layer.from_column.weight
    u_a, u_b = layer.own_row.weight, layer.own_column.weight
    v_a, v_b = layer.row_message.weight, layer.column_message.weight
    with torch.no_grad():
        new_rows, new_columns, new_edges = layer(rows, columns, edges, time)
        for n in range(2):
            mixed = torch.zeros(3, 4, 8)
            for i, j in itertools.product(range(3), range(4)):
                mixed[i, j] = p @ edges[n, i, j] + q @ rows[n, i] + r @ columns[n, j]
                expected = (edges[n, i, j] + feed(layer.edge_mlp, layer.norm_edge(mixed[i, j][None])[0])) + feed(
                    layer.time_mlp, time[n]
                )
                torch.testing.assert_close(new_edges[n, i, j], expected, atol=1e-5, rtol=1e-4)
            for i in range(3):
                total = sum((mixed[i, j].sigmoid() * (v_b @ columns[n, j]) for j in range(4)), torch.zeros(8))
                total = total / 4 if norm == "layer" else total
                expected = rows[n, i] + layer.norm_row((u_a @ rows[n, i] + total)[None])[0].clamp_min(0)
                torch.testing.assert_close(new_rows[n, i], expected, atol=1e-5, rtol=1e-4)
            for j in range(4):
                total = sum((mixed[i, j].sigmoid() * (v_a @ rows[n, i]) for i in range(3)), torch.zeros(8))
                total = total / 3 if norm == "layer" else total
                expected = columns[n, j] + layer.norm_column((u_b @ columns[n, j] + total)[None])[0].clamp_min(0)
                torch.testing.assert_close(new_columns[n, j], expected, atol=1e-5, rtol=1e-4)


def test_the_papers_network_sees_relations_in_the_encoder_only() -> None:
    """NetworkConfig.paper(): one head, batch normalisation, raw D, and an edge input of X_t alone."""
    network = Network(NetworkConfig.paper(), FeatureSizes(6, 1, same_items=True))
    assert network.denoiser.input.linear.in_features == 1
    assert network.encoder.embed.channels == 1
    assert network.encoder.row_blocks[0].heads == 1
    assert not network.denoiser.layers[0].mean
