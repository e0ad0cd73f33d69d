"""Merging tours: one takes over from others those parts in which they are shorter.

Where two tours differ, a city has two successors, one in each, and two predecessors: going along a step of one and back
along a step of the other leads round a cycle. The cities whose steps are along such a cycle are a *part*. A tour that
takes the other's steps out of the cities of some parts still leaves and enters every city once; whether it is still one
tour is looked at. A part of an even number of cities never leaves one tour behind, and two parts can do so only if both
are even or both are odd, because all cycles through n cities are permutations of one sign.
"""

import torch
from torch import Tensor

from .choosing import compiled_runs_fast_on, triton_runs_on
from .solutions import no_worse, picked
from .tour_descent import WIDEST_CITIES, least_gain

MOST_PARTS = 32
"""Parts of another tour that are looked at, those that gain most or lose least."""
MOST_TRIALS = 32
"""Parts, or pairs of parts, of another tour that are tried."""


def merge_tours(distances: Tensor, successor: Tensor, others: Tensor) -> Tensor:
    """Let tours take over parts of others, one other after the other.

    Of the `MOST_PARTS` parts that gain most, or else lose least, each alone and any two together are tried as long as
    that gains something, what gains most first, `MOST_TRIALS` times at most; what leaves one tour behind is taken over.

    Parameters
    ----------
    distances : (batch, n, n). Whole distances are added up as int64, reals as float64.
    successor : (batch, samples, n) int64, the city after every city; tours through all of them.
    others : (batch, samples, count, n) int64, the tours that each of them takes parts of.

    Returns
    -------
    Tensor (batch, samples, n) int64, tours no longer than before. All implementations give the same, except where the
    rounding of reals decides between two parts.
    """
    size = successor.shape[2]
    if size < 3 or not others.numel():
        return successor.clone()
    wide = distances.to(torch.float64 if distances.is_floating_point() else torch.int64)
    least = least_gain(wide)[:, None].expand(-1, successor.shape[1])
    if distances.is_floating_point():  # infinite steps count as longer than any tour, so that two of them cancel out
        finite = wide.abs().nan_to_num(posinf=0.0).amax((1, 2), keepdim=True)
        wide = torch.where(wide.isposinf(), 4 * size * finite, wide)
    if triton_runs_on(distances.device) and size <= WIDEST_CITIES:
        from . import triton_merging

        found = triton_merging.merge_tours(wide, successor, others, least)
    elif compiled_runs_fast_on(distances.device):
        from . import compiled_merging

        found = compiled_merging.merge_tours(wide, successor, others, least)
    else:
        found = _merge(wide, successor, others, least)
    if not distances.is_floating_point():
        return found
    return no_worse(found, successor, lambda tours: picked(distances, tours).sum(-1))


def _merge(distances: Tensor, successor: Tensor, others: Tensor, least: Tensor) -> Tensor:
    """Merge in plain operations: all tours side by side, other after other."""
    batch, samples, size = successor.shape
    matrix = torch.arange(batch, device=distances.device).repeat_interleave(samples)[:, None]
    city = torch.arange(size, device=distances.device)
    found, least = successor.flatten(0, 1), least.flatten()
    for other in others.flatten(0, 1).unbind(1):
        change = distances[matrix, city, other] - distances[matrix, city, found]
        part, total = _parts(found, other, change)
        for _ in range(MOST_TRIALS):
            lowest, pair = total.flatten(1).min(1)
            trying = lowest < -least
            if distances.device.type == "cpu" and not bool(trying.any()):  # elsewhere a look would wait for the device
                break
            one, two = pair // total.shape[2], pair % total.shape[2]
            meant = (part == one[:, None]) | (part == two[:, None])
            changed = torch.where(meant & trying[:, None], other, found)
            closed = _is_tour(changed)
            found = torch.where(closed[:, None], changed, found)
            total = _without(total, one, two, taken=closed & trying)
    return found.view_as(successor)


def _parts(successor: Tensor, other: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
    """Number the parts in which tours (N, n) differ from others, by what their steps change (N, n) added up.

    Return the number of each city's part (N, n), `MOST_PARTS` at least where it is none that is looked at, and by how
    much the tours' lengths change if they take over parts c ≤ e, (N, parts, parts); far too much where c > e, or where
    that cannot leave one tour.
    """
    size = successor.shape[1]
    city = torch.arange(size, device=successor.device).expand_as(successor)
    # back along a step of the tour from where the other leads, over 1, 2, 4, … steps: the least city met names the part
    turn = torch.zeros_like(successor).scatter(1, successor, city).gather(1, other)
    name = city
    for _ in range(size.bit_length()):
        name = torch.minimum(name, name.gather(1, turn))
        turn = turn.gather(1, turn)
    far = _far(change)
    length = torch.zeros_like(name).scatter_add(1, name, torch.ones_like(name))
    value = torch.zeros_like(change).scatter_add(1, name, change)
    value = value.masked_fill((name != city) | (successor == other), far)
    value, names = value.sort(dim=1, stable=True)
    number = torch.zeros_like(names).scatter(1, names, city).gather(1, name)
    count = min(size, MOST_PARTS)
    value, even = value[:, :count], length.gather(1, names)[:, :count] % 2 == 0
    place = torch.arange(count, device=value.device)
    total = torch.where(place[:, None] == place, value[:, :, None], value[:, :, None] + value[:, None])
    apart = torch.where(place[:, None] == place, even[:, :, None], even[:, :, None] != even[:, None])
    barred = apart | (place[:, None] > place)
    return number, total.masked_fill(barred, far)


def _without(total: Tensor, one: Tensor, two: Tensor, taken: Tensor) -> Tensor:
    """Leave a pair of parts out, and where it was taken all pairs with either; they are numbers (N,)."""
    place = torch.arange(total.shape[1], device=total.device)
    first, second = ((place == part[:, None]) for part in (one, two))
    tried = first[:, :, None] & second[:, None]
    gone = (first | second) & taken[:, None]
    return total.masked_fill(tried | gone[:, :, None] | gone[:, None], _far(total))


def _is_tour(successor: Tensor) -> Tensor:
    """Tell which successors (N, n) are one tour: every city is entered, and all meet city 0."""
    entered = torch.zeros_like(successor).scatter(1, successor, 1)
    met = torch.arange(successor.shape[1], device=successor.device).expand_as(successor)
    for _ in range(successor.shape[1].bit_length()):
        met = torch.minimum(met, met.gather(1, successor))
        successor = successor.gather(1, successor)
    return (met == 0).all(1) & (entered == 1).all(1)


def _far(change: Tensor) -> float | int:
    return float("inf") if change.is_floating_point() else 2**61  # two of them fit
