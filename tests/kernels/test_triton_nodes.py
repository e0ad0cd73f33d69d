"""Kernels of layer norms and biases against definitions; without a GPU: `TRITON_INTERPRET=1 pytest tests/kernels`."""

import copy

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import attention
from icdc.networks.layers import LayerNorm, Linear
from tests.kernels.networks import DEVICE, NEEDS_KERNELS, ON_GPU, relative_error

pytestmark = NEEDS_KERNELS
DTYPE, TOLERANCE = (torch.bfloat16, 1e-2) if ON_GPU else (torch.float32, 2e-6)


def make(width: int) -> LayerNorm:
    norm = LayerNorm(width).to(DEVICE)
    with torch.no_grad():  # scale and shift must matter
        for parameter in norm.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return norm


def assert_matches_plain(states: Tensor) -> None:
    norm = make(states.shape[-1])
    states = states.detach().requires_grad_()
    exact, wide = copy.deepcopy(norm).double(), states.detach().double().requires_grad_()
    value, truth = norm(states), exact(wide)
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
    assert_matches_plain(states)


def test_strided_states() -> None:
    assert_matches_plain(torch.randn(6, 5, 64, device=DEVICE).to(DTYPE).transpose(0, 1))


def test_no_rows() -> None:
    norm, states = make(64), torch.empty(0, 3, 64, device=DEVICE, dtype=DTYPE)
    value = norm(states.requires_grad_())
    assert value.shape == states.shape
    value.sum().backward()
    assert norm.weight.grad is not None
    assert not norm.weight.grad.any()


def test_repeats_itself() -> None:
    norm, states = make(64), torch.randn(3000, 64, device=DEVICE).to(DTYPE)
    first, second = (torch.autograd.grad(norm(states).square().sum(), norm.weight)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("shape", [(7, 5, 128), (3000, 64), (1, 512), (0, 16)])
def test_sums_over_rows(shape: tuple[int, ...]) -> None:
    from icdc.kernels.triton_nodes import sum_rows

    values = torch.randn(shape, device=DEVICE).to(DTYPE)
    total = sum_rows(values)
    assert total.dtype == DTYPE
    assert relative_error(total, values.double().flatten(0, -2).sum(0)) < TOLERANCE


@pytest.mark.parametrize("out", [64, 48])
def test_gradients_of_a_linear_map(out: int) -> None:
    torch.manual_seed(0)
    linear = Linear(32, out).to(DEVICE, DTYPE)
    states = torch.randn(40, 5, 32, device=DEVICE).to(DTYPE).requires_grad_()
    exact, wide = copy.deepcopy(linear).double(), states.detach().double().requires_grad_()
    assert attention._sums_bias(states, out) == (out == 64)
    value, truth = linear(states), exact(wide)
    seed = torch.randn_like(value)
    grads = torch.autograd.grad(value, [states, linear.weight, linear.bias], seed)
    true_grads = torch.autograd.grad(truth, [wide, exact.weight, exact.bias], seed.double())
    for mine, true in zip((value, *grads), (truth, *true_grads), strict=True):
        assert relative_error(mine, true) < TOLERANCE
    with torch.no_grad():
        assert torch.equal(linear(states), value)


def test_other_widths_and_dtypes_are_left_to_torch() -> None:
    for states in (torch.randn(2, 48, device=DEVICE), torch.randn(2, 64, device=DEVICE).double()):
        norm = make(states.shape[-1])
        with kernels.without_triton():
            plain = norm(states)
        assert torch.equal(norm(states), plain)
