"""Operations of the layers, in plain torch, against their definitions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from icdc import kernels


@pytest.fixture(autouse=True)
def plain() -> object:
    with kernels.without_triton():
        yield


@pytest.mark.parametrize("shape", [(3, 5, 7, 32), (2, 20, 4, 64), (1, 1, 1, 16), (2, 9, 5, 8)])
def test_means_of_relu(shape: tuple[int, ...]) -> None:
    """Over columns first, then over rows."""
    edges = torch.randn(shape)
    rows, columns = kernels.relu_means(edges)
    torch.testing.assert_close(rows, torch.where(edges > 0, edges, 0).sum(2) / shape[2])
    torch.testing.assert_close(columns, torch.where(edges > 0, edges, 0).sum(1) / shape[1])


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


@pytest.mark.parametrize("related", [True, False])
@pytest.mark.parametrize("based", [True, False])
def test_first_edges_of_several_solutions(related: bool, based: bool) -> None:
    """Solution p belongs to instance p // K."""
    x = (torch.rand(6, 3, 5) < 0.5).float()
    relations, base = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 7) if based else None
    weight, bias = torch.randn(7, 9 if related else 1), torch.randn(7)
    edges = kernels.first_edges(x, relations, weight, bias, base)
    assert edges.shape == (6, 3, 5, 7)
    for p in range(6):
        sign, seen = 2 * x[p, 1, 2] - 1, relations[p // 3, 1, 2]
        given = torch.cat([sign[None], seen, x[p, 1, 2] * seen]) if related else sign[None]
        expected = weight @ given + bias + (0 if base is None else base[p // 3, 1, 2])
        torch.testing.assert_close(edges[p, 1, 2], expected, rtol=1e-4, atol=1e-5)


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
