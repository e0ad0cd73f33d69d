"""Tours joined from candidate steps: greedy by hand, compiled and plain, and what is left when candidates end."""

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import join_candidates, join_tours, only_plain, spread_scores
from icdc.search import compiled


def drawn(batch: int, samples: int, size: int, each: int, levels: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of random candidates and the excess of all steps; with `levels` only so many different numbers."""
    generator = torch.Generator().manual_seed(size + 100 * each + levels)
    index = torch.rand(batch, size, size, generator=generator).argsort(-1)[..., :each].sort(-1).values
    scores = torch.randn(batch * samples, size, each, generator=generator)
    excess = 5 * torch.rand(batch, size, size, generator=generator)
    if levels:
        scores, excess = (scores * levels).round() / levels, (excess * levels).round() / levels
    return scores, index, excess


def by_hand(scores: Tensor, index: Tensor, excess: Tensor) -> list[int]:
    """One tour: the best candidate that makes no circle too early, again and again; then the steps of least excess."""
    size, each = scores.shape
    candidates = [(-float(scores[i, p]), i, int(index[i, p])) for i in range(size) for p in range(each)]
    rest = [(float(excess[i, j]), i, j) for i in range(size) for j in range(size)]
    following: dict[int, int] = {}
    for step in (*sorted(candidates), *sorted(rest)):
        _, i, j = step
        end = j
        while end in following:
            end = following[end]
        # a step from the end of j's own path to j would close it
        if i not in following and j not in following.values() and end != i:
            following[i] = j
    (last,) = set(range(size)) - set(following)
    following[last] = (set(range(size)) - set(following.values())).pop()
    return [following[i] for i in range(size)]


@pytest.mark.parametrize(("size", "each"), [(3, 1), (5, 2), (6, 1), (8, 3), (9, 9), (12, 2)])
def test_tours_are_joined_greedily(size: int, each: int) -> None:
    """Candidates first, from the best; then what gives away least between the ends of paths; always a tour."""
    scores, index, excess = drawn(3, 4, size, each)
    found = join_candidates(scores, index, excess)
    with only_plain():
        assert torch.equal(join_candidates(scores, index, excess), found)
    assert found.tolist() == [by_hand(scores[p], index[p // 4], excess[p // 4]) for p in range(12)]


@pytest.mark.parametrize("each", [1, 3])
def test_ties_go_to_the_first_pair(each: int) -> None:
    """Compiled loops and plain operations agree where many steps are equal."""
    scores, index, excess = drawn(2, 30, 10, each, levels=1)
    found = join_candidates(scores, index, excess)
    with only_plain():
        assert torch.equal(join_candidates(scores, index, excess), found)
    with compiled.plain():
        assert torch.equal(join_candidates(scores[:4], index[:1], excess[:1]), found[:4])


def test_all_columns_as_candidates_are_plain_joining() -> None:
    """With every city as a candidate excess is never asked for."""
    scores, index, excess = drawn(2, 3, 7, 7)
    assert torch.equal(join_candidates(scores, index, excess), join_tours(scores))
    assert torch.equal(join_candidates(scores, index, 0 * excess), join_tours(scores))


def test_candidates_are_better_than_anything_else() -> None:
    """Spread over all pairs, the worst candidate of a solution is above all others, which go by excess."""
    scores, index, excess = drawn(2, 3, 6, 2)
    spread = spread_scores(scores, index, excess)
    assert spread.shape == (6, 6, 6)
    wide = index.repeat_interleave(3, 0)
    assert torch.equal(spread.gather(2, wide), scores)
    mine = torch.zeros(6, 6, 6, dtype=torch.bool).scatter(2, wide, True)
    for p in range(6):
        rest = spread[p][~mine[p]]
        assert rest.max() < scores[p].min()
        assert torch.equal(rest.argsort(), excess[p // 3][~mine[p]].argsort(descending=True))


def test_the_smallest_tours() -> None:
    """One city, two cities, and cities whose only candidate is themselves."""
    alone = torch.zeros(1, 1, 1, dtype=torch.long)
    assert join_candidates(alone.float(), alone, alone.float()).tolist() == [[0]]
    own = torch.arange(4)[None, :, None]
    found = join_candidates(torch.zeros(1, 4, 1), own, torch.ones(1, 4, 4) - torch.eye(4).roll(1, 1))
    assert found.tolist() == [[1, 2, 3, 0]]
    assert kernels.join_candidates(torch.zeros(1, 2, 1), own[:, :2], torch.ones(1, 2, 2)).tolist() == [[1, 0]]
