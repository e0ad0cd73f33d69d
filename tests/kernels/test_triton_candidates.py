"""The kernels of attention over candidates against torch operations, their gradients included."""

import contextlib
import copy

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import dispatch
from icdc.networks import Encoding, NetworkConfig
from icdc.networks.edge import EdgeDenoiser, EdgeLayer
from tests.kernels.support import DEVICE, NEEDS_KERNELS, ON_GPU, allowed, relative_error, shaken

pytestmark = NEEDS_KERNELS
# the interpreter computes in float32; on a GPU everything between kernels is rounded to 8 bits
DTYPE, TOLERANCE = (torch.bfloat16, 3e-2) if ON_GPU else (torch.float32, 2e-5)
# instances, solutions of each, rows, columns, edges of a row
SIZES = [(2, 1, 6, 9, 4), (2, 3, 7, 5, 3), (1, 2, 20, 20, 16), (1, 1, 40, 3, 2), (1, 1, 1, 1, 1)]
SIZES += [(2, 2, 200, 200, 16), (1, 1, 300, 50, 12)] if ON_GPU else []


def drawn(sizes: tuple[int, ...], width: int = 128, thin: int = 64) -> tuple[list[Tensor], kernels.Neighbours]:
    """States of rows, columns and edges, times, and edges to columns of which some have many rows and some none."""
    batch, samples, rows, columns, each = sizes
    torch.manual_seed(rows)
    liked = torch.rand(batch, rows, columns) + torch.linspace(0.0, 1.0, columns)
    near = kernels.neighbours(liked.argsort(-1)[..., :each].to(DEVICE), columns)
    count = batch * samples
    shapes = [(count, rows, width), (count, columns, width), (count, rows, each, thin), (count, width)]
    return [torch.randn(shape).to(DEVICE, DTYPE) for shape in shapes], near


def run(layer: torch.nn.Module, given: list[Tensor], near: kernels.Neighbours) -> tuple[Tensor, ...]:
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=ON_GPU and given[0].dtype != torch.float64):
        result: tuple[Tensor, ...] = layer(*given, near)
        return result


@pytest.mark.parametrize("sizes", SIZES)
def test_layer_with_gradients(sizes: tuple[int, ...]) -> None:
    """New states and the gradients of all that goes in are those of torch operations in double precision."""
    layer, (given, near) = shaken(EdgeLayer(128, 8, 64)), drawn(sizes)
    wide = copy.deepcopy(layer).double()
    seeds = [torch.randn_like(x) for x in given[:3]]
    results = []
    for module, tensors, context in (
        (layer, given, contextlib.nullcontext()),
        (layer, given, kernels.without_triton()),
        (wide, [x.double() for x in given], contextlib.nullcontext()),
    ):
        tensors = [x.detach().requires_grad_() for x in tensors]
        with context:
            values = run(module, tensors, near)
            wanted = [*tensors, *module.parameters()]
            grads = torch.autograd.grad(values, wanted, [s.to(v.dtype) for s, v in zip(seeds, values, strict=True)])
        results.append([v.detach() for v in values] + list(grads))
    names = ["rows", "columns", "edges", "d rows", "d columns", "d edges", "d time"]
    names += [name for name, _ in layer.named_parameters()]
    for name, value, plain, reference in zip(names, *results, strict=True):
        if float(reference.norm()) > 1e-9:
            error = relative_error(value, reference)
            assert error < allowed(TOLERANCE, relative_error(plain, reference)), name


@pytest.mark.parametrize("sizes", SIZES)
def test_layer_without_gradients(sizes: tuple[int, ...]) -> None:
    layer, (given, near) = shaken(EdgeLayer(128, 8, 64)), drawn(sizes)
    with torch.no_grad():
        values = run(layer, given, near)
        references = run(copy.deepcopy(layer).double(), [x.double() for x in given], near)
    for value, reference, before in zip(values, references, given, strict=False):
        assert relative_error(value.double() - before.double(), reference - before.double()) < TOLERANCE


@pytest.mark.parametrize("sizes", SIZES)
def test_scores_alone(sizes: tuple[int, ...]) -> None:
    (query, key, _, _), near = drawn(sizes)
    with torch.no_grad():
        value = kernels.head_scores(query, key, 8, near)
        with kernels.without_triton():
            reference = kernels.head_scores(query.double(), key.double(), 8, near)
    assert value.dtype == DTYPE
    assert relative_error(value, reference) < TOLERANCE


def test_kernels_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to as many edges of a row as a program holds, and only where they were sorted by columns."""
    from icdc.kernels.edge_attention import triton_candidates

    seen: list[int] = []
    real = triton_candidates.candidate_attention
    monkeypatch.setattr(triton_candidates, "candidate_attention", lambda *given: seen.append(1) or real(*given))
    layer, (given, near) = shaken(EdgeLayer(128, 8, 64)), drawn(SIZES[0])
    run(layer, given, near)
    assert len(seen) == 1
    run(layer, given, kernels.Neighbours(near.index, near.columns))
    monkeypatch.setattr(dispatch, "MOST_EDGES", 3)
    run(layer, given, near)
    assert len(seen) == 1


def test_denoiser_of_several_samples() -> None:
    """The solutions of an instance share its edges."""
    (first, second, edges, _), near = drawn((2, 1, 9, 8, 4))
    denoiser = shaken(EdgeDenoiser(NetworkConfig(denoiser_layers=2), 5))
    encoding = Encoding(first, second, torch.randn(2, 9, 4, 5, device=DEVICE), edges, near)
    x = (torch.rand(6, 9, 4, device=DEVICE) < 0.2).float()
    t = torch.randint(1, 20, (6,), device=DEVICE)
    with torch.no_grad(), torch.autocast(DEVICE.type, torch.bfloat16, enabled=ON_GPU):
        value = denoiser(encoding, x, t)
        with kernels.without_triton():
            reference = denoiser(encoding, x, t)
    assert relative_error(value, reference) < TOLERANCE


def test_edges_are_listed_by_columns() -> None:
    """Those of each column lie between its start and the next one's, in the order of their rows."""
    _, near = drawn((2, 1, 7, 5, 3))
    assert near.order is not None
    assert near.starts is not None
    for instance in range(2):
        listed, columns = near.order[instance].tolist(), near.index[instance].flatten()
        for column in range(5):
            own = listed[near.starts[instance, column] : near.starts[instance, column + 1]]
            assert own == (columns == column).nonzero()[:, 0].tolist()
