"""What every test starts from: one thread, fixed seeds, and hypothesis without a clock."""

import random

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
