"""What every training run does: rounds until a limit, reports between them, and a state on disk that survives a kill.

A method says what it learns and what a round is (`algorithm.Trainer`, and MatNet among the baselines). Its steps take
nothing, return nothing, and change tensors in place that exist before, without ever looking at a value on the host:
recorded once as a CUDA graph and replayed, their thousands of kernels start without Python. Without a GPU, or where
recording fails, the same functions simply run.
"""

import ast
import contextlib
import json
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import DivergedError, InputError, UsageError
from ..io.files import LockedFile
from ..models.catalogue import path_of
from ..models.file import load_weights, pick_device
from ..problems import get_problem, problem_of_file
from ..problems.base import Problem, Size
from ..search.run import Budget
from .batches import check_memory
from .checkpoint import LOCK, MODEL, MetricsLog, card_of, learned_ranges, load_state, read_means, save_state
from .sources import Generated, Source
from .weights import Weights, join_processes

REPORT_SECONDS = 5.0
FIRST_CHECKPOINT_SECONDS, CHECKPOINT_SECONDS = 4.0, 30.0
"""Seconds between two states: few at first, when little is lost by writing one, then more."""
CHECKPOINT_SHARE = 0.05
"""Most of a run's time that goes into writing its state: a large one is written less often."""

Step = Callable[[], None]


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
    model: Any


Callback = Callable[[Progress], bool | None]
"""Called while a run goes on; returning True ends it, its state saved."""


class TimeIsOver(Exception):
    """The time limit was met within a step."""


class TrainingRun(ABC):
    """A run of any method.

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
    budget : the time of the run, while rounds are done.
    """

    config: Any
    weights: Weights[Any]
    steps: list[Any]

    def __init__(
        self,
        config: Any,
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
        self.budget: Budget | None = None

    @abstractmethod
    def round(self, number: int, fraction: float) -> None:
        """Do round `number`, counted from 0, as far into the run as `fraction` says."""

    @abstractmethod
    def new_model(self) -> Any:
        """Return an untrained model of `self.problem` on the device."""

    @abstractmethod
    def make_steps(self) -> list[Any]:
        """Return the steps of every size: with `source`, `metrics`, `recordable()`, `kept()` and `tensors()`."""

    @abstractmethod
    def memory_needed(self) -> tuple[int, str]:
        """Return about how many bytes training takes at its peak, and the settings that decide it, in words."""

    def charge(self, seconds: float) -> None:
        """Count the seconds of the latest round; for methods that share time out among sizes."""
        return

    def validate(self, number: int, before: float, now: float, last: bool) -> dict[str, Any]:
        """Validate where it is due, and return what belongs into the log.

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

    def advice(self) -> dict[str, Any]:
        """Return what the card says about solving; nothing, where the defaults will do."""
        return {}

    def run(self, callback: Callback | None = None, every: float = REPORT_SECONDS) -> Any:
        """Train until the limit and return the averaged weights; the callback is called every so many seconds."""
        state: dict[str, Any] = {}
        if self.resume:
            if self.out is None:
                raise UsageError("resuming needs the folder of the run")
            self.config, state = self._resumed(self.out)
        self.set_up(state)
        with self._locked():
            self._rounds(state, callback, every)
        return self.result()

    def _rounds(self, state: dict[str, Any], callback: Callback | None, every: float) -> None:
        """Do rounds until the limit, or until the callback returns True; report and save between them."""
        number, before = int(state.get("round", 0)), float(state.get("seconds", 0.0))
        log = MetricsLog(self._folder, number if self.resume else None)
        if not self.resume:
            self._save_state(0, 0.0)  # so that there is something to resume from the first second on
        limit = None if self.config.rounds else self.config.time_limit - before
        self.budget = budget = Budget(limit)

        def seconds() -> float:
            """Return the time of the first process, so that all processes do the same."""
            return self.ranks.agree(before + budget.spent, self.device)

        now = reported = saved = seconds()
        pause, stopped = min(FIRST_CHECKPOINT_SECONDS, CHECKPOINT_SECONDS), False
        while not stopped and (fraction := self.fraction(number, now)) < 1.0:
            self.round(number, fraction)
            number += 1
            self.synchronise()
            earlier, now = now, seconds()
            over = self.fraction(number, now) >= 1.0
            self.charge(now - earlier)
            with budget.paused():
                validation = self.validate(number, earlier, now, over)
            if validation:
                log.write({"round": number, "seconds": round(now, 2), **validation})
            if now - reported >= every or over:
                reported = now
                self._check_weights(number)
                metrics = read_means([steps.metrics for steps in self.steps])
                recording = {"recording": round(self.graphs.seconds, 2)} if self.graphs.seconds else {}
                log.write({"round": number, "seconds": round(now, 2), **metrics, **recording})
                progress = Progress(number, now, min(1.0, self.fraction(number, now)), metrics, self.weights.average)
                with budget.paused():
                    end = callback is not None and self.ranks.leads and bool(callback(progress))
                    stopped = bool(self.ranks.agree(float(end), self.device))
            if now - saved >= pause:
                self._save(number, now)
                saved = before + budget.spent
                pause = max(min(2 * pause, CHECKPOINT_SECONDS), (saved - now) / CHECKPOINT_SHARE)
        self._save(number, before + budget.spent)
        self.budget = None

    def fraction(self, number: int, seconds: float) -> float:
        """Return the share of the run that is done, by count where a count is set, else by the clock."""
        return float(number / self.config.rounds if self.config.rounds else seconds / self.config.time_limit)

    def do(self, step: Step) -> None:
        """Do a step of a round, unless the time is over before it or within it.

        On a GPU it is captured when it is first done: a size that joins late costs nothing before.
        """
        if self._late():
            return
        if step in self.graphs.waiting:
            with self.budget.paused() if self.budget is not None else contextlib.nullcontext():
                self.graphs.record(step)
        with contextlib.suppress(TimeIsOver):
            self.graphs.run(step)

    def _late(self) -> bool:
        """Tell whether the time is over; checked within rounds on a CPU, where a step may take seconds."""
        alone_on_cpu = self.device.type == "cpu" and self.ranks.world == 1
        return alone_on_cpu and self.budget is not None and self.budget.over

    def _between_passes(self) -> None:
        """Break off a step where the time limit is over; called between passes of the network."""
        if self._late():
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
        self.weights.between_passes = self._between_passes
        self.begin()
        models = (self.weights.model, self.weights.average)
        if self.compile_network and self.device.type == "cuda":
            compile_layers(layer for model in models for layer in model.network.worth_compiling())
        self.steps = self.make_steps()
        self.graphs = Graphs(self._tensors, self.device, self.capture)
        self.graphs.record_later(step for steps in self.steps for step in steps.recordable())
        if state:
            self._restore(state)
        if self._folder is not None:
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

    def generator(self, size: Size, most: float = 1.0) -> Source:
        """Return the problem's own source of instances of a size, or that of the families to learn.

        most : by how much the share of a family may grow as the run goes on.
        """
        rng = self.host_rng(size)
        return Generated(self.problem, size, self.weights.noise, rng, self.device, self.config.families, most)

    def host_rng(self, size: Size) -> np.random.Generator:
        """Return what instances of a size are drawn with on the host: another stream for each process."""
        return np.random.default_rng([self.config.seed, self.ranks.rank, *size])

    def result(self) -> Any:
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

    def synchronise(self) -> None:
        """Wait until the device has done everything."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    @property
    def _folder(self) -> Path | None:
        """The folder that this process writes to; None where another one does, or none."""
        return self.out if self.ranks.leads else None

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

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep the folder for this run alone: two runs in it would overwrite each other."""
        if self._folder is None:
            yield
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self._folder}: cannot be written ({error.strerror or error})") from None
        with contextlib.closing(LockedFile(self._folder / LOCK)):
            yield

    def _save(self, number: int, seconds: float) -> None:
        self._check_weights(number)
        self.rounds_done, self.seconds = number, seconds
        self._save_state(number, seconds)
        if self._folder is not None:
            self.result().save(self._folder / MODEL)

    def _save_state(self, number: int, seconds: float) -> None:
        """Write what a resumed run needs, where anything is written at all."""
        if self._folder is None:
            return
        state = {
            "round": number,
            "seconds": seconds,
            **self.weights.state(),
            "memories": [steps.kept() for steps in self.steps],
            "extra": json.dumps(self.extra_state()),
            "generators": [str(steps.source.rng.bit_generator.state) for steps in self.steps],
        }
        save_state(self._folder, self.config, state)

    def _resumed(self, folder: Path) -> tuple[Any, dict[str, Any]]:
        """Return the configuration and the state of the run in a folder, of a problem that ships or that is named."""
        named = self.config.problem
        config, state = load_state(folder, type(self.config))
        if config.problem != named:
            problem_of_file(config.problem, None, f"the run in {folder}")
        return config, state

    def _restore(self, state: dict[str, Any]) -> None:
        """Copy a saved state into the tensors that recorded steps know."""
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


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Compile each layer for the shapes it meets; one compilation serves all layers of a kind and shape."""
    import torch._dynamo.config as dynamo  # which takes a second

    dynamo.cache_size_limit = max(dynamo.cache_size_limit, 64)
    for layer in layers:
        layer.compile(dynamic=False)


class Graphs:
    """Records steps and replays them.

    Parameters
    ----------
    state : returns every tensor that the steps change; recording runs the steps for real, and this is undone.
    device : graphs exist on CUDA devices only.
    enabled : False runs all steps eagerly.

    seconds : how long recording took so far.
    waiting : steps that are to be recorded before they are first done.
    """

    def __init__(self, state: Callable[[], list[Tensor]], device: torch.device, enabled: bool = True) -> None:
        self.state = state
        self.enabled = enabled and device.type == "cuda"
        self.pool: Any = torch.cuda.graph_pool_handle() if self.enabled else None
        self.replays: dict[Step, Step] = {}
        self.waiting: set[Step] = set()
        self.seconds = 0.0

    def run(self, step: Step) -> None:
        """Do a step: replay its graph if there is one, else call it."""
        self.replays.get(step, step)()

    def record_later(self, steps: Iterable[Step]) -> None:
        """Name steps that are worth recording when they are first done."""
        if self.enabled:
            self.waiting |= set(steps)

    def record(self, step: Step, warmups: int = 2) -> None:
        """Record a step, so that `run` replays it; without a GPU nothing happens."""
        self.waiting.discard(step)
        if not self.enabled:
            return
        began = time.perf_counter()
        # detached: a clone in the autograd graph would tie the parameters' gradients to the default stream
        before = [tensor.detach().clone() for tensor in self.state()]
        try:
            self.replays[step] = self._recorded(step, warmups)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"a step runs without a CUDA graph, since recording failed: {reason}", stacklevel=2)
        with torch.no_grad():
            for tensor, old in zip(self.state(), before, strict=False):
                tensor.copy_(old)
            for tensor in self.state()[len(before) :]:
                tensor.zero_()  # optimizer state that the warm-up brought into being
        torch.cuda.synchronize()
        self.seconds += time.perf_counter() - began

    def _recorded(self, step: Step, warmups: int) -> Step:
        stream = torch.cuda.Stream()  # the same for warm-up and recording, as autograd remembers streams
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(warmups):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=stream):
            step()
        return graph.replay
