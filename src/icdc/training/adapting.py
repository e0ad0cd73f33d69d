"""Test-time training: a model learns the very instances that it is about to answer, without solved examples.

1. The solver looks for good solutions, as it would without all this; what is proven needs nothing more.
2. The model learns the best solutions known (CLONING); where its own samples beat them, those are learned from then on.
3. Samples of the old and of the new weights are compared, equally many of each, and the better weights solve on.

Whatever was met on the way is a candidate of the answer. With seconds, every part has a share of them, and nothing is
begun that would not end in time; with rounds, everything is counted, so that a seed repeats itself.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import UsageError
from ..machine import available_memory
from ..models.diffusion import Model
from ..problems.contract import Arrays
from ..problems.text import counted
from ..solving import DiffusionSolver
from ..solving.adapting import ADAPTED, Adapt, Adapted, Adapter
from ..solving.anytime import AnytimeSolver
from ..solving.fitting import default_chunk
from ..solving.request import Improvement, Request
from ..solving.results import Results
from ..solving.solver import Solver
from ..solving.verify import judge, meets
from .config import TrainingConfig
from .finetuning import copy_of, finetuning_config
from .fitting import PEAK, kept_bytes
from .incumbents import InstanceTrainer

SEARCH_SHARE, JUDGE_SHARE = 0.25, 0.12
"""Parts of the seconds for finding solutions to learn from, and for samples of the old weights, and of the new."""
SAMPLES, STEPS = 4, 10
"""Trajectories of an instance, and network passes of each, that weights are compared by, where there is time."""
FEW_SAMPLES, FEW_STEPS, FEW_INSTANCES = 2, 4, 8
"""The same, and instances, where there is little."""
LEAST_TRAJECTORIES = 32
"""A few instances get more samples each, so that chance does not decide."""
MOST_JUDGED = {"cpu": 64, "cuda": 256}
"""Instances that weights are compared on."""
LEARNING_RATE, AVERAGE = 3e-4, 0.9
DECODES = 32
"""Solutions decoded from a pass: those to learn from are known, and better ones are a surprise."""
MEMORY_SHARE = 0.25
"""Of the free memory, the most that a step of training takes."""
STEP_PASSES, LEAST_STEPS = 4, 30
"""What a step of CLONING takes, in passes without gradients, and how many steps should fit, with smaller batches if
they must: many small ones teach more than one that is large."""
QUICK = 0.1
"""Part of the seconds left that a first pass may take if it is to be timed again, with all that goes together."""
RESERVE = 1.3
"""How much longer than the first time the second comparison may take, where time is planned."""
CAPTURE_FROM = 20.0
"""Seconds of training from which on recording the steps for a GPU pays."""


class InstanceTraining(Adapter):
    """Adapts the diffusion model of a solver to instances."""

    def adapt(self, solver: Solver, request: Request, adapt: Adapt) -> Adapted:
        assert isinstance(solver, AnytimeSolver | DiffusionSolver)  # those that say that they can
        return _Adaptation(solver, request, adapt).run()


class _Skip(Exception):
    """Adapting is given up, for the reason that it holds; the solver goes on as it is."""


@dataclass(frozen=True)
class _Comparison:
    """How weights are compared: on which instances, by how many trajectories of how many passes each."""

    places: NDArray[np.int64]
    samples: int
    steps: int


class _Adaptation:
    """One call of `InstanceTraining.adapt`; its parameters are those."""

    def __init__(self, solver: AnytimeSolver | DiffusionSolver, request: Request, adapt: Adapt) -> None:
        self.began = time.perf_counter()
        self.solver, self.request, self.asked = solver, request, adapt
        self.choice = np.full((request.count, request.shape[0]), -1, dtype=np.int64)
        self.cost, self.bound = np.full(request.count, np.inf), np.full(request.count, -np.inf)
        self.found_by = [""] * request.count
        self.finished = False

    @property
    def left(self) -> float:
        """The seconds that are left; without end where rounds are counted."""
        return np.inf if self.asked.seconds is None else self.asked.seconds - (time.perf_counter() - self.began)

    def run(self) -> Adapted:
        """Do all of it."""
        solver: Solver = self.solver
        interrupted = False
        try:
            solver, sentence = self._adapt()
        except _Skip as reason:
            sentence = f"not adapted: {reason}"
        except KeyboardInterrupt:
            if not np.isfinite(self.cost).any():
                raise
            sentence, interrupted = "not adapted: interrupted", True
        return Adapted(solver, self.choice, self.bound, self.found_by, sentence, self.finished, interrupted)

    def _adapt(self) -> tuple[Solver, str]:
        network = self.solver
        if isinstance(self.solver, AnytimeSolver):
            if not self.solver.network_helps(self.request.problem, self.request.shape):
                raise _Skip("there is no network for these instances, or it could not help in time")
            network = self.solver.network()
        assert isinstance(network, DiffusionSolver)
        self._search()
        if not len(self.open()):
            raise _Skip("every answer is proven optimal already")
        model = network.model_for(self.request.problem, self.request.size)
        pass_seconds, comparison = self._comparison(network, model)
        began = time.perf_counter()
        before = self._judged(network, model, comparison)
        judging = time.perf_counter() - began
        tuned, rounds = self._trained(model, pass_seconds, RESERVE * judging)
        if not rounds:
            raise _Skip(f"{self.asked.seconds:.3g} seconds are too few to learn {self._words()}")
        after = self._judged(network, tuned, comparison)
        change = float(((after - before) / np.abs(before).mean()).mean()) if before.any() else 0.0
        made = f"{rounds} rounds on {self._words()} changed the cost of its samples by {100 * change:+.2f} %"
        name = model.name.removesuffix(ADAPTED)
        if not change < 0:
            return self.solver, f"not adapted: {made}, so that the weights of '{name}' stay as they were"
        tuned.name = name + ADAPTED
        return self.solver.with_model(tuned), f"adapted '{name}': {made}"

    def open(self) -> NDArray[np.int64]:
        """Return the places of instances whose answers are not proven."""
        return np.flatnonzero(~meets(self.cost, self.bound))

    def _arrays_of(self, places: NDArray[np.int64]) -> Arrays:
        return {name: array[places] for name, array in self.request.arrays.items()}

    def _words(self) -> str:
        instances = counted(self.request.count, ("instance", "instances"))
        return f"{instances} of size {'×'.join(map(str, self.request.size))}"

    def _search(self) -> None:
        """Let the solver find solutions to learn from; without seconds, with all the effort that it takes by itself."""
        limit = None if self.asked.seconds is None else max(0.01, SEARCH_SHARE * self.left)
        request = self.request
        found = self.solver.solve(
            request.problem, request.arrays, samples=request.samples, seed=request.seed, time_limit=limit,
            start=request.start, callback=self._heard,
        )  # fmt: skip
        self._take(np.arange(request.count), found)
        if found.interrupted:
            raise KeyboardInterrupt
        if self.finished:
            raise _Skip("it was told to end")

    def _heard(self, improvement: Improvement) -> bool:
        if not self.finished:  # threads of the solver may have found more before they hear that it has ended
            self.finished = self.request.tell(improvement)
        return self.finished

    def _take(self, places: NDArray[np.int64], found: Results, by: str | None = None) -> None:
        """Keep solutions of some instances that are better than those known; `by` says what found them, if not they."""
        for number, place in enumerate(places):
            self.bound[place] = max(self.bound[place], found.bound[number])
            if found.cost[number] < self.cost[place]:
                self.cost[place], self.choice[place] = found.cost[number], found.choice[number]
                self.found_by[place] = found.found_by[number] if by is None else by

    def _comparison(self, network: DiffusionSolver, model: Model) -> tuple[float, _Comparison]:
        """Return the seconds of a pass for one trajectory, and how weights are compared in the time there is."""
        open_places = self.open()
        count = min(len(open_places), MOST_JUDGED.get(model.device.type, 64))
        samples, steps = max(SAMPLES, -(-LEAST_TRAJECTORIES // count)), STEPS
        if self.asked.seconds is None:
            return 0.0, _Comparison(open_places[:count], samples, steps)
        each = self._timed_pass(network, model, open_places[:1])
        if each < QUICK * self.left:  # the first one loads and compiles
            together = max(1, min(count, default_chunk(model, self.request.shape, DECODES)))
            each = self._timed_pass(network, model, open_places[:together])
        budget = JUDGE_SHARE * self.asked.seconds
        while count * samples * steps * each > budget:
            if count > FEW_INSTANCES:
                count = max(FEW_INSTANCES, count // 2)
            elif samples > SAMPLES:
                samples = max(SAMPLES, samples // 2)
            elif steps > FEW_STEPS:
                steps = FEW_STEPS
            elif samples > FEW_SAMPLES:
                samples = FEW_SAMPLES
            elif count > 1:
                count //= 2
            else:
                raise _Skip(f"{self.asked.seconds:.3g} seconds are too few to learn {self._words()}")
        return each, _Comparison(open_places[:count], samples, steps)

    def _timed_pass(self, network: DiffusionSolver, model: Model, places: NDArray[np.int64]) -> float:
        """Return the seconds that one pass takes for one trajectory, some instances together."""
        began = time.perf_counter()
        self._judged(network, model, _Comparison(places, 1, 1))
        return (time.perf_counter() - began) / len(places)

    def _judged(self, network: DiffusionSolver, model: Model, comparison: _Comparison) -> NDArray[np.float64]:
        """Return what a model's samples cost on the instances of a comparison, (count,)."""
        options = network.options_for(model, self.request.size, comparison.samples)
        decodes = min(options.decodes, DECODES)
        options = replace(options, steps=comparison.steps, decodes=decodes, improve_rounds=0, merge=0)
        arrays = self._arrays_of(comparison.places)
        solver = DiffusionSolver(model, sampling=options, device=network.device, chunk=network.chunk)
        found = solver.solve(self.request.problem, arrays, samples=comparison.samples, seed=self.request.seed)
        self._take(comparison.places, found, "adaptation")
        if found.interrupted:
            raise KeyboardInterrupt
        return np.where(np.isfinite(found.cost), found.cost, 2 * np.abs(self.cost[comparison.places]) + 1)

    def _trained(self, model: Model, pass_seconds: float, reserve: float) -> tuple[Model, int]:
        """Return a model that learned the instances, and in how many rounds; `reserve` seconds are left afterwards."""
        known = np.flatnonzero(np.isfinite(self.cost))
        arrays = self._arrays_of(known)
        affordable = np.inf
        if self.asked.seconds is not None:
            affordable = max(0.0, self.left - reserve) / (LEAST_STEPS * STEP_PASSES * pass_seconds)
        config = _config(model, arrays, self.asked.rounds, self.request.seed, affordable)
        trainer = InstanceTrainer(
            config, device=model.device.type, start=model, arrays=arrays, choice=self.choice[known],
            until=None if self.asked.seconds is None else time.perf_counter() + self.left - reserve,
            step_seconds=STEP_PASSES * config.cloning.batch * pass_seconds, stopped=lambda: self.finished,
            capture=self.left - reserve >= CAPTURE_FROM, compile_network=False,
        )  # fmt: skip
        try:
            trained = trainer.run()
        except UsageError as error:  # not enough memory
            raise _Skip(str(error)) from None
        finally:
            self._take_learned(known, trainer)
        if not trainer.weights.finite():
            raise _Skip("training diverged")
        return copy_of(trained, model.card), trainer.rounds_done

    def _take_learned(self, places: NDArray[np.int64], trainer: InstanceTrainer) -> None:
        """Keep the solutions that training met."""
        if not hasattr(trainer, "incumbents"):
            return  # it did not even begin
        choice = trainer.incumbents.choice.cpu().numpy()
        feasible, cost = judge(self.request.problem, self._arrays_of(places), choice)
        for place, one, right, value in zip(places, choice, feasible, cost, strict=True):
            if right and value < self.cost[place]:
                self.cost[place], self.choice[place], self.found_by[place] = value, one, "adaptation"


def _config(model: Model, arrays: Arrays, rounds: int, seed: int, affordable: float = np.inf) -> TrainingConfig:
    """Return the run: that of fine-tuning, with larger steps, and batches that fit into memory and time.

    affordable : items of a batch with which enough steps fit into the time.
    """
    config = finetuning_config(model, arrays, model.device, time_limit=1e9, rounds=rounds, seed=seed)
    rows, columns = model.problem.shape(model.problem.size(arrays))
    there = available_memory() if model.device.type == "cpu" else torch.cuda.mem_get_info()[0]
    batch = max(1, int(min(config.cloning.batch, affordable)))
    if there is not None:
        each = PEAK * kept_bytes(model.config.network, rows, columns)
        batch = max(1, min(batch, int(MEMORY_SHARE * there / each)))
    count = min(config.targets.instances, batch)
    sampling = replace(config.targets.sampling, steps=4, decodes=min(config.targets.sampling.decodes, DECODES))
    return replace(
        config,
        targets=replace(config.targets, instances=count, trajectories=1, sampling=sampling, refine_rounds=0),
        cloning=replace(config.cloning, batch=batch),
        optimizer=replace(config.optimizer, learning_rate=LEARNING_RATE, average=AVERAGE),
    )
