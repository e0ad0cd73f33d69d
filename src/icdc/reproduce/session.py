"""Measuring rows: which model a row needs, whether it is there, and what was measured before."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ..data.dataset import Dataset
from ..data.standard import standard_set
from ..errors import IcdcError
from ..evaluation import evaluate, run_of, summarise
from ..model import available, card_of, models_folder
from ..outcomes import OutcomeFile
from ..solver import Solver
from ..solvers import SOLVERS, make_solver, options_of
from ..solving import DiffusionSolver
from ..trained import digest_of
from ..training.checkpoint import MODEL
from .carded import from_card
from .rows import Measured, Row
from .wording import how, settled

NOT_TRAINED = "not trained here"
LEFT_OUT = "left out this time"

Part = Literal["all", "learned", "classical"]
"""Which rows are measured: all, those that need a model, or those that need none."""


@dataclass
class Session:
    """One call of `icdc reproduce`.

    store : outcomes of every instance; rows found there are not run again.
    quick : a few instances and samples, to see that everything works; such numbers mean nothing.
    limit : only the first so many instances of each test set; None for all.
    counts : numbers of samples of the tables, ascending; None for the paper's.
    seed : of the solvers.
    runs : folder of training runs, where models are looked for that are not shipped.
    device : "auto", "cpu" or "cuda", for learned solvers.
    only : measures rows of one kind, those with a model on a machine with a GPU, say, and the classical solvers on one
        with their packages; of the others only those appear that are in `store` already.
    cards : where nothing is on file, take what the cards of shipped models have of the same measurement.
    say : hears of progress.
    """

    store: OutcomeFile
    quick: bool = False
    limit: int | None = None
    seed: int = 0
    runs: Path = Path("runs")
    device: str = "auto"
    only: Part = "all"
    counts: tuple[int, ...] | None = None
    cards: bool = False
    say: Callable[[str], None] = lambda words: None
    used: set[str] = field(default_factory=set)

    @property
    def samples(self) -> tuple[int, ...]:
        """Return the numbers of samples of a table."""
        return self.counts or ((1, 2) if self.quick else (1, 8, 32, 128))

    @property
    def many(self) -> int:
        """Return the number of samples of a figure."""
        return self.samples[-1]

    @property
    def instances(self) -> int | None:
        """Return how many instances of each test set are solved; None for all."""
        return 2 if self.quick and self.limit is None else self.limit

    def measure(self, rows: Iterable[Row]) -> list[Measured]:
        """Measure rows in turn; what cannot be measured here is kept, with the reason."""
        measured = []
        for row in rows:
            self.say(f"{row.dataset}: {row.method} ×{row.samples}")
            measured.append(self._measure(row))
        return measured

    def model_file(self, name: str) -> Path | None:
        """Return the file of a shipped model, of a run's model or of that path; None where there is none of them."""
        return model_file(name, self.runs)

    def _measure(self, row: Row) -> Measured:
        name = row.solver.partition(":")[0]
        path = None if row.model is None else self.model_file(row.model)
        if row.model is not None and (path is None or name not in SOLVERS):
            return Measured(row, note=NOT_TRAINED)
        dataset = self._dataset(row.dataset)
        label = row.solver
        try:
            solver = self._solver(row, name, path)
            if not solver.supports(dataset.problem):
                return Measured(row, note=f"cannot answer {dataset.problem.name}")
            way = _how(row, dataset, solver, path)
            if path is not None:
                # a model trained again under the same name is another solver, and so is one with other defaults
                label += f" {row.model}@{digest_of(path)}" + (f" ({way})" if way else "")
            known = self.store.outcomes_of(run_of(dataset, label, samples=row.samples, seed=self.seed))
            if len(known) < len(dataset):
                carded = self._from_card(row, dataset, solver)
                if carded is not None:
                    return carded
                if self.only not in ("all", _part(row)):
                    return Measured(row, note=LEFT_OUT)
            outcomes = evaluate(
                dataset, solver, label, samples=row.samples, seed=self.seed, store=self.store, warm_up=not self.quick
            )
        except IcdcError as error:
            return Measured(row, note=f"not run here: {error}")
        if row.model is not None:
            self.used.add(row.model)
        return Measured(row, summarise(outcomes), how=way)

    def _from_card(self, row: Row, dataset: Dataset, solver: Solver) -> Measured | None:
        if not (self.cards and self.seed == 0 and row.model in available() and isinstance(solver, DiffusionSolver)):
            return None
        measured = from_card(card_of(row.model), row, dataset, solver)
        if measured is not None:
            self.used.add(row.model)
        return measured

    def _solver(self, row: Row, name: str, path: Path | None) -> Solver:
        """Return the solver of a row; learned ones run on the session's device, others where they do by default."""
        options: dict[str, Any] = {}
        if path is not None:
            options["model"] = row.model if row.model in available() else str(path)
            if "device" in options_of(name):
                options["device"] = self.device
        return make_solver(row.solver, **options)

    def _dataset(self, name: str) -> Dataset:
        dataset = _standard(name)
        return dataset if self.instances is None else dataset.first(self.instances)


def model_file(name: str, runs: Path) -> Path | None:
    """Return the file of a shipped model, of the model of a run in `runs`, or of that path; None for none of them."""
    places = [models_folder() / f"{name}.safetensors", runs / name / MODEL, Path(name)]
    return next((path for path in places if path.is_file()), None)


def _part(row: Row) -> Part:
    return "classical" if row.model is None else "learned"


def _how(row: Row, dataset: Dataset, solver: Solver, path: Path | None) -> str:
    """Return how a diffusion model was run; nothing for other solvers."""
    if path is None or not isinstance(solver, DiffusionSolver):
        return ""
    size = dataset.problem.size(dataset.arrays)
    return how(settled(solver, dataset.problem, size, row.samples, card_of(path)), solver.refine)


@cache
def _standard(name: str) -> Dataset:
    return standard_set(name)
