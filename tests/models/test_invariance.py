"""What a network with priced features says does not depend on units, nor, for tours, on what every tour pays."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc.kernels import Noise, fold, root_key
from icdc.models.diffusion import Model, ModelConfig
from icdc.models.file import own_random_numbers
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.problems.families import sample_family

ATSP, PMSP = get_problem("atsp"), get_problem("pmsp")
LAYOUTS = {"dense": 0, "candidates": 6}


@cache
def model(problem: str, layout: str) -> Model:
    """Return an untrained model whose layers all have their say: residual branches do not begin small here."""
    network = NetworkConfig(
        width=16, heads=2, edge_width=8, encoder_layers=1, denoiser_layers=2, priced=True,
        candidates=LAYOUTS[layout], dense_up_to=0,
    )  # fmt: skip
    with own_random_numbers(3):
        made = Model(get_problem(problem), ModelConfig(network=network))
        for parameter in made.network.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.2)
    made.network.eval()
    return made


def log_odds(problem: str, layout: str, matrices: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return what the network says of matrices (batch, rows, columns), with the same noise at each call."""
    built = model(problem, layout)
    name = built.problem.arrays[0]
    features = built.features({name: matrices})
    noise = Noise(fold(root_key(1), torch.arange(len(matrices))))
    rows, columns = features.shape
    width = columns if features.candidates is None else features.candidates.count
    x = (torch.rand(len(matrices), rows, width, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    with torch.no_grad():
        found = built.predict(built.encode(features, noise), 0.2)(x, torch.full((len(matrices),), 3))
    return found, None if features.candidates is None else features.candidates.index


def drawn(problem: str, family: str, *size: int) -> Tensor:
    arrays = sample_family(get_problem(problem), family, 3, size, np.random.default_rng(5))
    return torch.from_numpy(next(iter(arrays.values())).astype(np.float64))


def assert_same(problem: str, layout: str, one: Tensor, other: Tensor, seen: float) -> None:
    """Both say the same, of the same candidates; and would not if what they see differed a little."""
    found, candidates = log_odds(problem, layout, one)
    again, same_candidates = log_odds(problem, layout, other)
    if candidates is not None and same_candidates is not None:
        assert torch.equal(candidates, same_candidates)
    torch.testing.assert_close(again, found, atol=2e-3, rtol=2e-3)
    shaken = one * (1 + seen * torch.rand(one.shape, generator=torch.Generator().manual_seed(1), dtype=one.dtype))
    assert (log_odds(problem, layout, shaken)[0] - found).abs().max() > 0.02


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", ["uniform", "noisy-plane", "roads", "tmat"])
def test_tours_in_other_units_and_with_constants_of_rows_and_columns(family: str, layout: str) -> None:
    steps = drawn("atsp", family, 14)
    generator = torch.Generator().manual_seed(2)
    rows, columns = (torch.rand(3, *shape, generator=generator, dtype=torch.float64) for shape in ((14, 1), (1, 14)))
    assert_same("atsp", layout, steps, 0.013 * steps, 0.3)
    assert_same("atsp", layout, steps, steps + 5 * steps.mean() * rows, 0.3)
    assert_same("atsp", layout, steps, steps + 5 * steps.mean() * columns, 0.3)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", ["paper", "job-correlated", "machine-correlated", "heavy-tailed", "speeds"])
def test_schedules_in_other_units(family: str, layout: str) -> None:
    times = drawn("pmsp", family, 15, 9)
    assert_same("pmsp", layout, times, 60 * times, 0.3)
