"""Denoisers: the gated layer by loops over the paper's equations, time, inputs and sizes."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from icdc.errors import UsageError
from icdc.kernels import gelu
from icdc.networks.denoiser import EdgeInput, GatedLayer
from icdc.networks.layers import FeedForward, TimeEmbedding
from icdc.networks.network import Network, NetworkConfig
from icdc.problems.base import FeatureSizes
from icdc.problems.features import Features

SMALL = {"width": 8, "heads": 2, "edge_width": 4, "mixer_width": 3, "encoder_layers": 1, "denoiser_layers": 2}
KINDS = list(itertools.product(("edge", "dual"), ("edge", "gated")))


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


def test_edge_input_is_an_embedding_of_two_values() -> None:
    """X_t = 0 and 1 map to b ∓ w, and the relations and X_t times the relations come beside it."""
    layer = EdgeInput(2, 5, with_relations=True)
    x, relations = torch.tensor([[[0.0, 1.0]]]), torch.randn(1, 1, 2, 2)
    found = layer(x, relations)
    for column in range(2):
        value = torch.tensor([2.0 * column - 1])
        seen = torch.cat([value, relations[0, 0, column], column * relations[0, 0, column]])
        torch.testing.assert_close(found[0, 0, column], layer.linear.weight @ seen + layer.linear.bias)


def test_edge_input_without_products() -> None:
    """The relations alone: what X_t adds is the same on every edge."""
    layer = EdgeInput(2, 5, with_relations=True, with_products=False)
    assert layer.linear.weight.shape == (5, 3)
    relations = torch.randn(1, 1, 2, 2)
    zero, one = layer(torch.zeros(1, 1, 2), relations), layer(torch.ones(1, 1, 2), relations)
    torch.testing.assert_close(one - zero, (2 * layer.linear.weight[:, 0]).expand(1, 1, 2, 5))
    seen = torch.cat([torch.tensor([-1.0]), relations[0, 0, 1]])
    torch.testing.assert_close(zero[0, 0, 1], layer.linear.weight @ seen + layer.linear.bias)


def make(encoder: str, denoiser: str, same: bool = False, **options: object) -> Network:
    config = NetworkConfig(**{**SMALL, "encoder": encoder, "denoiser": denoiser, **options})  # type: ignore[arg-type]
    return Network(config, FeatureSizes(3, 1, same_items=same)).eval()


def run(network: Network, x: Tensor, t: Tensor, relations: Tensor, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return network.denoise(network.encode(Features(relations), ids), x, t)


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
def test_logits_depend_on_everything(encoder: str, denoiser: str) -> None:
    """X_t, t and the relations all move the logits, which have the shape of X_t and are float32."""
    network = make(encoder, denoiser)
    relations, ids = torch.randn(1, 3, 4, 3), torch.randn(1, 7, 16)
    x, t = torch.zeros(2, 3, 4), torch.tensor([3, 3])
    base = run(network, x, t, relations, ids)
    assert base.shape == x.shape
    assert base.dtype == torch.float32
    other_x = x.clone()
    other_x[:, 1, 2] = 1
    assert not torch.allclose(base, run(network, other_x, t, relations, ids), atol=1e-6)
    assert not torch.allclose(base, run(network, x, t + 5, relations, ids), atol=1e-6)
    assert not torch.allclose(base, run(network, x, t, relations + torch.randn(1, 3, 4, 3), ids), atol=1e-6)


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
def test_a_trajectory_ignores_its_batch(encoder: str, denoiser: str) -> None:
    """In evaluation the logits of one trajectory are those it gets alone, for every normalisation."""
    for norm in ("layer", "batch"):
        network = make(encoder, denoiser, norm=norm)
        relations, ids = torch.randn(2, 3, 4, 3), torch.randn(2, 7, 16)
        x, t = (torch.rand(6, 3, 4) < 0.3).float(), torch.arange(1, 7)
        together = run(network, x, t, relations, ids)
        for n in (0, 2, 5):
            instance = slice(n // 3, n // 3 + 1)
            alone = run(network, x[n : n + 1], t[n : n + 1], relations[instance], ids[instance])
            torch.testing.assert_close(together[n], alone[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 2)])
def test_smallest_matrices_denoise(encoder: str, denoiser: str, shape: tuple[int, int]) -> None:
    """One job, one machine, two cities: finite logits, finite gradients."""
    network = make(encoder, denoiser, same=shape == (2, 2)).train()
    encoding = network.encode(Features(torch.zeros(2, *shape, 3)), torch.randn(2, sum(shape), 16))
    logits = network.denoise(encoding, torch.ones(4, *shape), torch.full((4,), 2))
    assert torch.isfinite(logits).all()
    logits.square().sum().backward()
    for parameter in network.parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
def test_every_parameter_that_should_learns(encoder: str, denoiser: str) -> None:
    """Only what feeds states that nobody reads (nodes of the gated network's last layer) has no gradient."""
    network = make(encoder, denoiser).train()
    encoding = network.encode(Features(torch.randn(2, 3, 4, 3)), torch.randn(2, 7, 16))
    network.denoise(encoding, (torch.rand(4, 3, 4) < 0.5).float(), torch.arange(1, 5)).square().sum().backward()
    idle = {name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    last = "denoiser.layers.1."
    if denoiser == "gated":
        unread = ("own_row", "own_column", "row_message", "column_message", "norm_row", "norm_column")
        assert idle == {n for n in dict(network.named_parameters()) if n.startswith(tuple(last + u for u in unread))}
    else:
        assert idle == set()


def test_the_papers_network_sees_relations_in_the_encoder_only() -> None:
    """NetworkConfig.paper(): one head, batch normalisation, raw D, and an edge input of X_t alone."""
    network = Network(NetworkConfig.paper(), FeatureSizes(6, 1, same_items=True))
    assert network.denoiser.input.linear.in_features == 1
    assert network.encoder.embed.channels == 1
    assert network.encoder.row_blocks[0].heads == 1
    assert not network.denoiser.layers[0].mean


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"width": 10, "heads": 4}, "multiple of the 4 heads"),
        ({"width": 9, "heads": 3}, "even"),
        ({"encoder": "gnn"}, "unknown encoder 'gnn'"),
        ({"denoiser": "unet"}, "unknown denoiser 'unet'"),
        ({"norm": "group"}, "unknown norm 'group'"),
    ],
)
def test_impossible_networks_are_refused(options: dict[str, object], sentence: str) -> None:
    """A configuration that cannot be built says so before anything is built."""
    with pytest.raises(UsageError, match=sentence):
        NetworkConfig(**options)  # type: ignore[arg-type]
