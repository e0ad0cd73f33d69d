"""A MatNet bound to a problem, as a file and in memory."""

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...kernels import Noise
from ...problems.base import Problem
from ...problems.features import Features
from ...problems.task import Task
from ..base import TrainedModel, pick_device, set_weights
from ..catalogue import read_model
from ..checking import build_checked, build_fitting
from .config import MatNetNetworkConfig
from .decoder import Rollouts
from .network import MatNetEncoding, MatNetNetwork


class MatNet(TrainedModel):
    """A network bound to a problem; see `TrainedModel`."""

    kind = "matnet"
    config: MatNetNetworkConfig
    network: MatNetNetwork

    def __init__(
        self,
        problem: Problem,
        config: MatNetNetworkConfig,
        name: str = "untrained",
        card: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(problem, name, card)
        self.config = config
        self.network = MatNetNetwork(config, problem.feature_sizes)

    def to(self, device: torch.device | str) -> "MatNet":
        """Move the weights to a device; returns itself."""
        self.network.to(device)
        return self

    def one_hots(self, columns: int, noise: Noise) -> Tensor:
        """Draw which one-hot vector each column gets, (N, columns): all different while there are enough."""
        drawn: Tensor = noise.uniform(max(columns, self.config.one_hots)).argsort(dim=1, stable=True)
        return drawn[:, :columns] % self.config.one_hots

    def encode(self, features: Features, noise: Noise) -> MatNetEncoding:
        """Encode instances, one for each key of `noise`, from which the one-hot vectors of their columns come."""
        one_hots = self.one_hots(features.relations.shape[2], noise)
        with self.autocast():
            return self.network.encode(features, one_hots)

    def roll_out(
        self,
        task: Task,
        encoding: MatNetEncoding,
        first: Tensor,
        *,
        noise: Noise | None = None,
        opening: Tensor | None = None,
        forced: Tensor | None = None,
    ) -> Rollouts:
        """Build solutions for first cities (N, K), sampled where there is noise; see `PointerDecoder.forward`.

        N is a multiple of the instances of the task, where they have been encoded several times.
        """
        mask = task.mask(len(first) // task.batch)
        with self.autocast():
            rollouts: Rollouts = self.network.decoder(
                task.rule, encoding, first, noise=noise, mask=mask, opening=opening, forced=forced
            )
        return rollouts


def matnet_config(values: Any, where: str = "the model") -> MatNetNetworkConfig:
    """Rebuild a configuration from its dictionary; a value unknown to this version is an error."""
    return build_checked(MatNetNetworkConfig, values, f"the configuration in {where}")


def load_matnet(name: str | os.PathLike[str], device: str = "auto", problem: str | Problem | None = None) -> MatNet:
    """Load a MatNet by its name or path; see `icdc.load`."""
    chosen = pick_device(device)
    stored = read_model(name, MatNet.kind, problem)
    config = matnet_config(stored.config, str(stored.path))
    width = config.width
    products = [config.layers * width**2, config.feed_forward * width, config.heads * config.mixer_width]
    products += [config.usage_width]
    model = build_fitting(
        lambda: MatNet(stored.problem, config, stored.name, stored.card),
        config.layers, products, stored.shapes, stored.path,
    )  # fmt: skip
    set_weights(model.network, stored.weights(), stored.path)
    model.network.eval()
    return model.to(chosen)
