"""What the tests of a network's kernels share: where they run, and how far from plain operations a result is."""

import pytest
import torch
from torch import Tensor

from icdc.kernels import choosing

ON_GPU = torch.cuda.is_available() and not choosing.INTERPRETED
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
NEEDS_KERNELS = [
    # triton's interpreter up to 3.6 reads loop bounds from arrays of one element, which numpy deprecates
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning"),
    pytest.mark.skipif(not choosing.network_kernels_run_on(DEVICE), reason="needs a Hopper GPU, or TRITON_INTERPRET=1"),
]


def shaken(module: torch.nn.Module) -> torch.nn.Module:
    """Return a module with no parameter at its initial value, so that each of them matters."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module.to(DEVICE)


def relative_error(value: Tensor, reference: Tensor) -> float:
    """Return the norm of the difference, in units of the reference's."""
    value, reference = value.detach().double(), reference.detach().double()
    return float((value - reference).norm() / reference.norm().clamp_min(1e-12))


def allowed(tolerance: float, plain: float) -> float:
    """Return how far off a kernel may be: where plain operations as narrow are far off, too, half as much again."""
    return max(tolerance, 1.5 * plain)
