"""Tours joined from candidate steps: greedy by hand, compiled and plain, and what is left when candidates end."""

import pytest
import torch
from torch import Tensor

from icdc import jit, kernels
from icdc.kernels import follow_candidates, follow_tours, join_candidates, join_tours, only_plain, spread_scores


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


def followed_by_hand(scores: Tensor, index: Tensor, excess: Tensor, first: int) -> list[int]:
    """One tour: on to the best candidate not yet visited, else to the city that gives away least."""
    size = len(scores)
    following, city = [-1] * size, first
    for _ in range(size - 1):
        left = [j for j in range(size) if j != city and j != first and j not in following]
        candidates = {
            int(j): float(score) for j, score in zip(index[city], scores[city], strict=True) if int(j) in left
        }
        best = {j: -candidates[j] for j in sorted(candidates)} or {j: float(excess[city, j]) for j in left}
        following[city] = min(best, key=lambda j: best[j])
        city = following[city]
    following[city] = first
    return following


@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize(("size", "each"), [(1, 1), (2, 1), (3, 1), (5, 2), (8, 3), (9, 9), (30, 2)])
def test_tours_are_followed_along_candidates(size: int, each: int, levels: int) -> None:
    """From any city; compiled loops and plain operations agree where many steps are equal, too."""
    scores, index, excess = drawn(3, 4, size, each, levels)
    first = torch.arange(12) % size
    found = follow_candidates(scores, index, excess, first)
    assert found.dtype == torch.int64
    with only_plain():
        assert torch.equal(follow_candidates(scores, index, excess, first), found)
    with jit.plain():
        assert torch.equal(follow_candidates(scores[:4], index[:1], excess[:1], first[:4]), found[:4])
    expected = [followed_by_hand(scores[p], index[p // 4], excess[p // 4], int(first[p])) for p in range(12)]
    assert found.tolist() == expected


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("levels", [0, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 30])
def test_tours_are_followed_through_all_cities(size: int, levels: int, kind: torch.dtype) -> None:
    """As along candidates that all cities are; compiled loops and plain operations agree, on equal steps, too."""
    scores, index, excess = drawn(3, 4, size, size, levels)
    first = torch.arange(12) % size
    found = follow_tours(scores.to(kind), first)
    with only_plain():
        assert torch.equal(follow_tours(scores.to(kind), first), found)
    with jit.plain():
        assert torch.equal(follow_tours(scores[:4].to(kind), first[:4]), found[:4])
    assert found.tolist() == [
        followed_by_hand(scores[p], index[p // 4], excess[p // 4], int(first[p])) for p in range(12)
    ]


def test_loops_do_not_run_as_written_while_the_compiler_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain operations are faster then; the thread that compiles them calls them all the same."""
    from icdc.kernels import choosing

    host = torch.device("cpu")
    assert choosing.compiled_runs_fast_on(host)
    with only_plain():
        assert not choosing.compiled_runs_fast_on(host)
    monkeypatch.setattr(jit, "compiling", lambda word=None: True)
    assert choosing.compiled_runs_on(host)
    assert not choosing.compiled_runs_fast_on(host)
    monkeypatch.setattr(jit._here, "compiles", True, raising=False)
    assert choosing.compiled_runs_fast_on(host)


def test_a_city_among_its_own_candidates_is_never_gone_on_to() -> None:
    """However good its score: that is how a candidate is left out."""
    scores, index, excess = drawn(1, 2, 6, 3)
    index[:, :, 0], scores[:, :, 0] = torch.arange(6), 99.0
    first = torch.zeros(2, dtype=torch.long)
    found = follow_candidates(scores, index, excess, first)
    with only_plain():
        assert torch.equal(follow_candidates(scores, index, excess, first), found)
    assert (found != torch.arange(6)).all()


@pytest.mark.parametrize("each", [1, 3])
def test_ties_go_to_the_first_pair(each: int) -> None:
    """Compiled loops and plain operations agree where many steps are equal."""
    scores, index, excess = drawn(2, 30, 10, each, levels=1)
    found = join_candidates(scores, index, excess)
    with only_plain():
        assert torch.equal(join_candidates(scores, index, excess), found)
    with jit.plain():
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
