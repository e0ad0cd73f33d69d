"""Between the solve path and the pipe: improvements and steps of the network as small plain messages."""

import base64
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..problems.instance import Instance
from ..solving.jobs import Job, Observer
from ..solving.solver import Improvement
from .worker import Batch, Message

if TYPE_CHECKING:
    from ..diffusion.sampler import Step


class Teller(Observer):
    """Tells of every order's improvements, once each, and keeps the best for when the search is cut off."""

    def __init__(self, instances: list[Instance], batch: Batch, say: Callable[[Message], None]) -> None:
        self.instances, self.batch, self.say = instances, batch, say
        self.places: list[int] = []
        self.costs = [math.inf] * len(instances)
        self.bounds = [-math.inf] * len(instances)
        self.choices: dict[int, NDArray[np.int64]] = {}
        self.found_by: dict[int, str | None] = {}
        self.began = time.perf_counter()

    def note(self, sentence: str) -> None:
        for place in range(len(self.instances)):
            self.say(Message("note", self.batch.number, place, sentence))

    def begin(self, job: Job, bound: NDArray[np.float64]) -> None:
        self.places = job.places
        for place, low in zip(job.places, bound.tolist(), strict=True):
            self.bounds[place] = low
            self.say(Message("begun", self.batch.number, place, {"bound": self._number(place, low)}))

    def improved(self, improvement: Improvement) -> None:
        for index, place in enumerate(self.places):
            cost = float(improvement.cost[index])
            if not cost < self.costs[place]:
                continue
            self.costs[place] = cost
            if improvement.bound is not None:
                self.bounds[place] = max(self.bounds[place], float(improvement.bound[index]))
            by = None if improvement.found_by is None else improvement.found_by[index]
            self.found_by[place] = by
            self.choices[place] = improvement.choice[index].copy()
            solution = self.instances[place].solution(improvement.choice[index])
            told = {
                "seconds": round(time.perf_counter() - self.began, 6),
                "cost": self._number(place, cost),
                "bound": self._number(place, self.bounds[place]),
                "solution": solution,
                "found_by": by,
            }
            self.say(Message("improved", self.batch.number, place, told))

    def step(self, step: "Step") -> None:
        """Tell of a step of the first trajectory: X_t and what the network believes of X_0, in bytes.

        Where s is above t the start is being noised, otherwise the matrix denoised.
        """
        noisy, believed = step.x.float(), step.log_odds.float().sigmoid()
        if step.candidates is not None:  # elsewhere there is nothing, and nothing is expected
            noisy, believed = step.candidates.spread(noisy), step.candidates.spread(believed)
        x = (noisy[0] > 0.5).cpu().numpy()
        belief = (255 * believed[0]).round().byte().cpu().numpy()
        cost = None if step.cost is None else float(step.cost.flatten()[0])
        told = {
            "t": step.t, "s": step.s, "rows": x.shape[0], "columns": x.shape[1],
            "x": base64.b64encode(np.packbits(x).tobytes()).decode(),
            "belief": base64.b64encode(belief.tobytes()).decode(),
            "cost": cost if cost is None or math.isfinite(cost) else None,
        }  # fmt: skip
        self.say(Message("step", self.batch.number, 0, told))

    def best_of(self, place: int) -> dict[str, Any] | None:
        """Return the best of an order whose search was cut off, checked, as an answer; None if it has none."""
        from ..solving.answer import Answer
        from ..solving.verify import verdict_on
        from .worker import document_of

        order, instance = self.batch.orders[place], self.instances[place]
        choice = self.choices.get(place, order.start)
        if choice is None:
            return None
        verdict = verdict_on(instance, choice, self.bounds[place])
        seconds = time.perf_counter() - self.began
        answer = Answer(
            instance, choice, verdict, order.samples or 1, seconds, order.seed, order.solver, None, interrupted=True,
            found_by=self.found_by.get(place, "start"),
        )  # fmt: skip
        return document_of(answer)

    def _number(self, place: int, value: float) -> int | float | None:
        """Return a cost or a bound as JSON holds it: a whole number where the instance has only those."""
        if not math.isfinite(value):
            return None
        return math.ceil(value - 1e-6) if self.instances[place].integral else value
