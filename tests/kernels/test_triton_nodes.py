"""The kernels of layer norms of edges against the definition."""

import copy

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import dispatch
from icdc.networks.layers import LayerNorm
from tests.kernels.support import DEVICE, NEEDS_KERNELS, ON_GPU, relative_error

pytestmark = NEEDS_KERNELS
DTYPE, TOLERANCE = (torch.bfloat16, 1e-2) if ON_GPU else (torch.float32, 2e-6)


def make(width: int) -> LayerNorm:
    norm = LayerNorm(width).to(DEVICE)
    with torch.no_grad():  # scale and shift must matter
        for parameter in norm.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return norm


def by_kernel(norm: LayerNorm, states: Tensor) -> Tensor:
    result: Tensor = dispatch.triton_kernels("edge_attention.triton_nodes").layer_norm(states, norm.weight, norm.bias)
    return result


def assert_matches_definition(states: Tensor) -> None:
    norm = make(states.shape[-1])
    states = states.detach().requires_grad_()
    exact, wide = copy.deepcopy(norm).double(), states.detach().double().requires_grad_()
    value, truth = by_kernel(norm, states), exact(wide)
    assert value.dtype == states.dtype
    seed = torch.randn_like(value)
    grads = torch.autograd.grad(value, [states, norm.weight, norm.bias], seed)
    true_grads = torch.autograd.grad(truth, [wide, exact.weight, exact.bias], seed.double())
    assert all(grad.dtype == torch.float32 for grad in grads[1:])
    for mine, true in zip((value, *grads), (truth, *true_grads), strict=True):
        assert relative_error(mine, true) < TOLERANCE


@pytest.mark.parametrize("shape", [(3, 20, 128), (2, 7, 9, 64), (500, 64), (1, 256), (77, 16), (400, 32)])
def test_matches_definition(shape: tuple[int, ...]) -> None:
    torch.manual_seed(len(shape))
    states = (torch.randn(shape, device=DEVICE) * 2 + 1).to(DTYPE)
    assert_matches_definition(states)


def test_strided_states() -> None:
    assert_matches_definition(torch.randn(6, 5, 64, device=DEVICE).to(DTYPE).transpose(0, 1))


def test_no_rows() -> None:
    norm, states = make(64), torch.empty(0, 3, 64, device=DEVICE, dtype=DTYPE)
    value = by_kernel(norm, states.requires_grad_())
    assert value.shape == states.shape
    value.sum().backward()
    assert norm.weight.grad is not None
    assert not norm.weight.grad.any()


def test_repeats_itself() -> None:
    norm, states = make(64), torch.randn(3000, 64, device=DEVICE).to(DTYPE)
    first, second = (torch.autograd.grad(by_kernel(norm, states).square().sum(), norm.weight)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_other_widths_and_dtypes_are_left_to_torch() -> None:
    edges = torch.randn(2, 3, 4, 64, device=DEVICE).to(DTYPE)
    assert dispatch.edge_norm_fits(edges)
    with kernels.without_triton():
        assert not dispatch.edge_norm_fits(edges)
    for other in (edges[..., :48], edges.double()):
        assert not dispatch.edge_norm_fits(other)
