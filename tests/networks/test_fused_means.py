"""The means of relu(edges) over rows and over columns: one kernel, the same values and gradients."""

import pytest
import torch
import torch.nn.functional as F

from icdc.networks import fused, fused_means
from icdc.networks.fused_means import add_means_gradient, means, relu_means

# triton's interpreter up to 3.6 reads loop bounds from arrays of one element, which numpy deprecates
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")

ON_GPU = torch.cuda.is_available() and not fused.INTERPRETED
DEVICE = "cuda" if ON_GPU else "cpu"
DTYPE, TOLERANCE = (torch.bfloat16, 1e-2) if ON_GPU else (torch.float32, 1e-5)
KERNEL = pytest.mark.skipif(
    not fused.available(torch.device(DEVICE)), reason="needs a Hopper GPU, or triton with TRITON_INTERPRET=1"
)
SHAPES = [
    (3, 5, 7, 32),
    (2, 20, 4, 64),
    (1, 1, 1, 16),
    (2, 20, 20, 64),
    (2, 50, 50, 64),
    (1, 70, 100, 64),
    (2, 9, 5, 8),
]


def relative_error(value: torch.Tensor, truth: torch.Tensor) -> float:
    value, truth = value.detach().double(), truth.detach()
    return float((value - truth).norm() / truth.norm().clamp_min(1e-12))


def check(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float) -> None:
    edges = torch.randn(shape, device=DEVICE).to(dtype).requires_grad_()
    rows, columns = relu_means(edges)
    wide = edges.detach().double().requires_grad_()
    true_rows, true_columns = F.relu(wide).mean(2), F.relu(wide).mean(1)
    to_rows, to_columns = torch.randn_like(true_rows), torch.randn_like(true_columns)
    (rows.double() * to_rows + 0.0).sum().add((columns.double() * to_columns).sum()).backward()
    (true_rows * to_rows).sum().add((true_columns * to_columns).sum()).backward()
    assert edges.grad is not None
    assert wide.grad is not None
    for value, truth in ((rows, true_rows), (columns, true_columns), (edges.grad, wide.grad)):
        assert relative_error(value, truth) < tolerance


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_operations(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "ENABLED", False)
    check(shape, torch.float32, 1e-5)


@KERNEL
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel(shape: tuple[int, ...]) -> None:
    assert fused_means.supports(torch.empty(shape, device=DEVICE, dtype=DTYPE))
    check(shape, DTYPE, TOLERANCE)


@KERNEL
def test_strided_edges_and_no_edges() -> None:
    edges = torch.randn(2, 6, 5, 32, device=DEVICE).to(DTYPE).transpose(1, 2).requires_grad_()
    rows, columns = relu_means(edges)
    plain = relu_means(edges.detach().contiguous())
    assert torch.equal(rows, plain[0])
    assert torch.equal(columns, plain[1])
    (strided,) = torch.autograd.grad([rows, columns], edges, [rows.detach().mT.contiguous().mT, columns.detach()])
    straight = add_means_gradient(edges.detach().contiguous(), *plain, torch.zeros_like(edges).contiguous())
    assert torch.equal(strided, straight)
    assert relu_means(edges[:0])[1].shape == (0, 6, 32)


@KERNEL
def test_gradient_joins_another() -> None:
    edges = torch.randn(3, 7, 5, 32, device=DEVICE).to(DTYPE)
    rows, columns = means(edges)
    into = torch.randn_like(edges)
    spread = rows.double()[:, :, None] / 5 + columns.double()[:, None] / 7
    truth = into.double() + torch.where(edges > 0, spread, 0.0)
    assert relative_error(add_means_gradient(edges, rows, columns, into), truth) < TOLERANCE


@KERNEL
def test_op_is_registered_properly() -> None:
    torch.library.opcheck(fused_means._relu_means, (torch.randn(2, 3, 4, 32, device=DEVICE).requires_grad_(),))
