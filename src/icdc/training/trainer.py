"""Algorithm 1: rounds of new targets, IMPROVEMENT while it helps, and CLONING."""

from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..model import Model
from ..problems import get_problem
from ..rules import Rule
from .capture import Capture, StepFunction
from .config import TrainingConfig
from .examples import read_examples
from .learner import Learner
from .run import Progress, TrainingRun, nothing
from .steps import Steps

__all__ = ["Progress", "Trainer"]


@dataclass(frozen=True)
class RecordedSteps:
    """The steps of one size, each recorded as a graph where there is a GPU."""

    draw: StepFunction
    make_targets: StepFunction
    improve: StepFunction
    clone: StepFunction


class Trainer(TrainingRun[TrainingConfig, Model]):
    """Trains a model from nothing but a problem.

    Parameters
    ----------
    config : the run.
    device : "auto", "cpu" or "cuda".
    out : folder for state, metrics and the model; None writes nothing.
    resume : go on from the state in `out`; its configuration replaces `config`.
    start : a model to begin with, and whose problem is learned, instead of `config.init` and `config.problem`.
    capture, compile_network : on a GPU, replay steps as CUDA graphs, and compile the network's layers.
    """

    learner: Learner
    steps: list[Steps]
    turns: list[int]
    """Which steps each round of a cycle takes."""

    def __init__(
        self,
        config: TrainingConfig,
        *,
        device: str = "auto",
        out: Path | None = None,
        resume: bool = False,
        start: Model | None = None,
        capture: bool = True,
        compile_network: bool = True,
    ) -> None:
        super().__init__(
            config, device=device, out=out, resume=resume, capture=capture, compile_network=compile_network
        )
        self.start = start

    def _build(self) -> None:
        """Build the model, begin with given weights where there are some, and the steps of every size."""
        problem = get_problem(self.config.problem) if self.start is None else self.start.problem
        self._check_sizes(problem)
        self.learner = Learner(problem, self.config, self.device, self.ranks)
        if self.start is not None:
            for own in (self.learner.model, self.learner.average):
                own.network.load_state_dict(self.start.network.state_dict())
        else:
            self._begin_with_init()
        self.learner.model.network.train()
        self._compile(lambda model: model.network.worth_compiling())
        turns = list(zip_longest(self.config.sizes, self.config.targets.examples))
        each = list(dict.fromkeys(turns))
        self.steps = [
            Steps(self.learner, size, read_examples(path, problem, size, self.device) if path else None)
            for size, path in each
        ]
        self.turns = [each.index(turn) for turn in turns]

    def _record(self, record: Capture) -> None:
        self.recorded = [self._recorded(steps, record) for steps in self.steps]

    def _recorded(self, steps: Steps, record: Capture) -> RecordedSteps:
        """Record each step of a size; the memory must hold something before cloning can be recorded."""
        config = self.config
        draw = record(steps.draw) if steps.on_device else steps.draw
        make = improve = clone = nothing
        if config.clones and not config.targets.from_improvement:
            make = record(steps.make_targets)
        if config.improvement.weight > 0:
            improve = record(steps.improve)
        if config.clones:
            clone = record(steps.clone)
        return RecordedSteps(draw, make, improve, clone)

    def _round(self, rounds: int, fraction: float) -> None:
        """New instances, their targets, IMPROVEMENT while its weight lasts, then CLONING."""
        config, recorded = self.config, self.recorded[self.turns[rounds % len(self.turns)]]
        cloning, improvement = config.cloning, config.improvement
        self._set_rate(rounds, fraction)
        weight = improvement.weight * (1.0 if improvement.until > 1 else max(0.0, 1 - fraction / improvement.until))
        recorded.draw()
        recorded.make_targets()
        if weight > 0:
            self.learner.improvement_weight.fill_(weight)
            recorded.improve()
        for _ in range(round(cloning.steps_first + (cloning.steps_last - cloning.steps_first) * fraction)):
            recorded.clone()
        self.learner.update_average(rounds + 1)

    def _data(self) -> str:
        return _data(self.config)

    def _advice(self) -> dict[str, Any]:
        """Many decodes where the problem's rule makes them cheap: nothing else improves answers at so little cost."""
        decodes = self.learner.model.problem.rule.decodes
        if decodes == Rule.decodes:
            return {}
        return {"solving": [{"samples": 1, "options": {"decodes": decodes}}]}


def _data(config: TrainingConfig) -> str:
    """Say what a model learned from."""
    if config.targets.examples:
        return f"instances of {config.problem} with solutions, from {', '.join(config.targets.examples)}"
    return f"new instances of {config.problem} in every round, from its own generator; no solutions"
