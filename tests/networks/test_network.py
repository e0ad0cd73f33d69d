"""Whole networks: what logits depend on, sizes, which configurations there are, and weights cast all at once."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from icdc import kernels
from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NarrowWeights, Network, NetworkConfig
from icdc.problems import get_problem
from icdc.problems.base import FeatureSizes
from icdc.problems.features import Features
from icdc.settings import build

SMALL = {"width": 8, "heads": 2, "edge_width": 4, "mixer_width": 3, "encoder_layers": 1, "denoiser_layers": 2}
KINDS = [("edge", "edge"), ("dual", "gated")]


def make(encoder: str = "edge", denoiser: str = "edge", same: bool = False, **options: object) -> Network:
    torch.manual_seed(0)
    config = NetworkConfig(**{**SMALL, "encoder": encoder, "denoiser": denoiser, **options})  # type: ignore[arg-type]
    return Network(config, FeatureSizes(3, 1, same_items=same)).eval()


def run(network: Network, x: Tensor, t: Tensor, relations: Tensor, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return network.denoise(network.encode(Features(relations), ids), x, t)


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
def test_logits_depend_on_everything(encoder: str, denoiser: str) -> None:
    """X_t, t and the relations all move the logits, which have the shape of X_t and are float32."""
    network = make(encoder, denoiser)
    relations, ids = torch.randn(1, 3, 4, 3), torch.randn(1, 7, 16)
    x, t = torch.zeros(2, 3, 4), torch.tensor([3, 3])
    base = run(network, x, t, relations, ids)
    assert base.shape == x.shape
    assert base.dtype == torch.float32
    other_x = x.clone()
    other_x[:, 1, 2] = 1
    assert not torch.allclose(base, run(network, other_x, t, relations, ids), atol=1e-6)
    assert not torch.allclose(base, run(network, x, t + 5, relations, ids), atol=1e-6)
    assert not torch.allclose(base, run(network, x, t, relations + torch.randn(1, 3, 4, 3), ids), atol=1e-6)


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
def test_a_trajectory_ignores_its_batch(encoder: str, denoiser: str) -> None:
    """In evaluation the logits of one trajectory are those it gets alone, for every normalisation."""
    for norm in ("layer", "batch"):
        network = make(encoder, denoiser, norm=norm)
        relations, ids = torch.randn(2, 3, 4, 3), torch.randn(2, 7, 16)
        x, t = (torch.rand(6, 3, 4) < 0.3).float(), torch.arange(1, 7)
        together = run(network, x, t, relations, ids)
        for n in (0, 2, 5):
            instance = slice(n // 3, n // 3 + 1)
            alone = run(network, x[n : n + 1], t[n : n + 1], relations[instance], ids[instance])
            torch.testing.assert_close(together[n], alone[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 2)])
def test_smallest_matrices_denoise(encoder: str, denoiser: str, shape: tuple[int, int]) -> None:
    """One job, one machine, two cities: finite logits, finite gradients."""
    network = make(encoder, denoiser, same=shape == (2, 2)).train()
    encoding = network.encode(Features(torch.zeros(2, *shape, 3)), torch.randn(2, sum(shape), 16))
    logits = network.denoise(encoding, torch.ones(4, *shape), torch.full((4,), 2))
    assert torch.isfinite(logits).all()
    logits.square().sum().backward()
    for parameter in network.parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize(("encoder", "denoiser"), KINDS)
def test_every_parameter_that_should_learns(encoder: str, denoiser: str) -> None:
    """Only what feeds states that nobody reads (nodes of the gated network's last layer) has no gradient."""
    network = make(encoder, denoiser).train()
    encoding = network.encode(Features(torch.randn(2, 3, 4, 3)), torch.randn(2, 7, 16))
    network.denoise(encoding, (torch.rand(4, 3, 4) < 0.5).float(), torch.arange(1, 5)).square().sum().backward()
    idle = {name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    last = "denoiser.layers.1."
    if denoiser == "gated":
        unread = ("own_row", "own_column", "row_message", "column_message", "norm_row", "norm_column")
        assert idle == {n for n in dict(network.named_parameters()) if n.startswith(tuple(last + u for u in unread))}
    else:
        assert idle == set()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"width": 10, "heads": 4}, "multiple of the 4 heads"),
        ({"width": 9, "heads": 3}, "even"),
        ({"encoder": "gnn"}, "'encoder' must be one of edge, dual, got 'gnn'"),
        ({"denoiser": "gated"}, 'encoder "edge" goes with denoiser "edge"'),
        ({"products_in_denoiser": False}, "can only be false with the paper's network"),
        ({"norm": "group"}, "'norm' must be one of layer, batch"),
        ({"candidates": 1}, "candidates must be 0, for all columns, or at least 2"),
        ({"candidates": 8}, "candidates need priced = true"),
    ],
)
def test_impossible_networks_are_refused(options: dict[str, object], sentence: str) -> None:
    """A configuration that cannot be built says so before anything is built."""
    with pytest.raises(UsageError, match=sentence):
        NetworkConfig(**options)  # type: ignore[arg-type]


def test_files_of_earlier_versions_load() -> None:
    """Channels were never hidden from a network that answers; one that had some hidden is refused."""
    assert build(NetworkConfig, {"hidden_relations": [], "width": 64}) == NetworkConfig(width=64)
    with pytest.raises(UsageError, match="'hidden_relations' is gone"):
        build(NetworkConfig, {"hidden_relations": [1]})


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
    network = make(encoder, denoiser, same=True).train()
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
    network = make(same=True).train()
    _, once = gradients(network, True)
    first = {name: grad.clone() for name, grad in once.items() if grad is not None}
    logits(network, True).square().sum().backward()
    for name, grad in first.items():
        torch.testing.assert_close(network.get_parameter(name).grad, 2 * grad)


def test_casts_linear_maps_only_and_not_all() -> None:
    network = make(same=True).train()
    names = {id(p): name for name, p in network.named_parameters()}
    cast = {names[id(p)] for _, _, p in NarrowWeights(network).places}
    assert "denoiser.layers.0.query_value.weight" in cast
    assert "denoiser.output.query.bias" in cast
    assert "encoder.embed.rows.weight" in cast
    assert not any(part in name for name in cast for part in ("norm", "mixer", "embed_edges", "input", "output.mix"))


def test_without_autocast_nothing_changes() -> None:
    network = make(same=True).train()
    with NarrowWeights(network).applied():
        assert all(isinstance(p, nn.Parameter) and p.dtype == torch.float32 for p in network.parameters())


def test_parameters_come_back_after_an_error() -> None:
    network = make(same=True).train()
    before = list(network.parameters())

    def fail() -> None:
        with torch.autocast("cpu", torch.bfloat16), NarrowWeights(network).applied():
            assert any(p.dtype == torch.bfloat16 for p in network.parameters())
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert all(a is b for a, b in zip(before, network.parameters(), strict=True))


def test_casts_once_without_gradients_and_anew_with_them() -> None:
    weights = NarrowWeights(make(same=True).train())

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
    network = make(same=True).train()
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
    network = make(same=True).train()
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
