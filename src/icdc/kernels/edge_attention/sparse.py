"""Attention between rows and columns where only k candidate columns of each row have an edge.

Shapes: edges (N, R, k, c), and candidates (N, R, k) int64, the column of each edge. A row attends over its own k edges,
a column over the rows that have it as a candidate; a column without such rows gets zeros. No tensor is as large as rows
times columns.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import dispatch

_TILE = {"cpu": 2**19, "cuda": 2**28}
"""Numbers of a tensor of some rows: what a CPU's cache holds, and what a GPU has to spare."""
_SORTING = ("cuda",)
"""Devices whose threads add to the same number in any order, unless what they add is sorted first."""
_TINY = 1e-30


@dataclass(frozen=True)
class Neighbours:
    """The k columns that each row of B instances has an edge to; N = B · K matrices have K of each instance's edges.

    index : the columns (B, R, k), int64.
    columns : how many columns there are.
    order : for each instance its edges, numbered through its rows, in the order of their columns (B, R · k), int32.
    starts : where the edges of each column begin in `order`, and where all end (B, C + 1), int32. Both are there where
        kernels read them.
    """

    index: Tensor
    columns: int
    order: Tensor | None = None
    starts: Tensor | None = None

    def of_all(self, count: int) -> Tensor:
        """Return the columns (N, R, k) for `count` = N matrices, K of each instance, instance-major."""
        samples = count // len(self.index)
        return self.index if samples == 1 else self.index.repeat_interleave(samples, 0)


def neighbours(index: Tensor, columns: int) -> Neighbours:
    """Return the neighbours of rows with edges to the columns `index` (B, R, k), sorted where kernels read them."""
    if not dispatch.network_kernels_run_on(index.device):
        return Neighbours(index, columns)
    column, order = index.flatten(1).sort(dim=1, stable=True)
    bounds = torch.arange(columns + 1, device=index.device).expand(len(index), -1).contiguous()
    return Neighbours(index, columns, order.int(), torch.searchsorted(column, bounds).int())


def at_candidates(nodes: Tensor, candidates: Tensor) -> Tensor:
    """Return the columns (N, C, w) at the other end of each edge, (N, R, k, w)."""
    flat, place = nodes.flatten(0, 1), _places(candidates, nodes.shape[1])
    # an index's gradient is added up by sorting, where a selection's depends on which thread comes first
    seen: Tensor = flat[place] if nodes.device.type in _SORTING else flat.index_select(0, place)
    return seen.view(*candidates.shape, -1)


def candidate_scores(query: Tensor, key: Tensor, heads: int) -> Tensor:
    """Return scaled dot products of rows (N, R, d) with their candidates (N, R, k, d), (N, heads, R, k)."""
    scale = (query.shape[-1] // heads) ** -0.5
    products: Tensor = (query * scale)[:, :, None] * key
    # on a GPU autocast makes sums float32, and others expect what they were given
    return products.view(*key.shape[:3], heads, -1).sum(-1).to(key.dtype).permute(0, 3, 1, 2)


def attend_to_candidates(logits: Tensor, values: Tensor) -> Tensor:
    """Return what rows gather from their candidates, (N, R, d): values (N, R, k, d) by logits (N, heads, R, k)."""
    weights = logits.float().softmax(-1).permute(0, 2, 3, 1).to(values.dtype)
    return (weights[..., None] * values.view(*weights.shape, -1)).sum(2).to(values.dtype).flatten(2)


def attend_to_rows(
    logits: Tensor, values: Tensor, edges: Tensor, candidates: Tensor, columns: int
) -> tuple[Tensor, Tensor]:
    """Return what columns gather from the rows that have them as candidates, and the means of relu(edges) there.

    From logits (N, heads, R, k), values of rows (N, R, d) and edges (N, R, k, c): (N, C, d) and (N, C, c). Sums are
    taken in float32, and the softmax is divided by its sum in the end.
    """
    heads, width = logits.shape[1], values.shape[2]
    each = logits.permute(0, 2, 3, 1).float().contiguous()
    # softmax does not change with what is taken off all of its logits
    highest = max_by_column(each.detach(), candidates, columns)
    weight = (each - at_candidates(highest, candidates)).exp()
    total = add_by_column(weight, candidates, columns).clamp_min(_TINY)
    count = add_by_column(torch.ones_like(weight[..., :1]), candidates, columns).clamp_min(1)
    gathered = weight.new_zeros(len(values) * columns, width)
    active = weight.new_zeros(len(values) * columns, edges.shape[-1])
    for part in row_tiles(candidates, width):
        place = _places(candidates[:, part], columns)
        value = values[:, part].float().view(len(values), -1, 1, heads, width // heads)
        _add(gathered, place, (weight[:, part, :, :, None] * value).view(-1, width))
        _add(active, place, F.relu(edges[:, part]).float().flatten(0, 2))
    gathered = gathered.view(*total.shape, -1) / total[..., None]
    means = active.view(len(values), columns, -1) / count
    return gathered.flatten(2).to(values.dtype), means.to(edges.dtype)


def row_tiles(candidates: Tensor, width: int) -> list[slice]:
    """Return ranges of rows that are worked on one after another, so that tensors (N, rows, k, width) stay small.

    With gradients, which keep all of them anyway, there is a single range.
    """
    count, rows, each = candidates.shape
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return [slice(0, rows)]
    most = _TILE.get(candidates.device.type, _TILE["cuda"])
    tiles = min(rows, -(-count * rows * each * width // most))
    height = -(-rows // max(1, tiles))  # all nearly of the same height
    return [slice(begin, begin + height) for begin in range(0, rows, height)]


def summarise_columns(values: Tensor, candidates: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return mean, minimum, maximum and variance over the edges of each column, (N, C, w) each.

    From values (N, R, k, w); a column without edges has zeros.
    """
    count = add_by_column(torch.ones_like(values[..., :1]), candidates, columns).clamp_min(1)
    mean = add_by_column(values, candidates, columns) / count
    centred = values - at_candidates(mean, candidates)
    variance = add_by_column(centred.square(), candidates, columns) / count
    least, most = -max_by_column(-values, candidates, columns), max_by_column(values, candidates, columns)
    return mean, least, most, variance


def add_by_column(values: Tensor, candidates: Tensor, columns: int) -> Tensor:
    """Return the sums of values (N, R, k, w) over the edges of each column, (N, C, w)."""
    sums = values.new_zeros(len(values) * columns, values.shape[-1])
    _add(sums, _places(candidates, columns), values.flatten(0, 2))
    return sums.view(len(values), columns, -1)


def max_by_column(values: Tensor, candidates: Tensor, columns: int) -> Tensor:
    """Return the largest of values (N, R, k, w) over the edges of each column, (N, C, w), zero where there are none."""
    zeros = values.new_zeros(len(values) * columns, values.shape[-1])
    place = _places(candidates, columns)[:, None].expand(-1, values.shape[-1])
    largest = zeros.scatter_reduce(0, place, values.flatten(0, 2), "amax", include_self=False)
    return largest.view(len(values), columns, -1)


def _add(sums: Tensor, place: Tensor, values: Tensor) -> None:
    """Add values (edges, w) to the rows `place` (edges,) of sums, the last bits the same in every run."""
    if sums.device.type in _SORTING:
        sums.index_put_((place,), values, accumulate=True)
    else:
        sums.index_add_(0, place, values)


def _places(candidates: Tensor, columns: int) -> Tensor:
    """Return the columns of all edges, (N · R · k,), counted through all N instances."""
    first = torch.arange(0, len(candidates) * columns, columns, device=candidates.device)
    return (candidates + first[:, None, None]).flatten()
