"""Training a MatNet by REINFORCE: solutions of one instance share a baseline, their mean cost (POMO).

A step draws instances, encodes them with new one-hot vectors, samples rollouts with their exact log-probabilities in
the same pass, and updates the weights. It reads no value on the host, so that it can be recorded as a CUDA graph.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ...errors import UsageError
from ...options import LARGEST_SEED
from ...problems.base import Size
from ...problems.task import Task
from ...settings import Settings, setting
from ...training.batches import PEAK
from ...training.checkpoint import Means
from ...training.config import OptimizerConfig
from ...training.loop import Step, TrainingRun
from ...training.losses import advantages, improvement_loss
from ...training.sources import Source
from ...training.weights import Weights
from .matnet import MatNet
from .pointer_network import MatNetNetworkConfig

METRICS = ("loss", "cost", "target")
"""What steps report: the surrogate loss, the mean cost of rollouts, and that of the best of each instance."""

DEFAULT_ROLLOUTS = 24
"""Rollouts of an instance where there is no first city to choose."""


@dataclass(frozen=True)
class MatNetConfig(Settings):
    """A run of REINFORCE with the baseline that rollouts of one instance share.

    sizes, families, init, init_where_it_fits, time_limit, rounds : as in `TrainingConfig`.
    batch : instances of a step, over all processes.
    rollouts : sampled solutions of each instance; 0 for one from every city, the baseline of POMO.
    steps : steps of a round, after which the averaged weights are updated.
    """

    method: Literal["matnet"] = "matnet"
    problem: str = "atsp"
    sizes: tuple[tuple[int, ...], ...] = ((20,),)
    families: tuple[str, ...] = ()
    init: str = ""
    init_where_it_fits: bool = False
    seed: int = setting(0, least=0, most=LARGEST_SEED)
    time_limit: float = 300.0
    rounds: int = 0
    network: MatNetNetworkConfig = field(default_factory=MatNetNetworkConfig)
    batch: int = setting(200, least=1)
    rollouts: int = setting(0, least=0)
    steps: int = setting(4, least=1)
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=4e-4, weight_decay=1e-6, average=0.99)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sizes or not all(self.sizes) or min(map(min, self.sizes)) < 1:
            raise UsageError("sizes must name at least one size of positive numbers, for example [[20]]")
        if self.rounds <= 0 and not self.time_limit > 0:
            raise UsageError("give a positive time_limit or a number of rounds")
        if self.rollouts == 1:
            raise UsageError("rollouts must be 0 (one from every city) or at least 2: one alone has no baseline")

    def rollouts_of(self, rows: int, same_items: bool) -> int:
        """Return how many solutions of an instance with so many rows are sampled."""
        return self.rollouts or (rows if same_items else DEFAULT_ROLLOUTS)


def kept_numbers(network: MatNetNetworkConfig, rows: int, columns: int, rollouts: int, same_items: bool) -> int:
    """Return about how many numbers the network keeps of one instance and its rollouts until the gradient.

    Counted with `saved_tensors_hooks`; see the test. Where columns are used several times, the decoder keeps what it
    sees of each, at every step.
    """
    encoder = rows * columns * network.heads * (network.mixer_width + 8) + 20 * (rows + columns) * network.width
    step = 4 * columns * network.heads + (4 if same_items else 4 + 6 * columns) * network.width
    return network.layers * encoder + rollouts * rows * step


class MatNetSteps:
    """The steps for instances of one size, on tensors that stay where they are.

    Parameters
    ----------
    weights : what is learned, shared by all sizes.
    config : the run.
    size : the size of the instances.
    source : where they come from.
    """

    def __init__(self, weights: Weights[MatNet], config: MatNetConfig, size: Size, source: Source) -> None:
        self.weights, self.source, self.problem = weights, source, weights.model.problem
        self.count = max(1, config.batch // weights.ranks.world)
        self.metrics = Means(METRICS, weights.device)
        self.instances = {name: values.clone() for name, values in source.draw(self.count).instances.items()}
        rows = self.problem.shape(size)[0]
        self.rollouts = config.rollouts_of(rows, self.problem.feature_sizes.same_items)
        self.first = torch.arange(self.rollouts, device=weights.device) % rows

    def recordable(self) -> list[Step]:
        """Return the steps that need nothing of the host."""
        return [self.draw, self.learn] if self.source.on_device else [self.learn]

    def kept(self) -> dict[str, Tensor]:
        """Return the tensors that a resumed run needs again."""
        return {}

    def tensors(self) -> list[Tensor]:
        """Return every tensor that the steps change."""
        return [*self.instances.values(), *self.metrics.tensors()]

    def draw(self) -> None:
        """Replace the instances by new ones."""
        for name, values in self.source.draw(self.count).instances.items():
            self.instances[name].copy_(values)

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


class MatNetTrainer(TrainingRun):
    """Trains a MatNet from nothing but a problem; see `TrainingRun`."""

    config: MatNetConfig
    weights: Weights[MatNet]
    steps: list[MatNetSteps]

    def round(self, number: int, fraction: float) -> None:
        """Take a few steps, each on new instances, sizes in turn."""
        self.weights.set_rate(self.config.optimizer.rate_at(number, fraction))
        for step in range(self.config.steps):
            steps = self.steps[(number * self.config.steps + step) % len(self.steps)]
            self.do(steps.draw)
            self.do(steps.learn)
        self.weights.update_average(number + 1)

    def memory_needed(self) -> tuple[int, str]:
        """Return about how many bytes training takes at its peak, and the settings that decide it, in words."""
        config, most, same_items = self.config, 0, self.problem.feature_sizes.same_items
        for size in config.sizes:
            rows, columns = self.problem.shape(size)
            rollouts = config.rollouts_of(rows, same_items)
            most = max(most, kept_numbers(config.network, rows, columns, rollouts, same_items))
        return int(PEAK * 4 * config.batch * most), "batch or rollouts"

    def new_model(self) -> MatNet:
        """Return an untrained model."""
        return MatNet(self.problem, self.config.network).to(self.device)

    def make_steps(self) -> list[MatNetSteps]:
        """Return the steps of every size."""
        return [MatNetSteps(self.weights, self.config, size, self.generator(size)) for size in self.config.sizes]
