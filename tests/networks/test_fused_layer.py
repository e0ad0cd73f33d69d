"""The kernels of a whole layer and of the denoiser's ends against plain operations, with and without gradients."""

import copy

import pytest
import torch
from torch import Tensor

from icdc.networks import NetworkConfig, fused, fused_nodes
from icdc.networks.denoiser import EdgeDenoiser
from icdc.networks.edge import EdgeLayer
from icdc.networks.encoder import Encoding

# triton's interpreter up to 3.6 reads loop bounds from arrays of one element, which numpy deprecates
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")

device = torch.device("cuda" if torch.cuda.is_available() and not fused.INTERPRETED else "cpu")
needs_kernels = pytest.mark.skipif(not fused.available(device), reason="needs a GPU, or triton's interpreter")
# the interpreter computes in float32; on a GPU everything between kernels is rounded to 8 bits
on_gpu = device.type == "cuda"
dtype, tolerance = (torch.bfloat16, 3e-2) if on_gpu else (torch.float32, 2e-5)
SIZES = [(3, 20, 20), (2, 7, 11), (2, 20, 4), (1, 50, 50), (1, 1, 1), (1, 100, 100)]


def shaken(module: torch.nn.Module) -> torch.nn.Module:
    """Return a module with no parameter at its initial value, so that each of them matters."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module.to(device)


def relative_error(value: Tensor, reference: Tensor) -> float:
    return float((value.double() - reference).norm() / reference.norm().clamp_min(1e-12))


def inputs(n: int, rows: int, columns: int, width: int = 128, edge_width: int = 64) -> list[Tensor]:
    torch.manual_seed(rows)
    shapes = [(n, rows, width), (n, columns, width), (n, rows, columns, edge_width), (n, width)]
    return [torch.randn(shape).to(device, dtype) for shape in shapes]


def run(layer: torch.nn.Module, given: list[Tensor]) -> tuple[Tensor, ...]:
    with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu and given[0].dtype != torch.float64):
        result: tuple[Tensor, ...] = layer(*given)
        return result


@needs_kernels
@pytest.mark.parametrize("sizes", SIZES)
def test_layer_without_gradients(sizes: tuple[int, int, int]) -> None:
    layer, given = shaken(EdgeLayer(128, 8, 64)), inputs(*sizes)
    with torch.no_grad():
        values = run(layer, given)
        references = run(copy.deepcopy(layer).double(), [x.double() for x in given])
    for value, reference, before in zip(values, references, given, strict=False):
        assert relative_error(value.double() - before.double(), reference - before.double()) < tolerance


@needs_kernels
@pytest.mark.parametrize("nodes_too", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_layer_with_gradients(sizes: tuple[int, int, int], nodes_too: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_nodes, "WITH_GRADIENTS", nodes_too)
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
    assert max(errors.values()) < tolerance, errors


@needs_kernels
@pytest.mark.parametrize("sizes", [(2, 20, 20), (3, 9, 4)])
def test_denoiser_of_several_samples(sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    batch, rows, columns = sizes
    denoiser = shaken(EdgeDenoiser(NetworkConfig(denoiser_layers=2), 5))
    first, second, edges, _ = inputs(*sizes)
    encoding = Encoding(first, second, torch.randn(batch, rows, columns, 5, device=device), edges)
    x = (torch.rand(3 * batch, rows, columns, device=device) < 0.2).float()
    t = torch.randint(1, 20, (3 * batch,), device=device)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
        value = denoiser(encoding, x, t)
        monkeypatch.setattr(fused, "ENABLED", False)
        reference = denoiser(encoding, x, t)
    assert relative_error(value, reference.double()) < tolerance
