"""The means of relu(edges) over rows and over columns: one kernel, the same values and gradients."""

import pytest
import torch
import torch.nn.functional as F

from icdc.networks import fused
from icdc.networks.fused_means import relu_means

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNEL = pytest.mark.skipif(
    not fused.available(torch.device(DEVICE)), reason="needs a Hopper GPU, or triton with TRITON_INTERPRET=1"
)
SHAPES = [(3, 5, 7, 32), (2, 20, 4, 64), (1, 1, 1, 16), (2, 50, 50, 64)]


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
        assert ((value.double() - truth).norm() / truth.norm().clamp_min(1e-12)).item() < tolerance


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_operations(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "ENABLED", False)
    check(shape, torch.float32, 1e-5)


@KERNEL
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel(shape: tuple[int, ...]) -> None:
    on_gpu = DEVICE == "cuda"
    check(shape, torch.bfloat16 if on_gpu else torch.float32, 1e-2 if on_gpu else 1e-5)
