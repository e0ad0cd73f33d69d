"""Families of instances with names: other draws than a problem's own `sample`, to measure on and to learn from.

A family is one function of a size and a stream of random integers, so that the same instances can be drawn on the host,
for files and test sets, and on the device, inside a captured round of training. It computes with integers and square
roots alone, which every machine rounds alike; whatever needs another function takes it from a table of integers.
Naming families needs no torch, drawing them does: it is imported there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ..kernels import Noise
    from .base import Arrays, Problem, Size

Draw: TypeAlias = "Callable[[tuple[int, ...], Noise], dict[str, Tensor]]"
"""Draws one instance of a size for each key of the noise: integers, leading axis N; every key's numbers are its own."""

NORMAL_STEPS = 4096
"""Equally likely values that stand for a normal distribution in `normal_table`."""


@dataclass(frozen=True)
class Family:
    """One family of instances of a problem.

    summary : what is special about it, in a line.
    draw : how its instances are drawn; None for the problem's own `sample`.
    unit : what training divides the numbers by, so that they are of the order of one to a hundred; where arrays have
        different units, one for each of them.
    forbids : whether it forbids pairs, by a number larger than any solution without it (`problems.permitted`).
    """

    summary: str
    draw: Draw | None = None
    unit: float | Mapping[str, float] = 1.0
    forbids: bool = False

    def unit_of(self, array: str) -> float:
        """Return the unit of an array."""
        return self.unit[array] if isinstance(self.unit, Mapping) else self.unit


def get_family(problem: Problem, name: str) -> Family:
    """Return a family of a problem by its name; an unknown name is a UsageError that lists what there is."""
    if name not in problem.families:
        known = f"choose one of {', '.join(problem.families)}" if problem.families else "it has none"
        raise UsageError(f"the problem '{problem.name}' has no family '{name}'; {known}")
    return problem.families[name]


def sample_family(
    problem: Problem, family: str | None, count: int, size: Size, rng: np.random.Generator, device: str = "cpu"
) -> Arrays:
    """Draw `count` instances of a family as `Problem.sample` does; None is the problem's own draw.

    Every instance has a key of its own, an integer of `rng`: the first ten of twenty are the ten, and all devices draw
    the same.
    """
    import torch

    from ..kernels import Noise

    draw = None if family is None else get_family(problem, family).draw
    if draw is None:
        return problem.sample(count, size, rng)
    keys = torch.from_numpy(rng.integers(0, 2**32, size=count, dtype=np.int64)).to(device)
    try:
        return {name: tensor.cpu().numpy().astype(np.int32) for name, tensor in draw(size, Noise(keys)).items()}
    except RuntimeError as error:  # how torch says it on a CPU
        if "memory" in str(error):
            raise MemoryError(f"{count} instances of size {size} do not fit into memory") from error
        raise


def sample_family_on_device(problem: Problem, family: str | None, size: Size, noise: Noise) -> dict[str, Tensor] | None:
    """Draw an instance of a family for each key of `noise` on its device, float32; None where there is no such draw."""
    chosen = None if family is None else get_family(problem, family)
    if chosen is None or chosen.draw is None:
        return problem.sample_on_device(size, noise)
    return {name: tensor.float() / chosen.unit_of(name) for name, tensor in chosen.draw(size, noise).items()}


def normal_table(scale: float) -> tuple[float, ...]:
    """Return `NORMAL_STEPS` equally likely values of a normal distribution with mean zero."""
    normal = NormalDist(0.0, scale)
    return tuple(normal.inv_cdf((step + 0.5) / NORMAL_STEPS) for step in range(NORMAL_STEPS))


def looked_up(table: tuple[int, ...], index: Tensor) -> Tensor:
    """Return the entries of a table of integers, (shape of `index`) int64."""
    return _on_device(table, index.device)[index]


@cache
def _on_device(table: tuple[int, ...], device: torch.device) -> Tensor:
    """Return a table as a tensor; kept, since a captured graph cannot copy it from the host."""
    import torch

    return torch.tensor(table, dtype=torch.int64, device=device)


def rounded_exponentials(values: Sequence[float], factor: float) -> tuple[int, ...]:
    """Return factor · exp(value) of every value as integers, the same wherever logarithms are right to 1e-9."""
    return tuple(round(factor * math.exp(value)) for value in values)
