# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# (triton reads the annotations of its kernels, and knows no others than constexpr)
"""Tours from candidate steps on a GPU, joined or followed: one program for each tour.

A program keeps the paths of its tour in registers and goes through the candidates in the order of their scores. All
that it has to know of a step is one sum over the cities, of numbers that are zero everywhere else: no thread waits for
what another has stored. One that follows a tour keeps which cities it has visited. Tours come out as those of the plain
operations.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from .triton_descent import _LANES, _NARROWEST, _at


@triton.jit
def _step(city, successor, entered, head, tail, i, j, first, last):
    """Let city j, the first of a path that ends in `last`, follow city i, the end of one that begins with `first`.

    With −1 for all four nothing happens.
    """
    successor = tl.where(city == i, j, successor)
    entered = tl.where(city == j, 1, entered)
    return successor, entered, tl.where(city == last, first, head), tl.where(city == first, last, tail)


@triton.jit(do_not_specialize=["samples", "size", "places"])
def _join_candidates(
    rows, columns, excesses, floors, found, samples, size, places,
    CITIES: constexpr,
):  # fmt: skip
    tour = tl.program_id(0).to(tl.int64)
    rows += tour * places
    columns += tour * places
    excesses += tour // samples * size * size
    floor = tl.load(floors + tour)
    city = tl.arange(0, CITIES)
    inside = city < size
    # a city that does not exist has left and was entered
    successor = tl.where(inside, -1, 0)
    entered = tl.where(inside, 0, 1)
    head, tail = city + 0, city + 0
    paths, place = size + 0, size * 0
    while (place < places) & (paths > 1):
        i, j = tl.load(rows + place), tl.load(columns + place)
        free = tl.where((successor < 0) & (head != j), CITIES * CITIES, 0)
        fresh = tl.where(entered == 0, CITIES * CITIES, 0)
        known = tl.sum(tl.where(city == i, head + free, 0) + tl.where(city == j, tail * CITIES + fresh, 0), 0)
        allowed = known >= 2 * CITIES * CITIES
        first, last = known % CITIES, known // CITIES % CITIES
        i, j = tl.where(allowed, i, -1), tl.where(allowed, j, -1)
        first, last = tl.where(allowed, first, -1), tl.where(allowed, last, -1)
        successor, entered, head, tail = _step(city, successor, entered, head, tail, i, j, first, last)
        paths = tl.where(allowed, paths - 1, paths)
        place += 1
    while paths > 1:
        best, best_end = tl.full([CITIES], float("-inf"), tl.float32), city * 0
        end = tl.min(tl.where(successor < 0, city, CITIES), 0)
        while end < CITIES:
            reached = (entered == 0) & (city != _at(city, head, end))
            value = floor - tl.load(excesses + end * size + city, mask=inside, other=0.0)
            better = reached & (value > best)
            best, best_end = tl.where(better, value, best), tl.where(better, end, best_end)
            end = tl.min(tl.where((successor < 0) & (city > end), city, CITIES), 0)
        # of equal steps the first, by the city they leave and then by the one they enter
        key = tl.min(tl.where(best == tl.max(best, 0), best_end * CITIES + city, 0x7FFFFFFF), 0)
        i, j = key // CITIES, key % CITIES
        first, last = _at(city, head, i), _at(city, tail, j)
        successor, entered, head, tail = _step(city, successor, entered, head, tail, i, j, first, last)
        paths -= 1
    successor = tl.where(successor < 0, head, successor)  # the last step closes the tour
    tl.store(found + tour * size + city, successor.to(tl.int64), mask=inside)


def join_candidates(scores: Tensor, index: Tensor, excess: Tensor, floor: Tensor) -> Tensor:
    """Do what `solutions.join_candidates` says; `floor` (N,) is below all scores (N, n, k) of a tour."""
    count, size, width = scores.shape
    order = scores.detach().flatten(1).sort(dim=1, descending=True, stable=True).indices
    columns = index.flatten(1).repeat_interleave(count // len(index), 0).gather(1, order)
    found = torch.empty(count, size, dtype=torch.int64, device=scores.device)
    padded = triton.next_power_of_2(size)
    with torch.cuda.device_of(scores):
        _join_candidates[(count,)](
            (order // width).int(), columns.int(), excess.float().contiguous(), floor.float().contiguous(), found,
            count // len(index), size, size * width, CITIES=padded, num_warps=max(1, padded // _LANES),
        )  # fmt: skip
    return found


@triton.jit(do_not_specialize=["samples", "size", "width"])
def _follow_candidates(
    scores, indices, excesses, floors, firsts, found, samples, size, width,
    CITIES: constexpr, EACH: constexpr,
):  # fmt: skip
    tour = tl.program_id(0).to(tl.int64)
    scores += tour * size * width
    indices += tour // samples * size * width
    excesses += tour // samples * size * size
    floor, first = tl.load(floors + tour), tl.load(firsts + tour).to(tl.int32)
    city, place = tl.arange(0, CITIES), tl.arange(0, EACH)
    inside = city < size
    unvisited = tl.where(inside & (city != first), 1, 0)
    successor = city * 0
    here, left = first + 0, size - 1
    while left > 0:
        there = place < width
        index = tl.load(indices + here * width + place, mask=there, other=0).to(tl.int32)
        score = tl.load(scores + here * width + place, mask=there, other=0.0)
        open_ones = there & (tl.gather(unvisited, index, 0) == 1)
        best = tl.max(tl.where(open_ones, score, float("-inf")), 0)
        following = tl.min(tl.where(open_ones & (score == best), index, CITIES), 0)
        if following == CITIES:  # all candidates have been visited
            rest = floor - tl.load(excesses + here * size + city, mask=inside, other=0.0)
            rest = tl.where(unvisited == 1, rest, float("-inf"))
            following = tl.min(tl.where((unvisited == 1) & (rest == tl.max(rest, 0)), city, CITIES), 0)
        successor = tl.where(city == here, following, successor)
        unvisited = tl.where(city == following, 0, unvisited)
        here, left = following, left - 1
    successor = tl.where(city == here, first, successor)
    tl.store(found + tour * size + city, successor.to(tl.int64), mask=inside)


def follow_candidates(scores: Tensor, index: Tensor, excess: Tensor, floor: Tensor, first: Tensor) -> Tensor:
    """Do what `solutions.follow_candidates` says; `floor` (N,) is below all scores (N, n, k) of a tour."""
    count, size, width = scores.shape
    found = torch.empty(count, size, dtype=torch.int64, device=scores.device)
    padded = max(_NARROWEST, triton.next_power_of_2(size)), max(_NARROWEST, triton.next_power_of_2(width))
    with torch.cuda.device_of(scores):
        _follow_candidates[(count,)](
            scores.detach().contiguous(), index.int().contiguous(), excess.float().contiguous(),
            floor.float().contiguous(), first.contiguous(), found, count // len(index), size, width,
            CITIES=padded[0], EACH=padded[1], num_warps=max(1, padded[0] // _LANES),
        )  # fmt: skip
    return found
