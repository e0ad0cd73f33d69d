"""What the card of a trained model says about how it came about."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from ..models.card import ranges
from ..problems.base import Arrays, Problem, Size
from ..problems.families import sample_family

_DESCRIBED = 16
"""Instances of each family and size that the card's description of learned matrices is taken from."""
_DESCRIBED_CELLS = 2**18
"""Entries that all of these have at most; larger sizes are described by the smaller ones, as drawing takes seconds."""

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
    by_cells = {size: math.prod(problem.shape(size)) for size in sizes}
    sizes = [size for size, cells in by_cells.items() if cells <= max(_DESCRIBED_CELLS, min(by_cells.values()))]
    found = [ranges(problem, described(problem, family, size)) for family in families for size in sizes]
    lows_and_highs = {name: ([one[name][0] for one in found], [one[name][1] for one in found]) for name in found[0]}
    return {name: (min(lows), max(highs)) for name, (lows, highs) in lows_and_highs.items()}


def described(problem: Problem, family: str, size: Size) -> Arrays:
    """Return instances that stand for what was learned of a family and a size."""
    rows, columns = problem.shape(size)
    count = max(1, min(_DESCRIBED, _DESCRIBED_CELLS // (rows * columns)))
    return sample_family(problem, family, count, size, np.random.default_rng(0))
