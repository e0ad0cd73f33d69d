"""Tours and columns from scores: by hand, by loops and by torch operations, and what is left when candidates end."""

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import dispatch, fold, follow_candidates, follow_tours, join_candidates, join_tours, spread_scores
from tests.kernels.support import ON_HOST

pytestmark = ON_HOST


@pytest.fixture(params=["loops", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each implementation that follows tours on a CPU: torch operations do it while loops are compiled."""
    monkeypatch.setattr(dispatch, "loops_are_ready_on", lambda device: request.param == "loops")
    return str(request.param)


def drawn(batch: int, samples: int, size: int, each: int, levels: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of random candidates and the excess of all steps; with `levels` only so many different numbers."""
    generator = torch.Generator().manual_seed(size + 100 * each + levels)
    index = torch.rand(batch, size, size, generator=generator).argsort(-1)[..., :each].sort(-1).values
    scores = torch.randn(batch * samples, size, each, generator=generator)
    excess = 5 * torch.rand(batch, size, size, generator=generator)
    if levels:
        scores, excess = (scores * levels).round() / levels, (excess * levels).round() / levels
    return scores, index, excess


def joined_by_hand(scores: Tensor, index: Tensor, excess: Tensor) -> list[int]:
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


def followed_by_hand(scores: Tensor, index: Tensor, excess: Tensor, first: int) -> list[int]:
    """One tour: on to the best candidate not yet visited, else to the city of least excess."""
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
@pytest.mark.parametrize(("size", "each"), [(3, 1), (5, 2), (6, 1), (8, 3), (9, 9), (10, 1), (12, 2)])
def test_tours_are_joined_greedily(size: int, each: int, levels: int) -> None:
    """Candidates first, from the best; then what has least excess between the ends of paths; of equals the first."""
    scores, index, excess = drawn(3, 4, size, each, levels)
    choice = join_candidates(scores, index, excess)
    assert choice.tolist() == [joined_by_hand(scores[p], index[p // 4], excess[p // 4]) for p in range(12)]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize(("size", "each"), [(1, 1), (2, 1), (3, 1), (5, 2), (8, 3), (9, 9), (30, 2)])
def test_tours_are_followed_along_candidates(size: int, each: int, levels: int) -> None:
    """From any city; of equal steps the first."""
    scores, index, excess = drawn(3, 4, size, each, levels)
    first = torch.arange(12) % size
    choice = follow_candidates(scores, index, excess, first)
    assert choice.dtype == torch.int64
    expected = [followed_by_hand(scores[p], index[p // 4], excess[p // 4], int(first[p])) for p in range(12)]
    assert choice.tolist() == expected


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("levels", [0, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 30])
def test_tours_are_followed_through_all_cities(size: int, levels: int, kind: torch.dtype) -> None:
    """As along candidates that all cities are."""
    scores, index, excess = drawn(3, 4, size, size, levels)
    first = torch.arange(12) % size
    choice = follow_tours(scores.to(kind), first)
    expected = [followed_by_hand(scores[p], index[p // 4], excess[p // 4], int(first[p])) for p in range(12)]
    assert choice.tolist() == expected


@pytest.mark.usefixtures("way")
def test_a_city_among_its_own_candidates_is_never_gone_on_to() -> None:
    """However good its score: that is how a candidate is left out."""
    scores, index, excess = drawn(1, 2, 6, 3)
    index[:, :, 0], scores[:, :, 0] = torch.arange(6), 99.0
    choice = follow_candidates(scores, index, excess, torch.zeros(2, dtype=torch.long))
    assert (choice != torch.arange(6)).all()


def test_all_columns_as_candidates_are_joined_from_all_pairs() -> None:
    """With every city as a candidate excess makes no difference."""
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
    choice = join_candidates(torch.zeros(1, 4, 1), own, torch.ones(1, 4, 4) - torch.eye(4).roll(1, 1))
    assert choice.tolist() == [[1, 2, 3, 0]]
    assert join_candidates(torch.zeros(1, 2, 1), own[:, :2], torch.ones(1, 2, 2)).tolist() == [[1, 0]]


def test_double_precision_is_not_rounded() -> None:
    """Two distances that float32 cannot tell apart decide, for a caller whose scores are such."""
    scores = torch.zeros(1, 3, 3, dtype=torch.float64)
    scores[0, :, 1], scores[0, :, 2] = 1.0, 1.0 + 1e-12
    assert kernels.pick_columns(scores).tolist() == [[2, 2, 2]]
    assert follow_tours(scores, torch.zeros(1, dtype=torch.long)).tolist() == [[2, 0, 1]]
    assert join_tours(scores).tolist() == [[2, 0, 1]]


@pytest.mark.parametrize("decodes", [1, 3])
def test_scores_are_log_odds_and_scaled_noise(decodes: int) -> None:
    """Every solution has its own key, and those of a matrix follow each other."""
    log_odds = torch.randn(2, 3, 4)
    keys = fold(torch.tensor(5), torch.arange(2 * decodes))
    scores = kernels.noisy_scores(log_odds, kernels.GumbelNoise(keys, 2, 0.25), decodes)
    noise = kernels.gumbel(keys, 2, 12).view(-1, 3, 4)
    for p in range(2 * decodes):
        torch.testing.assert_close(scores[p], log_odds[p // decodes] + 0.25 * noise[p])
    assert kernels.noisy_scores(log_odds.bfloat16(), None, 1).dtype == torch.float32
