"""Larger matrices and more solutions of each leave room for fewer trajectories."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from icdc.diffusion.sampler import SamplingOptions
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.solving import Request, fitting
from icdc.solving.diffusion_search import DiffusionSearch
from icdc.solving.fitting import default_chunk

SMALL = NetworkConfig(width=32, heads=4, edge_width=16, encoder_layers=1, denoiser_layers=2)


def test_chunks_shrink_with_the_matrix() -> None:
    model = Model(get_problem("atsp"), ModelConfig(network=SMALL))
    assert default_chunk(model, (10**5, 10**4)) == 1
    assert default_chunk(model, (5, 5)) > default_chunk(model, (50, 50)) > 1


@pytest.mark.parametrize(("device", "count"), [("cpu", 100), ("cuda", 1000)])
def test_chunks_shrink_where_many_solutions_are_decoded(device: str, count: int) -> None:
    model = Model(get_problem("atsp"), ModelConfig(network=SMALL))
    few, many, more = (default_chunk(model, (50, 50), decodes, device) for decodes in (1, count, 10**9))
    assert few > many > more == 1


def test_tours_along_candidates_leave_room_for_more() -> None:
    """On a GPU; schedules spread scores of candidates over all columns, and where all are looked at none are kept."""
    network = replace(SMALL, priced=True, candidates=8, dense_up_to=20)
    tours, schedules = (Model(get_problem(name), ModelConfig(network=network)) for name in ("atsp", "pmsp"))
    along, spread = (default_chunk(model, (200, 200), 4096, "cuda") for model in (tours, schedules))
    assert along == 2**31 // (200 * 4096 * 32 * 8)
    assert spread == 2**31 // (200 * 4096 * 8 * 200)
    assert along > spread
    assert default_chunk(tours, (20, 20), 4096, "cuda") == 2**31 // (20 * 4096 * 8)


def test_the_time_of_a_compiler_is_not_taken_for_that_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first trial is slow, the second is what counts; neither merges or searches."""
    model = Model(get_problem("atsp"), ModelConfig(network=SMALL))
    request = Request(model.problem, model.problem.sample(1, (200,), np.random.default_rng(0)))
    asked = []

    class Slow(DiffusionSearch):
        def run(self) -> Any:
            asked.append((self.options.merge, self.options.improve_rounds, self.options.decodes))
            time.sleep(0.3 if len(asked) == 1 else 0.0)
            return super().run()

    monkeypatch.setattr(fitting, "DiffusionSearch", Slow)
    options = SamplingOptions(merge=64, decodes=64, improve_rounds=9)
    seconds = fitting.seconds_of_a_pass(request, model, options)
    assert asked == [(0, 0, 1)] * 2
    assert seconds < 4 * 0.3  # four times the entries of the trial
