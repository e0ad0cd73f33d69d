"""Algorithm 1: rounds of new targets, IMPROVEMENT while it helps, and CLONING."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import UsageError
from ..model import Model, load_weights, pick_device
from ..problems import get_problem
from .capture import Capture, StepFunction, compile_layers
from .checkpoint import MODEL, MetricsLog, load_state, save_state
from .config import TrainingConfig
from .distributed import join_processes
from .learner import Learner
from .steps import METRICS, Steps

REPORT_SECONDS = 5.0
CHECKPOINT_SECONDS = 30.0
NOT_FOR = (
    "sizes and kinds of matrices it was not trained on, where answers are feasible but further from the optimum; "
    "a single instance of these sizes, which an exact solver proves optimal in milliseconds"
)


@dataclass(frozen=True)
class Progress:
    """What a run looks like now.

    seconds : training time so far, set-up and callbacks not counted.
    fraction : share of the run that is done.
    metrics : mean since the last report of the cloning loss, the cost of generated solutions and of targets, …
    model : the averaged weights.
    """

    round: int
    seconds: float
    fraction: float
    metrics: dict[str, float]
    model: Model


@dataclass(frozen=True)
class RecordedSteps:
    """The steps of one size, each recorded as a graph where there is a GPU."""

    draw: StepFunction
    make_targets: StepFunction
    improve: StepFunction
    clone: StepFunction


class Trainer:
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
        self.config, self.out, self.start = config, out, start
        self.device = pick_device(device)
        self.resume, self.capture, self.compile_network = resume, capture, compile_network

    def run(self, callback: Callable[[Progress], None] | None = None) -> Model:
        """Train until the limit and return the averaged weights."""
        state: dict[str, Any] = {}
        if self.resume:
            if self.out is None:
                raise UsageError("resuming needs the folder of the run")
            self.config, state = load_state(self.out)
        self._set_up(state)
        rounds, before = int(state.get("round", 0)), float(state.get("seconds", 0.0))
        log = MetricsLog(self.out if self.ranks.leads else None, rounds if self.resume else None)
        clock = Clock(before)
        reported = saved = clock.seconds()
        while (fraction := self._fraction(rounds, clock.seconds())) < 1.0:
            self._round(rounds, fraction)
            rounds += 1
            self._synchronise()
            now = clock.seconds()
            if now - reported >= REPORT_SECONDS or self._fraction(rounds, now) >= 1.0:
                reported = now
                progress = Progress(rounds, now, fraction, self._read_metrics(), self.learner.average)
                log.write({"round": rounds, "seconds": round(now, 2), **progress.metrics})
                with clock.paused():
                    if callback is not None and self.ranks.leads:
                        callback(progress)
            if now - saved >= CHECKPOINT_SECONDS:
                saved = now
                self._save(rounds, now)
        self._save(rounds, clock.seconds())
        return self._finished(rounds, clock.seconds())

    def _set_up(self, state: dict[str, Any]) -> None:
        """Build everything, put a saved state into it, and record the steps."""
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        self.ranks = join_processes(self.device)
        problem = get_problem(self.config.problem) if self.start is None else self.start.problem
        for size in self.config.sizes:
            if len(size) != len(problem.size_names):
                raise UsageError(f"a size of {problem.name} is {', '.join(problem.size_names)}; got {list(size)}")
        self.learner = Learner(problem, self.config, self.device, self.ranks)
        if self.start is not None:
            for own in (self.learner.model, self.learner.average):
                own.network.load_state_dict(self.start.network.state_dict())
        elif self.config.init:
            load_weights(self.learner.model.network, self.config.init)
            load_weights(self.learner.average.network, self.config.init)
        self.learner.model.network.train()
        if self.compile_network and self.device.type == "cuda":
            compile_layers(self.learner.model.network.worth_compiling())
            compile_layers(self.learner.average.network.worth_compiling())
        self.steps = [Steps(self.learner, size) for size in self.config.sizes]
        record = Capture(self._tensors, self.device, self.capture)
        self.recorded = [self._recorded(steps, record) for steps in self.steps]
        if state:
            self._restore(state)

    def _recorded(self, steps: Steps, record: Capture) -> RecordedSteps:
        """Record each step of a size; the memory must hold something before cloning can be recorded."""
        config = self.config
        draw = record(steps.draw) if steps.on_device else steps.draw
        make = improve = _nothing
        if not config.targets.from_improvement:
            make = record(steps.make_targets)
        if config.improvement.weight > 0:
            improve = record(steps.improve)
        return RecordedSteps(draw, make, improve, record(steps.clone))

    def _round(self, rounds: int, fraction: float) -> None:
        """New instances, their targets, IMPROVEMENT while its weight lasts, then CLONING."""
        config, recorded = self.config, self.recorded[rounds % len(self.recorded)]
        optimizer, cloning, improvement = config.optimizer, config.cloning, config.improvement
        cosine = 0.5 * (1 + math.cos(math.pi * fraction))
        warm = min(1.0, (rounds + 1) / max(1, optimizer.warmup_rounds))
        share = optimizer.final_share + (1 - optimizer.final_share) * cosine
        self.learner.set_rate(optimizer.learning_rate * warm * share)
        weight = improvement.weight * (1.0 if improvement.until > 1 else max(0.0, 1 - fraction / improvement.until))
        recorded.draw()
        recorded.make_targets()
        if weight > 0:
            self.learner.improvement_weight.fill_(weight)
            recorded.improve()
        for _ in range(round(cloning.steps_first + (cloning.steps_last - cloning.steps_first) * fraction)):
            recorded.clone()
        self.learner.update_average(rounds + 1)

    def _fraction(self, rounds: int, seconds: float) -> float:
        """Return the share of the run that is done, by count where a count is set, else by the clock."""
        if self.config.rounds:
            return rounds / self.config.rounds
        return self.ranks.agree(seconds / self.config.time_limit, self.device)

    def _read_metrics(self) -> dict[str, float]:
        """Return the means since the last call, over all sizes, and start anew."""
        values = {}
        for name in METRICS:
            total = torch.stack([steps.metrics[name] for steps in self.steps]).sum(0).tolist()
            if total[1]:
                values[name] = total[0] / total[1]
        for steps in self.steps:
            for tensor in steps.metrics.values():
                tensor.zero_()
        return values

    def _tensors(self) -> list[Tensor]:
        """Return all tensors that steps change; those that may appear later come last."""
        return [tensor for steps in self.steps for tensor in steps.tensors()] + self.learner.tensors()

    def _save(self, rounds: int, seconds: float) -> None:
        if self.out is None or not self.ranks.leads:
            return
        learner = self.learner
        save_state(
            self.out,
            self.config,
            {
                "round": rounds,
                "seconds": seconds,
                "network": learner.model.network.state_dict(),
                "average": learner.average.network.state_dict(),
                "optimizer": learner.optimizer.state_dict(),
                "draws": learner.draws,
                "memories": [steps.memory.tensors() for steps in self.steps],
                "generators": [str(steps.rng.bit_generator.state) for steps in self.steps],
            },
        )
        self._finished(rounds, seconds).save(self.out / MODEL)

    def _restore(self, state: dict[str, Any]) -> None:
        """Copy a saved state into the tensors the recorded steps already know."""
        import ast

        learner = self.learner
        learner.model.network.load_state_dict(state["network"])
        learner.average.network.load_state_dict(state["average"])
        learner.draws.copy_(state["draws"])
        saved = state["optimizer"]["state"]
        with torch.no_grad():
            if not learner.optimizer.state:
                learner.optimizer.load_state_dict(state["optimizer"])
            for index, parameter in enumerate(learner.parameters):
                for name, value in learner.optimizer.state[parameter].items():
                    value.copy_(saved[index][name])
        for steps, memory, generator in zip(self.steps, state["memories"], state["generators"], strict=True):
            for name, tensor in steps.memory.tensors().items():
                tensor.copy_(memory[name])
            steps.rng.bit_generator.state = ast.literal_eval(generator)

    def _finished(self, rounds: int, seconds: float) -> Model:
        model = self.learner.average
        model.name = str(self.out / MODEL) if self.out else "trained"
        hardware = torch.cuda.get_device_name() if self.device.type == "cuda" else "CPU"
        model.card = {
            "sizes": [list(size) for size in self.config.sizes],
            "data": f"new instances of {self.config.problem} in every round, from its own generator; no solutions",
            "training": {
                "rounds": rounds,
                "seconds": round(seconds, 1),
                "hardware": hardware,
                "processes": self.ranks.world,
                "seed": self.config.seed,
            },
            "settings": asdict(self.config),
            "not_for": NOT_FOR,
        }
        return model

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


class Clock:
    """Seconds of training, with pauses left out."""

    def __init__(self, before: float = 0.0) -> None:
        self._start = time.perf_counter() - before

    def seconds(self) -> float:
        """Return the seconds so far."""
        return time.perf_counter() - self._start

    def paused(self) -> "_Pause":
        """Return a context whose time does not count."""
        return _Pause(self)


class _Pause:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __enter__(self) -> None:
        self.begin = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.clock._start += time.perf_counter() - self.begin


def _nothing() -> None:
    """Stand in for a step that this configuration leaves out."""
