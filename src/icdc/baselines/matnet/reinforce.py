"""Training a MatNet by REINFORCE: solutions of one instance share a baseline, their mean cost (POMO).

A step draws instances, encodes them with new one-hot vectors, samples rollouts with their exact log-probabilities in
the same pass, and updates the weights. It reads no value on the host, so that it can be recorded as a CUDA graph.
"""

import ast
import math
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ...errors import DivergedError, InputError, UsageError
from ...io.files import LockedFile
from ...models.catalogue import path_of
from ...models.file import load_weights, pick_device
from ...options import check
from ...problems import get_problem, problem_of_file
from ...problems.base import Size
from ...problems.task import Task
from ...training.card import card_of, learned_ranges
from ...training.checkpoint import LOCK, MODEL, Means, MetricsLog, load_state, read_means, save_state
from ...training.clock import Clock
from ...training.config import OptimizerConfig
from ...training.fitting import PEAK, check_memory
from ...training.graphs import Graphs, Step, compile_layers
from ...training.losses import advantages, improvement_loss
from ...training.run import CHECKPOINT_SECONDS, FIRST_CHECKPOINT_SECONDS, REPORT_SECONDS, Callback, Progress
from ...training.sources import Generated, Source
from ...training.weights import Weights, join_processes
from .matnet import MatNet
from .pointer_network import MatNetNetworkConfig

METRICS = ("loss", "cost", "target")
"""What steps report: the surrogate loss, the mean cost of rollouts, and that of the best of each instance."""

DEFAULT_ROLLOUTS = 24
"""Rollouts of an instance where there is no first city to choose."""


@dataclass(frozen=True)
class MatNetConfig:
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
    seed: int = 0
    time_limit: float = 300.0
    rounds: int = 0
    network: MatNetNetworkConfig = field(default_factory=MatNetNetworkConfig)
    batch: int = 200
    rollouts: int = 0
    steps: int = 4
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=4e-4, weight_decay=1e-6, average=0.99)
    )

    def __post_init__(self) -> None:
        if not self.sizes or not all(self.sizes) or min(map(min, self.sizes)) < 1:
            raise UsageError("sizes must name at least one size of positive numbers, for example [[20]]")
        check("seed", self.seed)
        if self.rounds <= 0 and not 0 < self.time_limit < math.inf:
            raise UsageError("give a positive time_limit or a number of rounds")
        for name in ("batch", "steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.rollouts < 0 or self.rollouts == 1:
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


class MatNetTrainer:
    """Trains a MatNet from nothing but a problem.

    Parameters
    ----------
    config : the run.
    device : "auto", "cpu" or "cuda".
    out : folder for state, metrics and the model; None writes nothing.
    resume : go on from the state in `out`; its configuration replaces `config`.
    capture, compile_network : on a GPU, replay steps as CUDA graphs, and compile the network's layers.
    """

    weights: Weights[MatNet]
    steps: list[MatNetSteps]
    graphs: Graphs

    def __init__(
        self,
        config: MatNetConfig,
        *,
        device: str = "auto",
        out: Path | None = None,
        resume: bool = False,
        capture: bool = True,
        compile_network: bool = True,
    ) -> None:
        self.config, self.out, self.resume = config, out, resume
        self.device = pick_device(device)
        self.capture, self.compile_network = capture, compile_network
        self.rounds_done, self.seconds = 0, 0.0
        self.clock: Clock | None = None

    def run(self, callback: Callback | None = None, every: float = REPORT_SECONDS) -> MatNet:
        """Train until the limit and return the averaged weights; the callback is called every so many seconds."""
        state: dict[str, Any] = {}
        if self.resume:
            state = self._read_state()
        self.set_up(state)
        with nullcontext() if self._writes is None else closing(self._lock(self._writes)):
            self._train(state, callback, every)
        return self.result()

    def set_up(self, state: dict[str, Any] | None = None) -> None:
        """Build everything, and put a saved state into it."""
        config = self.config
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        self.ranks = join_processes(self.device)
        self.problem = get_problem(config.problem)
        for size in config.sizes:
            if len(size) != len(self.problem.size_names):
                words = ", ".join(self.problem.size_names)
                raise UsageError(f"a size of {self.problem.name} is {words}; got {list(size)}")
        if self.device.type == "cpu":
            check_memory(*self.memory_needed())
        self.weights = Weights(self._new_model, config.optimizer, config.seed, self.device, self.ranks)
        models = (self.weights.model, self.weights.average)
        if config.init:
            try:
                path_of(config.init)
            except UsageError as error:
                raise UsageError(f"there are no weights to begin with (the setting init): {error}") from error
            for model in models:
                load_weights(model, config.init, where_they_fit=config.init_where_it_fits)
        if self.compile_network and self.device.type == "cuda":
            compile_layers(layer for model in models for layer in model.network.worth_compiling())
        self.steps = [MatNetSteps(self.weights, config, size, self._source(size)) for size in config.sizes]
        self.graphs = Graphs(self._tensors, self.device, self.capture)
        self.graphs.record_later(step for steps in self.steps for step in steps.recordable())
        if state:
            self._restore(state)

    def memory_needed(self) -> tuple[int, str]:
        """Return about how many bytes training takes at its peak, and the settings that decide it, in words."""
        config, most, same_items = self.config, 0, self.problem.feature_sizes.same_items
        for size in config.sizes:
            rows, columns = self.problem.shape(size)
            rollouts = config.rollouts_of(rows, same_items)
            most = max(most, kept_numbers(config.network, rows, columns, rollouts, same_items))
        return int(PEAK * 4 * config.batch * most), "batch or rollouts"

    def round(self, number: int, fraction: float) -> None:
        """Take a few steps, each on new instances, sizes in turn; none after the time limit on a CPU."""
        self.weights.set_rate(self.config.optimizer.rate_at(number, fraction))
        for step in range(self.config.steps):
            if self._late():
                break
            steps = self.steps[(number * self.config.steps + step) % len(self.steps)]
            self._run(steps.draw)
            self._run(steps.learn)
        self.weights.update_average(number + 1)

    def synchronise(self) -> None:
        """Wait until the device has done everything."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def result(self) -> MatNet:
        """Return the averaged weights with a card that says how they came about."""
        model, config = self.weights.average, self.config
        model.name = str(self.out / MODEL) if self.out else "trained"
        families = list(dict.fromkeys(config.families))
        source = f"of the families {', '.join(families)}" if families else "from its own generator"
        data = f"new instances of {config.problem} in every round, {source}; no solutions"
        training = {"rounds": self.rounds_done, "seconds": round(self.seconds, 1), "processes": self.ranks.world}
        model.card = card_of(config, data, training, self.device)
        if families:
            model.card["ranges"] = learned_ranges(self.problem, families, dict.fromkeys(config.sizes))
        return model

    @property
    def _writes(self) -> Path | None:
        """The folder that this process writes to; None where another one does, or none."""
        return self.out if self.ranks.leads else None

    def _train(self, state: dict[str, Any], callback: Callback | None, every: float) -> None:
        """Do rounds until the limit, or until the callback returns True; report and save between them."""
        number = int(state.get("round", 0))
        log = MetricsLog(self._writes, number if self.resume else None)
        if not self.resume:
            self._save_state(0, 0.0)  # so that there is something to resume from the first second on
        self.clock = clock = Clock(float(state.get("seconds", 0.0)))
        now = reported = saved = self._agreed(clock.seconds())
        pause, stopped = FIRST_CHECKPOINT_SECONDS, False
        while not stopped and (fraction := self._fraction(number, now)) < 1.0:
            self.round(number, fraction)
            number += 1
            self.synchronise()
            now = self._agreed(clock.seconds())
            fraction = self._fraction(number, now)
            if now - reported >= every or fraction >= 1.0:
                reported = now
                self._check_weights(number)
                metrics = read_means([steps.metrics for steps in self.steps])
                recording = {"recording": round(self.graphs.seconds, 2)} if self.graphs.seconds else {}
                log.write({"round": number, "seconds": round(now, 2), **metrics, **recording})
                progress = Progress(number, now, min(1.0, fraction), metrics, self.weights.average)
                with clock.paused():
                    end = callback is not None and self.ranks.leads and bool(callback(progress))
                    stopped = bool(self._agreed(float(end)))
            if now - saved >= pause:
                self._save(number, now)
                saved, pause = clock.seconds(), min(2 * pause, CHECKPOINT_SECONDS)
        self._save(number, clock.seconds())
        self.clock = None

    def _new_model(self) -> MatNet:
        return MatNet(self.problem, self.config.network).to(self.device)

    def _source(self, size: Size) -> Source:
        """Return the problem's own source of instances of a size, or that of the families to learn."""
        rng = np.random.default_rng([self.config.seed, self.ranks.rank, *size])
        return Generated(self.problem, size, self.weights.noise, rng, self.device, self.config.families)

    def _tensors(self) -> list[torch.Tensor]:
        """Return every tensor that steps change; those that may appear later come last."""
        changed = [tensor for steps in self.steps for tensor in (*steps.instances.values(), *steps.metrics.tensors())]
        return changed + self.weights.tensors()

    def _run(self, step: Step) -> None:
        """Do a step; on a GPU it is recorded when it is first done."""
        if self.graphs.waits(step):
            if self.clock is not None:
                with self.clock.paused():
                    self.graphs.record(step)
            else:
                self.graphs.record(step)
        self.graphs.run(step)

    def _late(self) -> bool:
        """Tell whether the time limit is over; within rounds this is checked on a CPU, where a step takes long."""
        if self.clock is None or self.config.rounds or self.device.type != "cpu" or self.ranks.world > 1:
            return False
        return self.clock.seconds() >= self.config.time_limit

    def _agreed(self, value: float) -> float:
        """Return the value of the first process, so that all do the same."""
        return self.ranks.agree(value, self.device)

    def _fraction(self, number: int, seconds: float) -> float:
        """Return the share of the run that is done, by count where a count is set, else by the clock."""
        return number / self.config.rounds if self.config.rounds else seconds / self.config.time_limit

    def _check_weights(self, number: int) -> None:
        """Stop where weights are no longer finite, before the saved model is overwritten by them."""
        if not self.weights.finite():
            raise DivergedError(
                f"training diverged before round {number}: its weights are no longer finite numbers; try a smaller "
                "optimizer.learning_rate or optimizer.clip" + (f" (what is in {self.out} is older)" if self.out else "")
            )

    def _lock(self, folder: Path) -> LockedFile:
        """Take the folder for this run alone: two runs in it would overwrite each other."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror or error})") from None
        return LockedFile(folder / LOCK)

    def _save(self, number: int, seconds: float) -> None:
        self._check_weights(number)
        self.rounds_done, self.seconds = number, seconds
        self._save_state(number, seconds)
        if self._writes is not None:
            self.result().save(self._writes / MODEL)

    def _save_state(self, number: int, seconds: float) -> None:
        """Write what a resumed run needs, where anything is written at all."""
        if self._writes is None:
            return
        generators = [str(steps.source.rng.bit_generator.state) for steps in self.steps]
        state = {"round": number, "seconds": seconds, "memories": [], "generators": generators, **self.weights.state()}
        save_state(self._writes, self.config, state)

    def _read_state(self) -> dict[str, Any]:
        """Return the saved state in the folder; its configuration becomes that of this run."""
        if self.out is None:
            raise UsageError("resuming needs the folder of the run")
        named = self.config.problem
        self.config, state = load_state(self.out, MatNetConfig)
        if self.config.problem != named:
            problem_of_file(self.config.problem, None, f"the run in {self.out}")
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        """Copy a saved state into the tensors the recorded steps already know."""
        try:
            self.weights.restore(state)
            for steps, generator in zip(self.steps, state["generators"], strict=True):
                steps.source.rng.bit_generator.state = ast.literal_eval(generator)
        except (AttributeError, KeyError, RuntimeError, SyntaxError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"the saved state does not fit the run that its configuration describes: {reason}"
            ) from None
