"""The fused mixer against the eager one; without a GPU: `TRITON_INTERPRET=1 pytest tests/networks`."""

import copy

import pytest
import torch
from torch import Tensor

from icdc.networks import fused
from icdc.networks.edge import EdgeMixer

# triton's interpreter up to 3.6 reads loop bounds from arrays of one element, which numpy deprecates
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")

device = torch.device("cuda" if torch.cuda.is_available() and not fused.INTERPRETED else "cpu")
needs_kernels = pytest.mark.skipif(not fused.available(device), reason="needs a GPU, or triton's interpreter")
# the interpreter computes in float32; on a GPU the operands of every product are rounded to 8 bits
dtype, tolerance = (torch.bfloat16, 1e-2) if device.type == "cuda" else (torch.float32, 2e-6)
names = ["norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight", "down.bias"]


def make(n: int, rows: int, columns: int, width: int, heads: int) -> tuple[EdgeMixer, Tensor, Tensor]:
    torch.manual_seed(n + rows + width)
    mixer = EdgeMixer(width, heads)
    with torch.no_grad():
        for parameter in mixer.parameters():  # scale and shift of the norm must matter
            parameter.add_(0.3 * torch.randn_like(parameter))
    edges = torch.randn(n, rows, columns, width) * 2 + 1
    return mixer.to(device), edges.to(device, dtype), torch.randn(n, heads, rows, columns).to(device, dtype)


def run_fused(mixer: EdgeMixer, edges: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    return fused.fused_mixer(edges, scores, *(mixer.get_parameter(name) for name in names))


def gradients(
    mixer: EdgeMixer, edges: Tensor, scores: Tensor, seeds: tuple[Tensor, ...], is_fused: bool
) -> list[Tensor]:
    """Return outputs and all gradients; those of the eager mixer in float64."""
    if not is_fused:
        mixer, edges, scores = copy.deepcopy(mixer).double(), edges.double(), scores.double()
    edges, scores = edges.detach().requires_grad_(), scores.detach().requires_grad_()
    if is_fused:
        new, logits = run_fused(mixer, edges, scores)
    else:
        assert not fused.supports(edges, mixer.heads)
        new, logits = mixer(edges, scores)
    inputs = [edges, scores, *(mixer.get_parameter(name) for name in names)]
    grads = torch.autograd.grad([new, logits], inputs, [seed.to(new.dtype) for seed in seeds])
    return [new.detach(), logits.detach(), *grads]


def relative_error(value: Tensor, reference: Tensor) -> float:
    return float((value.double() - reference).norm() / reference.norm())


@needs_kernels
@pytest.mark.parametrize(
    ("n", "rows", "columns", "width", "heads"),
    [
        (2, 20, 20, 64, 8),
        (3, 7, 11, 64, 8),
        (5, 20, 4, 32, 4),
        (1, 3, 5, 32, 16),
        (9, 10, 5, 64, 4),
        (1, 1, 1, 64, 8),
    ],
)
def test_matches_eager(n: int, rows: int, columns: int, width: int, heads: int) -> None:
    mixer, edges, scores = make(n, rows, columns, width, heads)
    assert fused.supports(edges, heads)
    seeds = torch.randn_like(edges), torch.randn(n, 2 * heads, rows, columns, device=device).to(dtype)
    values = gradients(mixer, edges, scores, seeds, True)
    references = gradients(mixer, edges, scores, seeds, False)
    labels = ["edges", "logits", "d edges", "d scores", *names]
    errors = {k: relative_error(v, r) for k, v, r in zip(labels, values, references, strict=True)}
    assert max(errors.values()) < tolerance, errors


@needs_kernels
def test_edge_far_from_zero_mean() -> None:
    mixer, edges, scores = make(2, 5, 5, 64, 8)
    edges = (edges.float() + 100).to(dtype)
    new = run_fused(mixer, edges, scores)[0].detach()
    reference, _ = copy.deepcopy(mixer).double()(edges.double(), scores.double())
    assert relative_error(new.double() - edges.double(), (reference - edges.double()).detach()) < 0.1


@needs_kernels
def test_strided_inputs_mixed_dtypes_and_repeats() -> None:
    mixer, edges, scores = make(3, 6, 5, 32, 8)
    expected = run_fused(mixer, edges, scores)
    strided = edges.transpose(1, 2).contiguous().transpose(1, 2), scores.float().transpose(0, 1).contiguous()
    again = run_fused(mixer, strided[0], strided[1].transpose(0, 1))
    assert torch.equal(expected[0], again[0])
    assert torch.equal(expected[1], again[1])


@needs_kernels
def test_no_edges() -> None:
    mixer, edges, scores = make(2, 3, 4, 32, 4)
    values = gradients(mixer, edges[:0], scores[:0], (edges[:0], torch.cat([scores, scores], 1)[:0]), True)
    assert values[0].shape == (0, 3, 4, 32)
    assert all(not value.any() for value in values)


@needs_kernels
def test_op_is_registered_properly() -> None:
    mixer, edges, scores = make(2, 3, 4, 32, 4)
    inputs = [edges.requires_grad_(), scores.requires_grad_(), *(mixer.get_parameter(name) for name in names)]
    torch.library.opcheck(fused._mix, inputs)


@needs_kernels
@pytest.mark.slow
def test_compiles_whole_under_autocast() -> None:
    mixer, edges, scores = make(2, 3, 4, 32, 4)

    def loss(edges: Tensor, scores: Tensor) -> Tensor:
        assert fused.supports(edges, 4)
        new, logits = run_fused(mixer, edges * 2, scores)
        return new.float().square().mean() + logits.float().softmax(-1).square().mean()

    with torch.autocast(device.type, torch.bfloat16):
        eager = torch.autograd.grad(loss(edges, scores), mixer.up.weight)[0]
        compiled = torch.compile(loss, fullgraph=True)(edges, scores)
    assert relative_error(torch.autograd.grad(compiled, mixer.up.weight)[0], eager.double()) < 1e-2


def test_imports_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "triton", None)
    assert not fused.available(torch.device("cpu"))
    assert not fused.available(torch.device("cuda"))
