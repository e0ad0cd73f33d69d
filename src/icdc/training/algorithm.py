"""Algorithm 1: how IC/DC is trained, without solved examples.

A round draws new instances, makes targets for them, takes an IMPROVEMENT step while its weight lasts, and then several
CLONING steps on the targets of the latest rounds. The steps themselves are in `steps.py`.
"""

from itertools import zip_longest
from typing import Any

from ..models.diffusion import Model
from ..problems.contract import Arrays, Problem, Size, to_tensors
from ..problems.rules import Rule
from .config import TrainingConfig
from .fitting import memory_needed
from .run import REPORT_SECONDS, Callback, TrainingRun
from .sources import Batch, GivenSet, Source, read_examples
from .steps import Steps


class Trainer(TrainingRun[TrainingConfig, Model]):
    """Trains a diffusion model of a problem.

    Parameters
    ----------
    config : the run.
    start : a model to begin with, and whose problem is learned, instead of `config.init` and `config.problem`.
    instances : learn these, leading axis count and all of one size, instead of what the problem generates.
    options : device, out, resume, capture, compile_network; see `TrainingRun`.
    """

    steps: list[Steps]
    turns: list[int]
    """Which steps each round of a cycle takes."""

    def __init__(
        self, config: TrainingConfig, *, start: Model | None = None, instances: Arrays | None = None, **options: Any
    ) -> None:
        super().__init__(config, **options)
        self.start, self.instances = start, instances

    def run(self, callback: Callback | None = None, every: float = REPORT_SECONDS) -> Model:
        """Train until the limit and return the averaged weights; the callback is told every so many seconds."""
        for number, fraction in self.rounds(callback, every):
            self.round(number, fraction)
        return self.result()

    def round(self, number: int, fraction: float) -> None:
        """Do round `number`, counted from 0, as far into the run as `fraction` says."""
        config, do = self.config, self.do
        steps = self.steps[self.turns[number % len(self.turns)]]
        self.weights.set_rate(config.optimizer.rate_at(number, fraction))
        do(steps.draw)
        if config.makes_targets:
            do(steps.make_targets)
        if (weight := config.improvement.weight_at(fraction)) > 0:
            steps.improvement_weight.fill_(weight)
            do(steps.improve)
        for _ in range(config.cloning.steps_at(fraction)):
            do(steps.clone)
        self.weights.update_average(number + 1, statistics=not steps.gathers_statistics)
        if steps.gathers_statistics:
            do(steps.gather_statistics)

    def memory_needed(self) -> tuple[int, str]:
        """Return about how many bytes training takes at its peak, and the settings that decide it."""
        words = "targets.instances, targets.trajectories or cloning.batch"
        return memory_needed(self.config, self.problem), words

    def find_problem(self) -> Problem:
        """Return the problem that is learned."""
        return super().find_problem() if self.start is None else self.start.problem

    def new_model(self) -> Model:
        """Return an untrained model."""
        return Model(self.problem, self.config.model).to(self.device)

    def begin(self) -> None:
        """Begin with the given model's weights, or those that the configuration names."""
        if self.start is None:
            super().begin()
            return
        for model in (self.weights.model, self.weights.average):
            model.network.load_state_dict(self.start.network.state_dict())

    def make_steps(self) -> list[Steps]:
        """Return the steps of every size; a size that is named again takes turns with the same ones."""
        turns = list(zip_longest(self.config.sizes, self.config.targets.examples))
        different = list(dict.fromkeys(turns))
        self.turns = [different.index(turn) for turn in turns]
        return [Steps(self.weights, self.config, size, self._source(size, path)) for size, path in different]

    def _source(self, size: Size, examples: str | None) -> Source:
        """Return where instances of a size come from, with solutions where there are examples."""
        if examples is not None:
            given = read_examples(examples, self.problem, size, self.device)
        elif self.instances is not None:
            given = Batch(to_tensors(self.instances, self.device))
        else:
            return self.generator(size)
        return GivenSet(given, self.weights.noise, self.host_rng(size))

    def data(self) -> str:
        """Say what the model learns from."""
        if self.config.targets.examples:
            return f"instances of {self.config.problem} with solutions, from {', '.join(self.config.targets.examples)}"
        return super().data()

    def advice(self) -> dict[str, Any]:
        """Many decodes where the problem's rule makes them cheap: nothing else improves answers at so little cost."""
        decodes = self.problem.rule.decodes
        if decodes == Rule.decodes:
            return {}
        return {"solving": [{"samples": 1, "options": {"decodes": decodes}}]}
