"""Larger matrices and more solutions of each leave room for fewer trajectories."""

import pytest

from icdc.models.diffusion import Model, ModelConfig
from icdc.networks.network import NetworkConfig
from icdc.problems.registry import get_problem
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
