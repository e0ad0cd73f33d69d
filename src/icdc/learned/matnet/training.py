"""Training by REINFORCE: solutions of one instance share a baseline, their mean cost (POMO).

A step draws instances, encodes them with new one-hot vectors, samples rollouts with their exact log-probabilities in
the same pass, and updates the weights. It reads no value on the host, so that it can be recorded as a CUDA graph.
"""

import numpy as np
import torch
from torch import Tensor

from ...problem import Problem, Size, to_tensors
from ...problems import get_problem
from ...sampling import Task
from ...training.capture import Capture, StepFunction
from ...training.distributed import Ranks
from ...training.learner import Weights
from ...training.losses import advantages, improvement_loss
from ...training.run import TrainingRun
from .config import MatNetConfig
from .model import MatNet

METRICS = ("loss", "cost", "target")
"""What steps report: the surrogate loss, the mean cost of rollouts, and that of the best of each instance."""

DEFAULT_ROLLOUTS = 24
"""Rollouts of an instance where there is no first city to choose."""


class MatNetLearner(Weights[MatNet]):
    """The weights of a MatNet, their average and the optimizer."""

    def __init__(self, problem: Problem, config: MatNetConfig, device: torch.device, ranks: Ranks) -> None:
        super().__init__(
            lambda: MatNet(problem, config.network).to(device), config.optimizer, config.seed, device, ranks
        )
        self.config = config


class MatNetSteps:
    """The steps for instances of one size, on tensors that stay where they are."""

    def __init__(self, learner: MatNetLearner, size: Size) -> None:
        self.learner, self.size, self.config = learner, size, learner.config
        self.problem = learner.model.problem
        self.rng = np.random.default_rng([self.config.seed, learner.ranks.rank, *size])
        self.count = max(1, self.config.batch // learner.ranks.world)
        self.on_device = self.problem.sample_on_device(size, learner.noise(1)) is not None
        self.instances = {name: values.clone() for name, values in self._new_instances().items()}
        self.metrics = {name: torch.zeros(2, device=learner.device) for name in METRICS}  # sum and count
        same_items = self.problem.feature_sizes.same_items
        rows = self.problem.shape(size)[0]
        self.rollouts = self.config.rollouts or (rows if same_items else DEFAULT_ROLLOUTS)
        self.first = torch.arange(self.rollouts, device=learner.device) % rows

    def tensors(self) -> list[Tensor]:
        """Return every tensor that the steps change."""
        return [*self.instances.values(), *self.metrics.values()]

    def kept(self) -> dict[str, Tensor]:
        """Return the tensors that a resumed run needs again: none, every step has new instances."""
        return {}

    def draw(self) -> None:
        """Replace the instances by new ones."""
        for name, values in self._new_instances().items():
            self.instances[name].copy_(values)

    def learn(self) -> None:
        """Sample rollouts of the instances and take one REINFORCE step."""
        model = self.learner.model
        noise = self.learner.noise(self.count)
        task = Task(self.problem, self.instances)
        with torch.no_grad():
            features = self.problem.features(self.instances)
        encoding = model.encode(features, noise)
        first = self.first.expand(self.count, -1)
        rollouts = model.roll_out(task, encoding, first, noise=noise.spawn(self.rollouts))
        with torch.no_grad():
            cost = self.problem.cost(self.instances, rollouts.choice).float()
            advantage = advantages(cost, normalise=self.config.normalise)
        loss = improvement_loss(rollouts.log_p, advantage).mean()
        self.learner.update(loss)
        for name, value in zip(METRICS, (loss.detach(), cost.mean(), cost.amin(1).mean()), strict=True):
            self.metrics[name][0] += value
            self.metrics[name][1] += 1

    def _new_instances(self) -> dict[str, Tensor]:
        if self.on_device:
            drawn = self.problem.sample_on_device(self.size, self.learner.noise(self.count))
            assert drawn is not None
            return drawn
        return to_tensors(self.problem.sample(self.count, self.size, self.rng), self.learner.device)


class MatNetTrainer(TrainingRun[MatNetConfig, MatNet]):
    """Trains a MatNet from nothing but a problem; see `TrainingRun`."""

    learner: MatNetLearner
    steps: list[MatNetSteps]

    def _build(self) -> None:
        """Build the model and the steps of every size."""
        problem = get_problem(self.config.problem)
        self._check_sizes(problem)
        self.learner = MatNetLearner(problem, self.config, self.device, self.ranks)
        self._begin_with_init()
        self.learner.model.network.train()
        self._compile(lambda model: model.network.worth_compiling())
        self.steps = [MatNetSteps(self.learner, size) for size in self.config.sizes]

    def _record(self, record: Capture) -> None:
        self.recorded: list[tuple[StepFunction, StepFunction]] = [
            (record(steps.draw) if steps.on_device else steps.draw, record(steps.learn)) for steps in self.steps
        ]

    def _round(self, rounds: int, fraction: float) -> None:
        """Take a few steps, each on new instances, sizes in turn."""
        self._set_rate(rounds, fraction)
        for step in range(self.config.steps):
            draw, learn = self.recorded[(rounds * self.config.steps + step) % len(self.recorded)]
            draw()
            learn()
        self.learner.update_average(rounds + 1)

    def _data(self) -> str:
        return f"new instances of {self.config.problem} in every step, from its own generator; no solutions"
