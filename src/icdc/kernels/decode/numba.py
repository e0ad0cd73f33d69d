"""Tours from scores on a CPU, joined or followed: loops over one tour at a time, compiled by numba.

The tours are those of the torch operations, which look at all pairs of cities.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...jit import compiled
from ..dispatch import in_threads, on_host

Numbers = NDArray[Any]
Indices = NDArray[np.int64]


def join_candidates(scores: Tensor, index: Tensor, excess: Tensor, floor: Tensor) -> Tensor:
    """Do what `decode.join_candidates` says; scores (N, n, k) are float32, `floor` (N,) is below all of a tour."""
    count, size, _ = scores.shape
    order = scores.detach().flatten(1).sort(dim=1, descending=True, stable=True).indices
    choice = np.empty((count, size), np.int64)
    arrays = [on_host(tensor) for tensor in (order, index, excess.to(scores.dtype), floor)]
    in_threads(_join, count, *arrays, choice, count // len(index))
    return torch.from_numpy(choice)


def follow_candidates(scores: Tensor, index: Tensor, excess: Tensor, floor: Tensor, first: Tensor) -> Tensor:
    """Do what `decode.follow_candidates` says; scores (N, n, k) are float32, `floor` (N,) is below all of a tour."""
    count, size, _ = scores.shape
    choice = np.empty((count, size), np.int64)
    arrays = [on_host(tensor) for tensor in (scores, index, excess.to(scores.dtype), floor, first)]
    in_threads(_follow, count, *arrays, choice, count // len(index))
    return torch.from_numpy(choice)


def follow_tours(scores: Tensor, first: Tensor) -> Tensor:
    """Do what `decode.follow_tours` says, by scores (N, n, n) with their noise."""
    choice = np.empty(scores.shape[:2], np.int64)
    in_threads(_follow_all, len(choice), on_host(scores), on_host(first), choice)
    return torch.from_numpy(choice)


@compiled
def _follow_all(scores: Numbers, firsts: Indices, choices: Indices, start: int, end: int) -> None:
    """Write the successors of tours `start` to `end` into choices (N, n)."""
    size = scores.shape[1]
    left = np.empty(size, np.int64)  # the cities not yet visited, ascending, so that the first of equals is taken
    for p in range(start, end):
        score, choice, city, count = scores[p], choices[p], firsts[p], 0
        for j in range(size):
            if j != city:
                left[count] = j
                count += 1
        while count > 0:
            at, best = 0, score[city, left[0]]
            for place in range(1, count):
                if score[city, left[place]] > best:
                    at, best = place, score[city, left[place]]
            following = left[at]
            count -= 1
            for place in range(at, count):
                left[place] = left[place + 1]
            choice[city] = following
            city = following
        choice[city] = firsts[p]


@compiled
def _follow(
    scores: Numbers, indices: Indices, excesses: Numbers, floors: Numbers, firsts: Indices, choices: Indices,
    samples: int, start: int, end: int,
) -> None:  # fmt: skip
    """Write the successors of tours `start` to `end` into choices (N, n)."""
    size, width = indices.shape[1], indices.shape[2]
    visited = np.empty(size, np.bool_)
    for p in range(start, end):
        index, excess, score, choice = indices[p // samples], excesses[p // samples], scores[p], choices[p]
        visited[:] = False
        city = firsts[p]
        visited[city] = True
        for _ in range(size - 1):
            following = -1
            best = floors[p]  # below all scores
            for place in range(width):
                j = index[city, place]
                if score[city, place] > best and not visited[j]:
                    following, best = j, score[city, place]
            if following < 0:
                for j in range(size):
                    # rounded as the torch operations do, so that the same steps tie
                    rest = floors[p] - excess[city, j]
                    if not visited[j] and (following < 0 or rest > best):
                        following, best = j, rest
            choice[city], visited[following] = following, True
            city = following
        choice[city] = firsts[p]


@compiled
def _join(
    orders: Indices, indices: Indices, excesses: Numbers, floors: Numbers, choices: Indices, samples: int,
    start: int, end: int,
) -> None:  # fmt: skip
    """Write the successors of tours `start` to `end` into choices (N, n).

    Tour p takes the candidates of instance p // samples in the order of `orders[p]` (n · k,).
    """
    size, width = indices.shape[1], indices.shape[2]
    head, tail = np.empty(size, np.int64), np.empty(size, np.int64)
    entered = np.empty(size, np.bool_)
    for p in range(start, end):
        index, excess, choice = indices[p // samples], excesses[p // samples], choices[p]
        for city in range(size):
            head[city], tail[city], choice[city], entered[city] = city, city, -1, False
        paths = size
        for place in orders[p]:
            if paths == 1:
                break
            i, j = place // width, index[place // width, place % width]
            if choice[i] < 0 and not entered[j] and head[i] != j:
                _step(i, j, choice, entered, head, tail)
                paths -= 1
        if paths > 1:
            _join_paths(excess, floors[p], paths, choice, entered, head, tail)
        for city in range(size):  # the last step closes the tour
            if choice[city] < 0:
                choice[city] = head[city]


@compiled
def _join_paths(
    excess: Numbers, floor: Any, count: int, choice: Indices, entered: NDArray[np.bool_], head: Indices, tail: Indices
) -> None:
    """Join the `count` paths that are left by the steps between their ends that give away least."""
    ends, starts = np.flatnonzero(choice < 0), np.flatnonzero(~entered)
    rest = np.empty(count * count, excess.dtype)
    for place in range(count * count):
        # rounded as the torch operations do, so that the same steps tie
        rest[place] = -(floor - excess[ends[place // count], starts[place % count]])
    paths = count
    for place in np.argsort(rest, kind="mergesort"):
        if paths == 1:
            break
        i, j = ends[place // count], starts[place % count]
        if choice[i] < 0 and not entered[j] and head[i] != j:
            _step(i, j, choice, entered, head, tail)
            paths -= 1


@compiled
def _step(i: int, j: int, choice: Indices, entered: NDArray[np.bool_], head: Indices, tail: Indices) -> None:
    """Let city j, the first of its path, follow city i, the last of another."""
    choice[i], entered[j] = j, True
    first, last = head[i], tail[j]
    head[last], tail[first] = first, last
