"""What tests of learned competitors share: a small MatNet of every problem."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from icdc.learned.matnet import MatNet, MatNetNetworkConfig
from icdc.problem import Arrays
from icdc.problems import get_problem

SMALL = MatNetNetworkConfig(width=32, heads=4, layers=2, feed_forward=64, mixer_width=8, one_hots=8)
SIZES = {"atsp": (5,), "pmsp": (4, 3), "navigation": (5,)}


@pytest.fixture
def make_small() -> Callable[[str], tuple[MatNet, Arrays]]:
    """Make an untrained model of a problem, its weights far from uniform choices, and three instances."""

    def make(name: str) -> tuple[MatNet, Arrays]:
        torch.manual_seed(1)
        model = MatNet(get_problem(name), SMALL)
        with torch.no_grad():
            for parameter in model.network.parameters():
                parameter.mul_(1.5)
        model.network.eval()
        return model, model.problem.sample(3, SIZES[name], np.random.default_rng(2))

    return make


@pytest.fixture(params=sorted(SIZES))
def small(request: pytest.FixtureRequest, make_small: Callable[[str], tuple[MatNet, Arrays]]) -> tuple[MatNet, Arrays]:
    """A small model of every problem in turn."""
    return make_small(request.param)
