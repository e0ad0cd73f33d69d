"""A trained model: problem, network and diffusion together, as a file and in memory."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import __version__
from .diffusion import Diffusion, DiffusionConfig
from .errors import InputError, UsageError
from .files import write_atomically
from .networks import Encoding, Network, NetworkConfig
from .noise import Noise
from .problem import Features, Problem, Size
from .problems import get_problem, problem_of_file, problem_path
from .sampling import Predict, Task

FORMAT_VERSION = 1


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

    def __init__(
        self,
        problem: Problem,
        config: ModelConfig,
        name: str = "untrained",
        card: Mapping[str, Any] | None = None,
    ) -> None:
        self.problem, self.config, self.name = problem, config, name
        self.card: dict[str, Any] = dict(card or {})
        self.network = Network(config.network, problem.feature_sizes)
        self.diffusion = Diffusion(config.diffusion)

    @property
    def device(self) -> torch.device:
        """Return the device the weights are on."""
        return next(self.network.parameters()).device

    def to(self, device: torch.device | str) -> "Model":
        """Move weights and tables to a device; returns itself."""
        self.network.to(device)
        self.diffusion = Diffusion(self.config.diffusion, device)
        return self

    def autocast(self) -> torch.autocast:
        """Return the precision networks run in: bfloat16 on a GPU, float32 elsewhere."""
        device = self.device.type
        return torch.autocast(device, torch.bfloat16, enabled=device == "cuda", cache_enabled=False)

    def encode(self, features: Features, noise: Noise) -> Encoding:
        """Encode B instances; the identifiers of their items come from `noise` (B keys)."""
        rows, columns = features.relations.shape[1:3]
        identifiers = noise.normal(rows + columns, self.config.network.identifiers)
        with self.autocast():
            return self.network.encode(features, identifiers)

    def predict(self, encoding: Encoding, density: float) -> Predict:
        """Return the log-odds of X_0 as a function of (x, t): the network's logits, centred on q̄."""
        offset = torch.logit(torch.tensor(min(density, 1 - 1e-6), dtype=torch.float64)).item()

        def log_odds(x: Tensor, t: Tensor) -> Tensor:
            with self.autocast():
                return self.network.denoise(encoding, x, t) + offset

        return log_odds

    def predictor(self, task: Task, noise: Noise) -> Predict:
        """Encode the instances of a task and return its prediction function."""
        return self.predict(self.encode(self.problem.features(task.instances), noise), task.density)

    def advice(self, size: Size, samples: int) -> dict[str, Any]:
        """Return the sampling options that were best on validation data for about so many samples.

        Nothing for a size the model was not trained on: what is best there need not be best elsewhere.
        """
        if list(size) not in self.card.get("sizes", []):
            return {}
        known = [entry for entry in self.card.get("solving", []) if entry["samples"] <= samples]
        return dict(max(known, key=lambda entry: int(entry["samples"]))["options"]) if known else {}

    def metadata(self) -> dict[str, str]:
        """Return what the file says about itself, as strings."""
        return {
            "format": str(FORMAT_VERSION),
            "version": __version__,
            "problem": problem_path(self.problem),
            "config": json.dumps(asdict(self.config), sort_keys=True),
            "card": json.dumps(self.card, sort_keys=True),
        }

    def save(self, path: str | os.PathLike[str], weights: Mapping[str, Tensor] | None = None) -> None:
        """Write weights (its own, or the given ones) in half precision; the file appears whole or not at all.

        Statistics of batch normalisation keep float32: a variance need not fit half precision.
        """
        from safetensors.torch import save

        state = self.network.state_dict() if weights is None else weights
        halved = {name for name, _ in self.network.named_parameters()}
        stored = {k: (v.half() if k in halved else v).cpu().contiguous() for k, v in state.items()}
        write_atomically(path, save(stored, metadata=self.metadata()), make_folder=True)


def load(name: str | os.PathLike[str], device: str = "auto", problem: str | Problem | None = None) -> Model:
    """Load a shipped model by its name, or any model file by its path.

    Parameters
    ----------
    device : "auto", "cpu" or "cuda".
    problem : what the model is for. Needed only where it is a problem of your own: a file does not decide which
        code is imported.
    """
    path = _path_of(name)
    metadata, state = _read(path, weights=True)
    given = get_problem(problem) if isinstance(problem, str) else problem
    try:
        config = model_config(json.loads(metadata["config"]))
        card = json.loads(metadata["card"])
        found = problem_of_file(metadata["problem"], given, f"the model '{name}'")
    except (KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{path} does not describe itself as an icdc model does: {error}") from error
    shipped = str(name) in available()
    model = Model(found, config, name=str(name) if shipped else str(path), card=card)
    _set_weights(model.network, state, path)
    model.network.eval()
    return model.to(pick_device(device))


def load_weights(network: Network, name: str | os.PathLike[str]) -> None:
    """Put the weights of a model into a network of the same layout, whatever problem they were trained on."""
    path = _path_of(name)
    _set_weights(network, _read(path, weights=True)[1], path)


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
    path = _path_of(name)
    metadata, _ = _read(path, weights=False)
    try:
        return {"problem": metadata["problem"], **json.loads(metadata["card"])}
    except (KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{path} does not describe itself as an icdc model does: {error}") from error


def default_for(problem: str, size: Size) -> str:
    """Return the shipped model that knows the nearest size of a problem; a tie goes to the larger size."""
    best: tuple[float, float, str] | None = None
    for name in available():
        card = card_of(name)
        if card["problem"] != problem:
            continue
        for known in card["sizes"]:
            distance = sum(abs(a - b) / b for a, b in zip(size, known, strict=True))
            candidate = (distance, -float(sum(known)), name)
            best = candidate if best is None else min(best, candidate)
    if best is None:
        raise UsageError(f"no shipped model solves '{problem}'; train one with icdc train, or give --model FILE")
    return best[2]


def _set_weights(network: Network, state: Mapping[str, Tensor], path: Path) -> None:
    try:
        network.load_state_dict(state)  # half precision becomes what the network has
    except RuntimeError as error:
        raise InputError(f"the weights in {path} do not fit the network they are for") from error


def _path_of(name: str | os.PathLike[str]) -> Path:
    """Return the file behind a model's name or path."""
    shipped = models_folder() / f"{name}.safetensors"
    if shipped.is_file():
        return shipped
    path = Path(name)
    if path.is_file():
        return path
    raise UsageError(f"unknown model '{name}'; shipped: {', '.join(available()) or 'none'}, or give a file's path")


def _read(path: Path, weights: bool) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return what a model file says about itself and, if asked for, its weights."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            state = {key: file.get_tensor(key) for key in file.keys()} if weights else {}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} is not a readable model file: {error}") from error
    if not {"config", "format"} <= metadata.keys() or not metadata["format"].isdigit():
        raise InputError(f"{path} is a safetensors file, but not one of an icdc model")
    if int(metadata["format"]) > FORMAT_VERSION:
        newer = metadata.get("version", "a newer version")
        raise InputError(f"{path} was written by icdc {newer}; this version cannot read it yet")
    return metadata, state
