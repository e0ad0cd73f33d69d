"""The models that ship: their names, their cards, and which one suits an instance."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, UsageError
from ..io.files import write_atomically
from ..problems import get_problem, is_named, problem_of_file, problem_path
from ..problems.base import Problem, Size
from .base import read_file, set_weights, shapes_in
from .checking import checked_card

if TYPE_CHECKING:
    from torch import Tensor

    from .base import TrainedModel

INDEX = "index.json"
GONE = {"atsp-20": "atsp", "navigation-20": "navigation"}
"""Models that once shipped, and which one to take instead."""


def models_folder() -> Path:
    """Return the folder of the shipped models."""
    return Path(str(files("icdc") / "models" / "weights"))


def available() -> list[str]:
    """Return the names of the shipped models."""
    return sorted(path.stem for path in models_folder().glob("*.safetensors"))


def card_of(name: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the card of a shipped model or model file without loading its weights."""
    path = path_of(name)
    metadata, _ = read_file(path, weights=False)
    try:
        card = checked_card(json.loads(metadata["card"]), str(path))
        return {"problem": metadata["problem"], "kind": metadata["kind"], **card}
    except (KeyError, json.JSONDecodeError, RecursionError) as error:
        raise _undescribed(path, error) from error


def shipped() -> dict[str, dict[str, Any]]:
    """Return what is needed to choose among the shipped models: the problem, kind and sizes of each, by name.

    It is kept in a file of its own beside them, so that choosing one does not open all; without it, cards are read.
    """
    index = models_folder() / INDEX
    if index.is_file():
        known: dict[str, dict[str, Any]] = json.loads(index.read_text())
        return known
    return {name: {key: card_of(name).get(key) for key in ("problem", "kind", "sizes")} for name in available()}


def write_index() -> None:
    """Write the file that `shipped` reads, from the cards of the models in the folder."""
    (models_folder() / INDEX).unlink(missing_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(about)}" for name, about in shipped().items()]
    write_atomically(models_folder() / INDEX, "{\n" + ",\n".join(lines) + "\n}\n")


def write_card(path: Path, card: Mapping[str, Any]) -> None:
    """Replace the card in a model file; weights and configuration stay as they are, to the last bit."""
    from safetensors.torch import save

    checked_card(json.loads(json.dumps(card)), str(path))
    metadata, weights = read_file(path, weights=True)
    write_atomically(path, save(weights, metadata={**metadata, "card": json.dumps(card, sort_keys=True)}))


def advised(
    card: Mapping[str, Any], size: Size, samples: int, with_search: bool = False, merging: bool = True
) -> dict[str, Any]:
    """Return what a card advises for a size and a number of samples: that of the nearest size it knows.

    with_search : there is local search inside the chain; advice for that goes before advice for the model alone, where
        there is some for as near a size.
    merging : decodes may be merged; advice to do so goes before other advice, and is for nobody else.
    """
    known = card.get("sizes", [])
    lowest, highest = ([pick(axis) for axis in zip(*known, strict=True)] for pick in (min, max))
    if not known or not all(a <= n <= b for a, n, b in zip(lowest, size, highest, strict=True)):
        return {}
    entries = [
        entry
        for entry in card.get("solving", [])
        if entry["samples"] <= samples
        and (with_search or not entry.get("with_search"))
        and (merging or not _merges(entry))
    ]
    if not entries:
        return {}

    def fit(entry: Mapping[str, Any]) -> tuple[float, bool, bool, int]:
        away = sum(abs(a - b) / b for a, b in zip(size, entry.get("size", size), strict=True))
        return away, not entry.get("with_search"), not _merges(entry), -int(entry["samples"])

    return dict(min(entries, key=fit)["options"])


def _merges(entry: Mapping[str, Any]) -> bool:
    """Tell whether advice is to merge decodes."""
    return int(entry["options"].get("merge", 0)) > 0


def improving(card: Mapping[str, Any], size: Size) -> dict[str, int]:
    """Return how a card advises to use local search inside the chain: that of the nearest size measured, if any was."""

    def away(entry: Mapping[str, Any]) -> float:
        return sum(abs(math.log(a / b)) for a, b in zip(size, entry["size"], strict=True))

    entries = card.get("improving", [])
    return {name: int(value) for name, value in min(entries, key=away)["options"].items()} if entries else {}


def default_for(problem: str, size: Size, kind: str = "diffusion") -> str:
    """Return the shipped model of a kind that knows the nearest size of a problem; a tie goes to the larger size."""
    best: tuple[float, float, str] | None = None
    for name, about in shipped().items():
        if about["problem"] != problem or about["kind"] != kind:
            continue
        for known in about["sizes"]:
            distance = sum(abs(a - b) / b for a, b in zip(size, known, strict=True))
            candidate = (distance, -float(sum(known)), name)
            best = candidate if best is None else min(best, candidate)
    if best is None:
        raise UsageError(_no_model(problem, kind))
    return best[2]


def reason_without_model(problem: Problem, kind: str, name: str | None) -> str | None:
    """Say why no model of a kind answers a problem; None if the named one does, or without a name some shipped one."""
    if name is None:
        fits = any(a["kind"] == kind and is_named(problem, str(a["problem"])) for a in shipped().values())
        return None if fits else _no_model(problem_path(problem), kind)
    card = card_of(name)
    if card["kind"] != kind:
        return f"the model '{name}' is of kind '{card['kind']}', where one of kind '{kind}' is needed"
    if not is_named(problem, str(card["problem"])):
        return f"the model '{name}' is for {card['problem']!r}, not for '{problem_path(problem)}'"
    return None


def _no_model(problem: str, kind: str) -> str:
    what = "model" if kind == "diffusion" else f"{kind} model"
    return f"no shipped {what} solves '{problem}'; train one with icdc train, and name its file as the model"


def path_of(name: str | os.PathLike[str]) -> Path:
    """Return the file behind a model's name or path."""
    shipped = models_folder() / f"{name}.safetensors"
    if shipped.is_file():
        return shipped
    path = Path(name)
    if path.is_file():
        return path
    if str(name) in GONE:
        raise UsageError(f"the model '{name}' does not ship any more; '{GONE[str(name)]}' knows its sizes, and others")
    raise UsageError(f"unknown model '{name}'; shipped: {', '.join(available()) or 'none'}, or give a file's path")


class Stored(NamedTuple):
    """What a model file says about itself, its configuration still a dictionary; its weights are not read yet."""

    path: Path
    name: str
    problem: Problem
    config: Any
    card: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]

    def weights(self) -> dict[str, Tensor]:
        """Read the weights."""
        return read_file(self.path, weights=True)[1]


def read_model(name: str | os.PathLike[str], kind: str, problem: str | Problem | None = None) -> Stored:
    """Read the model of a kind behind a name or path; see `load`."""
    path = path_of(name)
    metadata, _ = read_file(path, weights=False, kind=kind)
    given = get_problem(problem) if isinstance(problem, str) else problem
    try:
        config, card = json.loads(metadata["config"]), checked_card(json.loads(metadata["card"]), str(path))
        found = problem_of_file(metadata["problem"], given, f"the model '{name}'")
    except (KeyError, json.JSONDecodeError, RecursionError) as error:
        raise _undescribed(path, error) from error
    return Stored(path, str(name) if str(name) in available() else str(path), found, config, card, shapes_in(path))


def _undescribed(path: Path, error: Exception) -> InputError:
    reason = f"it has no {error}" if isinstance(error, KeyError) else "it is not readable JSON"
    return InputError(f"{path} does not describe itself as an icdc model does: {reason}")


def load_weights(model: TrainedModel, name: str | os.PathLike[str], *, where_they_fit: bool = False) -> None:
    """Put the weights behind a name or path into a model of the same layout, whatever problem they are from.

    where_they_fit : layers of another shape, as those that read other features have, stay as they are.
    """
    path = path_of(name)
    weights = read_file(path, weights=True, kind=model.kind)[1]
    if where_they_fit:
        own = model.network.state_dict()
        fitting = {name for name, tensor in weights.items() if name in own and own[name].shape == tensor.shape}
        if sum(own[name].numel() for name in fitting) < sum(tensor.numel() for tensor in own.values()) / 2:
            raise InputError(f"the weights in {path} fit less than half of the network they are for")
        weights = {name: weights[name] if name in fitting else tensor for name, tensor in own.items()}
    set_weights(model.network, weights, path)
