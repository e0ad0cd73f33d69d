"""Operations of the layers on a CPU, in torch operations and in tiles, against their definitions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from icdc import kernels
from icdc.kernels import dispatch
from icdc.kernels.edge_attention import tiled
from icdc.networks.edge import EdgeMixer


@pytest.fixture(autouse=True)
def plain() -> object:
    with kernels.without_triton():
        yield


def test_layer_norm_keeps_the_dtype() -> None:
    states = torch.randn(5, 12) * 3 + 2
    scale, shift = torch.randn(12), torch.randn(12)
    expected = (states - states.mean(1, keepdim=True)) / (states.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(kernels.layer_norm(states, scale, shift), expected * scale + shift)
    assert kernels.layer_norm(states.bfloat16(), scale, shift).dtype == torch.bfloat16


@pytest.mark.parametrize("timed", [True, False])
def test_projected_nodes(timed: bool) -> None:
    nodes, scale, shift, weight = torch.randn(2, 3, 8), torch.randn(8), torch.randn(8), torch.randn(16, 8)
    time = torch.randn(2, 8) if timed else None
    out = kernels.project_nodes(nodes, scale, shift, weight, time)
    for n in range(2):
        for i in range(3):
            seen = kernels.layer_norm(nodes[n, i], scale, shift) + (0 if time is None else time[n])
            torch.testing.assert_close(out[n, i], weight @ seen)


def mlp(width: int, inside: int, out: int) -> kernels.NormedMLP:
    shapes = (width,), (width,), (2 * width, inside), (2 * width,), (out, 2 * width), (out,)
    return kernels.NormedMLP(*(torch.randn(shape) for shape in shapes))


def applied(weights: kernels.NormedMLP, state: Tensor, *others: Tensor) -> Tensor:
    seen = torch.cat([kernels.layer_norm(state, weights.scale, weights.shift), *others])
    return weights.down @ F.gelu(weights.up @ seen + weights.up_bias, approximate="tanh") + weights.down_bias


def test_updated_nodes() -> None:
    """Both residuals, and the feed-forward part sees the nodes after the first."""
    nodes, gathered, means = torch.randn(2, 3, 8), torch.randn(2, 3, 8), torch.randn(2, 3, 4)
    out, bias, weights = torch.randn(8, 12), torch.randn(8), mlp(8, 8, 8)
    updated = kernels.update_nodes(nodes, gathered, means, out, bias, weights)
    middle = nodes[1, 2] + out @ torch.cat([gathered[1, 2], means[1, 2]]) + bias
    torch.testing.assert_close(updated[1, 2], middle + applied(weights, middle), rtol=1e-4, atol=1e-4)


def test_logits_read_off_the_edges() -> None:
    edges, scores, weights = torch.randn(2, 3, 5, 8), torch.randn(2, 4, 3, 5), mlp(8, 12, 1)
    logits = kernels.read_edges(edges, scores, weights)
    assert (logits.shape, logits.dtype) == ((2, 3, 5), torch.float32)
    expected = applied(weights, edges[1, 2, 3], scores[1, :, 2, 3])
    torch.testing.assert_close(logits[1, 2, 3], expected.squeeze(), rtol=1e-4, atol=1e-4)


def test_both_directions_of_the_attention() -> None:
    """Rows gather by the first half of the logits, columns by the second; the means are those of the new edges."""
    edges, rows, columns, weights = torch.randn(1, 3, 5, 8), torch.randn(1, 3, 8), torch.randn(1, 5, 8), mlp(8, 10, 12)
    new, to_rows, to_columns, row_means, column_means = kernels.edge_attention(edges, rows, columns, 2, weights)
    scores = kernels.head_scores(rows[..., :4], columns[..., :4], 2)
    mixed, logits, *means = kernels.mix_edges(edges, scores, weights)
    assert torch.equal(new, mixed)
    assert all(torch.equal(a, b) for a, b in zip(means, (row_means, column_means), strict=True))
    for head in range(2):
        span = slice(4 + 2 * head, 6 + 2 * head)
        by_row = logits[0, head].softmax(1) @ columns[0, :, span]
        by_column = logits[0, 2 + head].softmax(0).T @ rows[0, :, span]
        torch.testing.assert_close(to_rows[0, :, 2 * head : 2 * head + 2], by_row)
        torch.testing.assert_close(to_columns[0, :, 2 * head : 2 * head + 2], by_column)


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
        assert dispatch.tiles_fit(edges)
        mixed = kernels.mix_edges(edges, scores, mixer.weights())
    assert torch.equal(edges, before)
    assert not torch.equal(mixed[0], plain[0])  # another way, other roundings
    for value, reference in zip(mixed, plain, strict=True):
        torch.testing.assert_close(value, reference.detach(), atol=1e-5, rtol=1e-5)
