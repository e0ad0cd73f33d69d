"""Training on given instances with the best solutions known of them, which what the model finds may replace."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..diffusion.sampler import generate
from ..models.diffusion import Model
from ..problems.contract import Arrays, Size, to_tensors
from ..problems.task import Task
from .algorithm import Trainer
from .config import TrainingConfig
from .graphs import Step
from .memory import DraftPicker
from .run import REPORT_SECONDS, Callback
from .sources import Batch, FreshNoise, Source
from .steps import Steps
from .weights import Weights

MARGIN = 1.2
"""A step is not begun unless so many times the longest of its kind is left."""


class Incumbents(Source):
    """Given instances, each with the best solution known of it; drawn with replacement.

    Parameters
    ----------
    instances, choice, cost : named tensors with leading axis n, (n, rows) and (n,).
    """

    def __init__(
        self, instances: dict[str, Tensor], choice: Tensor, cost: Tensor, noise: FreshNoise, rng: np.random.Generator
    ) -> None:
        super().__init__(rng)
        self.instances, self.choice, self.cost, self.noise = instances, choice, cost, noise
        self.drawn = torch.zeros(0, dtype=torch.long, device=choice.device)

    def draw(self, count: int) -> Batch:
        """Return `count` of the instances, with their solutions; which, is remembered in `drawn`."""
        pick = self.noise(count).integers(len(self.choice))
        if len(self.drawn) != count:
            self.drawn = pick.clone()
        self.drawn.copy_(pick)  # in place: a recorded step goes on looking here
        return Batch({name: tensor[pick] for name, tensor in self.instances.items()}, self.choice[pick])

    def keep(self, choice: Tensor, cost: Tensor) -> None:
        """Replace solutions by better ones (count, rows) with costs (count,) of the instances drawn last."""
        mine = self.drawn[None, :] == torch.arange(len(self.choice), device=choice.device)[:, None]
        lowest, which = torch.where(mine, cost[None, :].double(), torch.inf).min(1)
        better = lowest < self.cost
        self.cost.copy_(torch.where(better, lowest, self.cost))
        self.choice.copy_(torch.where(better[:, None], choice[which], self.choice))

    def tensors(self) -> list[Tensor]:
        """Return what steps change."""
        return [self.choice, self.cost, self.drawn]


class InstanceSteps(Steps):
    """The steps of Algorithm 1 where targets are the best solutions known."""

    source: Incumbents

    def tensors(self) -> list[Tensor]:
        """Return every tensor that the steps change."""
        return [*super().tensors(), *self.source.tensors()]

    def task(self, features: Any = None) -> Task:
        """Return the instances at hand; solutions that are not feasible never win."""
        candidates = None if features is None else features.candidates
        return Task(self.problem, self.instances, only_feasible=True, candidates=candidates)

    def _make_targets(self) -> None:
        """Store the better of what is known and what the model generates, with drafts of its own."""
        config, features = self.config.targets, self.features()
        task = self.task(features)
        noise = self.weights.noise(self.count)
        drafts = DraftPicker(noise.spawn(config.trajectories))
        each = noise.spawn(config.trajectories)
        predict = self.predict(features, noise)
        generated = generate(predict, task, self.diffusion, each, config.sampling, callback=drafts)
        choice, cost = generated.best()
        self.source.keep(choice, cost)
        known, known_cost = self.source.choice[self.source.drawn], self.source.cost[self.source.drawn]
        self._store(task, features, known, known_cost[:, None], drafts.one_each(noise))
        self.metrics.add("cost", generated.cost.float().mean())


class InstanceTrainer(Trainer):
    """Trains a model on given instances with known solutions, until a moment or for a number of rounds.

    Parameters
    ----------
    arrays, choice : instances of one size and a feasible solution of each, (n, rows).
    until : when to end, by `time.perf_counter`; nothing is begun that would not end by then. None counts rounds.
    step_seconds : how long a step of CLONING is expected to take before one was timed.
    stopped : says whether to end early.
    options : as for `Trainer`.
    """

    incumbents: Incumbents

    def __init__(
        self,
        config: TrainingConfig,
        *,
        start: Model,
        arrays: Arrays,
        choice: NDArray[np.int64],
        until: float | None = None,
        step_seconds: float = 0.0,
        stopped: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> None:
        super().__init__(config, start=start, instances=arrays, **options)
        self.choice, self.until, self.stopped = choice, until, stopped
        self._running = False
        self._longest: dict[str, float] = {"clone": step_seconds}

    def run(self, callback: Callback | None = None, every: float = REPORT_SECONDS) -> Model:
        """Train, and return the averaged weights."""
        self.set_up()
        self._running, began = True, time.perf_counter()
        while not self.stopped():
            if self.until is None:
                fraction = self.rounds_done / self.config.rounds
            else:
                fraction = (time.perf_counter() - began) / max(1e-9, self.until - began)
            if fraction >= 1.0 or self._too_late("clone"):
                break
            self.round(self.rounds_done, fraction)
            self.synchronise()
            self.rounds_done += 1
        return self.weights.average

    def late(self) -> bool:
        """Tell whether the time is over; steps that are only being recorded are not broken off."""
        return self._running and self.until is not None and time.perf_counter() >= self.until

    def do(self, step: Step) -> None:
        """Do a step of a round, unless it would not end in time; remember how long it took."""
        name = getattr(step, "__name__", "")
        if self._too_late(name):
            return
        began = time.perf_counter()
        super().do(step)
        if self.until is not None:
            self.synchronise()
            self._longest[name] = max(self._longest.get(name, 0.0), time.perf_counter() - began)

    def _too_late(self, step: str) -> bool:
        left = np.inf if self.until is None else self.until - time.perf_counter()
        return bool(left <= MARGIN * self._longest.get(step, 0.0))

    def make_steps(self) -> list[Steps]:
        """Return the steps of the one size there is."""
        assert self.instances is not None
        (size,) = set(self.config.sizes)
        self.turns = [0]
        instances = to_tensors(self.instances, self.device)
        choice = torch.from_numpy(self.choice).to(self.device)
        cost = Task(self.problem, instances, only_feasible=True).cost(choice).double().squeeze(1)
        self.incumbents = Incumbents(instances, choice.clone(), cost, self.weights.noise, self.host_rng(size))
        return [self._steps(self.weights, size)]

    def _steps(self, weights: Weights[Model], size: Size) -> Steps:
        return InstanceSteps(weights, self.config, size, self.incumbents)
