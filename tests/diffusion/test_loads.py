"""Chains whose schedules are decoded by loads."""

from typing import Any

import pytest
import torch
from torch import Tensor

from icdc.diffusion.process import Diffusion, DiffusionConfig
from icdc.diffusion.sampler import SamplingOptions, generate
from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.problems.atsp import Atsp
from icdc.problems.base import Problem
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task


def run(problem: Problem, instances: dict[str, Tensor], **options: Any) -> tuple[Tensor, Tensor]:
    """Return the best choices and costs of a chain that knows nothing, for three instances."""
    noise = Noise(fold(root_key(1), torch.arange(6)))
    sampling = SamplingOptions(steps=2, decodes=4, **options)
    task, diffusion = Task(problem, instances), Diffusion(DiffusionConfig())
    return generate(lambda x, t: torch.zeros_like(x), task, diffusion, noise, sampling).best()


@pytest.mark.parametrize("reverse", ["fresh", "best", "independent"])
def test_a_chain_by_loads_is_balanced(reverse: Any) -> None:
    """Where machines are nearly alike, loads are all there is to know."""
    durations = torch.randint(10, 100, (3, 40, 1)) + torch.randint(0, 5, (3, 40, 5))
    choice, cost = run(Pmsp(), {"durations": durations}, order="loads", reverse=reverse)
    assert choice.shape == (3, 40)
    independent = run(Pmsp(), {"durations": durations}, order="rule", reverse=reverse)[1]
    assert (cost < 0.95 * independent).all()


def test_a_tour_has_no_loads() -> None:
    with pytest.raises(UsageError, match='cannot be decoded in the order "loads"'):
        run(Atsp(), {"distances": torch.rand(3, 6, 6)}, order="loads")
