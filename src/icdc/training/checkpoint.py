"""What a run writes down: its metrics, a state that is always whole and at most a minute old, and a model's card."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, UsageError
from ..io.files import replacing, write_atomically
from ..models.card import ranges
from ..problems.base import Problem, Size
from ..problems.families import sample_family
from ..settings import build

STATE, METRICS, MODEL, LOCK = "state.pt", "metrics.jsonl", "model.safetensors", ".lock"
"""The files of a run's folder; a process that trains in it holds the last one locked."""
REFERENCES = "references.json"
"""Beside them, where the run is validated: what its validation instances cost at best."""


class Means:
    """Running means of named values, kept on the device."""

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self.totals = {name: torch.zeros(2, device=device) for name in names}  # sum and count

    def add(self, name: str, value: Tensor) -> None:
        """Count one value, a scalar."""
        self.totals[name][0] += value
        self.totals[name][1] += 1

    def tensors(self) -> list[Tensor]:
        """Return what `add` changes."""
        return list(self.totals.values())


def read_means(parts: Sequence[Means]) -> dict[str, float]:
    """Return the means over all parts since the last call, of what was counted at all, and start anew."""
    values = {}
    for name in parts[0].totals:
        total = torch.stack([part.totals[name] for part in parts]).sum(0).tolist()
        if total[1]:
            values[name] = total[0] / total[1]
    for part in parts:
        for tensor in part.tensors():
            tensor.zero_()
    return values


def save_state(folder: Path, config: Any, state: dict[str, Any]) -> None:
    """Write everything a run needs to go on; a kill at any moment leaves the previous state or this one."""
    with replacing(folder / STATE, make_folder=True) as file:
        try:
            torch.save({"config": json.dumps(asdict(config)), **state}, file)
        except RuntimeError as error:  # how torch ends a file that the disk had no room for
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None


PARTS = ("round", "seconds", "network", "average", "optimizer", "draws", "memories", "generators")
"""What a state has beside its configuration."""


def load_state(folder: Path, kind: type[Any]) -> tuple[Any, dict[str, Any]]:
    """Read what `save_state` wrote of a run whose configuration is of this kind."""
    path = folder / STATE
    if not path.is_file():
        raise InputError(f"there is no run to resume in {folder}: {path.name} is missing")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        config = build(kind, json.loads(state.pop("config")))
    except UsageError:
        raise
    except Exception as error:  # torch raises many kinds for a file that is not its own, with advice not to follow
        raise InputError(f"{path} is not a readable training state ({type(error).__name__})") from None
    if missing := [name for name in PARTS if name not in state]:
        raise InputError(f"{path} is not a whole training state: it lacks {', '.join(missing)}")
    return config, state


class MetricsLog:
    """A JSONL file, one object a line, that agrees with the state it is resumed from.

    Parameters
    ----------
    folder : where the run lives; None keeps no file.
    resume_at : rounds of the state that is resumed; later lines are of work that was lost, and go.
    """

    def __init__(self, folder: Path | None, resume_at: int | None = None) -> None:
        self.path = None if folder is None else folder / METRICS
        if self.path is None:
            return
        kept = [] if resume_at is None else [line for line in _lines(self.path) if line["round"] <= resume_at]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(self.path, text, make_folder=True)

    def write(self, line: dict[str, Any]) -> None:
        """Append one line, and see it onto the disk."""
        if self.path is None:
            return
        try:
            with open(self.path, "a") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror or error})") from None


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read the whole lines of a log; a line cut off by a kill is left out."""
    lines = []
    if path.is_file():
        for text in path.read_text().splitlines():
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError:
                continue
    return lines


_DESCRIBED = 16
"""Instances of each family and size that the ranges of learned matrices are taken from."""
_DESCRIBED_CELLS = 2**18
"""Most entries of all of these; larger sizes are described by the smaller ones, as drawing takes seconds."""
NOT_FOR = (
    "sizes and kinds of matrices it was not trained on, where answers are feasible but further from the optimum; "
    "a single instance of these sizes, which an exact solver proves optimal in milliseconds"
)


def card_of(config: Any, data: str, training: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the card of a run.

    Parameters
    ----------
    data : what the model learned from, in words.
    training : rounds, seconds and processes.
    device : where it was trained.
    """
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    return {
        "sizes": [list(size) for size in sorted(set(config.sizes))],
        "data": data,
        "training": {**training, "hardware": hardware, "seed": config.seed},
        "settings": asdict(config),
        "not_for": NOT_FOR,
    }


def learned_ranges(problem: Problem, families: Iterable[str], sizes: Iterable[Size]) -> dict[str, tuple[float, float]]:
    """Return between which numbers everything lies that describes the matrices of families and sizes."""
    cells = {size: math.prod(problem.shape(size)) for size in sizes}
    counts = {size: max(1, min(_DESCRIBED, _DESCRIBED_CELLS // cells[size])) for size in cells}
    small = [size for size in cells if cells[size] <= max(_DESCRIBED_CELLS, min(cells.values()))]
    each = [
        ranges(problem, sample_family(problem, family, counts[size], size, np.random.default_rng(0)))
        for family in families
        for size in small
    ]
    return {name: (min(one[name][0] for one in each), max(one[name][1] for one in each)) for name in each[0]}
