"""The replay memory D_q̃: the surrogate targets that CLONING learns from.

A ring of fixed tensors on the device, written and read without the host knowing how full it is, so that both
can be part of a captured graph. It keeps an instance's features, not the instance: cloning needs no more.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..noise import Noise
from ..problem import Features


@dataclass(frozen=True)
class Targets:
    """n solutions to learn from.

    features of their instances; choice (n, rows); reward (n,); permitted pairs `mask` (n, rows, columns) where the
    problem has one; and `draft` (n, rows), a worse solution of the same instance with the step `draft_step` (n,)
    at which the reverse process noised it.
    """

    features: Features
    choice: Tensor
    reward: Tensor
    draft: Tensor
    draft_step: Tensor
    mask: Tensor | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Return what there is, by name."""
        parts = {
            "relations": self.features.relations,
            "rows": self.features.rows,
            "columns": self.features.columns,
            "choice": self.choice,
            "reward": self.reward,
            "draft": self.draft,
            "draft_step": self.draft_step,
            "mask": self.mask,
        }
        return {name: value for name, value in parts.items() if value is not None}


class ReplayMemory:
    """The latest `capacity` targets.

    Parameters
    ----------
    capacity : number of items kept.
    like : any targets, for the shapes of what is stored.
    reward_weighted : draw items with probability proportional to exp(reward) rather than uniformly.
    """

    def __init__(self, capacity: int, like: Targets, reward_weighted: bool = False) -> None:
        self.capacity, self.reward_weighted = capacity, reward_weighted
        self.rings = {
            name: torch.zeros(capacity, *value.shape[1:], dtype=value.dtype, device=value.device)
            for name, value in like.tensors().items()
        }
        self.rings["reward"].fill_(-torch.inf)  # an empty slot is never drawn
        self.stored = torch.zeros((), dtype=torch.long, device=like.choice.device)  # items ever written

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor of the memory by name, for saving and restoring."""
        return {**self.rings, "stored": self.stored}

    def store(self, targets: Targets) -> None:
        """Write n items over the oldest."""
        count = len(targets.choice)
        if count > self.capacity:
            raise ValueError(f"{count} items do not fit a memory of {self.capacity}")
        slot = (self.stored + torch.arange(count, device=self.stored.device)) % self.capacity
        for name, value in targets.tensors().items():
            self.rings[name].index_copy_(0, slot, value)
        self.stored.add_(count)

    def draw(self, noise: Noise) -> Targets:
        """Return one item for each key of the noise."""
        uniform = noise.uniform(1).squeeze(1).double()
        if self.reward_weighted:
            reward = self.rings["reward"]
            total = (reward - reward.max()).double().exp().cumsum(0)
            slot = torch.searchsorted(total, uniform * total[-1]).clamp(max=self.capacity - 1)
        else:
            slot = (uniform * self.stored.clamp(max=self.capacity)).long()
        item = {name: ring[slot] for name, ring in self.rings.items()}
        return Targets(
            Features(item["relations"], item.get("rows"), item.get("columns")),
            item["choice"],
            item["reward"],
            item["draft"],
            item["draft_step"],
            item.get("mask"),
        )
