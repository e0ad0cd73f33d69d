"""A training run, whatever is trained: rounds until a limit, schedules, metrics, and a state that survives a kill."""

import ast
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import DivergedError, UsageError
from ..model import load_weights, pick_device
from ..problem import Problem
from ..trained import Trained
from .capture import Capture, compile_layers
from .checkpoint import MODEL, MetricsLog, load_state, save_state
from .config import Config
from .distributed import join_processes
from .learner import Weights

REPORT_SECONDS = 5.0
CHECKPOINT_SECONDS = 30.0
CHECKPOINT_SHARE = 0.05
"""Most of a run's time that goes into writing its state: a large one is written less often."""

NOT_FOR = (
    "sizes and kinds of matrices it was not trained on, where answers are feasible but further from the optimum; "
    "a single instance of these sizes, which an exact solver proves optimal in milliseconds"
)

ModelT = TypeVar("ModelT", bound=Trained)


@dataclass(frozen=True)
class Progress:
    """What a run looks like now.

    seconds : training time so far, set-up and callbacks not counted.
    fraction : share of the run that is done.
    metrics : mean since the last report of the loss, the cost of generated solutions, …
    model : the averaged weights.
    """

    round: int
    seconds: float
    fraction: float
    metrics: dict[str, float]
    model: Trained


class SizeSteps(Protocol):
    """What a run needs to know of the steps of one size: what they change, count and draw with."""

    metrics: dict[str, Tensor]
    rng: np.random.Generator

    def tensors(self) -> list[Tensor]:
        """Return every tensor that the steps change."""
        ...

    def kept(self) -> dict[str, Tensor]:
        """Return the tensors that a resumed run needs again."""
        ...


class TrainingRun(ABC, Generic[Config, ModelT]):
    """What every training run does; a method says what is learned and what a round is.

    Parameters
    ----------
    config : the run.
    device : "auto", "cpu" or "cuda".
    out : folder for state, metrics and the model; None writes nothing.
    resume : go on from the state in `out`; its configuration replaces `config`.
    capture, compile_network : on a GPU, replay steps as CUDA graphs, and compile the network's layers.
    """

    learner: Weights[ModelT]
    steps: Sequence[SizeSteps]

    def __init__(
        self,
        config: Config,
        *,
        device: str = "auto",
        out: Path | None = None,
        resume: bool = False,
        capture: bool = True,
        compile_network: bool = True,
    ) -> None:
        self.config, self.out = config, out
        self.device = pick_device(device)
        self.resume, self.capture, self.compile_network = resume, capture, compile_network

    @abstractmethod
    def _build(self) -> None:
        """Build what is learned, and the steps of every size: set `learner` and `steps`."""

    @abstractmethod
    def _record(self, record: Capture) -> None:
        """Record the steps."""

    @abstractmethod
    def _round(self, rounds: int, fraction: float) -> None:
        """Do one round, as far into the run as `fraction` says."""

    @abstractmethod
    def _data(self) -> str:
        """Say what the model learns from."""

    def run(self, callback: Callable[[Progress], None] | None = None) -> ModelT:
        """Train until the limit and return the averaged weights."""
        state: dict[str, Any] = {}
        if self.resume:
            if self.out is None:
                raise UsageError("resuming needs the folder of the run")
            self.config, state = load_state(self.out, type(self.config))
        self._set_up(state)
        rounds, before = int(state.get("round", 0)), float(state.get("seconds", 0.0))
        log = MetricsLog(self.out if self.ranks.leads else None, rounds if self.resume else None)
        clock = Clock(before)
        reported = saved = clock.seconds()
        pause = CHECKPOINT_SECONDS
        while (fraction := self._fraction(rounds, clock.seconds())) < 1.0:
            self._round(rounds, fraction)
            rounds += 1
            self._synchronise()
            now = clock.seconds()
            if now - reported >= REPORT_SECONDS or self._fraction(rounds, now) >= 1.0:
                reported = now
                self._check_weights(rounds)
                progress = Progress(rounds, now, fraction, self._read_metrics(), self.learner.average)
                log.write({"round": rounds, "seconds": round(now, 2), **progress.metrics})
                with clock.paused():
                    if callback is not None and self.ranks.leads:
                        callback(progress)
            if now - saved >= pause:
                self._save(rounds, now)
                saved = clock.seconds()
                pause = max(CHECKPOINT_SECONDS, (saved - now) / CHECKPOINT_SHARE)
        self._save(rounds, clock.seconds())
        return self._finished(rounds, clock.seconds())

    def _set_up(self, state: dict[str, Any]) -> None:
        """Build everything, put a saved state into it, and record the steps."""
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        self.ranks = join_processes(self.device)
        self._build()
        self._record(Capture(self._tensors, self.device, self.capture))
        if state:
            self._restore(state)

    def _begin_with_init(self) -> None:
        """Put the weights that the configuration names, if it does, into the model and its average."""
        if self.config.init:
            load_weights(self.learner.model, self.config.init)
            load_weights(self.learner.average, self.config.init)

    def _check_sizes(self, problem: Problem) -> None:
        """Refuse sizes that are none of the problem."""
        for size in self.config.sizes:
            if len(size) != len(problem.size_names):
                raise UsageError(f"a size of {problem.name} is {', '.join(problem.size_names)}; got {list(size)}")

    def _compile(self, layers: Callable[[ModelT], list[torch.nn.Module]]) -> None:
        """Compile the layers of both networks, where there is a GPU and it was asked for."""
        if self.compile_network and self.device.type == "cuda":
            compile_layers(layers(self.learner.model))
            compile_layers(layers(self.learner.average))

    def _set_rate(self, rounds: int, fraction: float) -> None:
        """Set the learning rate of a round: warm-up, then cosine decay."""
        optimizer = self.config.optimizer
        cosine = 0.5 * (1 + math.cos(math.pi * fraction))
        warm = min(1.0, (rounds + 1) / max(1, optimizer.warmup_rounds))
        share = optimizer.final_share + (1 - optimizer.final_share) * cosine
        self.learner.set_rate(optimizer.learning_rate * warm * share)

    def _fraction(self, rounds: int, seconds: float) -> float:
        """Return the share of the run that is done, by count where a count is set, else by the clock."""
        if self.config.rounds:
            return rounds / self.config.rounds
        return self.ranks.agree(seconds / self.config.time_limit, self.device)

    def _read_metrics(self) -> dict[str, float]:
        """Return the means since the last call, over all sizes, and start anew."""
        values = {}
        for name in self.steps[0].metrics:
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

    def _check_weights(self, rounds: int) -> None:
        """Stop where weights are no longer finite, before anything good is overwritten by them."""
        if not self.learner.finite():
            raise DivergedError(
                f"training diverged before round {rounds}: its weights are no longer finite numbers; try a smaller "
                "optimizer.learning_rate or optimizer.clip" + (f" (what is in {self.out} is older)" if self.out else "")
            )

    def _save(self, rounds: int, seconds: float) -> None:
        self._check_weights(rounds)
        if self.out is None or not self.ranks.leads:
            return
        state = {
            "round": rounds,
            "seconds": seconds,
            **self.learner.state(),
            "memories": [steps.kept() for steps in self.steps],
            "generators": [str(steps.rng.bit_generator.state) for steps in self.steps],
        }
        save_state(self.out, self.config, state)
        self._finished(rounds, seconds).save(self.out / MODEL)

    def _restore(self, state: dict[str, Any]) -> None:
        """Copy a saved state into the tensors the recorded steps already know."""
        self.learner.restore(state)
        for steps, kept, generator in zip(self.steps, state["memories"], state["generators"], strict=True):
            for name, tensor in steps.kept().items():
                tensor.copy_(kept[name])
            steps.rng.bit_generator.state = ast.literal_eval(generator)

    def _finished(self, rounds: int, seconds: float) -> ModelT:
        model = self.learner.average
        model.name = str(self.out / MODEL) if self.out else "trained"
        hardware = torch.cuda.get_device_name() if self.device.type == "cuda" else "CPU"
        model.card = {
            "sizes": [list(size) for size in sorted(set(self.config.sizes))],
            "data": self._data(),
            "training": {
                "rounds": rounds,
                "seconds": round(seconds, 1),
                "hardware": hardware,
                "processes": self.ranks.world,
                "seed": self.config.seed,
            },
            "settings": asdict(self.config),
            "not_for": NOT_FOR,
            **self._advice(),
        }
        return model

    def _advice(self) -> dict[str, Any]:
        """Return what the card says about solving; nothing, where the defaults will do."""
        return {}

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


def nothing() -> None:
    """Stand in for a step that a configuration leaves out."""
