"""The replay memory D_q̃: the targets that CLONING learns from, and the drafts that are kept beside them.

A ring of fixed tensors on the device, written and read without the host knowing how full it is, so that both
can be part of a captured graph. It keeps an instance's features, not the instance: cloning needs no more.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..diffusion.sampler import ReverseStep
from ..kernels import Noise
from ..problems.features import Candidates, Features


@dataclass(frozen=True)
class Targets:
    """n solutions to learn from.

    features of their instances; choice (n, rows); reward (n,); and `draft` (n, rows), a worse solution of the same
    instance with the time `draft_time` (n,) to which the reverse process noised it.
    """

    features: Features
    choice: Tensor
    reward: Tensor
    draft: Tensor
    draft_time: Tensor

    def each(self, change: Callable[[Tensor], Tensor]) -> "Targets":
        """Return targets with every tensor changed in the same way."""
        seen = self.features
        rows, columns = (None if items is None else change(items) for items in (seen.rows, seen.columns))
        candidates = seen.candidates
        if candidates is not None:
            candidates = Candidates(change(candidates.index), candidates.columns)
        features = Features(change(seen.relations), rows, columns, candidates)
        return Targets(features, change(self.choice), change(self.reward), change(self.draft), change(self.draft_time))

    def tensors(self) -> dict[str, Tensor]:
        """Return what there is, by name."""
        parts = {
            "relations": self.features.relations,
            "rows": self.features.rows,
            "columns": self.features.columns,
            "candidates": None if self.features.candidates is None else self.features.candidates.index,
            "choice": self.choice,
            "reward": self.reward,
            "draft": self.draft,
            "draft_time": self.draft_time,
        }
        return {name: value for name, value in parts.items() if value is not None}


class ReplayMemory:
    """The latest `capacity` targets.

    Parameters
    ----------
    capacity : number of items kept.
    like : any targets, for the shapes of what is stored.
    reward_weighted : draw items with probability proportional to exp(reward), as equation 10, rather than uniformly.
    """

    def __init__(self, capacity: int, like: Targets, reward_weighted: bool = False) -> None:
        self.capacity, self.reward_weighted = capacity, reward_weighted
        self.items = like.each(lambda value: value.new_zeros(capacity, *value.shape[1:]))
        self.items.reward.fill_(-torch.inf)  # an empty slot is never drawn
        self.stored = torch.zeros((), dtype=torch.long, device=like.choice.device)  # items ever written

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor of the memory by name, for saving and restoring."""
        return {**self.items.tensors(), "stored": self.stored}

    def store(self, targets: Targets) -> None:
        """Write n items over the oldest."""
        count = len(targets.choice)
        if count > self.capacity:
            raise ValueError(f"{count} items do not fit a memory of {self.capacity}")
        slot = (self.stored + torch.arange(count, device=self.stored.device)) % self.capacity
        rings = self.items.tensors()
        for name, value in targets.tensors().items():
            rings[name].index_copy_(0, slot, value)
        self.stored.add_(count)

    def draw(self, noise: Noise) -> Targets:
        """Return one item for each key of the noise."""
        uniform = noise.uniform(1).squeeze(1).double()
        if self.reward_weighted:
            reward = self.items.reward
            total = (reward - reward.max()).double().exp().cumsum(0)
            slot = torch.searchsorted(total, uniform * total[-1]).clamp(max=self.capacity - 1)
        else:
            slot = (uniform * self.stored.clamp(max=self.capacity)).long()
        return self.items.each(lambda ring: ring[slot])

    def effective_share(self) -> Tensor:
        """Return the effective sample size (Σw)² / Σw² of the weights w = exp(R), as a share of what is stored."""
        reward = self.items.reward.double()
        weight = (reward - reward.max()).exp()
        return weight.sum().square() / weight.square().sum() / self.stored.clamp(1, self.capacity)


class DraftPicker:
    """Picks, for every trajectory, one of the solutions it carried on and a time to which that was noised.

    A callback of `generate`. Learning to improve these is learning on what the reverse process really visits.
    """

    def __init__(self, noise: Noise) -> None:
        self.noise = noise
        self.seen = 0
        self.choice: Tensor | None = None
        self.time: Tensor | None = None

    def __call__(self, step: ReverseStep) -> None:
        if step.carried is None or step.s == 0:
            return
        self.seen += 1
        # some time after s and before the next pass: the network is to know more times than this trajectory's
        time = step.s - self.noise.integers(max(1, min(step.t - step.s, step.s)))
        if self.choice is None or self.time is None:
            self.choice, self.time = step.carried, time
            return
        replaced = self.noise.uniform(1).squeeze(1) * self.seen < 1  # every pass equally likely in the end
        self.choice = torch.where(replaced[:, None], step.carried, self.choice)
        self.time = torch.where(replaced, time, self.time)

    def one_each(self, noise: Noise) -> tuple[Tensor, Tensor] | None:
        """Return the draft (B, rows) of one random trajectory of every instance and its time (B,).

        noise : of the B instances, to choose the trajectory with. None where trajectories had a single pass.
        """
        if self.choice is None or self.time is None:
            return None
        batch, rows = len(noise.keys), self.choice.shape[1]
        samples = len(self.choice) // batch
        pick = noise.integers(samples)[:, None]
        chosen = self.choice.view(batch, samples, rows).gather(1, pick[..., None].expand(-1, 1, rows))
        return chosen.squeeze(1), self.time.view(batch, samples).gather(1, pick).squeeze(1)
