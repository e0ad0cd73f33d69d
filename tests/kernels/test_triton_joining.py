"""Tours joined from candidates, or followed along them, by one program each: those of plain operations, ties too."""

import pytest
import torch
from torch import Tensor

from icdc.kernels import choosing, follow_candidates, join_candidates, only_plain
from icdc.kernels.solutions import least_score
from tests.kernels.ways import DEVICE, NEEDS_TRITON

pytestmark = NEEDS_TRITON
# the interpreter takes seconds for what a GPU does at once
SIZES = [(1, 1), (2, 1), (3, 1), (5, 2), (9, 9), (13, 3)]
SIZES += [] if choosing.INTERPRETED else [(64, 8), (100, 16), (257, 5), (1000, 16)]


def drawn(size: int, each: int, levels: int, samples: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of random candidates of two instances and the excess of all steps; with `levels` few different numbers."""
    generator = torch.Generator().manual_seed(size + 100 * each + levels)
    index = torch.rand(2, size, size, generator=generator).argsort(-1)[..., :each].sort(-1).values
    scores = torch.randn(2 * samples, size, each, generator=generator)
    excess = 5 * torch.rand(2, size, size, generator=generator)
    if levels:
        scores, excess = (scores * levels).round() / levels, (excess * levels).round() / levels
    return scores.to(DEVICE), index.to(DEVICE), excess.to(DEVICE)


@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize(("size", "each"), SIZES)
def test_tours_are_those_of_plain_operations(size: int, each: int, levels: int) -> None:
    from icdc.kernels import triton_joining

    scores, index, excess = drawn(size, each, levels)
    found = triton_joining.join_candidates(scores, index, excess, least_score(scores))
    assert found.dtype == torch.int64
    with only_plain():
        assert torch.equal(found, join_candidates(scores, index, excess))


@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize(("size", "each"), SIZES)
def test_followed_tours_are_those_of_plain_operations(size: int, each: int, levels: int) -> None:
    """From any city, and with cities among their own candidates, however good they are."""
    from icdc.kernels import triton_joining

    scores, index, excess = drawn(size, each, levels)
    first = torch.arange(6, device=DEVICE) * 5 % size
    if levels:
        index[:, ::2, 0], scores[:, ::2, 0] = torch.arange(0, size, 2, device=DEVICE), 99.0
    found = triton_joining.follow_candidates(scores, index, excess, least_score(scores), first)
    assert found.dtype == torch.int64
    with only_plain():
        assert torch.equal(found, follow_candidates(scores, index, excess, first))


def test_a_gpu_joins_and_follows_by_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is compiled for a CPU, and no further than registers hold."""
    from icdc.kernels import solutions, triton_joining

    seen = []
    monkeypatch.setattr(solutions, "compiled_runs_on", lambda device: False)
    for name in ("join_candidates", "follow_candidates"):
        monkeypatch.setattr(triton_joining, name, lambda *given: seen.append(len(given)) or given[0])
    scores, index, excess = drawn(5, 2, 0)
    first = torch.zeros(6, dtype=torch.long, device=DEVICE)
    join_candidates(scores, index, excess)
    follow_candidates(scores, index, excess, first)
    assert seen == [4, 5]
    monkeypatch.setattr(solutions, "LONGEST_JOINED", 4)
    assert torch.equal(join_candidates(scores, index, excess), join_candidates(scores, index, excess))
    assert follow_candidates(scores, index, excess, first).shape == (6, 5)
    assert seen == [4, 5]
