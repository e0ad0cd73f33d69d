"""Attention over candidate columns: its definition by loops, and what it shares with attention over all columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from icdc import kernels
from icdc.kernels import NormedMLP
from icdc.kernels.edge_attention import sparse
from icdc.networks.edge import EdgeLayer

HEADS, WIDTH, EDGE = 2, 8, 4


def drawn(count: int, rows: int, columns: int, each: int) -> tuple[Tensor, Tensor, Tensor, Tensor, NormedMLP]:
    """Edges, what rows and columns bring, candidates in no order, and the weights of a mixer."""
    torch.manual_seed(rows)
    candidates = torch.rand(count, rows, columns).argsort(-1)[..., :each]
    weights = (EDGE,), (EDGE,), (2 * EDGE, EDGE + HEADS), (2 * EDGE,), (EDGE + 2 * HEADS, 2 * EDGE), (EDGE + 2 * HEADS,)
    mlp = NormedMLP(*(torch.randn(shape) for shape in weights))
    edges = torch.randn(count, rows, each, EDGE)
    return edges, torch.randn(count, rows, 2 * WIDTH), torch.randn(count, columns, 2 * WIDTH), candidates, mlp


@pytest.mark.parametrize("sorting", [(), ("cpu",)])
def test_all_columns_as_candidates_are_attention_over_all_columns(
    sorting: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same numbers and the same gradients, in whatever order candidates are listed, and however they are summed."""
    monkeypatch.setattr(sparse, "_SORTING", sorting)
    edges, from_rows, from_columns, candidates, mlp = drawn(2, 5, 6, 6)
    dense = torch.zeros_like(edges).scatter(2, candidates[..., None].expand_as(edges), edges)
    found = []
    for given, listed in ((dense, None), (edges, candidates)):
        near = None if listed is None else kernels.neighbours(listed, 6)
        inputs = [tensor.clone().requires_grad_() for tensor in (given, from_rows, from_columns, *mlp)]
        out = list(kernels.edge_attention(*inputs[:3], HEADS, NormedMLP(*inputs[3:]), near))
        if listed is not None:
            out[0] = torch.zeros_like(dense).scatter(2, listed[..., None].expand_as(out[0]), out[0])
        loss = sum(((1 + place) * tensor.square()).sum() for place, tensor in enumerate(out))
        grads = torch.autograd.grad(loss, inputs)
        edge_grad = grads[0]
        if listed is not None:
            edge_grad = torch.zeros_like(dense).scatter(2, listed[..., None].expand_as(edge_grad), edge_grad)
        found.append([*out, edge_grad, *grads[1:]])
    for all_columns, as_candidates in zip(*found, strict=True):
        torch.testing.assert_close(as_candidates, all_columns, atol=1e-4, rtol=1e-4)


def test_rows_and_columns_gather_over_the_edges_there_are() -> None:
    """By loops: a softmax over a row's candidates, and over the rows that have a column as one."""
    edges, from_rows, from_columns, candidates, mlp = drawn(1, 4, 5, 2)
    new, to_rows, to_columns, row_means, column_means = kernels.edge_attention(
        edges, from_rows, from_columns, HEADS, mlp, kernels.neighbours(candidates, 5)
    )
    query, row_value = from_rows[0].chunk(2, -1)
    key, column_value = from_columns[0].chunk(2, -1)
    part = WIDTH // HEADS
    scores = torch.zeros(1, HEADS, 4, 2)
    for i in range(4):
        for place, j in enumerate(candidates[0, i].tolist()):
            for h in range(HEADS):
                span = slice(h * part, (h + 1) * part)
                scores[0, h, i, place] = query[i, span] @ key[j, span] / part**0.5
    mixed, logits, *_ = kernels.mix_edges(edges, scores, mlp)
    torch.testing.assert_close(new, mixed)
    for i in range(4):
        torch.testing.assert_close(row_means[0, i], mixed[0, i].relu().mean(0))
        for h in range(HEADS):
            span = slice(h * part, (h + 1) * part)
            wanted = logits[0, h, i].softmax(0) @ column_value[candidates[0, i], span]
            torch.testing.assert_close(to_rows[0, i, span], wanted)
    for j in range(5):
        rows, places = (candidates[0] == j).nonzero(as_tuple=True)
        if not len(rows):
            assert not to_columns[0, j].any()
            assert not column_means[0, j].any()
            continue
        torch.testing.assert_close(column_means[0, j], mixed[0, rows, places].relu().mean(0))
        for h in range(HEADS):
            span = slice(h * part, (h + 1) * part)
            wanted = logits[0, HEADS + h, rows, places].softmax(0) @ row_value[rows, span]
            torch.testing.assert_close(to_columns[0, j, span], wanted)


def test_a_column_without_rows_gets_zeros() -> None:
    """No infinity and no 0/0 there, in values and gradients; far-off logits do not overflow either."""
    edges, from_rows, from_columns, candidates, mlp = drawn(2, 3, 7, 2)
    near = kernels.neighbours(candidates % 4, 7)
    from_rows = (1e3 * from_rows).requires_grad_()
    out = kernels.edge_attention(edges, from_rows, from_columns, HEADS, mlp, near)
    assert all(torch.isfinite(tensor).all() for tensor in out)
    assert not out[2][:, 4:].any()
    assert not out[4][:, 4:].any()
    (grad,) = torch.autograd.grad(sum(tensor.sum() for tensor in out), from_rows)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize("size", [1, 100, 10**6])
def test_tiles_of_rows_change_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without gradients rows are worked on a few at a time; the outcome is that of all at once."""
    inputs = drawn(3, 7, 5, 3)
    edges, from_rows, from_columns, candidates, mlp = inputs
    near = kernels.neighbours(candidates, 5)
    whole = kernels.edge_attention(edges, from_rows, from_columns, HEADS, mlp, near)
    monkeypatch.setattr(sparse, "_TILE", {"cpu": size, "cuda": size})
    with torch.no_grad():
        tiles = sparse.row_tiles(candidates, WIDTH)
        assert [row for tile in tiles for row in range(7)[tile]] == list(range(7))
        assert len(tiles) == {1: 7, 100: 4, 10**6: 1}[size]
        found = kernels.edge_attention(edges, from_rows, from_columns, HEADS, mlp, near)
    for tensor, reference in zip(found, whole, strict=True):
        torch.testing.assert_close(tensor, reference, atol=1e-5, rtol=1e-5)


def test_columns_are_summarised_over_their_edges() -> None:
    """Mean, minimum, maximum and variance, by hand; zeros where there is no edge."""
    values = torch.tensor([[[[1.0], [2.0]], [[5.0], [-4.0]]]])
    candidates = torch.tensor([[[0, 2], [0, 3]]])
    mean, least, most, variance = (part[0, :, 0].tolist() for part in kernels.summarise_columns(values, candidates, 4))
    assert mean == [3, 0, 2, -4]
    assert least == [1, 0, 2, -4]
    assert most == [5, 0, 2, -4]
    assert variance == [4, 0, 0, 0]


def test_narrow_states_are_added_up_in_full_precision() -> None:
    """In bfloat16 the outcome differs from float32 by the rounding of the states only, however many edges meet."""
    torch.manual_seed(0)
    logits, values, edges = torch.randn(1, HEADS, 400, 1), torch.randn(1, 400, WIDTH), torch.randn(1, 400, 1, EDGE)
    candidates = torch.zeros(1, 400, 1, dtype=torch.long)
    narrow = [tensor.bfloat16() for tensor in (logits, values, edges)]
    found = sparse.attend_to_rows(*narrow, candidates, 2)
    wanted = sparse.attend_to_rows(*(tensor.float() for tensor in narrow), candidates, 2)
    for tensor, reference in zip(found, wanted, strict=True):
        assert tensor.dtype == torch.bfloat16
        torch.testing.assert_close(tensor.float(), reference, atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("graded", [True, False])
def test_layouts_agree_in_narrow_precision(graded: bool) -> None:
    """Under autocast the layer keeps its dtypes, and both layouts give the same up to rounding."""
    torch.manual_seed(0)
    layer = EdgeLayer(16, 2, 8)
    rows, columns, edges = torch.randn(2, 5, 16), torch.randn(2, 6, 16), torch.randn(2, 5, 6, 8).bfloat16()
    all_of_them = kernels.neighbours(torch.arange(6).expand(2, 5, -1), 6)
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(graded):
        dense, sparse = (layer(rows, columns, edges, near=near) for near in (None, all_of_them))
    for a, b in zip(dense, sparse, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(b.float(), a.float(), atol=0.03, rtol=0.03)
    if graded:
        sum(part.float().sum() for part in sparse).backward()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in layer.parameters())


class WideSums(TorchFunctionMode):
    """Sums are float32, as autocast makes them on a GPU and not on a CPU."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        return found.float() if function in (Tensor.sum, torch.sum) else found


def test_what_is_given_in_half_precision_comes_back_so() -> None:
    """Kernels that take the results multiply them by weights of the same precision."""
    edges, from_rows, from_columns, candidates, mlp = drawn(2, 5, 6, 3)
    near = kernels.neighbours(candidates, 6)
    narrow = [tensor.bfloat16() for tensor in (edges, from_rows, from_columns)]
    weights = NormedMLP(*(tensor.bfloat16() for tensor in mlp))
    with WideSums():
        found = kernels.edge_attention(*narrow, HEADS, weights, near)
        scores = kernels.head_scores(narrow[1], narrow[2], HEADS, near)
    assert [tensor.dtype for tensor in (*found, scores)] == [torch.bfloat16] * 6
