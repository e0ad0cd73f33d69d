"""Families of instances with names: other draws than a problem's own `sample`, to measure on and to learn from.

A family is one function of a size and a stream of random integers (`draws`), so that the same instances can be drawn on
the host, for files and test sets, and on the device, inside a captured round of training. Naming families needs no
torch, drawing them does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .base import Arrays, Draw, Family, InTorch, Problem, Size

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise

__all__ = [
    "NAVIGATION_FAMILIES",
    "SCHEDULE_FAMILIES",
    "TOUR_FAMILIES",
    "Draw",
    "Family",
    "sample_family",
    "sample_family_on_device",
]


def _draw(name: str) -> InTorch:
    return InTorch(f"icdc.problems.draws:{name}")


TOUR_FAMILIES: dict[str, Family] = {
    "tmat": Family("the paper's own: random distances closed by shortest ways"),
    "uniform": Family("random distances from 1 to 999,999; a detour may be shorter", _draw("uniform_distances"), 10**6),
    "noisy-plane": Family("a square, every direction up to 15 % longer: nearly symmetric", _draw("noisy_plane"), 10**6),
    "one-way-plane": Family(
        "a square, one direction of each pair up to three times as long", _draw("one_way_plane"), 10**6
    ),
    "roads": Family("shortest ways along a sparse network of streets, a third one-way", _draw("roads"), 10**6),
    "crane": Family("from a delivery to the next pick-up on a grid of 40 × 40: many ties", _draw("crane"), 40),
    "clustered": Family("a few clusters in a square, every direction up to 15 % longer", _draw("clustered"), 10**6),
    "forbidden": Family(
        "as tmat, but 3 of 10 steps are forbidden, by 1,000,000,000; there always is a tour",
        _draw("forbidden_steps"),
        10**6,
        True,
    ),
}
"""By name."""

SCHEDULE_FAMILIES: dict[str, Family] = {
    "paper": Family("the paper's own: integers from 2 to 19"),
    "uniform-100": Family("integers from 1 to 100", _draw("uniform_100")),
    "uniform-1000": Family("integers from 1 to 1000", _draw("uniform_1000"), 10.0),
    "job-correlated": Family("a base 1–100 of every job plus 1–20 for each pair", _draw("job_correlated")),
    "machine-correlated": Family("a base 1–100 of every machine plus 1–20 for each pair", _draw("machine_correlated")),
    "speeds": Family("work 100–1000 over a speed from 1 to e², each pair up to 20 % off", _draw("speeds"), 10.0),
    "heavy-tailed": Family(
        "log-normal, median 20, σ = 1.2: a few pairs far longer than the rest", _draw("heavy_tailed")
    ),
    "forbidden": Family(
        "1–100 on about a third of the machines; the others are forbidden, by 1,000,000",
        _draw("forbidden_pairs"),
        forbids=True,
    ),
}
"""By name; the draw of each is uniform where nothing else is said."""

_UNITS = {"coordinates": 500.0, "slowness": 500.0, "traffic": 500.0**3}

NAVIGATION_FAMILIES: dict[str, Family] = {
    "paper": Family("the paper's own: times first, a tmat matrix; traffic is what random features leave of them"),
    "features-first": Family(
        "features first, traffic from 0 to 1; times follow from them", _draw("features_first"), _UNITS
    ),
    "light-traffic": Family("features first, traffic from 0 to .1", _draw("light_traffic"), _UNITS),
    "slow-ways": Family("features first, traffic from 0 to .4, slowness from .5 to 1", _draw("slow_ways"), _UNITS),
    "shortest-ways": Family(
        "features first, times closed by shortest ways, traffic as they leave it",
        _draw("shortest_ways"),
        _UNITS,
    ),
}
"""By name; features are uniform where nothing else is said."""


def sample_family(
    problem: Problem, family: str | None, count: int, size: Size, rng: np.random.Generator, device: str = "cpu"
) -> Arrays:
    """Draw `count` instances of a family as `Problem.sample` does; None is the problem's own draw.

    Every instance has a key of its own, an integer of `rng`: the first ten of twenty are the ten, and all devices draw
    the same.
    """
    import torch

    from ..kernels import Noise

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
