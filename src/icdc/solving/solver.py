"""The learned solver: encode once, run trajectories, refine, keep the best of everything decoded on the way.

Random numbers of a trajectory depend on the seed, the instance's own content and the trajectory's number, so an
answer does not depend on what else is in the batch, on the size of a chunk, or on the device count.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..model import Model, default_for, load, pick_device
from ..problem import Arrays, Problem, Size
from ..problems import is_named, problem_path
from ..sampling import SamplingOptions, Step
from ..solver import Results
from .search import Improvement, Search, SolveCallback

UNTUNED = SamplingOptions(order="rule", temperature=1.0, decodes=8)
"""How to solve with a model whose card gives no advice."""
LARGE = 5000
"""Elements of a matrix from which on `UNTUNED_LARGE` is used: there a network pass costs far more than many decodes."""
UNTUNED_LARGE = replace(UNTUNED, steps=10, temperature=0.7, decodes=32)
"""With 1 to 32 samples for 100 cities, tours were better than by `UNTUNED`, in half its time."""

__all__ = ["DiffusionSolver", "Improvement", "SolveCallback"]


class DiffusionSolver:
    """Solves instances with a trained model.

    Parameters
    ----------
    model : a model, the name of a shipped one, a file's path, or None to pick the shipped one that knows the
        nearest size.
    steps, reverse, order, temperature, decodes, keep, any_start, reverse_temperature : see `SamplingOptions`; None
        leaves the choice to the model's card, which knows what was best on validation data for a number of samples.
    refine : rounds of refinement after sampling; with a time limit there are as many as fit.
    refine_steps : network passes of a refinement.
    device : "auto", "cpu" or "cuda".
    chunk : trajectories that run together; None for as many as suit the device.
    """

    name = "icdc"

    def __init__(
        self,
        model: Model | str | None = None,
        *,
        steps: int | None = None,
        reverse: str | None = None,
        order: str | None = None,
        temperature: float | None = None,
        decodes: int | None = None,
        keep: str | None = None,
        any_start: bool | None = None,
        reverse_temperature: float | None = None,
        refine: int = 0,
        refine_steps: int = 3,
        device: str = "auto",
        chunk: int | None = None,
    ) -> None:
        given = {
            "steps": steps,
            "reverse": reverse,
            "order": order,
            "temperature": temperature,
            "decodes": decodes,
            "keep": keep,
            "any_start": any_start,
            "reverse_temperature": reverse_temperature,
        }
        self.given: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        replace(UNTUNED, **self.given)  # refuses values that make no sense now, not when the first instance comes
        if refine < 0 or refine_steps < 1:
            raise UsageError("refine must not be negative, and a refinement needs at least one step")
        if chunk is not None and chunk < 1:
            raise UsageError(f"a chunk needs at least one trajectory, got {chunk}")
        self.model, self.refine, self.refine_steps = model, refine, refine_steps
        self.device, self.chunk = device, chunk
        self.trace: Callable[[Step], bool | None] | None = None
        """Set to a function to see every reverse step of the first trajectories, for example to animate them."""

    def options_for(self, model: Model, size: Size, samples: int) -> SamplingOptions:
        """Return how trajectories run: as asked for, else as the model's card advises for so many samples."""
        rows, columns = model.problem.shape(size)
        untuned = UNTUNED if rows * columns < LARGE else UNTUNED_LARGE
        return replace(untuned, **{**model.advice(size, samples), **self.given})

    def supports(self, problem: Problem) -> bool:
        """Tell whether the model, or some shipped one, is for this problem."""
        from ..model import available, card_of

        if isinstance(self.model, Model):
            return type(self.model.problem) is type(problem)
        names = [self.model] if self.model is not None else available()
        cards = [card_of(name) for name in names]
        return any(card["kind"] == Model.kind and is_named(problem, str(card["problem"])) for card in cards)

    def solve(
        self,
        problem: Problem,
        arrays: Arrays,
        *,
        samples: int = 1,
        seed: int = 0,
        time_limit: float | None = None,
        start: NDArray[np.int64] | None = None,
        callback: SolveCallback | None = None,
    ) -> Results:
        """Answer every instance; see `Solver.solve`.

        Parameters
        ----------
        start : (count, rows), solutions to begin from; the answers are never worse.
        callback : told of every improvement; returning True ends the search once every instance has an answer.
        """
        if samples < 1:
            raise UsageError(f"at least one sample is needed, got {samples}")
        model = self._model_for(problem, arrays)
        search = Search(self, model, problem, arrays, samples, seed, callback)
        began = time.perf_counter()
        interrupted = search.run(time_limit, start)
        return search.results(time.perf_counter() - began, interrupted)

    def _model_for(self, problem: Problem, arrays: Arrays) -> Model:
        """Return the model, loading it on first use."""
        if isinstance(self.model, Model):
            model = self.model
        else:
            name = self.model or default_for(problem_path(problem), problem.size(arrays))
            model = load(name, self.device, problem)
            if self.model is not None:
                self.model = model
        if type(model.problem) is not type(problem):
            raise UsageError(f"the model '{model.name}' is for {model.problem.name}, not for {problem.name}")
        device = pick_device(self.device)
        return model if model.device.type == device.type else model.to(device)
