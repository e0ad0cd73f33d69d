"""Fine-tuning: training that begins at a model's weights and draws its instances from a given set.

No solved examples are needed, and no augmentation: rows and columns may be put in any order, but the network and
the decoding treat every order alike, so a permuted instance would teach nothing new.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..model import Model, pick_device
from ..noise import Noise
from ..problem import Arrays, Problem, Size, to_tensors
from ..problems import problem_path
from .config import ImprovementConfig, OptimizerConfig, TrainingConfig, load_config, presets
from .trainer import Progress, Trainer

LEARNING_RATE = 1e-4
COMPILE_FROM = 240.0
"""Seconds of training from which on compiling the network for a GPU, about a minute, pays."""


class _FromSet(Problem):
    """Overrides how a problem draws instances; mixed in before the problem's own class by `drawing_from`."""

    source: Arrays
    tensors: dict[torch.device, dict[str, Tensor]]

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        """Draw with replacement from the set."""
        pick = rng.integers(0, len(next(iter(self.source.values()))), size=count)
        return {name: array[pick] for name, array in self.source.items()}

    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor]:
        """Draw with replacement from the set, which lies on the device since the first draw."""
        device = noise.keys.device
        if device not in self.tensors:
            self.tensors[device] = to_tensors(self.source, device)
        here = self.tensors[device]
        pick = noise.integers(len(next(iter(here.values()))))
        return {name: tensor[pick] for name, tensor in here.items()}


def drawing_from(problem: Problem, arrays: Arrays) -> Problem:
    """Return the problem with instances drawn from `arrays` (leading axis count) instead of generated."""
    kind: Any = type(f"{type(problem).__name__}FromSet", (_FromSet, type(problem)), {})
    drawn: _FromSet = kind.__new__(kind)
    drawn.__dict__.update(problem.__dict__)
    drawn.source, drawn.tensors = arrays, {}
    return drawn


def finetuning_config(
    model: Model, arrays: Arrays, device: torch.device, *, time_limit: float, rounds: int = 0, seed: int = 0
) -> TrainingConfig:
    """Return the run: the settings of the problem's preset, with small steps and batches that suit the device.

    Parameters
    ----------
    model : the model to begin with.
    arrays : the instances to train on, leading axis count; all of one size.
    """
    problem = model.problem
    size = problem.size(arrays)
    rows, columns = problem.shape(size)
    fitting = [name for name in presets() if name.startswith(f"{problem.name}-")]
    base = load_config(fitting[0]) if fitting else TrainingConfig()
    if device.type == "cuda":
        instances, trajectories, steps = max(8, min(512, 200_000 // (rows * columns))), 4, 8
    else:
        instances, trajectories, steps = max(2, min(32, 6_400 // (rows * columns))), 2, 6
    return replace(
        base,
        problem=problem_path(problem),
        sizes=(tuple(size),),
        seed=seed,
        time_limit=time_limit,
        rounds=rounds,
        init="",
        model=model.config,
        targets=replace(base.targets, instances=instances, trajectories=trajectories),
        cloning=replace(
            base.cloning, batch=instances if device.type == "cuda" else 2 * instances,
            steps_first=steps, steps_last=steps,
        ),
        # the weights know good solutions already; REINFORCE is for finding the first ones
        improvement=ImprovementConfig(weight=0.0),
        optimizer=OptimizerConfig(learning_rate=LEARNING_RATE, warmup_rounds=3, average=0.98),
    )  # fmt: skip


def train_on(
    model: Model,
    arrays: Arrays,
    *,
    time_limit: float,
    rounds: int = 0,
    seed: int = 0,
    device: str = "auto",
    callback: Callable[[Progress], None] | None = None,
) -> Model:
    """Return a model that begins like `model`, which stays as it is, and is trained on instances of one size.

    Parameters
    ----------
    arrays : the instances, leading axis count.
    time_limit : seconds of training, set-up not counted.
    rounds : rounds of training instead of seconds, if not 0.
    callback : told every few seconds how it goes.
    """
    chosen = pick_device(device)
    config = finetuning_config(model, arrays, chosen, time_limit=time_limit, rounds=rounds, seed=seed)
    start = Model(drawing_from(model.problem, arrays), model.config)
    start.network.load_state_dict(model.network.state_dict())
    trainer = Trainer(config, device=device, start=start, compile_network=time_limit >= COMPILE_FROM)
    trained = trainer.run(callback)
    tuned = Model(model.problem, model.config, name="finetuned", card=trained.card)
    tuned.network.load_state_dict(trained.network.state_dict())
    tuned.network.eval()
    return tuned.to(chosen)
