"""The mixer's kernels against its definition; without a GPU: `TRITON_INTERPRET=1 pytest tests/kernels`."""

import copy

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import dispatch
from icdc.networks.edge import EdgeMixer, EdgeOutput
from icdc.networks.layers import normed_mlp
from tests.kernels.support import DEVICE, NEEDS_KERNELS, ON_GPU, allowed, relative_error

pytestmark = NEEDS_KERNELS
# the interpreter computes in float32; on a GPU the operands of every product are rounded to 8 bits
DTYPE, TOLERANCE = (torch.bfloat16, 1e-2) if ON_GPU else (torch.float32, 2e-6)
NAMES = ["norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight", "down.bias"]


def make(n: int, rows: int, columns: int, width: int, heads: int) -> tuple[EdgeMixer, Tensor, Tensor]:
    torch.manual_seed(n + rows + width)
    mixer = EdgeMixer(width, heads)
    with torch.no_grad():
        for parameter in mixer.parameters():  # scale and shift of the norm must matter
            parameter.add_(0.3 * torch.randn_like(parameter))
    edges = torch.randn(n, rows, columns, width) * 2 + 1
    return mixer.to(DEVICE), edges.to(DEVICE, DTYPE), torch.randn(n, heads, rows, columns).to(DEVICE, DTYPE)


def run(mixer: EdgeMixer, edges: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    return kernels.mix_edges(edges, scores, mixer.weights())[:2]


def exact(mixer: EdgeMixer, edges: Tensor, scores: Tensor) -> tuple[EdgeMixer, Tensor, Tensor]:
    """Return everything in float64, which has no kernels."""
    wide = copy.deepcopy(mixer).double(), edges.double(), scores.double()
    assert not dispatch.edges_fit(wide[1], scores.shape[1])
    return wide


def gradients(mixer: EdgeMixer, edges: Tensor, scores: Tensor, seeds: tuple[Tensor, ...]) -> list[Tensor]:
    """Return outputs and all gradients."""
    edges, scores = edges.detach().requires_grad_(), scores.detach().requires_grad_()
    new, logits = run(mixer, edges, scores)
    inputs = [edges, scores, *(mixer.get_parameter(name) for name in NAMES)]
    grads = torch.autograd.grad([new, logits], inputs, [seed.to(new.dtype) for seed in seeds])
    return [new.detach(), logits.detach(), *grads]


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
def test_matches_its_definition(n: int, rows: int, columns: int, width: int, heads: int) -> None:
    mixer, edges, scores = make(n, rows, columns, width, heads)
    assert dispatch.edges_fit(edges, heads)
    seeds = torch.randn_like(edges), torch.randn(n, 2 * heads, rows, columns, device=DEVICE).to(DTYPE)
    values = gradients(mixer, edges, scores, seeds)
    references = gradients(*exact(mixer, edges, scores), seeds)
    labels = ["edges", "logits", "d edges", "d scores", *NAMES]
    errors = {k: relative_error(v, r) for k, v, r in zip(labels, values, references, strict=True)}
    assert max(errors.values()) < TOLERANCE, errors


def test_edge_far_from_zero_mean() -> None:
    mixer, edges, scores = make(2, 5, 5, 64, 8)
    edges = (edges.float() + 100).to(DTYPE)
    new = run(mixer, edges, scores)[0].detach()
    reference, _ = run(*exact(mixer, edges, scores))
    assert relative_error(new.double() - edges.double(), (reference - edges.double()).detach()) < 0.1


def test_strided_inputs_mixed_dtypes_and_repeats() -> None:
    mixer, edges, scores = make(3, 6, 5, 32, 8)
    expected = run(mixer, edges, scores)
    strided = edges.transpose(1, 2).contiguous().transpose(1, 2), scores.float().transpose(0, 1).contiguous()
    again = run(mixer, strided[0], strided[1].transpose(0, 1))
    assert torch.equal(expected[0], again[0])
    assert torch.equal(expected[1], again[1])


def test_no_edges() -> None:
    mixer, edges, scores = make(2, 3, 4, 32, 4)
    values = gradients(mixer, edges[:0], scores[:0], (edges[:0], torch.cat([scores, scores], 1)[:0]))
    assert values[0].shape == (0, 3, 4, 32)
    assert all(not value.any() for value in values)


def test_a_compiler_sees_plain_operations() -> None:
    """Whole, without a break, and with the same values and gradients."""
    mixer, edges, scores = make(2, 3, 4, 32, 4)

    def loss(edges: Tensor, scores: Tensor) -> Tensor:
        new, logits = run(mixer, edges * 2, scores)
        return new.float().square().mean() + logits.float().softmax(-1).square().mean()

    # plain operations need autocast to bring weights to the edges' precision
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
        eager = torch.autograd.grad(loss(edges, scores), mixer.up.weight)[0]
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")(edges, scores)
    assert relative_error(torch.autograd.grad(compiled, mixer.up.weight)[0], eager.double()) < TOLERANCE


@pytest.mark.parametrize(("n", "rows", "columns", "heads"), [(3, 7, 11, 8), (1, 1, 1, 4), (0, 2, 2, 8)])
def test_logits_of_edges(n: int, rows: int, columns: int, heads: int) -> None:
    """What the denoiser reads off the edges at its end, without gradients."""
    torch.manual_seed(rows)
    output = EdgeOutput(64, heads, 64).to(DEVICE)
    mlp = normed_mlp(output.norm_edges, output.mix.up, output.mix.down)
    edges = torch.randn(n, rows, columns, 64, device=DEVICE).to(DTYPE)
    scores = torch.randn(n, heads, rows, columns, device=DEVICE).to(DTYPE)
    with torch.no_grad():
        value = kernels.read_edges(edges, scores, mlp)
        truth = kernels.read_edges(edges.double(), scores.double(), kernels.NormedMLP(*(w.double() for w in mlp)))
        # plain operations need autocast to bring weights to the edges' precision
        with kernels.without_triton(), torch.autocast(DEVICE.type, torch.bfloat16, enabled=ON_GPU):
            plain = kernels.read_edges(edges, scores, mlp)
    assert value.dtype == torch.float32
    assert value.shape == (n, rows, columns)
    assert n == 0 or relative_error(value, truth) < allowed(TOLERANCE, relative_error(plain, truth))
