"""The kernels of the means, of a whole layer and of the denoiser's end against torch operations and gradients."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from icdc import kernels
from icdc.networks import Encoding, NetworkConfig
from icdc.networks.edge import EdgeDenoiser, EdgeLayer
from tests.kernels.support import DEVICE, NEEDS_KERNELS, ON_GPU, relative_error, shaken

pytestmark = NEEDS_KERNELS
# the interpreter computes in float32; on a GPU everything between kernels is rounded to 8 bits
DTYPE, TOLERANCE, MEANS_TOLERANCE = (torch.bfloat16, 3e-2, 1e-2) if ON_GPU else (torch.float32, 2e-5, 1e-5)
SHAPES = [
    (3, 5, 7, 32),
    (2, 20, 4, 64),
    (1, 1, 1, 16),
    (2, 20, 20, 64),
    (2, 50, 50, 64),
    (1, 70, 100, 64),
    (2, 9, 5, 8),
]
SIZES = [(3, 20, 20), (2, 7, 11), (2, 20, 4), (1, 50, 50), (1, 1, 1), (1, 100, 100)]


def inputs(n: int, rows: int, columns: int, width: int = 128, edge_width: int = 64) -> list[Tensor]:
    torch.manual_seed(rows)
    shapes = [(n, rows, width), (n, columns, width), (n, rows, columns, edge_width), (n, width)]
    return [torch.randn(shape).to(DEVICE, DTYPE) for shape in shapes]


def run(layer: torch.nn.Module, given: list[Tensor]) -> tuple[Tensor, ...]:
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=ON_GPU and given[0].dtype != torch.float64):
        result: tuple[Tensor, ...] = layer(*given)
        return result


@pytest.mark.parametrize("shape", SHAPES)
def test_means(shape: tuple[int, ...]) -> None:
    from icdc.kernels.edge_attention.triton import means

    edges = torch.randn(shape, device=DEVICE).to(DTYPE)
    rows, columns = means(edges)
    wide = edges.double()
    for value, truth in ((rows, F.relu(wide).mean(2)), (columns, F.relu(wide).mean(1))):
        assert relative_error(value, truth) < MEANS_TOLERANCE
    assert means(edges[:0])[1].shape == (0, shape[2], shape[3])


def test_gradient_joins_another() -> None:
    from icdc.kernels.edge_attention.triton import add_means_gradient, means

    edges = torch.randn(3, 7, 5, 32, device=DEVICE).to(DTYPE)
    rows, columns = means(edges)
    into = torch.randn_like(edges)
    spread = rows.double()[:, :, None] / 5 + columns.double()[:, None] / 7
    truth = into.double() + torch.where(edges > 0, spread, 0.0)
    assert relative_error(add_means_gradient(edges, rows, columns, into), truth) < MEANS_TOLERANCE


@pytest.mark.parametrize("sizes", SIZES)
def test_layer_without_gradients(sizes: tuple[int, int, int]) -> None:
    layer, given = shaken(EdgeLayer(128, 8, 64)), inputs(*sizes)
    with torch.no_grad():
        values = run(layer, given)
        references = run(copy.deepcopy(layer).double(), [x.double() for x in given])
    for value, reference, before in zip(values, references, given, strict=False):
        assert relative_error(value.double() - before.double(), reference - before.double()) < TOLERANCE


@pytest.mark.parametrize("sizes", SIZES)
def test_layer_with_gradients(sizes: tuple[int, int, int]) -> None:
    layer, given = shaken(EdgeLayer(128, 8, 64)), inputs(*sizes)
    wide = copy.deepcopy(layer).double()
    seeds = [torch.randn_like(x) for x in given[:3]]
    results = []
    for module, tensors in ((layer, given), (wide, [x.double() for x in given])):
        tensors = [x.detach().requires_grad_() for x in tensors]
        values = run(module, tensors)
        wanted = [*tensors, *module.parameters()]
        grads = torch.autograd.grad(values, wanted, [s.to(v.dtype) for s, v in zip(seeds, values, strict=True)])
        results.append([v.detach() for v in values] + list(grads))
    names = ["rows", "columns", "edges", "d rows", "d columns", "d edges", "d time"]
    names += [name for name, _ in layer.named_parameters()]
    errors = {n: relative_error(v, r) for n, v, r in zip(names, *results, strict=True) if float(r.norm()) > 1e-9}
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.parametrize("sizes", [(2, 20, 20), (3, 9, 4)])
def test_denoiser_of_several_samples(sizes: tuple[int, int, int]) -> None:
    batch, rows, columns = sizes
    denoiser = shaken(EdgeDenoiser(NetworkConfig(denoiser_layers=2), 5))
    first, second, edges, _ = inputs(*sizes)
    encoding = Encoding(first, second, torch.randn(batch, rows, columns, 5, device=DEVICE), edges)
    x = (torch.rand(3 * batch, rows, columns, device=DEVICE) < 0.2).float()
    t = torch.randint(1, 20, (3 * batch,), device=DEVICE)
    with torch.no_grad(), torch.autocast(DEVICE.type, torch.bfloat16, enabled=ON_GPU):
        value = denoiser(encoding, x, t)
        with kernels.without_triton():
            reference = denoiser(encoding, x, t)
    assert relative_error(value, reference.double()) < TOLERANCE


def test_more_items_than_a_program_takes() -> None:
    """Beyond 128 rows the mixer alone is a kernel, with its gradient."""
    layer, given = shaken(EdgeLayer(64, 4, 32)), inputs(1, 130, 3, 64, 32)
    results = []
    for module, tensors in ((layer, given), (copy.deepcopy(layer).double(), [x.double() for x in given])):
        values = run(module, tensors)
        grads = torch.autograd.grad([value.sum() for value in values], list(module.parameters()))
        results.append([v.detach() for v in values] + list(grads))
    for value, reference in zip(*results, strict=True):
        assert float(reference.norm()) < 1e-9 or relative_error(value, reference) < TOLERANCE
