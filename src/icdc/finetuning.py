"""A model for your own matrices: train it further on some, compare on others, keep what is better."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError, UsageError
from .model import Model, pick_device
from .problem import Arrays
from .solving import DiffusionSolver
from .solving.domain import ranges
from .training import Progress
from .training.finetune import train_on

SAMPLES, STEPS = 4, 10
"""Effort with which the held-out part is solved, before and after."""
MOST_HELD_OUT = {"cpu": 64, "cuda": 1000}
"""The held-out part is at most so large: more would take longer to score than it tells."""


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
    callback: Callable[[Progress], None] | None = None,
) -> Finetuned:
    """Train a model further on instances of one size, without solved examples; the given model stays as it is.

    Parameters
    ----------
    arrays : the problem's named arrays, leading axis count, as `Problem.check` returns them.
    time_limit : seconds of training; solving the held-out part twice comes on top.
    rounds : rounds of training instead of seconds, if not 0.
    holdout : share of the instances that is held out to compare on, never trained on.
    about : what the card should say about the instances, such as their file.
    callback : told every few seconds how it goes.
    """
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
        return solver.solve(judged.problem, apart, samples=SAMPLES, seed=seed).cost

    before = costs(model)
    tuned = train_on(model, own, time_limit=time_limit, rounds=rounds, seed=seed, device=device, callback=callback)
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
        kept = Model(model.problem, model.config, card={**model.card, "finetuning": history})
        kept.network.load_state_dict(model.network.state_dict())
        kept.network.eval()
        return Finetuned(kept.to(model.device), before, result.after)
    inherited: dict[str, Any] = {name: model.card[name] for name in ("solving", "training") if name in model.card}
    size = [int(n) for n in model.problem.size(arrays)]
    tuned.card = {**inherited, "sizes": [size], "ranges": ranges(model.problem, own), "finetuning": history}
    return result
