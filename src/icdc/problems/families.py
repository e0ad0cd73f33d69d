"""Families of instances: drawn by name, or as a mixture in which every family has its share.

A family is one function of a size and a stream of random integers, so that the same instances can be drawn on the
host, for files and test sets, and on the device, inside a captured round of training. Draws compute with integers and
square roots alone, which every machine rounds alike; whatever needs another function takes it from a table of integers.
"""

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import kernels
from ..kernels import Noise
from .base import Arrays, Problem, Size

NORMAL_STEPS = 4096
"""Equally likely values that stand for a normal distribution in `normal_table`."""


def sample_family(
    problem: Problem, family: str | None, count: int, size: Size, rng: np.random.Generator, device: str = "cpu"
) -> Arrays:
    """Draw `count` instances of a family as `Problem.sample` does; None is the problem's own draw.

    Every instance has a key of its own, an integer of `rng`: the first ten of twenty are the ten, and all devices draw
    the same.
    """
    draw = None if family is None else problem.family(family).draw
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
    chosen = None if family is None else problem.family(family)
    if chosen is None or chosen.draw is None:
        return problem.sample_on_device(size, noise)
    return {name: tensor.float() / chosen.unit_of(name) for name, tensor in chosen.draw(size, noise).items()}


def mix(
    problem: Problem,
    families: Sequence[str | None],
    shares: NDArray[np.float64],
    count: int,
    size: Size,
    rng: np.random.Generator,
) -> Arrays:
    """Draw `count` instances of a mixture on the host.

    Instances stand in the order of their families. A batch is laid over the shares like a ruler with a random first
    mark: a family has its share of the batch rounded up or down, and exactly its share on average, even where a batch
    is smaller than the number of families.

    shares : (families,), positive, with the sum one.
    """
    marks = (np.arange(count) + rng.random()) / count
    chosen = np.minimum(np.searchsorted(np.cumsum(shares), marks, side="right"), len(families) - 1)
    parts = [
        sample_family(problem, family, int(here), size, rng)
        for family, here in zip(families, np.bincount(chosen, minlength=len(families)), strict=True)
        if here
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def mix_on_device(
    problem: Problem,
    families: Sequence[str | None],
    shares: Tensor,
    most: Sequence[float],
    size: Size,
    noise: Noise,
) -> dict[str, Tensor] | None:
    """Draw a mixture for the keys of `noise`; None where one of the families cannot be drawn on the device.

    Shares may change between two replays of a captured draw: every family is drawn as often as it may have to be, and
    what is not needed is left out.

    Parameters
    ----------
    shares : Tensor (families,), positive, with the sum one.
    most : upper limits of the shares over the whole run.
    """
    count, device = len(noise.keys), noise.keys.device
    place = torch.arange(count, device=device)
    marks = (place + noise.uniform(1)[0].double()) / count
    ends = shares.double().cumsum(0)
    chosen = torch.searchsorted(ends, marks, right=True).clamp_max(len(families) - 1)
    begins = torch.searchsorted(marks, torch.cat([ends.new_zeros(1), ends[:-1]]))
    keys, index = noise.spawn(1).keys, place - begins[chosen]
    drawn, before = [], 0
    for number, (family, largest) in enumerate(zip(families, most, strict=True)):
        needed = min(count, math.floor(largest * count + 1e-6) + 1)
        some = sample_family_on_device(problem, family, size, kernels.Noise(kernels.fold(keys[:needed], number)))
        if some is None:
            return None
        drawn.append(some)
        index = index + (chosen == number) * before
        before += needed
    return {name: torch.cat([some[name] for some in drawn])[index] for name in drawn[0]}


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
    return torch.tensor(table, dtype=torch.int64, device=device)


def rounded_exponentials(values: Sequence[float], factor: float) -> tuple[int, ...]:
    """Return factor · exp(value) of every value as integers, the same wherever logarithms are right to 1e-9."""
    return tuple(round(factor * math.exp(value)) for value in values)
