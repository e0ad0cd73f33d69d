"""What every test starts from: one thread, fixed seeds, and hypothesis without a clock."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("icdc", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("icdc")


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Start every test from the same global random state; the package itself never uses one."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)


@pytest.fixture
def stop_before() -> Callable[[Any, int], None]:
    """Return a function that runs a trainer until a round (counted from 0) would begin, the state saved there."""

    class Stopped(Exception):
        """What ends the run."""

    def run(trainer: Any, stop: int) -> None:
        original = trainer._round

        def round_or_stop(rounds: int, fraction: float) -> None:
            if rounds == stop:
                trainer._save(rounds, 1.0)
                raise Stopped
            original(rounds, fraction)

        trainer._round = round_or_stop
        with pytest.raises(Stopped):
            trainer.run()

    return run


@pytest.fixture
def assert_same_weights() -> Callable[[Any, Any], None]:
    """Return a check that two models have the same weights, up to rounding."""

    def check(one: Any, other: Any) -> None:
        for a, b in zip(one.network.parameters(), other.network.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)

    return check
