"""A model for your own matrices: train it further on some, compare on others, keep what is better.

Training begins at the model's weights and draws its instances from yours. No solved examples are needed, and
no augmentation: rows and columns may be put in any order, but the network and the decoding treat every order alike, so
a permuted instance would teach nothing new.
"""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..io.datasets import fingerprint
from ..io.files import write_atomically
from ..models.card import ranges
from ..models.diffusion import Model
from ..models.file import own_random_numbers, pick_device
from ..options import check, check_kind
from ..problems import problem_path
from ..problems.base import Arrays
from ..settings import build
from ..solving.network import DiffusionSolver
from .algorithm import Trainer
from .checkpoint import STATE
from .config import ImprovementConfig, OptimizerConfig, TrainingConfig
from .loop import Callback
from .presets import presets, read_settings

SAMPLES, STEPS = 4, 10
"""Effort with which the held-out part is solved, before and after."""
MOST_HELD_OUT = {"cpu": 64, "cuda": 1000}
"""The held-out part is at most so large: more would take longer to score than it tells."""
LEARNING_RATE = 1e-4
MARK = "mark.json"
"""The file that says what the unfinished work in a folder is of."""
COMPILE_FROM = 240.0
"""Seconds of training from which on compiling the network for a GPU, about a minute, pays."""


@dataclass(frozen=True)
class Finetuned:
    """What came of it.

    model : the better of the two, with a card that says how it was made.
    before, after : (held out,) float64, costs on the held-out part with the old and the new weights.
    improved : whether the new weights were better, and are the model's.
    """

    model: Model
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    @property
    def improved(self) -> bool:
        return bool(self.after.mean() < self.before.mean())

    @property
    def change(self) -> float:
        """The change of the mean cost, as a fraction of what it was."""
        return float(self.after.mean() / self.before.mean() - 1) if self.before.mean() else 0.0

    @property
    def uncertainty(self) -> float:
        """One standard error of the change: held-out instances are few, and some of it is chance."""
        difference = self.after - self.before
        if len(difference) < 2 or not self.before.mean():
            return math.nan
        return float(difference.std(ddof=1) / math.sqrt(len(difference)) / abs(self.before.mean()))


def finetune(
    model: Model,
    arrays: Arrays,
    *,
    time_limit: float = 60.0,
    rounds: int = 0,
    holdout: float = 0.2,
    seed: int = 0,
    device: str = "auto",
    about: dict[str, Any] | None = None,
    callback: Callback | None = None,
    partial: Path | None = None,
) -> Finetuned:
    """Train a model further on instances of one size, without solved examples; the given model stays as it is.

    Parameters
    ----------
    arrays : the problem's named arrays, leading axis count, as `Problem.check` returns them.
    time_limit : seconds of training; solving the held-out part twice comes on top.
    rounds : rounds of training instead of seconds, if not 0.
    holdout : share of the instances that is held out to compare on, never trained on.
    about : what the card should say about the instances, such as their file.
    callback : called every few seconds with the `Progress`; returning True ends the training.
    partial : folder for unfinished work: a call that was stopped, by whatever, goes on there if everything is the same,
        and ends as if it had not been. Remove it once the model is saved.
    """
    time_limit, seed = check("time_limit", time_limit), check("seed", seed)
    if check_kind(rounds, int, "rounds") < 0:
        raise UsageError(f"rounds must be at least 0, got {rounds}")
    count = len(next(iter(arrays.values())))
    if not 0 < holdout < 1:
        raise UsageError(f"the share to hold out must be between 0 and 1, got {holdout:g}")
    if count < 2:
        raise InputError("fine-tuning needs at least 2 instances, one of them to hold out")
    kind = pick_device(device).type
    held = min(MOST_HELD_OUT.get(kind, 64), max(1, min(count - 1, round(holdout * count))))
    order = np.random.default_rng(seed).permutation(count)
    apart, own = ({k: a[part] for k, a in arrays.items()} for part in (order[:held], order[held:]))

    def costs(judged: Model) -> NDArray[np.float64]:
        solver = DiffusionSolver(judged, steps=STEPS, device=device)
        solved = solver.solve(judged.problem, apart, samples=SAMPLES, seed=seed)
        if solved.interrupted:
            raise KeyboardInterrupt
        return solved.cost

    before = costs(model)
    options = {"time_limit": time_limit, "rounds": rounds, "holdout": holdout, "seed": seed}
    resume = partial is not None and _can_resume(partial, _identity(model, arrays, options))
    tuned = train_on(
        model, own, time_limit=time_limit, rounds=rounds, seed=seed, device=device, callback=callback,
        folder=partial, resume=resume,
    )  # fmt: skip
    result = Finetuned(tuned, before, costs(tuned))
    record = {
        "base": model.name,
        **(about or {}),
        "trained_on": count - held,
        "held_out": held,
        "before": round(float(before.mean()), 6),
        "after": round(float(result.after.mean()), 6),
        "samples": SAMPLES,
        "steps": STEPS,
        "kept": "tuned" if result.improved else "base",
        **tuned.card["training"],
    }
    history = [*model.card.get("finetuning", []), record]
    if not result.improved:
        return replace(result, model=copy_of(model, {**model.card, "finetuning": history}))
    inherited: dict[str, Any] = {name: model.card[name] for name in ("solving", "training") if name in model.card}
    size = [int(n) for n in model.problem.size(arrays)]
    tuned.card = {**inherited, "sizes": [size], "ranges": ranges(model.problem, own), "finetuning": history}
    return result


def train_on(
    model: Model,
    arrays: Arrays,
    *,
    time_limit: float,
    rounds: int = 0,
    seed: int = 0,
    device: str = "auto",
    callback: Callback | None = None,
    folder: Path | None = None,
    resume: bool = False,
) -> Model:
    """Return a model that begins like `model`, which stays as it is, and is trained on instances of one size.

    Parameters
    ----------
    arrays : the instances, leading axis count.
    time_limit : seconds of training, set-up not counted.
    rounds : rounds of training instead of seconds, if not 0.
    folder, resume : where the state of the run is kept, and whether to go on from it.
    """
    config = finetuning_config(model, arrays, pick_device(device), time_limit=time_limit, rounds=rounds, seed=seed)
    compiled = time_limit >= COMPILE_FROM
    trainer = Trainer(
        config, device=device, start=model, instances=arrays, compile_network=compiled, out=folder, resume=resume
    )
    trained = trainer.run(callback)
    return copy_of(trained, trained.card)


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
    columns = model.candidates_of(size) or columns  # what the network sees is what takes time
    fitting = [name for name in presets() if name.startswith(f"{problem.name}-")]
    base = build(TrainingConfig, read_settings(fitting[0]) if fitting else {})
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


def _identity(model: Model, arrays: Arrays, options: dict[str, Any]) -> str:
    """Return what tells one fine-tuning from another: the weights it begins with, the instances, and the options."""
    weights = {name: tensor.cpu().numpy() for name, tensor in model.network.state_dict().items()}
    return json.dumps({"weights": fingerprint(weights), "instances": fingerprint(arrays), **options})


def _can_resume(folder: Path, identity: str) -> bool:
    """Tell whether a folder holds unfinished work of this identity; anything else in it makes way for new work."""
    path = folder / MARK
    if path.is_file() and (folder / STATE).is_file() and path.read_text() == identity:
        return True
    (folder / STATE).unlink(missing_ok=True)
    write_atomically(path, identity, make_folder=True)
    return False


def copy_of(model: Model, card: dict[str, Any]) -> Model:
    """Return a model with the same weights and another card; nothing in it is compiled or shared."""
    with own_random_numbers():
        copy = Model(model.problem, model.config, name="finetuned", card=card)
    copy.network.load_state_dict(model.network.state_dict())
    copy.network.eval()
    return copy.to(model.device)
