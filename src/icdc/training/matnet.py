"""Training a MatNet by REINFORCE: solutions of one instance share a baseline, their mean cost (POMO).

A step draws instances, encodes them with new one-hot vectors, samples rollouts with their exact log-probabilities in
the same pass, and updates the weights. It reads no value on the host, so that it can be recorded as a CUDA graph.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch

from ..errors import UsageError
from ..models.matnet.config import MatNetNetworkConfig
from ..models.matnet.model import MatNet
from ..problems.base import Size
from ..problems.task import Task
from .config import OptimizerConfig, RunConfig
from .fitting import PEAK
from .graphs import Step
from .losses import advantages, improvement_loss
from .run import REPORT_SECONDS, Callback, TrainingRun
from .sizes import SizeSteps
from .sources import Source
from .weights import Weights

METRICS = ("loss", "cost", "target")
"""What steps report: the surrogate loss, the mean cost of rollouts, and that of the best of each instance."""

DEFAULT_ROLLOUTS = 24
"""Rollouts of an instance where there is no first city to choose."""


@dataclass(frozen=True)
class MatNetConfig(RunConfig):
    """A run of REINFORCE with the baseline that rollouts of one instance share.

    batch : instances of a step, over all processes.
    rollouts : sampled solutions of each instance; 0 for one from every city, the baseline of POMO.
    steps : steps of a round, after which the averaged weights are updated.
    """

    method: Literal["matnet"] = "matnet"
    network: MatNetNetworkConfig = field(default_factory=MatNetNetworkConfig)
    batch: int = 200
    rollouts: int = 0
    steps: int = 4
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=4e-4, weight_decay=1e-6, average=0.99)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch", "steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.rollouts < 0 or self.rollouts == 1:
            raise UsageError("rollouts must be 0 (one from every city) or at least 2: one alone has no baseline")


def kept_numbers(network: MatNetNetworkConfig, rows: int, columns: int, rollouts: int, same_items: bool) -> int:
    """Return about how many numbers the network keeps of one instance and its rollouts until the gradient.

    Counted with `saved_tensors_hooks`; see the test. Where columns are used several times, the decoder keeps what it
    sees of each, at every step.
    """
    encoder = rows * columns * network.heads * (network.mixer_width + 8) + 20 * (rows + columns) * network.width
    step = 4 * columns * network.heads + (4 if same_items else 4 + 6 * columns) * network.width
    return network.layers * encoder + rollouts * rows * step


class MatNetSteps(SizeSteps):
    """The steps for instances of one size.

    Parameters
    ----------
    weights : what is learned, shared by all sizes.
    config : the run.
    size : the size of the instances.
    source : where they come from.
    """

    def __init__(self, weights: Weights[MatNet], config: MatNetConfig, size: Size, source: Source) -> None:
        super().__init__(source, max(1, config.batch // weights.ranks.world), METRICS, weights.device)
        self.weights, self.problem = weights, weights.model.problem
        same_items = self.problem.feature_sizes.same_items
        rows = self.problem.shape(size)[0]
        self.rollouts = config.rollouts or (rows if same_items else DEFAULT_ROLLOUTS)
        self.first = torch.arange(self.rollouts, device=weights.device) % rows

    def recordable(self) -> list[Step]:
        """Return the steps that need nothing of the host."""
        return [self.draw, self.learn] if self.source.on_device else [self.learn]

    def learn(self) -> None:
        """Sample rollouts of the instances and take one REINFORCE step."""
        model = self.weights.model
        noise = self.weights.noise(self.count)
        task = Task(self.problem, self.instances, masked=self.source.forbids)
        with torch.no_grad():
            features = self.problem.features(self.instances)
        encoding = model.encode(features, noise)
        first = self.first.expand(self.count, -1)
        rollouts = model.roll_out(task, encoding, first, noise=noise.spawn(self.rollouts))
        with torch.no_grad():
            cost = self.problem.cost(self.instances, rollouts.choice).float()
        loss = improvement_loss(rollouts.log_p, advantages(cost)).mean()
        self.weights.update(loss)
        for name, value in zip(METRICS, (loss.detach(), cost.mean(), cost.amin(1).mean()), strict=True):
            self.metrics.add(name, value)


class MatNetTrainer(TrainingRun[MatNetConfig, MatNet]):
    """Trains a MatNet from nothing but a problem; see `TrainingRun`."""

    steps: list[MatNetSteps]

    def run(self, callback: Callback | None = None, every: float = REPORT_SECONDS) -> MatNet:
        """Train until the limit and return the averaged weights; the callback is told every so many seconds."""
        for number, fraction in self.rounds(callback, every):
            self.round(number, fraction)
        return self.result()

    def round(self, number: int, fraction: float) -> None:
        """Take a few steps, each on new instances, sizes in turn."""
        self.weights.set_rate(self.config.optimizer.rate_at(number, fraction))
        for step in range(self.config.steps):
            steps = self.steps[(number * self.config.steps + step) % len(self.steps)]
            self.do(steps.draw)
            self.do(steps.learn)
        self.weights.update_average(number + 1)

    def memory_needed(self) -> tuple[int, str]:
        """Return about how many bytes training takes at its peak, and the settings that decide it."""
        config, most = self.config, 0
        for size in config.sizes:
            rows, columns = self.problem.shape(size)
            same_items = self.problem.feature_sizes.same_items
            rollouts = config.rollouts or (rows if same_items else DEFAULT_ROLLOUTS)
            most = max(most, kept_numbers(config.network, rows, columns, rollouts, same_items))
        return int(PEAK * 4 * config.batch * most), "batch or rollouts"

    def new_model(self) -> MatNet:
        """Return an untrained model."""
        return MatNet(self.problem, self.config.network).to(self.device)

    def make_steps(self) -> list[MatNetSteps]:
        """Return the steps of every size."""
        return [MatNetSteps(self.weights, self.config, size, self.generator(size)) for size in self.config.sizes]
