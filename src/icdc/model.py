"""A trained model: problem, network and diffusion together, as a file and in memory."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .diffusion import Diffusion, DiffusionConfig
from .errors import InputError, UsageError
from .networks import Encoding, Network, NetworkConfig
from .networks.precision import NarrowWeights
from .noise import Noise
from .problem import Features, Problem, Size
from .problems import get_problem, problem_of_file
from .sampling import Predict, Task
from .trained import Trained, read_file, set_weights


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the function a model computes, apart from its weights."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig)


class Model(Trained):
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
        identifiers = noise.normal(rows + columns, self.config.network.identifiers)
        with self.autocast(), NarrowWeights(self.network.encoder).applied():
            return self.network.encode(features, identifiers)

    def predict(self, encoding: Encoding, density: float) -> Predict:
        """Return the log-odds of X_0 as a function of (x, t): the network's logits, centred on q̄."""
        offset = torch.logit(torch.tensor(min(density, 1 - 1e-6), dtype=torch.float64)).item()
        weights = NarrowWeights(self.network.denoiser)

        def log_odds(x: Tensor, t: Tensor) -> Tensor:
            with self.autocast(), weights.applied():
                return self.network.denoise(encoding, x, t) + offset

        return log_odds

    def predictor(self, task: Task, noise: Noise) -> Predict:
        """Encode the instances of a task and return its prediction function."""
        return self.predict(self.encode(self.problem.features(task.instances), noise), task.density)

    def advice(self, size: Size, samples: int) -> dict[str, Any]:
        """Return the sampling options that were best on validation data for about this size and so many samples.

        Nothing for a size outside those the model was trained on: what is best there need not be best elsewhere.
        """
        return advised(self.card, size, samples)


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


class Stored(NamedTuple):
    """What a model file holds, its configuration still a dictionary."""

    path: Path
    name: str
    problem: Problem
    config: dict[str, Any]
    card: dict[str, Any]
    state: dict[str, Tensor]


def read_model(name: str | os.PathLike[str], kind: str, problem: str | Problem | None = None) -> Stored:
    """Read the model of a kind behind a name or path; see `load`."""
    path = path_of(name)
    metadata, state = read_file(path, weights=True, kind=kind)
    given = get_problem(problem) if isinstance(problem, str) else problem
    try:
        config, card = json.loads(metadata["config"]), json.loads(metadata["card"])
        found = problem_of_file(metadata["problem"], given, f"the model '{name}'")
    except (KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{path} does not describe itself as an icdc model does: {error}") from error
    return Stored(path, str(name) if str(name) in available() else str(path), found, config, card, state)


def load_weights(model: Trained, name: str | os.PathLike[str]) -> None:
    """Put the weights behind a name or path into a model of the same layout, whatever problem they are from."""
    path = path_of(name)
    set_weights(model.network, read_file(path, weights=True, kind=model.kind)[1], path)


def model_config(values: Mapping[str, Any]) -> ModelConfig:
    """Rebuild a configuration from its dictionary; a value unknown to this version is an error."""
    try:
        return ModelConfig(NetworkConfig(**values["network"]), DiffusionConfig(**values["diffusion"]))
    except (KeyError, TypeError) as error:
        raise InputError(f"the model's configuration does not fit this version of icdc: {error}") from error


def pick_device(device: str) -> torch.device:
    """Return the device of a name; "auto" is the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise UsageError(f"unknown device '{device}'; choose auto, cpu or cuda") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here; choose --device cpu")
    return chosen


def models_folder() -> Path:
    """Return the folder of the shipped models."""
    return Path(str(files("icdc") / "models"))


def available() -> list[str]:
    """Return the names of the shipped models."""
    return sorted(path.stem for path in models_folder().glob("*.safetensors"))


def card_of(name: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the card of a shipped model or model file without loading its weights."""
    path = path_of(name)
    metadata, _ = read_file(path, weights=False)
    try:
        return {"problem": metadata["problem"], "kind": metadata["kind"], **json.loads(metadata["card"])}
    except (KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{path} does not describe itself as an icdc model does: {error}") from error


def advised(card: Mapping[str, Any], size: Size, samples: int) -> dict[str, Any]:
    """Return what a card advises for a size and a number of samples; see `Model.advice`."""
    known = card.get("sizes", [])
    lowest, highest = ([pick(axis) for axis in zip(*known, strict=True)] for pick in (min, max))
    if not known or not all(a <= n <= b for a, n, b in zip(lowest, size, highest, strict=True)):
        return {}
    entries = [entry for entry in card.get("solving", []) if entry["samples"] <= samples]
    if not entries:
        return {}

    def fit(entry: Mapping[str, Any]) -> tuple[float, int]:
        away = sum(abs(a - b) / b for a, b in zip(size, entry.get("size", size), strict=True))
        return away, -int(entry["samples"])

    return dict(min(entries, key=fit)["options"])


def default_for(problem: str, size: Size, kind: str = Model.kind) -> str:
    """Return the shipped model of a kind that knows the nearest size of a problem; a tie goes to the larger size."""
    best: tuple[float, float, str] | None = None
    for name in available():
        card = card_of(name)
        if card["problem"] != problem or card["kind"] != kind:
            continue
        for known in card["sizes"]:
            distance = sum(abs(a - b) / b for a, b in zip(size, known, strict=True))
            candidate = (distance, -float(sum(known)), name)
            best = candidate if best is None else min(best, candidate)
    if best is None:
        raise UsageError(f"no shipped model solves '{problem}'; train one with icdc train, or give --model FILE")
    return best[2]


def path_of(name: str | os.PathLike[str]) -> Path:
    """Return the file behind a model's name or path."""
    shipped = models_folder() / f"{name}.safetensors"
    if shipped.is_file():
        return shipped
    path = Path(name)
    if path.is_file():
        return path
    raise UsageError(f"unknown model '{name}'; shipped: {', '.join(available()) or 'none'}, or give a file's path")
