"""Measuring rows, each once; and where ours is better, equal or worse: every comparison that a table allows.

The rule of comparisons is on the page of results (`results.md`): what the intervals do not tell apart is equal.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any, Literal

from experiments.tables.rows import METHODS, Family, Measured, Row, options_as_text, options_of
from icdc.errors import IcdcError
from icdc.evaluation.evaluate import OutcomeFile, Summary, evaluate, run_of, summarise
from icdc.evaluation.published import symmetric_gap
from icdc.io.datasets import STANDARD_SETS, Dataset, standard_set
from icdc.models.card import advised
from icdc.models.catalogue import available, card_of, path_of
from icdc.models.file import digest_of
from icdc.solvers import make_solver

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


Verdict = Literal["better", "equal", "worse"]


@dataclass(frozen=True)
class Comparison:
    """Our row beside another one, or beside the figure that the paper prints for that one.

    verdict : on ours; None where something was not measured.
    """

    mine: Measured | None
    theirs: Measured
    published: bool
    verdict: Verdict | None

    @property
    def family(self) -> Family:
        """Return what the competitor is."""
        return METHODS[self.theirs.row.method].family


def compare(rows: Sequence[Measured]) -> list[Comparison]:
    """Return all comparisons that the rows of one table allow, also those that lack a measurement."""
    found = []
    for theirs in rows:
        row, family = theirs.row, METHODS[theirs.row.method].family
        mine = counterpart(rows, row)
        if family is not Family.OURS:
            found.append(Comparison(mine, theirs, False, _verdict(mine, theirs)))
        if not row.model or (row.paper_gap is None and row.paper_cost is None) or family is Family.PAPER_ICDC:
            continue
        if family is Family.OURS and mine is not None:
            # the paper's own figures stand beside each answer of ours that counts as it does
            mine = theirs if row.model == mine.row.model else None
        if family is not Family.OURS or mine is not None:
            found.append(Comparison(mine, theirs, True, None if mine is None else judge_published(mine.summary, row)))
    return found


def counterpart(rows: Sequence[Measured], theirs: Row) -> Measured | None:
    """Return our row to set beside another: with as many samples or the next fewer, or, without a model, the most."""
    here = [m for m in rows if (m.row.dataset, m.row.method, m.row.answer) == (theirs.dataset, "icdc", "best")]
    here = sorted((m for m in here if m.row.model == here[0].row.model), key=lambda m: -m.row.samples)
    if not theirs.model:
        return next((m for m in here if m.summary is not None), None)
    return next((m for m in here if m.row.samples <= theirs.samples), None)


def judge(low: float, high: float, their_low: float, their_high: float) -> Verdict:
    """Return the verdict on an interval beside another one: equal if they overlap; small is good."""
    if low <= their_high and their_low <= high:
        return "equal"
    return "better" if high < their_low else "worse"


def judge_published(mine: Summary | None, row: Row) -> Verdict | None:
    """Return the verdict beside the figure that the paper prints for a row, without an interval."""
    if mine is None or mine.gap_low is None or mine.gap_high is None or mine.feasible < 100.0:
        return None
    if row.paper_gap is not None:
        return judge(symmetric_gap(mine.gap_low), symmetric_gap(mine.gap_high), row.paper_gap, row.paper_gap)
    optima = standard_set(mine.dataset).reference
    if row.paper_cost is None or optima is None or mine.reference is None:
        return None
    # costs, unlike gaps, depend on the draw; what is printed is rounded to two digits
    draws = 1.96 * float(optima.std()) * sqrt(2.0 / mine.instances)
    low, high = (mine.reference * (1.0 + gap / 100.0) for gap in (mine.gap_low, mine.gap_high))
    return judge(low - draws, high + draws, row.paper_cost - 0.005, row.paper_cost + 0.005)


def _verdict(mine: Measured | None, theirs: Measured) -> Verdict | None:
    a, b = None if mine is None else mine.summary, theirs.summary
    if a is None or b is None or a.instances != b.instances or min(a.feasible, b.feasible) < 100.0:
        return None
    if a.gap_low is None or a.gap_high is None or b.gap_low is None or b.gap_high is None:
        return None
    return judge(a.gap_low, a.gap_high, b.gap_low, b.gap_high)


def counts(comparisons: Iterable[Comparison]) -> dict[Verdict | None, int]:
    """Return how many comparisons have each verdict; None stands for those that have none."""
    found: dict[Verdict | None, int] = {"better": 0, "equal": 0, "worse": 0, None: 0}
    for comparison in comparisons:
        found[comparison.verdict] += 1
    return found


def quickest_exact(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return, for each test set, the comparison with the quickest exact solver that was measured."""
    found: dict[str, Comparison] = {}
    for comparison in comparisons:
        if comparison.family is Family.EXACT and comparison.verdict is not None:
            before = found.setdefault(comparison.theirs.row.dataset, comparison)
            if seconds_each(comparison.theirs) < seconds_each(before.theirs):
                found[comparison.theirs.row.dataset] = comparison
    return list(found.values())


def exact_wins(comparison: Comparison) -> bool:
    """Return whether an exact solver is as good as ours or better, and takes no longer."""
    return comparison.verdict != "better" and seconds_each(comparison.theirs) <= seconds_each(comparison.mine)


def seconds_each(measured: Measured | None) -> float:
    """Return the seconds that an instance took; infinite where nothing was measured."""
    return float("inf") if measured is None or measured.summary is None else measured.summary.seconds_per_instance
