"""The models that ship and what files say of theirs: names, cards, and which one suits an instance. Without torch."""

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open

from ..errors import InputError, UsageError
from ..io.files import write_atomically
from ..problems import get_problem, is_named, problem_of_file, problem_path
from ..problems.base import Problem, Size
from .card import checked_card

FORMAT_VERSION = 1
OLDEST_KIND = "diffusion"
"""The kind of files that do not name one."""
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
    metadata = read_header(path).metadata
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
        models: dict[str, dict[str, Any]] = json.loads(index.read_text())
        return models
    return {name: {key: card_of(name).get(key) for key in ("problem", "kind", "sizes")} for name in available()}


def write_index() -> None:
    """Write the file that `shipped` reads, from the cards of the models in the folder."""
    (models_folder() / INDEX).unlink(missing_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(about)}" for name, about in shipped().items()]
    write_atomically(models_folder() / INDEX, "{\n" + ",\n".join(lines) + "\n}\n")


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


class Header(NamedTuple):
    """What a model file says about itself, and the shapes of its tensors by name."""

    metadata: dict[str, str]
    shapes: dict[str, tuple[int, ...]]


def read_header(path: Path, kind: str | None = None) -> Header:
    """Return the header of a model file; refuse other kinds than `kind`."""
    try:
        with safe_open(path, framework="np") as file:
            metadata: dict[str, str] = file.metadata() or {}
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, MemoryError) as error:
        raise InputError(f"{path} is not a readable model file: {error}") from error
    if not {"config", "format"} <= metadata.keys() or not metadata["format"].isdigit():
        raise InputError(f"{path} is a safetensors file, but not one of an icdc model")
    if int(metadata["format"]) > FORMAT_VERSION:
        newer = metadata.get("version", "a newer version")
        raise InputError(f"{path} was written by icdc {newer}; this version cannot read it yet")
    its_kind = metadata.setdefault("kind", OLDEST_KIND)
    if kind is not None and its_kind != kind:
        raise InputError(f"{path} holds a model of kind '{its_kind}', where one of kind '{kind}' is needed")
    return Header(metadata, shapes)


class Stored(NamedTuple):
    """A model file that is described but not built: its configuration is a dictionary, its weights are not read."""

    path: Path
    name: str
    problem: Problem
    config: Any
    card: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]


def read_model(name: str | os.PathLike[str], kind: str, problem: str | Problem | None = None) -> Stored:
    """Read what the file of a model of a kind says, behind a name or path; see `load`."""
    path = path_of(name)
    metadata, shapes = read_header(path, kind)
    own = get_problem(problem) if isinstance(problem, str) else problem
    try:
        config, card = json.loads(metadata["config"]), checked_card(json.loads(metadata["card"]), str(path))
        learned = problem_of_file(metadata["problem"], own, f"the model '{name}'")
    except (KeyError, json.JSONDecodeError, RecursionError) as error:
        raise _undescribed(path, error) from error
    return Stored(path, str(name) if str(name) in available() else str(path), learned, config, card, shapes)


def _undescribed(path: Path, error: Exception) -> InputError:
    reason = f"it has no {error}" if isinstance(error, KeyError) else "it is not readable JSON"
    return InputError(f"{path} does not describe itself as an icdc model does: {reason}")
