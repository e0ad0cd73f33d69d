"""Tours joined from candidates by one program each: those of plain operations, ties included."""

import pytest
import torch
from torch import Tensor

from icdc.kernels import choosing, join_candidates, only_plain
from icdc.kernels.solutions import least_score

DEVICE = "cuda" if torch.cuda.is_available() and not choosing.INTERPRETED else "cpu"
# triton's interpreter up to 3.6 reads loop bounds from arrays of one element, which numpy deprecates
pytestmark = [
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning"),
    pytest.mark.skipif(
        not choosing.triton_runs_on(torch.device(DEVICE)), reason="needs a GPU, or triton with TRITON_INTERPRET=1"
    ),
]
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


def test_a_gpu_joins_by_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is compiled for a CPU, and no further than registers hold."""
    from icdc.kernels import solutions, triton_joining

    seen = []
    monkeypatch.setattr(solutions, "compiled_runs_on", lambda device: False)
    monkeypatch.setattr(triton_joining, "join_candidates", lambda *given: seen.append(given) or given[0])
    scores, index, excess = drawn(5, 2, 0)
    join_candidates(scores, index, excess)
    assert len(seen) == 1
    monkeypatch.setattr(solutions, "LONGEST_JOINED", 4)
    assert torch.equal(join_candidates(scores, index, excess), join_candidates(scores, index, excess))
    assert len(seen) == 1
