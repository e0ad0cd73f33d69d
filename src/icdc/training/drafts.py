"""Drafts: the network's own worse solutions, noised as the reverse process noises them."""

import torch
from torch import Tensor

from ..noise import Noise
from ..sampling import Step


class Drafts:
    """Picks, for every trajectory, one of the solutions it decoded and the step at which that was noised.

    Learning to improve these is learning on the states the reverse process really visits.
    """

    def __init__(self, noise: Noise) -> None:
        self.noise = noise
        self.seen = 0
        self.choice: Tensor | None = None
        self.step: Tensor | None = None

    def __call__(self, step: Step) -> None:
        if step.decoded is None or step.s == 0:
            return
        self.seen += 1
        # the network is asked for steps between s and the one after it, too
        time = step.s - self.noise.integers(max(1, min(step.t - step.s, step.s)))
        if self.choice is None or self.step is None:
            self.choice, self.step = step.decoded, time
            return
        replaced = self.noise.uniform(1).squeeze(1) * self.seen < 1  # every step equally likely in the end
        self.choice = torch.where(replaced[:, None], step.decoded, self.choice)
        self.step = torch.where(replaced, time, self.step)

    def of_trajectories(self, wanted: int, noise: Noise) -> tuple[Tensor | None, Tensor | None]:
        """Return drafts (B · wanted, rows) and their steps (B · wanted,): all, or those of one random trajectory.

        noise : of the B instances, to choose the trajectory with.
        """
        if self.choice is None or self.step is None:  # trajectories of a single step have none
            return None, None
        batch, rows = len(noise.keys), self.choice.shape[1]
        samples = len(self.choice) // batch
        if wanted == samples:
            return self.choice, self.step
        pick = noise.integers(samples)
        draft = self.choice.view(batch, samples, rows)
        chosen = draft.gather(1, pick[:, None, None].expand(-1, 1, rows)).squeeze(1)
        return chosen, self.step.view(batch, samples).gather(1, pick[:, None]).squeeze(1)
