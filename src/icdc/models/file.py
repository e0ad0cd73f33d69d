"""Model files: a network's weights with its problem, configuration and card, in one safetensors file.

Files come from anywhere: what they say is checked before anything is built from it. A network that would need more
numbers than the file has is refused before it is built, and what is built is compared with the file, name by name and
shape by shape, before any weight is read.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from .. import __version__
from ..errors import InputError, UsageError
from ..io.files import write_atomically
from ..options import check_kind
from ..problems import problem_path
from ..problems.base import Problem
from ..settings import build
from .card import checked_card
from .catalogue import FORMAT_VERSION, Stored, path_of, read_header

Built = TypeVar("Built")
Made = TypeVar("Made", bound="TrainedModel")


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


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a model file, by name."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, MemoryError) as error:
        raise InputError(f"{path} is not a readable model file: {error}") from error


def digest_of(path: Path) -> str:
    """Return a short name for what a model computes: its weights and configuration, whatever else its card says."""
    metadata, weights = read_header(path).metadata, read_weights(path)
    digest = hashlib.sha256("\n".join(metadata.get(name, "") for name in ("kind", "problem", "config")).encode())
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]


def write_card(path: Path, card: Mapping[str, Any]) -> None:
    """Replace the card in a model file; weights and configuration stay as they are, to the last bit."""
    checked_card(json.loads(json.dumps(card)), str(path))
    metadata = {**read_header(path).metadata, "card": json.dumps(card, sort_keys=True)}
    write_atomically(path, save(read_weights(path), metadata=metadata))


def build_checked(kind: type[Built], values: Any, where: str) -> Built:
    """Build settings from what a file says; refuse unknown names, wrong types and impossible values."""
    try:
        return build(kind, values)
    except (UsageError, ZeroDivisionError) as error:
        raise InputError(f"{where} does not fit this version of icdc: {error}") from None


def build_fitting(make: Callable[[], Made], layers: int, products: Iterable[int], stored: Stored) -> Made:
    """Return a model whose network is the one that a file has tensors of; refuse any other.

    Parameters
    ----------
    make : builds the model that the file describes.
    layers : how many layers it would have; each has at least one tensor.
    products : sizes of matrices that it would have: none can be more than all that is in the file.
    stored : what the file has.
    """
    wrong = InputError(f"the weights in {stored.path} do not fit the network they are for")
    shapes = stored.shapes
    if not 0 <= layers <= len(shapes) or max(products) > sum(map(math.prod, shapes.values())):
        raise wrong
    try:
        with own_random_numbers():
            model = make()
    except (RuntimeError, TypeError, ValueError, ArithmeticError, MemoryError):
        raise wrong from None
    if {name: tuple(tensor.shape) for name, tensor in model.network.state_dict().items()} != shapes:
        raise wrong
    return model


def set_weights(network: nn.Module, state: Mapping[str, Tensor], path: Path) -> None:
    """Put weights from a file into a network; half precision becomes what the network has."""
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"the weights in {path} are not all finite numbers ({name})")
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"the weights in {path} do not fit the network they are for") from error


def load_weights(model: TrainedModel, name: str | os.PathLike[str], *, where_they_fit: bool = False) -> None:
    """Put the weights behind a name or path into a model of the same layout, whatever problem they are from.

    where_they_fit : layers of another shape, as those that read other features have, stay as they are.
    """
    path = path_of(name)
    read_header(path, model.kind)
    weights = read_weights(path)
    if where_they_fit:
        own = model.network.state_dict()
        fitting = {name for name, tensor in weights.items() if name in own and own[name].shape == tensor.shape}
        if sum(own[name].numel() for name in fitting) < sum(tensor.numel() for tensor in own.values()) / 2:
            raise InputError(f"the weights in {path} fit less than half of the network they are for")
        weights = {name: weights[name] if name in fitting else tensor for name, tensor in own.items()}
    set_weights(model.network, weights, path)
