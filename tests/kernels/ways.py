"""Which implementations of an operation the tests of kernels can run here."""

import importlib.util

import pytest
import torch

from icdc.kernels import choosing

DEVICE = "cuda" if torch.cuda.is_available() and not choosing.INTERPRETED else "cpu"
"""Where Triton's programs run: on a GPU, or in its interpreter."""
NEEDS_TRITON = [
    # triton's interpreter up to 3.6 reads loop bounds from arrays of one element, which numpy deprecates
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning"),
    pytest.mark.skipif(
        not choosing.triton_runs_on(torch.device(DEVICE)), reason="needs a GPU, or triton with TRITON_INTERPRET=1"
    ),
]
needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="needs numba")
