"""Unrelated parallel machine scheduling: give every job to a machine, finish as early as possible."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bounds import scheduling_bound
from ..noise import Noise
from ..problem import Arrays, Features, FeatureSizes, Instances, Problem, Size, totals_by_column
from ..rules import OneColumnPerRow
from .matrices import checked_matrix, reject_negative


class Pmsp(Problem):
    """Instances: `durations` (count, jobs, machines); the cost is the makespan."""

    name = "pmsp"
    arrays = ("durations",)
    size_names = ("jobs", "machines")
    feature_sizes = FeatureSizes(relations=5, raw_relations=1)
    rule = OneColumnPerRow()

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        jobs, machines = size
        return {"durations": rng.integers(2, 20, size=(count, jobs, machines), dtype=np.uint8)}

    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor]:
        jobs, machines = size
        return {"durations": (2 + noise.integers(18, jobs, machines)).float()}

    def size(self, arrays: Mapping[str, Any]) -> Size:
        return int(arrays["durations"].shape[1]), int(arrays["durations"].shape[2])

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0], size[1]

    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        durations = checked_matrix(arrays["durations"], "the matrix of processing times")
        reject_negative(durations, "the matrix of processing times")
        return {"durations": durations}

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return totals_by_column(instances["durations"], choice).amax(-1)

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return ((choice >= 0) & (choice < instances["durations"].shape[2])).all(-1)

    def density(self, size: Size) -> float:
        return 1.0 / size[1]

    def violation(self, x: Tensor) -> Tensor:
        """C_PMSP: squared excess over one of the number of machines each job has."""
        return (x.sum(2) - 1).square().sum(1)

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return the linear-programming bound on the makespan, (count,)."""
        return scheduling_bound(np.asarray(arrays["durations"]))

    def features(self, instances: Instances) -> Features:
        """P, P above its row's minimum and mean, and balanced fractional assignments at two temperatures."""
        durations = instances["durations"].float()
        mean = durations.mean((1, 2), keepdim=True)
        scaled = durations / mean.clamp_min(torch.finfo(torch.float32).tiny)
        channels = [
            scaled - 1.0,
            scaled - scaled.amin(2, keepdim=True),
            scaled - scaled.mean(2, keepdim=True),
            balanced_assignment(scaled, 0.2).clamp_min(-12.0) / 4.0,
            balanced_assignment(scaled, 0.06).clamp_min(-12.0) / 4.0,
        ]
        return Features(torch.stack(channels, -1))


def balanced_assignment(durations: Tensor, temperature: float, rounds: int = 30) -> Tensor:
    """Return log-weights (batch, jobs, machines) of a fractional assignment with nearly equal loads.

    Machines have prices; a job spreads over machines by softmax of −price × duration. Prices of machines
    loaded above the mean rise and the others fall, by multiplicative updates that shrink: at a low
    temperature steady ones would overshoot for ever, and amplify rounding.
    """
    price = torch.ones_like(durations[:, :1])
    for turn in range(rounds):
        load = ((-durations * price / temperature).softmax(-1) * durations).sum(1, keepdim=True)
        ratio = load / load.mean(2, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        price = price * ratio.clamp(0.5, 2.0) ** (0.4 * 0.9**turn)
        price = price / price.mean(2, keepdim=True)
    return (-durations * price / temperature).log_softmax(-1)
