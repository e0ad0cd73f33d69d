"""Measuring rows: which model a row needs, whether it is there, and what has been measured before."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from experiments.methods import METHODS
from experiments.table import Measured, Row, options_as_text, options_of
from icdc.errors import IcdcError
from icdc.evaluation.evaluate import evaluate, run_of, summarise
from icdc.evaluation.outcomes import OutcomeFile
from icdc.io.datasets import STANDARD_SETS, Dataset, standard_set
from icdc.models.base import digest_of
from icdc.models.catalogue import advised, available, card_of, path_of
from icdc.solving.registry import make_solver

NOT_TRAINED = "not trained here"
LEFT_OUT = "not measured yet"

Part = Literal["all", "learned", "classical"]
"""Which rows are measured: all, those that need a model, or those that need none."""


@dataclass(frozen=True)
class Measurement:
    """Measures rows, each once.

    store : outcomes of every instance; rows found there are not run again.
    limit : only the first so many instances of each test set; None for all.
    seed : of the solvers.
    runs : folder of training runs, where models are looked for that are not shipped.
    device : "auto", "cpu" or "cuda", for learned solvers.
    only : measures rows of one kind, those with a model on a machine with a GPU, say, and the classical solvers on one
        with their packages; of the others only those appear that are in `store` already.
    methods : measures rows of these methods alone; all, if none are named.
    warm_up : let every solver load and compile before the clock starts.
    say : hears of progress.
    """

    store: OutcomeFile
    limit: int | None = None
    seed: int = 0
    runs: Path = Path("runs")
    device: str = "auto"
    only: Part = "all"
    methods: frozenset[str] = frozenset()
    warm_up: bool = True
    say: Callable[[str], None] = lambda words: None

    def measure(self, rows: Iterable[Row]) -> list[Measured]:
        """Measure rows in turn; what cannot be measured here is kept, with the reason."""
        measured = []
        for row in rows:
            self.say(f"{row.dataset}: {row.method} {row.model} {row.answer} ×{row.samples}")
            try:
                measured.append(self._measure(row))
            except IcdcError as error:
                measured.append(Measured(row, note=f"not run here: {error}"))
        return measured

    def model_file(self, name: str) -> Path | None:
        """Return the file of a shipped model or of a training run; None where there is neither."""
        path = path_of(name) if name in available() else self.runs / name / "model.safetensors"
        return path if path.is_file() else None

    def _measure(self, row: Row) -> Measured:
        path = self.model_file(row.model) if row.model else None
        if row.model and path is None:
            return Measured(row, note=NOT_TRAINED)
        dataset = _standard(row.dataset)
        dataset = dataset if self.limit is None else dataset.first(self.limit)
        solver_name, settings, digest = METHODS[row.method].solver, row.options, ""
        options: dict[str, Any] = {}
        if path is not None:
            digest, options = digest_of(path), {"model": str(path), "device": self.device}
            asked, advice = options_of(row.options), {}
            if solver_name == "network":  # the model alone, unless a row asks for more
                options |= {} if "merge" in asked else {"merge": 0}
                merging = asked.get("merge", "0") != "0"
                advice = advised(card_of(path), STANDARD_SETS[row.dataset].size, row.samples, merging=merging)
            settings = options_as_text(advice | asked)
        # a model trained again under the same name is another solver, and so is one with other advice
        label = " ".join(filter(None, [f"{solver_name}:{settings}", row.model, digest]))
        known = self.store.outcomes_of(run_of(dataset, label, samples=row.samples, seed=self.seed))
        left_out = self.only not in ("all", "learned" if row.model else "classical")
        if len(known) < len(dataset) and (left_out or (self.methods and row.method not in self.methods)):
            return Measured(row, note=LEFT_OUT)
        outcomes = evaluate(
            dataset, make_solver(f"{solver_name}:{row.options}", **options), label, samples=row.samples, seed=self.seed,
            store=self.store, warm_up=self.warm_up,
        )  # fmt: skip
        return Measured(row, summarise(outcomes), settings, digest)


@cache
def _standard(name: str) -> Dataset:
    return standard_set(name)
