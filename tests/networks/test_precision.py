"""Weights cast all at once: what autocast computes, bit for bit, and gradients where they belong."""

import itertools
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from icdc import kernels
from icdc.kernels import Noise, fold, root_key
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks.network import Network, NetworkConfig
from icdc.networks.precision import NarrowWeights
from icdc.problems import get_problem
from icdc.problems.base import FeatureSizes
from icdc.problems.features import Features

SMALL = {"width": 16, "heads": 2, "edge_width": 8, "mixer_width": 4, "encoder_layers": 1, "denoiser_layers": 2}
KINDS = list(itertools.product(("edge", "dual"), ("edge", "gated")))


def make(encoder: str, denoiser: str) -> Network:
    torch.manual_seed(0)
    config = NetworkConfig(**SMALL, encoder=encoder, denoiser=denoiser)  # type: ignore[arg-type]
    return Network(config, FeatureSizes(relations=3, raw_relations=1, same_items=True))


def inputs(network: Network) -> tuple[Features, Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    identifiers = torch.randn(2, 8, network.config.identifiers)
    return Features(torch.rand(2, 4, 4, 3)), identifiers, (torch.rand(4, 4, 4) < 0.3).float(), torch.arange(1, 5)


def logits(network: Network, narrow: bool) -> Tensor:
    features, identifiers, x, t = inputs(network)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        with NarrowWeights(network.encoder).applied() if narrow else nullcontext():
            encoding = network.encode(features, identifiers)
        with NarrowWeights(network.denoiser).applied() if narrow else nullcontext():
            return network.denoise(encoding, x, t)


def gradients(network: Network, narrow: bool) -> tuple[Tensor, dict[str, Tensor | None]]:
    network.zero_grad()
    out = logits(network, narrow)
    out.square().sum().backward()
    return out.detach(), {name: p.grad for name, p in network.named_parameters()}


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
def test_equals_plain_autocast(encoder: str, denoiser: str) -> None:
    network = make(encoder, denoiser)
    before = dict(network.named_parameters())
    (plain, plain_grads), (value, grads) = gradients(network, False), gradients(network, True)
    assert torch.equal(value, plain)
    for name, grad in grads.items():
        expected = plain_grads[name]
        assert (grad is None) == (expected is None)
        if grad is not None and expected is not None:
            assert grad.dtype == torch.float32
            torch.testing.assert_close(grad, expected, atol=0, rtol=0)
    assert all(before[name] is parameter for name, parameter in network.named_parameters())


def test_gradients_add_up() -> None:
    network = make("edge", "edge")
    _, once = gradients(network, True)
    first = {name: grad.clone() for name, grad in once.items() if grad is not None}
    logits(network, True).square().sum().backward()
    for name, grad in first.items():
        torch.testing.assert_close(network.get_parameter(name).grad, 2 * grad)


def test_casts_linear_maps_only_and_not_all() -> None:
    network = make("edge", "edge")
    names = {id(p): name for name, p in network.named_parameters()}
    cast = {names[id(p)] for _, _, p in NarrowWeights(network).places}
    assert "denoiser.layers.0.query_value.weight" in cast
    assert "denoiser.output.query.bias" in cast
    assert "encoder.embed.rows.weight" in cast
    assert not any(part in name for name in cast for part in ("norm", "mixer", "embed_edges", "input", "output.mix"))


def test_without_autocast_nothing_changes() -> None:
    network = make("edge", "edge")
    with NarrowWeights(network).applied():
        assert all(isinstance(p, nn.Parameter) and p.dtype == torch.float32 for p in network.parameters())


def test_parameters_come_back_after_an_error() -> None:
    network = make("edge", "edge")
    before = list(network.parameters())

    def fail() -> None:
        with torch.autocast("cpu", torch.bfloat16), NarrowWeights(network).applied():
            assert any(p.dtype == torch.bfloat16 for p in network.parameters())
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert all(a is b for a, b in zip(before, network.parameters(), strict=True))


def test_casts_once_without_gradients_and_anew_with_them() -> None:
    weights = NarrowWeights(make("edge", "edge"))

    def seen() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16), weights.applied():
            module, name, _ = weights.places[0]
            value: Tensor = getattr(module, name)
            return value

    with torch.no_grad():
        first = seen()
        assert seen() is first
    assert not first.requires_grad
    assert seen().requires_grad
    assert seen() is not seen()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compiled_layers() -> None:
    network = make("edge", "edge")
    plain, plain_grads = gradients(network, True)
    for layer in network.worth_compiling():
        layer.compile(dynamic=False, backend="aot_eager")
    value, grads = gradients(network, True)
    torch.testing.assert_close(value, plain, atol=0.02, rtol=0.02)
    for name, grad in grads.items():
        expected = plain_grads[name]
        assert (grad is None) == (expected is None)
        if grad is not None and expected is not None:
            assert (grad - expected).norm() <= 0.05 * expected.norm() + 1e-6


def test_what_is_worth_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer and both ends of the denoiser; nothing where kernels do better than a compiler."""
    network = make("edge", "edge")
    monkeypatch.setattr(kernels, "worth_compiling", lambda device: True)
    kinds = [type(part) for part in network.worth_compiling()]
    layers = network.config.encoder_layers + network.config.denoiser_layers
    assert sorted(kind.__name__ for kind in kinds) == sorted(["EdgeInput", "EdgeOutput"] + ["EdgeLayer"] * layers)
    monkeypatch.setattr(kernels, "worth_compiling", lambda device: False)
    assert network.worth_compiling() == []


def test_models_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model under autocast gives the logits of its network under autocast, in a pass with gradients or without."""
    problem = get_problem("atsp")
    model = Model(problem, ModelConfig(NetworkConfig(**SMALL)))  # type: ignore[arg-type]
    features = Features(torch.rand(2, 4, 4, problem.feature_sizes.relations))
    x, t = (torch.rand(2, 4, 4) < 0.3).float(), torch.tensor([1, 2])

    def run() -> Tensor:
        keys = fold(root_key(0, torch.device("cpu")), torch.arange(2))
        return model.predict(model.encode(features, Noise(keys)), 0.5)(x, t)

    wide = run()
    narrow = lambda self: torch.autocast("cpu", torch.bfloat16, cache_enabled=False)  # noqa: E731
    monkeypatch.setattr(Model, "autocast", narrow)
    value = run()
    with torch.no_grad():
        assert torch.equal(run(), value)
    monkeypatch.setattr(NarrowWeights, "applied", lambda self: nullcontext())
    assert torch.equal(run(), value)
    assert not torch.equal(wide, value)
