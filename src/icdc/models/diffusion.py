"""The diffusion model: problem, network and process together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..diffusion.process import Diffusion, DiffusionConfig
from ..diffusion.sampler import Predict, SamplingOptions
from ..kernels import Noise
from ..networks import Encoding, NarrowWeights, Network, NetworkConfig
from ..problems import problem_path
from ..problems.base import Arrays, Instances, Problem, Size
from ..problems.decoding import Order
from ..problems.features import Features
from ..settings import build
from .card import advised, changes_advised, unfamiliar
from .catalogue import path_of, read_model
from .file import build_checked, build_fitting, pick_device, precision_on, read_weights, set_weights, write_model

UNTUNED = SamplingOptions(order="rule", temperature=1.0, decodes=8)
"""How to solve with a model whose card gives no advice."""
LARGE = 5000
"""Elements of a matrix from which on `UNTUNED_LARGE` is used: there a network pass costs far more than many decodes."""
UNTUNED_LARGE = replace(UNTUNED, steps=10, temperature=0.7, decodes=32)
"""With 1 to 32 samples for 100 cities, tours were better than by `UNTUNED`, in half its time."""
CANDIDATES_ORDER: Order = "confidence"
"""Order of decisions where a network looks at candidate columns of large matrices: joining paths never looks at all
pairs."""
FOLLOWED = 250 * 250
"""Pairs up to which tours are followed city by city all the same: that looks at all pairs, and tours of 200 cities were
better, 9.8 instead of 11.4 % over the best known on noisy planes, with 4 samples of one temperature."""
CHAIN_STEPS = 20
"""Network passes of a trajectory with local search inside, where the card says how much of it."""
MOST_SHARED = 8
"""Models kept in memory for the next call; the one that was loaded first goes first."""
_SHARED: "dict[tuple[object, ...], Model]" = {}


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the function a model computes, apart from its weights."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig)


class Model:
    """A network bound to a problem and a diffusion process.

    Parameters
    ----------
    problem : the contract of the problem it is for.
    config : network and diffusion.
    name : how it is called in answers; a shipped model's name, or the path it came from.
    card : what is known about it: sizes it was trained on, settings, results.
    """

    kind: ClassVar[str] = "diffusion"

    def __init__(
        self,
        problem: Problem,
        config: ModelConfig,
        name: str = "untrained",
        card: Mapping[str, Any] | None = None,
    ) -> None:
        self.problem, self.config, self.name = problem, config, name
        self.card: dict[str, Any] = dict(card or {})
        self.priced = config.network.priced and problem.priced_sizes is not None
        sizes = problem.priced_sizes if self.priced else problem.feature_sizes
        assert sizes is not None
        self.network = Network(config.network, sizes)
        self.diffusion = Diffusion(config.diffusion)

    @property
    def device(self) -> torch.device:
        """Return the device the weights are on."""
        return next(self.network.parameters()).device

    def autocast(self) -> torch.autocast:
        """Return the precision networks run in: bfloat16 on a GPU, float32 elsewhere."""
        return precision_on(self.device)

    def save(self, path: str | os.PathLike[str], weights: Mapping[str, Tensor] | None = None) -> None:
        """Write weights (its own, or the given ones) in half precision; the file appears whole or not at all."""
        write_model(path, self, weights)

    def to(self, device: torch.device | str) -> "Model":
        """Move weights and tables to a device; returns itself."""
        self.network.to(device)
        self.diffusion = Diffusion(self.config.diffusion, device)
        return self

    def features(self, instances: Instances) -> Features:
        """Return what the network sees of instances."""
        if not self.priced:
            return self.problem.features(instances)
        return self.problem.priced_features(instances, self.candidates_of(self.problem.size(instances)))

    def candidates_of(self, size: Size) -> int:
        """Return how many columns of each row the network looks at for instances of a size; 0 for all of them."""
        return self.config.network.candidates_of(*self.problem.shape(size)) if self.priced else 0

    def encode(self, features: Features, noise: Noise) -> Encoding:
        """Encode B instances; the identifiers of their items come from `noise` (B keys)."""
        rows, columns = features.shape
        precision = self.autocast()
        identifiers = noise.normal(rows + columns, self.config.network.identifiers)
        with precision, NarrowWeights(self.network.encoder).applied():
            return self.network.encode(features, identifiers)

    def predict(self, encoding: Encoding, density: float) -> Predict:
        """Return the log-odds of X_0 as a function of (x, t): the network's logits, centred on q̄."""
        offset = torch.logit(torch.tensor(min(density, 1 - 1e-6), dtype=torch.float64)).item()
        weights = NarrowWeights(self.network.denoiser)

        def log_odds(x: Tensor, t: Tensor) -> Tensor:
            with self.autocast(), weights.applied():
                return self.network.denoise(encoding, x, t) + offset

        return log_odds

    def sampling_options(
        self, size: Size, samples: int, with_search: bool = False, merging: bool = True
    ) -> SamplingOptions:
        """Return how trajectories run best for about this size and number of samples, as far as its card knows.

        A card advises nothing for a size outside those it was trained on: what is best there need not be elsewhere.
        with_search : with local search inside the chain; where nothing else is known to be better, they begin with
            what search alone would begin with.
        merging : decodes may be merged, where the card advises it.
        """
        rows, columns = self.problem.shape(size)
        untuned = UNTUNED if rows * columns < LARGE else UNTUNED_LARGE
        if with_search:
            untuned = replace(untuned, begin="starts")
        options = build(SamplingOptions, advised(self.card, size, samples, with_search, merging), untuned)
        follows = self.candidates_of(size) and rows * columns > FOLLOWED and options.order == "rule"
        return replace(options, order=CANDIDATES_ORDER) if follows else options

    def improvement(self, size: Size) -> dict[str, int]:
        """Return how local search inside the chain is best used at about this size, as far as its card knows."""
        changes = changes_advised(self.card, size)
        return {} if changes is None else {"improve_rounds": changes, "steps": CHAIN_STEPS}

    def unfamiliar(self, arrays: Arrays, with_search: bool = False) -> list[str | None]:
        """Say for every instance why the model should not be left alone with it; None where it need not be said.

        with_search : the model is not alone: local search works inside its chain.
        """
        return unfamiliar(self.problem, arrays, self.card, with_search)


def load(name: str | os.PathLike[str], device: str = "auto", problem: str | Problem | None = None) -> Model:
    """Load a shipped model by its name, or any model file by its path.

    Parameters
    ----------
    device : "auto", "cpu" or "cuda".
    problem : what the model is for. Needed only where it is a problem of your own: a file does not decide which
        code is imported.
    """
    chosen = pick_device(device)
    stored = read_model(name, Model.kind, problem)
    config = model_config(stored.config, str(stored.path))
    for advice in stored.card.get("solving", []):
        build_checked(SamplingOptions, advice.get("options"), f"{stored.path}: 'solving' of its card")
    network = config.network
    layers, width = network.encoder_layers + network.denoiser_layers, network.width
    products = [layers * width**2, network.feed_forward * width**2, network.identifiers * width]
    products += [network.edge_width**2] if "edge" in (network.encoder, network.denoiser) else []
    products += [network.heads * network.mixer_width] if network.encoder == "dual" else []
    model = build_fitting(lambda: Model(stored.problem, config, stored.name, stored.card), layers, products, stored)
    set_weights(model.network, read_weights(stored.path), stored.path)
    model.network.eval()
    return model.to(chosen)


def shared(name: str, device: torch.device, problem: Problem) -> Model:
    """Return the model behind a name or path, read once and shared by all calls; it must not be changed."""
    path = path_of(name)
    stamp = path.stat()
    key = (name, str(path), stamp.st_mtime_ns, stamp.st_size, str(device), problem_path(problem))
    if key not in _SHARED:
        while len(_SHARED) >= MOST_SHARED:
            _SHARED.pop(next(iter(_SHARED)))
        _SHARED[key] = load(name, str(device), problem)
    return _SHARED[key]


def model_config(values: Any, where: str = "the model") -> ModelConfig:
    """Rebuild a configuration from its dictionary; a value unknown to this version is an error."""
    return build_checked(ModelConfig, values, f"the configuration in {where}")
