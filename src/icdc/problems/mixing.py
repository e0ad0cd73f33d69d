"""Mixtures of families: a batch in which every family has its share, on the host or on the device.

Instances stand in the order of their families. A batch is laid over the shares like a ruler with a random first mark:
a family has its share of the batch rounded up or down, and exactly its share on average, even where a batch is smaller
than the number of families.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import kernels
from ..kernels import Noise
from .base import Arrays, Problem, Size
from .families import sample_family, sample_family_on_device


def mix(
    problem: Problem,
    families: Sequence[str | None],
    shares: NDArray[np.float64],
    count: int,
    size: Size,
    rng: np.random.Generator,
) -> Arrays:
    """Draw `count` instances of a mixture on the host.

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
    most : the most that each of them will ever be.
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
