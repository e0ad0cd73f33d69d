"""What the tests of kernels share: where kernels run, when tests are skipped, and how far off a result may be."""

import importlib.util

import pytest
import torch
from torch import Tensor

from icdc.kernels import dispatch

ON_GPU = torch.cuda.is_available() and not dispatch.INTERPRETED
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
"""Where Triton's programs run: on a GPU, or in its interpreter."""
# triton's interpreter up to 3.6 reads loop bounds from arrays of one element, which numpy deprecates
_QUIET = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")
NEEDS_TRITON = [
    _QUIET,
    pytest.mark.skipif(not dispatch.triton_runs_on(DEVICE), reason="needs a GPU, or triton with TRITON_INTERPRET=1"),
]
NEEDS_KERNELS = [
    _QUIET,
    pytest.mark.skipif(not dispatch.network_kernels_run_on(DEVICE), reason="needs a Hopper GPU, or TRITON_INTERPRET=1"),
]
ON_HOST = [
    pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="needs numba"),
    pytest.mark.usefixtures("without_kernels"),
]
"""Of tests of the loops that a CPU runs."""


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
    """Return how far off a kernel may be: where torch operations as narrow are far off, too, half as much again."""
    return max(tolerance, 1.5 * plain)


def length(distances: Tensor, successor: Tensor) -> Tensor:
    """Return the lengths (batch, samples) of tours."""
    spread = distances[:, None].expand(-1, successor.shape[1], -1, -1)
    return spread.gather(3, successor[..., None]).squeeze(3).sum(-1)


def successors(order: Tensor) -> Tensor:
    """Return tours as successors from their cities in visiting order, (…, n)."""
    return torch.zeros_like(order).scatter(-1, order, order.roll(-1, -1))


def visited(successor: Tensor) -> list[int]:
    """Return the cities of a tour in the order of visiting, from city 0."""
    order = [0]
    for _ in range(len(successor) - 1):
        order.append(int(successor[order[-1]]))
    return order


def is_tour(successor: Tensor) -> bool:
    """Tell whether successors (n,) are one tour."""
    order = visited(successor)
    return sorted(order) == list(range(len(successor))) and int(successor[order[-1]]) == 0


def makespan(times: Tensor, choice: Tensor) -> Tensor:
    """Return the makespans (batch, samples) of schedules."""
    taken = times[:, None].expand(-1, choice.shape[1], -1, -1).gather(3, choice[..., None]).squeeze(3)
    wide = taken if taken.is_floating_point() else taken.long()
    return wide.new_zeros(*choice.shape[:2], times.shape[2]).scatter_add(2, choice, wide).amax(-1)


def loads(times: list[list[int]], choice: list[int]) -> list[int]:
    """Return the load of every machine of one schedule."""
    totals = [0] * len(times[0])
    for row, column in enumerate(choice):
        totals[column] += times[row][column]
    return totals


def stays_permitted(allowed: Tensor | None, before: Tensor, after: Tensor) -> bool:
    """Tell whether solutions (batch, samples, rows) took up no forbidden pair that they did not have before."""
    if allowed is None:
        return True
    taken = allowed[:, None].expand(-1, after.shape[1], -1, -1).gather(3, after[..., None]).squeeze(3)
    return bool((taken | (after == before)).all())
