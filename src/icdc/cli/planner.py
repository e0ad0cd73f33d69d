"""Who solves what: the named solver, or the learned one with the model that fits best."""

import sys
from typing import Any

from ..errors import UsageError
from ..model import Model, default_for, load
from ..plots import Recorder
from ..problem import Problem
from ..problems import problem_path
from ..solvers import make_solver
from ..solving import DiffusionSolver
from ..solving.api import DEFAULT_SAMPLES
from ..solving.domain import outside
from ..solving.search import default_chunk
from .batch import Group, Plan

LARGEST_JOB = 256


class Planner:
    """Makes a plan for every group, loading a model once however often it is needed.

    Parameters
    ----------
    solver : `name` or `name:key=value,…`, as `make_solver` understands it.
    model : name or path of a model for the learned solver; None takes the shipped one that fits best.
    samples, steps, refine : None leaves the solver's default.
    recorder : sees the steps of the learned solver, to animate them.
    elsewhere : "cpu" or "cuda" where other machines solve on such devices; models are loaded here to be sent there.
    """

    def __init__(
        self,
        solver: str,
        model: str | None = None,
        samples: int | None = None,
        steps: int | None = None,
        refine: int | None = None,
        seed: int = 0,
        device: str = "auto",
        recorder: Recorder | None = None,
        elsewhere: str | None = None,
    ) -> None:
        self._recorder = recorder
        self._elsewhere = elsewhere
        self._load_on = device if elsewhere is None else "cpu"
        self._solver, self._samples, self._seed, self._device = solver, samples, seed, device
        self._learned = solver.partition(":")[0] == "icdc"
        given: dict[str, Any] = {"steps": steps, "refine": refine}
        self._options = {name: value for name, value in given.items() if value is not None}
        self._models: dict[str, Model] = {}
        self._model = model
        if not self._learned and (model is not None or self._options):
            raise UsageError(f"--model, --steps and --refine are for the learned solver, not for '{solver}'")
        if not self._learned and recorder is not None:
            raise UsageError(f"only the learned solver can be animated (--plot FILE.gif), not '{solver}'")

    def problem(self) -> Problem | None:
        """Return the problem of the model that was asked for, if one was."""
        return None if self._model is None else self._load(self._model).problem

    def plan(self, group: Group) -> Plan:
        """Return how to solve a group; say in one line where its model was not trained for it."""
        if not self._learned:
            return Plan(make_solver(self._solver), None, self._samples or 1, self._seed)
        size = group.problem.size(group.arrays)
        model = self._load(self._model or default_for(problem_path(group.problem), size), group.problem)
        _warn(model, group)
        solver = make_solver(self._solver, model=model, device=self._device, **self._options)
        if self._recorder is not None and isinstance(solver, DiffusionSolver):
            solver.trace = self._recorder
        samples = self._samples or DEFAULT_SAMPLES
        kind = self._elsewhere or model.device.type
        decodes = solver.options_for(model, size, samples).decodes if isinstance(solver, DiffusionSolver) else 1
        chunk = default_chunk(model, group.problem.shape(size), decodes, kind)
        together = min(LARGEST_JOB, max(1, chunk // samples))
        return Plan(solver, model.name, samples, self._seed, together)

    def _load(self, name: str, problem: Problem | None = None) -> Model:
        if name not in self._models:
            self._models[name] = load(name, self._load_on, problem)
        return self._models[name]


def _warn(model: Model, group: Group) -> None:
    """Say in one line where instances are outside what the model's card says it knows."""
    said = outside(group.problem, group.arrays, model.card.get("sizes", []), model.card.get("ranges"))
    names = [instance.name for instance, words in zip(group.instances, said, strict=True) if words is not None]
    if names:
        what = next(words for words in said if words is not None)
        others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        print(f"icdc: {names[0]}{others} is new to the model '{model.name}': {what}", file=sys.stderr)
