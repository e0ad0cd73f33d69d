"""The attention layer with a thin edge state, by loops over its definition."""

import math

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import gelu, head_scores, split_heads
from icdc.networks.edge import EdgeInput, EdgeLayer, EdgeMixer

WIDTH, HEADS, EDGE = 8, 2, 4


def mixer_by_loops(mixer: EdgeMixer, edges: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """The update of every edge and its logits, one edge at a time."""
    new, logits = torch.zeros_like(edges), torch.zeros(*edges.shape[:-1], 2 * scores.shape[-1])
    for index in torch.cartesian_prod(*(torch.arange(s) for s in edges.shape[:-1])).tolist():
        edge, score = edges[tuple(index)], scores[tuple(index)]
        centred = (edge - edge.mean()) / (edge.var(correction=0) + 1e-5).sqrt()
        hidden = gelu(mixer.up(torch.cat([centred * mixer.norm.weight + mixer.norm.bias, score])))
        out = mixer.down(hidden)
        new[tuple(index)] = edge + out[: len(edge)]
        logits[tuple(index)] = out[len(edge) :]
    return new, logits


def test_mixer_works_edge_by_edge() -> None:
    """Norm, concatenation with the scores, MLP, split into update and logits."""
    mixer = EdgeMixer(EDGE, HEADS)
    edges, scores = torch.randn(2, 3, 5, EDGE), torch.randn(2, 3, 5, HEADS)
    with torch.no_grad():
        new, logits, *_ = kernels.mix_edges(edges, scores.permute(0, 3, 1, 2), mixer.weights())
        expected, expected_logits = mixer_by_loops(mixer, edges, scores)
    torch.testing.assert_close(new, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits, expected_logits.permute(0, 3, 1, 2), atol=1e-5, rtol=1e-4)


def test_an_edge_does_not_care_who_shares_its_tile() -> None:
    """An instance comes out the same alone and in a batch that fills several tiles."""
    torch.manual_seed(0)
    layer = EdgeLayer(WIDTH, HEADS, EDGE)
    rows, columns, edges = torch.randn(9, 20, WIDTH), torch.randn(9, 20, WIDTH), torch.randn(9, 20, 20, EDGE)
    with torch.no_grad():
        together = layer(rows, columns, edges)
        alone = layer(rows[4:5], columns[4:5], edges[4:5])
    for whole, one in zip(together, alone, strict=True):
        torch.testing.assert_close(whole[4:5], one, atol=1e-6, rtol=1e-6)


def test_layer_agrees_with_and_without_gradients() -> None:
    """What is trained is what solves."""
    torch.manual_seed(0)
    layer = EdgeLayer(WIDTH, HEADS, EDGE)
    inputs = torch.randn(2, 30, WIDTH), torch.randn(2, 50, WIDTH), torch.randn(2, 30, 50, EDGE)
    trained = layer(*inputs)
    with torch.no_grad():
        solving = layer(*inputs)
    for a, b in zip(trained, solving, strict=True):
        torch.testing.assert_close(a.detach(), b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("timed", [True, False])
def test_layer_equals_its_definition(timed: bool) -> None:
    """Rows attend over columns with the first logits, columns over rows with the second; relu(e) joins."""
    layer = EdgeLayer(WIDTH, HEADS, EDGE)
    rows, columns, edges = torch.randn(1, 3, WIDTH), torch.randn(1, 5, WIDTH), torch.randn(1, 3, 5, EDGE)
    time = torch.randn(1, WIDTH) if timed else None
    part = WIDTH // HEADS
    with torch.no_grad():
        new_rows, new_columns, new_edges = layer(rows, columns, edges, time)
        shift = 0 if time is None else time[0]
        r, c = layer.norm_rows(rows)[0] + shift, layer.norm_columns(columns)[0] + shift
        query, row_value = layer.query_value(r).split(WIDTH, -1)
        key, column_value = layer.key_value(c).split(WIDTH, -1)
        scores = torch.zeros(3, 5, HEADS)
        for i in range(3):
            for j in range(5):
                for h in range(HEADS):
                    span = slice(h * part, (h + 1) * part)
                    scores[i, j, h] = (query[i, span] * key[j, span]).sum() / math.sqrt(part)
        mixed, logits = mixer_by_loops(layer.mixer, edges[0], scores)
        torch.testing.assert_close(new_edges[0], mixed, atol=1e-5, rtol=1e-4)
        for i in range(3):
            heads = []
            for h in range(HEADS):
                weight = logits[i, :, h].softmax(0)
                heads.append((weight[:, None] * column_value[:, h * part : (h + 1) * part]).sum(0))
            row = rows[0, i] + layer.out_rows(torch.cat([*heads, mixed[i].clamp_min(0).mean(0)]))
            row = row + layer.feed_rows(layer.norm_rows_2(row))
            torch.testing.assert_close(new_rows[0, i], row, atol=1e-5, rtol=1e-4)
        for j in range(5):
            heads = []
            for h in range(HEADS):
                weight = logits[:, j, HEADS + h].softmax(0)
                heads.append((weight[:, None] * row_value[:, h * part : (h + 1) * part]).sum(0))
            column = columns[0, j] + layer.out_columns(torch.cat([*heads, mixed[:, j].clamp_min(0).mean(0)]))
            column = column + layer.feed_columns(layer.norm_columns_2(column))
            torch.testing.assert_close(new_columns[0, j], column, atol=1e-5, rtol=1e-4)


def test_heads_split_in_order() -> None:
    """Head h holds channels h·d/heads … and scores scale by the root of a head's width."""
    x = torch.arange(12.0).view(1, 2, 6)
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 2, 2)
    assert heads[0, 1, 1].tolist() == [8, 9]
    scores = head_scores(x, x, 3)
    assert scores[0, 2, 0, 1].item() == pytest.approx((4 * 10 + 5 * 11) / math.sqrt(2))


def test_shrunk_layers_start_near_the_identity() -> None:
    """The deeper the stack, the less one layer changes rows and columns at the start."""
    rows, columns, edges = torch.randn(1, 3, 64), torch.randn(1, 5, 64), torch.randn(1, 3, 5, 16)

    def change(depth: int) -> float:
        torch.manual_seed(1)
        layer = EdgeLayer(64, 4, 16)
        layer.shrink_outputs(depth)
        with torch.no_grad():
            return float((layer(rows, columns, edges)[0] - rows).norm() / rows.norm())

    assert change(32) < change(2) < 0.2
    assert change(2) == pytest.approx(4 * change(32), rel=0.3)


def test_edge_input_is_an_embedding_of_two_values() -> None:
    """X_t = 0 and 1 map to b ∓ w, and the relations and X_t times the relations come beside it."""
    layer = EdgeInput(2, 5)
    x, relations = torch.tensor([[[0.0, 1.0]]]), torch.randn(1, 1, 2, 2)
    found = layer(x, relations)
    for column in range(2):
        value = torch.tensor([2.0 * column - 1])
        seen = torch.cat([value, relations[0, 0, column], column * relations[0, 0, column]])
        torch.testing.assert_close(found[0, 0, column], layer.linear.weight @ seen + layer.linear.bias)


def test_edge_input_without_products() -> None:
    """The relations alone: what X_t adds is the same on every edge."""
    layer = EdgeInput(2, 5, with_products=False)
    assert layer.linear.weight.shape == (5, 3)
    relations = torch.randn(1, 1, 2, 2)
    zero, one = layer(torch.zeros(1, 1, 2), relations), layer(torch.ones(1, 1, 2), relations)
    torch.testing.assert_close(one - zero, (2 * layer.linear.weight[:, 0]).expand(1, 1, 2, 5))
    seen = torch.cat([torch.tensor([-1.0]), relations[0, 0, 1]])
    torch.testing.assert_close(zero[0, 0, 1], layer.linear.weight @ seen + layer.linear.bias)


@pytest.mark.parametrize("related", [True, False])
def test_the_solutions_of_an_instance_share_its_base(related: bool) -> None:
    """Solution p belongs to instance p // K."""
    layer = EdgeInput(4, 7, with_relations=related)
    x, relations, base = (torch.rand(6, 3, 5) < 0.5).float(), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 7)
    together = layer(x, relations, base)
    for p in range(6):
        instance = slice(p // 3, p // 3 + 1)
        alone = layer(x[p : p + 1], relations[instance]) + base[instance]
        torch.testing.assert_close(together[p : p + 1], alone)
