"""Local search for tours: two neighbouring segments change places, or, which is the same, a segment goes elsewhere.

Three steps a→a', b→b', c→c', met in this order, become a→b', c→a', b→c'; no segment is met backwards, so that nothing
is assumed about distances there and back.
"""

import torch
from torch import Tensor

from .choosing import compiled_runs_on, triton_runs_on
from .solutions import no_worse, picked

BARRED = 2**60
"""Length of a forbidden step among whole distances: longer than any tour, and three of them still fit; reals have ∞."""
TOLERANCE = 1e-9
"""What a change must gain at least where distances are real, in steps to a nearest city."""
WIDEST_CITIES = 1024
"""Cities that fit the registers of a Triton program."""
_BLOCK = {"cpu": 2**20, "cuda": 2**24}
"""Numbers of the largest intermediate tensor."""


def improve_tours(distances: Tensor, successor: Tensor, rounds: int, allowed: Tensor | None = None) -> Tensor:
    """Change tours, each at most `rounds` times, until no exchange of two neighbouring segments makes them shorter.

    Parameters
    ----------
    distances : (batch, n, n). Whole distances are added up as int64, reals as float64.
    successor : (batch, samples, n) int64, the city after every city; tours through all of them.
    rounds : changes to a tour; 0 makes none.
    allowed : (batch, n, n) bool, True where a step is permitted. No forbidden step is taken up; those of the tours
        given may stay.

    Returns
    -------
    Tensor (batch, samples, n) int64, tours no longer than before. Plain operations make the best change of all each
    time, compiled code and kernels the best that begins at a city, from city to city: their tours differ.
    """
    size = successor.shape[2]
    if rounds < 1 or size < 3 or not successor.numel():
        return successor.clone()
    kind = torch.float64 if distances.is_floating_point() else torch.int64
    wide = distances.to(kind)
    barred = float("inf") if kind == torch.float64 else BARRED
    target = wide if allowed is None else wide.masked_fill(~allowed, barred)
    step = picked(wide, successor)
    least = least_gain(wide)[:, None].expand(-1, successor.shape[1])
    if triton_runs_on(distances.device) and size <= WIDEST_CITIES:
        from . import triton_descent

        found = triton_descent.improve_tours(target, successor, step, least, rounds)
    elif compiled_runs_on(distances.device):
        from . import compiled_descent

        found = compiled_descent.improve_tours(target, successor, step, least, rounds)
    else:
        found = _improve(target, successor, step, least, rounds)
    if kind == torch.int64:
        return found
    return no_worse(found, successor, lambda tours: picked(distances, tours).sum(-1))


def least_gain(distances: Tensor) -> Tensor:
    """Return what a change must gain at least, (batch,): nothing for whole distances (batch, n, n).

    For reals a share of what a step to the nearest city costs on average, and more than sums of them are rounded by. It
    depends on the distances alone, so that a tour at a local optimum is left as it is.
    """
    if not distances.is_floating_point():
        return torch.zeros_like(distances[:, 0, 0])
    size = distances.abs().nan_to_num(posinf=0.0)
    near = size.masked_fill(torch.eye(size.shape[1], dtype=torch.bool, device=size.device), torch.inf).amin(2)
    rounding = 16 * torch.finfo(torch.float64).eps * size.amax((1, 2))
    return torch.maximum(TOLERANCE * near.mean(1), rounding)


def visiting_order(successor: Tensor) -> Tensor:
    """Return the cities of tours (…, n), as successors, in the order they are visited, from city 0."""
    city = torch.zeros_like(successor[..., :1])
    order = [city]
    for _ in range(successor.shape[-1] - 1):
        city = successor.gather(-1, city)
        order.append(city)
    return torch.cat(order, -1)


def _improve(target: Tensor, successor: Tensor, step: Tensor, least: Tensor, rounds: int) -> Tensor:
    """Improve in plain operations, a block of tours at a time."""
    batch, samples, size = successor.shape
    count = max(1, _BLOCK.get(target.device.type, _BLOCK["cpu"]) // (size * size))
    matrix = torch.arange(batch, device=target.device).repeat_interleave(samples)
    order, step, least = visiting_order(successor).flatten(0, 1), step.flatten(0, 1), least.flatten(0, 1)
    step = step.gather(1, order)
    parts = []
    for start in range(0, batch * samples, count):
        part = slice(start, start + count)
        costs, visited, length, gain = target[matrix[part]], order[part], step[part], least[part]
        for _ in range(rounds):
            visited, length, improved = _exchange(costs, visited, length, gain)
            if target.device.type == "cpu" and not bool(improved.any()):  # elsewhere a look would wait for the device
                break
        parts.append(torch.zeros_like(visited).scatter(1, visited, visited.roll(-1, 1)))
    return torch.cat(parts).view_as(successor)


def _exchange(costs: Tensor, order: Tensor, step: Tensor, least: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make the best exchange of every tour.

    From costs (N, n, n), the cities in visiting order (N, n) and what the step from each place costs (N, n); return
    the two after it and which tours have changed, (N,) bool. Steps out of places i < j < k change; for each i and j
    the best k is found among all at once.
    """
    size = order.shape[1]
    place = torch.arange(size, device=costs.device)
    far = float("inf") if costs.is_floating_point() else 2**61  # two of them fit, and so do four forbidden steps
    after = order.roll(-1, 1)
    # between[n, i, j]: from the city at place i to the one after place j
    between = costs.gather(1, order[:, :, None].expand(-1, -1, size)).gather(2, after[:, None].expand(-1, size, -1))
    closing = between - step[:, None]
    lowest = torch.full_like(between, far)  # [n, j, i], over all k after j
    for last in range(2, size):
        part = lowest[:, 1:last, : last - 1]
        part.copy_(torch.minimum(part, between[:, last, None, : last - 1] + closing[:, 1:last, last, None]))
    opening = between.mT - step[:, None] - step[:, :, None]
    total = (lowest + opening).masked_fill(place[:, None] <= place, far)
    best = total.flatten(1).argmin(1, keepdim=True)
    j, i = best // size, best % size
    improved = total.flatten(1).gather(1, best) < -least[:, None]
    ends = between.gather(2, i[:, :, None].expand(-1, size, 1))[:, :, 0]
    ends = ends + closing.gather(1, j[:, :, None].expand(-1, 1, size))[:, 0]
    k = ends.masked_fill(place <= j, far).argmin(1, keepdim=True)
    # places i + 1 … j and j + 1 … k change places
    moved = (place > i) & (place <= k)
    source = torch.where(place <= i + k - j, place + j - i, place + j - k)
    source = torch.where(moved & improved, source, place)
    order, step = order.gather(1, source), step.gather(1, source)
    for changed in (i, i + k - j, k):
        end = torch.where(improved, changed, 0)
        fresh = _entry(costs, order.gather(1, end), order.gather(1, (end + 1) % size))
        step = torch.where(improved, step.scatter(1, end, fresh), step)
    return order, step, improved[:, 0]


def _entry(matrix: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return matrix[n, row[n], column[n]], (N, 1)."""
    return matrix.flatten(1).gather(1, row * matrix.shape[2] + column)
