"""Model files: what they hold (a problem, weights and a card), written and read; devices and precision."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from .. import __version__
from ..errors import InputError, UsageError
from ..io.files import write_atomically
from ..later import torch
from ..options import check_kind
from ..problems import problem_path
from ..problems.base import Problem

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT_VERSION = 1


class TrainedModel(Protocol):
    """A network bound to a problem, as far as files and training know it.

    Attributes
    ----------
    kind : what sort of model it is; its file says so.
    problem : the contract of the problem it is for.
    config : a dataclass with everything that fixes the function it computes, apart from the weights.
    network : the weights.
    name : how it is called in answers; a shipped model's name, or the path it came from.
    card : what is known about it: sizes it was trained on, settings, results.
    """

    kind: ClassVar[str]
    problem: Problem
    name: str
    card: dict[str, Any]

    @property
    def config(self) -> Any: ...

    @property
    def network(self) -> nn.Module: ...


def precision_on(device: torch.device) -> torch.autocast:
    """Return the precision networks run in: bfloat16 on a GPU, float32 elsewhere."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)


def write_model(path: str | os.PathLike[str], model: TrainedModel, weights: Mapping[str, Tensor] | None = None) -> None:
    """Write a model file in half precision, with the model's own weights or others that fit its network.

    Statistics of batch normalisation keep float32: a variance need not fit half precision.
    """
    from safetensors.torch import save

    metadata = {
        "format": str(FORMAT_VERSION),
        "kind": model.kind,
        "version": __version__,
        "problem": problem_path(model.problem),
        "config": json.dumps(asdict(model.config), sort_keys=True),
        "card": json.dumps(model.card, sort_keys=True),
    }
    state = model.network.state_dict() if weights is None else weights
    halved = {name for name, _ in model.network.named_parameters()}
    stored = {k: (v.half() if k in halved else v).cpu().contiguous() for k, v in state.items()}
    write_atomically(path, save(stored, metadata=metadata), make_folder=True)


@contextmanager
def own_random_numbers(seed: int | None = None) -> Iterator[None]:
    """Leave torch's global generator as it was: the first weights of a network are drawn from it.

    seed : of what is drawn inside, where that matters.
    """
    with torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield


def pick_device(device: str) -> torch.device:
    """Return the device of a name; "auto" is the GPU if there is one."""
    check_kind(device, str, "the device")
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise UsageError(f"unknown device '{device}'; choose auto, cpu or cuda") from None
    if chosen.type not in ("cpu", "cuda"):
        raise UsageError(f"the device '{device}' is not supported; choose auto, cpu or cuda")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here; choose the device cpu")
    return chosen


def shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors in a model file, by name; only its header is read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} is not a readable model file: {error}") from error


OLDEST_KIND = "diffusion"
"""The kind of files that do not name one."""


def read_file(path: Path, weights: bool, kind: str | None = None) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return what a model file says about itself and, if asked for, its weights; refuse other kinds than `kind`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            state = {key: file.get_tensor(key) for key in file.keys()} if weights else {}  # noqa: SIM118
    except (OSError, SafetensorError, MemoryError) as error:
        raise InputError(f"{path} is not a readable model file: {error}") from error
    if not {"config", "format"} <= metadata.keys() or not metadata["format"].isdigit():
        raise InputError(f"{path} is a safetensors file, but not one of an icdc model")
    if int(metadata["format"]) > FORMAT_VERSION:
        newer = metadata.get("version", "a newer version")
        raise InputError(f"{path} was written by icdc {newer}; this version cannot read it yet")
    found = metadata.setdefault("kind", OLDEST_KIND)
    if kind is not None and found != kind:
        raise InputError(f"{path} holds a model of kind '{found}', where one of kind '{kind}' is needed")
    return metadata, state


def digest_of(path: Path) -> str:
    """Return a short name for what a model computes: its weights and configuration, whatever else its card says."""
    metadata, weights = read_file(path, weights=True)
    digest = hashlib.sha256("\n".join(metadata.get(name, "") for name in ("kind", "problem", "config")).encode())
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]


def set_weights(network: nn.Module, state: Mapping[str, Tensor], path: Path) -> None:
    """Put weights from a file into a network; half precision becomes what the network has."""
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"the weights in {path} are not all finite numbers ({name})")
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"the weights in {path} do not fit the network they are for") from error
