"""The diffusion model: problem, network and process together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..diffusion.process import Diffusion, DiffusionConfig
from ..diffusion.sampler import Predict, SamplingOptions
from ..errors import InputError
from ..kernels import Noise
from ..networks import Encoding, Network, NetworkConfig
from ..networks.precision import NarrowWeights
from ..problems.contract import Arrays, Features, Problem, Size
from ..problems.registry import problem_path
from .base import TrainedModel, pick_device, set_weights
from .catalogue import advised, path_of, read_model
from .familiarity import outside

UNTUNED = SamplingOptions(order="rule", temperature=1.0, decodes=8)
"""How to solve with a model whose card gives no advice."""
LARGE = 5000
"""Elements of a matrix from which on `UNTUNED_LARGE` is used: there a network pass costs far more than many decodes."""
UNTUNED_LARGE = replace(UNTUNED, steps=10, temperature=0.7, decodes=32)
"""With 1 to 32 samples for 100 cities, tours were better than by `UNTUNED`, in half its time."""
MOST_SHARED = 8
"""Models kept in memory for the next call; the one that was loaded first goes first."""
_SHARED: "dict[tuple[object, ...], Model]" = {}


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the function a model computes, apart from its weights."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig)


class Model(TrainedModel):
    """A network bound to a problem and a diffusion process.

    Parameters
    ----------
    problem : the contract of the problem it is for.
    config : network and diffusion.
    name : how it is called in answers; a shipped model's name, or the path it came from.
    card : what is known about it: sizes it was trained on, settings, results.
    """

    kind = "diffusion"
    config: ModelConfig
    network: Network

    def __init__(
        self,
        problem: Problem,
        config: ModelConfig,
        name: str = "untrained",
        card: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(problem, name, card)
        self.config = config
        self.network = Network(config.network, problem.feature_sizes)
        self.diffusion = Diffusion(config.diffusion)

    def to(self, device: torch.device | str) -> "Model":
        """Move weights and tables to a device; returns itself."""
        self.network.to(device)
        self.diffusion = Diffusion(self.config.diffusion, device)
        return self

    def encode(self, features: Features, noise: Noise) -> Encoding:
        """Encode B instances; the identifiers of their items come from `noise` (B keys)."""
        rows, columns = features.relations.shape[1:3]
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

    def sampling_options(self, size: Size, samples: int) -> SamplingOptions:
        """Return how trajectories run best for about this size and number of samples, as far as its card knows.

        A card advises nothing for a size outside those it was trained on: what is best there need not be elsewhere.
        """
        rows, columns = self.problem.shape(size)
        untuned = UNTUNED if rows * columns < LARGE else UNTUNED_LARGE
        return replace(untuned, **advised(self.card, size, samples))

    def unfamiliar(self, arrays: Arrays) -> list[str | None]:
        """Say for every instance what about it is unlike those the model was trained on; None where nothing is."""
        return outside(self.problem, arrays, self.card.get("sizes", []), self.card.get("ranges"))


def load(name: str | os.PathLike[str], device: str = "auto", problem: str | Problem | None = None) -> Model:
    """Load a shipped model by its name, or any model file by its path.

    Parameters
    ----------
    device : "auto", "cpu" or "cuda".
    problem : what the model is for. Needed only where it is a problem of your own: a file does not decide which
        code is imported.
    """
    stored = read_model(name, Model.kind, problem)
    model = Model(stored.problem, model_config(stored.config), stored.name, stored.card)
    set_weights(model.network, stored.state, stored.path)
    model.network.eval()
    return model.to(pick_device(device))


def shared(name: str, device: torch.device, problem: Problem) -> Model:
    """Return the model behind a name or path, read once however often it is asked for; nobody may change it."""
    path = path_of(name)
    stamp = path.stat()
    key = (name, str(path), stamp.st_mtime_ns, stamp.st_size, str(device), problem_path(problem))
    if key not in _SHARED:
        while len(_SHARED) >= MOST_SHARED:
            _SHARED.pop(next(iter(_SHARED)))
        _SHARED[key] = load(name, str(device), problem)
    return _SHARED[key]


def model_config(values: Mapping[str, Any]) -> ModelConfig:
    """Rebuild a configuration from its dictionary; a value unknown to this version is an error."""
    try:
        return ModelConfig(NetworkConfig(**values["network"]), DiffusionConfig(**values["diffusion"]))
    except (KeyError, TypeError) as error:
        raise InputError(f"the model's configuration does not fit this version of icdc: {error}") from error
