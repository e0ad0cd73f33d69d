"""A training run, whatever is trained: rounds until a limit, metrics, and a state on disk that survives a kill."""

import ast
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DivergedError, InputError, UsageError
from ..io.files import LockedFile
from ..models.catalogue import path_of
from ..models.diffusion import Model
from ..models.file import TrainedModel, load_weights, pick_device
from ..problems import get_problem, problem_of_file
from ..problems.base import Problem, Size
from .card import card_of, learned_ranges
from .checkpoint import LOCK, MODEL, MetricsLog, load_state, read_means, save_state
from .clock import Clock, TimeIsOver
from .config import TrainingConfig
from .fitting import check_memory
from .graphs import Graphs, Step, compile_layers
from .sizes import SizeSteps
from .sources import Generated, Source
from .weights import Weights, join_processes

REPORT_SECONDS = 5.0
FIRST_CHECKPOINT_SECONDS, CHECKPOINT_SECONDS = 4.0, 30.0
"""Seconds between two states: few at first, when little is lost by writing one, then more."""
CHECKPOINT_SHARE = 0.05
"""Most of a run's time that goes into writing its state: a large one is written less often."""


@dataclass(frozen=True)
class Progress:
    """What a run looks like now.

    round : rounds that are done.
    seconds : training time so far, set-up and callbacks not counted.
    fraction : share of the run that is done.
    metrics : mean since the last report of the loss, the cost of generated solutions, …
    model : the averaged weights.
    """

    round: int
    seconds: float
    fraction: float
    metrics: dict[str, float]
    model: TrainedModel


Callback = Callable[[Progress], bool | None]
"""Told how a run goes; returning True ends it, its state saved."""


class TrainingRun(ABC):
    """What every training run does; a method says what is learned and what a round is.

    Parameters
    ----------
    config : the run.
    device : "auto", "cpu" or "cuda".
    out : folder for state, metrics and the model; None writes nothing.
    resume : go on from the state in `out`; its configuration replaces `config`.
    capture, compile_network : on a GPU, replay steps as CUDA graphs, and compile the network's layers.

    Attributes
    ----------
    weights : what is learned; there after `set_up`, as are
    steps : the steps of every size, and
    graphs : what runs them.
    """

    weights: Weights[Model]
    steps: Sequence[SizeSteps]
    graphs: Graphs
    problem: Problem

    def __init__(
        self,
        config: TrainingConfig,
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
        self.rounds_done, self.seconds = 0, 0.0
        self.clock: Clock | None = None

    @abstractmethod
    def run(self, callback: Callback | None = None, every: float = REPORT_SECONDS) -> Model:
        """Train until the limit and return the averaged weights; the callback is told every so many seconds."""

    @abstractmethod
    def round(self, number: int, fraction: float) -> None:
        """Do round `number`, counted from 0, as far into the run as `fraction` says."""

    @abstractmethod
    def new_model(self) -> Model:
        """Return an untrained model of `self.problem` on the device."""

    @abstractmethod
    def make_steps(self) -> Sequence[SizeSteps]:
        """Return the steps of every size."""

    @abstractmethod
    def memory_needed(self) -> tuple[int, str]:
        """Return about how many bytes training takes at its peak, and the settings that decide it, in words."""

    def late(self) -> bool:
        """Tell whether the time limit is over; asked within rounds, on a CPU, where a step may take seconds."""
        if self.clock is None or self.config.rounds or self.device.type != "cpu" or self.ranks.world > 1:
            return False
        return self.clock.seconds() >= self.config.time_limit

    def do(self, step: Step) -> None:
        """Do a step of a round, unless the time is over before it or within it.

        On a GPU it is recorded when it is first done: a size that joins late costs nothing before.
        """
        if self.late():
            return
        if self.graphs.waits(step):
            with self.clock.paused() if self.clock is not None else contextlib.nullcontext():
                self.graphs.record(step)
        with contextlib.suppress(TimeIsOver):
            self.graphs.run(step)

    def between_passes(self) -> None:
        """Break off a step where the time limit is over; called between passes of the network."""
        if self.late():
            raise TimeIsOver

    def set_up(self, state: dict[str, Any] | None = None) -> None:
        """Build everything, and put a saved state into it."""
        config = self.config
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        self.ranks = join_processes(self.device)
        self.problem = self.find_problem()
        for size in config.sizes:
            if len(size) != len(self.problem.size_names):
                words = ", ".join(self.problem.size_names)
                raise UsageError(f"a size of {self.problem.name} is {words}; got {list(size)}")
        if self.device.type == "cpu":
            check_memory(*self.memory_needed())
        self.weights = Weights(self.new_model, config.optimizer, config.seed, self.device, self.ranks)
        self.weights.between_passes = self.between_passes
        self.begin()
        models: list[Any] = [self.weights.model, self.weights.average]
        if self.compile_network and self.device.type == "cuda":
            compile_layers(layer for model in models for layer in model.network.worth_compiling())
        self.steps = self.make_steps()
        self.graphs = Graphs(self._tensors, self.device, self.capture)
        self.graphs.record_later(step for steps in self.steps for step in steps.recordable())
        if state:
            self._restore(state)
        if self.out is not None and self.ranks.leads:
            _ = self.ranges  # which takes seconds, before the clock runs

    def find_problem(self) -> Problem:
        """Return the problem that is learned."""
        return get_problem(self.config.problem)

    def begin(self) -> None:
        """Put the weights that the configuration names, if it does, into the model and its average."""
        if not self.config.init:
            return
        try:
            path_of(self.config.init)
        except UsageError as error:
            raise UsageError(f"there are no weights to begin with (the setting init): {error}") from error
        for model in (self.weights.model, self.weights.average):
            load_weights(model, self.config.init, where_they_fit=self.config.init_where_it_fits)

    def generator(self, size: Size) -> Source:
        """Return the problem's own source of instances of a size, or that of the families to learn."""
        rng = self.host_rng(size)
        return Generated(
            self.problem, size, self.weights.noise, rng, self.device, self.config.families, self.most_share
        )

    @property
    def most_share(self) -> float:
        """Return by how much the share of a family may grow as the run goes on."""
        return 1.0

    def host_rng(self, size: Size) -> np.random.Generator:
        """Return what instances of a size are drawn with on the host: another stream for each process."""
        return np.random.default_rng([self.config.seed, self.ranks.rank, *size])

    def rounds(self, callback: Callback | None, every: float) -> Iterator[tuple[int, float]]:
        """Set up, then yield the number of each round, from 0, and the share of the run done before it.

        Between rounds it reports, saves, and stops at the limit or where the callback says so.
        """
        state: dict[str, Any] = {}
        if self.resume:
            if self.out is None:
                raise UsageError("resuming needs the folder of the run")
            self.config, state = self._resumed(self.out)
        self.set_up(state)
        lock = self._lock()
        number = int(state.get("round", 0))
        log = MetricsLog(self.out if self.ranks.leads else None, number if self.resume else None)
        if not self.resume:
            self._save_state(0, 0.0)  # so that there is something to resume from the first second on
        self.clock = clock = Clock(float(state.get("seconds", 0.0)))
        now = reported = saved = self._agreed(clock.seconds())
        pause, stopped = min(FIRST_CHECKPOINT_SECONDS, CHECKPOINT_SECONDS), False
        while not stopped and (fraction := self._fraction(number, now)) < 1.0:
            yield number, fraction
            number += 1
            self.synchronise()
            before, now = (
                now,
                self._agreed(clock.seconds()),
            )  # one clock, so that all processes do the same from here on
            self.took(now - before)
            with clock.paused():
                found = self.validated(number, before, now, self._fraction(number, now) >= 1.0)
            if found:
                log.write({"round": number, "seconds": round(now, 2), **found})
            if now - reported >= every or self._fraction(number, now) >= 1.0:
                reported = now
                self._check_weights(number)
                metrics = read_means([steps.metrics for steps in self.steps])
                recording = {"recording": round(self.graphs.seconds, 2)} if self.graphs.seconds else {}
                log.write({"round": number, "seconds": round(now, 2), **metrics, **recording})
                progress = Progress(number, now, min(1.0, self._fraction(number, now)), metrics, self.weights.average)
                with clock.paused():
                    wish = callback is not None and self.ranks.leads and callback(progress)
                    stopped = bool(self._agreed(float(bool(wish))))
            if now - saved >= pause:
                self._save(number, now)
                saved = clock.seconds()
                pause = max(min(2 * pause, CHECKPOINT_SECONDS), (saved - now) / CHECKPOINT_SHARE)
        self._save(number, clock.seconds())
        self.clock = None
        if lock is not None:
            lock.close()

    def _resumed(self, folder: Path) -> tuple[TrainingConfig, dict[str, Any]]:
        """Return the configuration and the state of the run in a folder, of a problem that ships or that was given."""
        given = self.config.problem
        config, state = load_state(folder, type(self.config))
        if config.problem != given:
            problem_of_file(config.problem, None, f"the run in {folder}")
        return config, state

    def took(self, seconds: float) -> None:
        """Take note of how long the latest round took; who shares time out among sizes does."""
        return

    def validated(self, number: int, before: float, now: float, last: bool) -> dict[str, Any]:
        """Validate where it is time for it, and return what was found, for the log; nothing unless a method does so.

        number : rounds that are done.
        before, now : seconds of training before and after the latest of them.
        last : whether the run is over.
        """
        return {}

    def extra_state(self) -> dict[str, Any]:
        """Return what else a resumed run of this method needs again: numbers, lists and tables of them."""
        return {}

    def restore_extra(self, state: dict[str, Any]) -> None:
        """Go on from what `extra_state` returned."""
        return

    def result(self) -> Model:
        """Return the averaged weights with a card that says how they came about."""
        model = self.weights.average
        model.name = str(self.out / MODEL) if self.out else "trained"
        training = {"rounds": self.rounds_done, "seconds": round(self.seconds, 1), "processes": self.ranks.world}
        model.card = {**card_of(self.config, self.data(), training, self.device), **self.ranges, **self.advice()}
        return model

    @cached_property
    def ranges(self) -> dict[str, Any]:
        """What the card says of the matrices that were learned, where they are not of the problem's own draw."""
        families, sizes = dict.fromkeys(self.config.families), dict.fromkeys(self.config.sizes)
        return {"ranges": learned_ranges(self.problem, families, sizes)} if families else {}

    def data(self) -> str:
        """Say what the model learns from."""
        families = ", ".join(dict.fromkeys(self.config.families))
        source = f"of the families {families}" if families else "from its own generator"
        return f"new instances of {self.config.problem} in every round, {source}; no solutions"

    def advice(self) -> dict[str, Any]:
        """Return what the card says about solving; nothing, where the defaults will do."""
        return {}

    def synchronise(self) -> None:
        """Wait until the device has done everything."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _agreed(self, value: float) -> float:
        return self.ranks.agree(value, self.device)

    def _fraction(self, number: int, seconds: float) -> float:
        """Return the share of the run that is done, by count where a count is set, else by the clock."""
        return number / self.config.rounds if self.config.rounds else seconds / self.config.time_limit

    def _tensors(self) -> list[Tensor]:
        """Return all tensors that steps change; those that may appear later come last."""
        return [tensor for steps in self.steps for tensor in steps.tensors()] + self.weights.tensors()

    def _check_weights(self, number: int) -> None:
        """Stop where weights are no longer finite, before anything good is overwritten by them."""
        if not self.weights.finite():
            raise DivergedError(
                f"training diverged before round {number}: its weights are no longer finite numbers; try a smaller "
                "optimizer.learning_rate or optimizer.clip" + (f" (what is in {self.out} is older)" if self.out else "")
            )

    def _save(self, number: int, seconds: float) -> None:
        self._check_weights(number)
        self.rounds_done, self.seconds = number, seconds
        self._save_state(number, seconds)
        if self.out is not None and self.ranks.leads:
            self.result().save(self.out / MODEL)

    def _save_state(self, number: int, seconds: float) -> None:
        """Write what a resumed run needs, where anything is written at all."""
        if self.out is None or not self.ranks.leads:
            return
        state = {
            "round": number,
            "seconds": seconds,
            **self.weights.state(),
            "memories": [steps.kept() for steps in self.steps],
            "extra": json.dumps(self.extra_state()),
            "generators": [str(steps.source.rng.bit_generator.state) for steps in self.steps],
        }
        save_state(self.out, self.config, state)

    def _lock(self) -> LockedFile | None:
        """Take the folder for this run alone: two runs in it would overwrite each other."""
        if self.out is None or not self.ranks.leads:
            return None
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.out}: cannot be written ({error.strerror or error})") from None
        return LockedFile(self.out / LOCK)

    def _restore(self, state: dict[str, Any]) -> None:
        """Copy a saved state into the tensors the recorded steps already know."""
        try:
            self.weights.restore(state)
            for steps, kept, generator in zip(self.steps, state["memories"], state["generators"], strict=True):
                for name, tensor in steps.kept().items():
                    tensor.copy_(kept[name])
                steps.source.rng.bit_generator.state = ast.literal_eval(generator)
            self.restore_extra(json.loads(state.get("extra", "{}")))
        except (AttributeError, KeyError, RuntimeError, SyntaxError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"the saved state does not fit the run that its configuration describes: {reason}"
            ) from None
