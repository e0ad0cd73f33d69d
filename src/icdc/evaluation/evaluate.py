"""Run any solver on a dataset and say, honestly and in one row, how good and how fast it was.

Solutions are checked and scored by the problem itself, whatever a solver claims (`Solver.solve`). Gaps compare mean
costs over the instances solved feasibly: with a the solver's mean and b the references', the gap is 100·(a − b)/b and
the paper's symmetric gap 200·(a − b)/(a + b). The confidence interval is a bootstrap over instances. Seconds run from
arrays in memory to answers in memory, after a warm-up call; they leave out loading, compiling and starting processes,
and include everything else, transfers and synchronisation too. Outcomes of single instances can be kept in a file, from
which an interrupted evaluation goes on.
"""

import csv
import io
import json
import typing
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..io.datasets import Dataset, fingerprint
from ..io.files import LockedFile
from ..io.solutions import guarded, unguarded
from ..options import check_kind, read_text
from ..problems.forbidden import uses_forbidden
from ..solving.solver import Solver

_TOLERANCE = 1e-9
"""Relative difference below which two costs are the same: sums of reals in another order differ by less."""


@dataclass(frozen=True)
class Outcome:
    """One solver on one instance.

    dataset, instances_sha256, solver, samples, seed, time_limit : which run it belongs to.
    cost : None where the answer was not feasible; computed by the evaluation, not by the solver.
    proven : whether the solver claims to have proven its answer optimal.
    bound : the problem's lower bound, where there is no reference.
    seconds : the instance's share of the time its chunk took.
    """

    dataset: str
    instances_sha256: str
    solver: str
    samples: int
    seed: int
    time_limit: float | None
    instance: int
    cost: float | None
    feasible: bool
    proven: bool
    bound: float | None
    reference: float | None
    reference_proven: bool
    seconds: float
    device: str


_KINDS = typing.get_type_hints(Outcome)
RUN = ("dataset", "instances_sha256", "solver", "samples", "seed", "time_limit")
"""The entries of an outcome that say which run it belongs to."""


class OutcomeFile:
    """Outcomes in a `.jsonl` or `.csv`, one a line, appended chunk by chunk; one process at a time has the file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix not in (".jsonl", ".csv"):
            raise UsageError(f"per-instance results go to a .jsonl or a .csv, not to '{self.path}'")
        self._runs: dict[tuple[Any, ...], dict[int, Outcome]] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror or error})") from None
        self._file = LockedFile(self.path)
        self._keep(self._read())

    def outcomes_of(self, run: dict[str, Any]) -> dict[int, Outcome]:
        """Return the outcomes on file, by instance, of the run with these entries, all of `RUN`."""
        return dict(self._runs.get(tuple(run[name] for name in RUN), {}))

    def append(self, outcomes: list[Outcome]) -> None:
        """Add outcomes at the end and make sure that they are on disk."""
        if self.path.suffix == ".jsonl":
            self._file.append("".join(json.dumps(asdict(outcome)) + "\n" for outcome in outcomes))
        else:
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, list(_KINDS))
            if not self._file.size:
                writer.writeheader()
            writer.writerows(csv_row(asdict(outcome)) for outcome in outcomes)
            self._file.append(text.getvalue())
        self._keep(outcomes)

    def close(self) -> None:
        """Let go of the file, so that others may take it."""
        self._file.close()

    def _keep(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            run = tuple(getattr(outcome, name) for name in RUN)
            self._runs.setdefault(run, {})[outcome.instance] = outcome

    def _read(self) -> list[Outcome]:
        # a last line that was cut short when a run was stopped is dropped, in the file too
        content, outcomes = self._file.read(), []
        try:
            lines = content.decode().splitlines()
            rows = map(json.loads, lines) if self.path.suffix == ".jsonl" else map(_without_text, csv.DictReader(lines))
            for row in rows:
                outcomes.append(Outcome(**{name: check_kind(row[name], kind, name) for name, kind in _KINDS.items()}))
        except (ValueError, TypeError, KeyError, RecursionError, UsageError):
            sentence = f"'{self.path}' does not hold results of an evaluation: line {len(outcomes) + 1} of them is none"
            raise InputError(sentence) from None
        return outcomes


def csv_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for a CSV file, in which no text is taken for a formula."""
    return {name: guarded(value) if isinstance(value, str) else value for name, value in row.items()}


def _without_text(row: dict[str, str]) -> dict[str, Any]:
    """Return a row of a CSV file with values of the types of outcomes."""
    texts = {name: unguarded(row[name]) for name in _KINDS}
    return {name: None if text == "" else read_text(text, _KINDS[name], name) for name, text in texts.items()}


@dataclass(frozen=True)
class Summary:
    """One row of the table; gaps and shares in %, None where there are no references.

    gap_at_most : where there are none, the gap to the problem's lower bounds; the true one is no greater.
    gap_low, gap_high : ends of the 95 % confidence interval of the gap.
    optimal : share of the instances with a proven optimum on which it was reached.
    proven : share of the instances whose answer the solver proved optimal itself.
    references_proven : share of the references that are proven optima; the others are the best known.
    time_limit : seconds per instance that it was given.
    below : instances with a cost below a proven optimum; anything but 0 means that something is broken.
    """

    dataset: str
    solver: str
    samples: int
    seed: int
    instances: int
    cost: float | None
    reference: float | None
    gap: float | None
    gap_low: float | None
    gap_high: float | None
    gap_at_most: float | None
    symmetric_gap: float | None
    optimal: float | None
    feasible: float
    below: int
    seconds: float
    seconds_per_instance: float
    device: str
    time_limit: float | None = None
    proven: float | None = None
    references_proven: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(
    dataset: Dataset,
    solver: Solver,
    label: str,
    *,
    samples: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    chunk: int = 250,
    store: OutcomeFile | None = None,
    warm_up: bool = True,
    on_progress: Callable[[int, int], None] = lambda done, count: None,
) -> list[Outcome]:
    """Run one solver on a dataset; return the outcome of every instance, in order.

    Parameters
    ----------
    label : the solver as it was named, with its options; what outcomes are filed under.
    samples : tries of an instance; by default as many as the solver takes of its own accord.
    time_limit : seconds per instance, handed to the solver as the limit of a whole chunk.
    chunk : instances given to the solver at once. After each chunk its outcomes go to `store`, and what is
        found there from an earlier run of the same solver, settings and instances is not run again.
    warm_up : have the solver load and compile what it needs before the clock starts; False where seconds do not matter.
    on_progress : called with how many instances of how many are done.
    """
    if (reason := solver.refusal(dataset.problem)) is not None:
        raise UsageError(reason)
    count = len(dataset)
    samples = solver.default_samples if samples is None else samples
    run = run_of(dataset, label, samples=samples, seed=seed, time_limit=time_limit)
    outcomes = {} if store is None else store.outcomes_of(run)
    missing = [index for index in range(count) if index not in outcomes]
    if missing and warm_up:
        _warm_up(dataset, solver)
    on_progress(count - len(missing), count)
    for begin in range(0, len(missing), chunk):
        indices = missing[begin : begin + chunk]
        fresh = _run(dataset, solver, run, indices)
        if store is not None:
            store.append(fresh)
        outcomes.update({outcome.instance: outcome for outcome in fresh})
        on_progress(count - len(missing) + begin + len(indices), count)
    return [outcomes[index] for index in range(count)]


def run_of(
    dataset: Dataset, label: str, *, samples: int = 1, seed: int = 0, time_limit: float | None = None
) -> dict[str, Any]:
    """Return what the outcomes of a run are filed under; see `evaluate` for the parameters."""
    return {
        "dataset": dataset.name,
        "instances_sha256": fingerprint(dataset.arrays)[:16],
        "solver": label,
        "samples": samples,
        "seed": seed,
        "time_limit": time_limit,
    }


def summarise(outcomes: list[Outcome], resamples: int = 2000) -> Summary:
    """Return the row of the table for the outcomes of one run."""
    first = outcomes[0]
    solved = [outcome for outcome in outcomes if outcome.feasible and outcome.cost is not None]
    seconds = sum(outcome.seconds for outcome in outcomes)
    cost = np.array([outcome.cost for outcome in solved], dtype=np.float64)
    reference = np.array([np.nan if o.reference is None else o.reference for o in solved], dtype=np.float64)
    proven = np.array([o.reference_proven for o in solved], dtype=bool)
    slack = _TOLERANCE * np.maximum(1.0, np.abs(reference))
    compared = ~np.isnan(reference)
    gap = low = high = at_most = symmetric = optimal = None
    if compared.any():
        a, b = float(cost[compared].mean()), float(reference[compared].mean())
        gap, symmetric = _ratio(a - b, b, 100.0), _ratio(a - b, a + b, 200.0)
        low, high = gap_interval(cost[compared], reference[compared], resamples)
    elif solved and all(outcome.bound is not None for outcome in solved):
        lower = float(np.mean([outcome.bound for outcome in solved if outcome.bound is not None]))
        at_most = _ratio(float(cost.mean()) - lower, lower, 100.0)
    checked = sum(outcome.reference_proven for outcome in outcomes)
    if checked:
        optimal = 100.0 * float((proven & (cost <= reference + slack)).sum()) / checked
    return Summary(
        dataset=first.dataset,
        solver=first.solver,
        samples=first.samples,
        seed=first.seed,
        instances=len(outcomes),
        cost=float(cost.mean()) if len(cost) else None,
        reference=float(reference[compared].mean()) if compared.any() else None,
        gap=gap,
        gap_low=low,
        gap_high=high,
        gap_at_most=at_most,
        symmetric_gap=symmetric,
        optimal=optimal,
        feasible=100.0 * len(solved) / len(outcomes),
        below=int((proven & (cost < reference - slack)).sum()),
        seconds=seconds,
        seconds_per_instance=seconds / len(outcomes),
        # a run that was taken up again elsewhere says so
        device=" + ".join(dict.fromkeys(outcome.device for outcome in outcomes)),
        time_limit=first.time_limit,
        proven=100.0 * sum(outcome.proven for outcome in outcomes) / len(outcomes),
        references_proven=100.0 * checked / len(outcomes) if compared.any() else None,
    )


def gap_interval(
    cost: NDArray[np.float64], reference: NDArray[np.float64], resamples: int = 2000, seed: int = 0
) -> tuple[float | None, float | None]:
    """Return the 95 % confidence interval of the gap, in %, by resampling instances with replacement.

    cost, reference : (count,), of the same instances: both means are taken over the same resampled instances.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    count = len(cost)
    # how often each instance is drawn is all that resampled means depend on
    times = rng.multinomial(count, np.full(count, 1.0 / count), size=resamples).astype(np.float64)
    a, b = times @ cost, times @ reference
    if (b == 0).any():
        return None, None
    low, high = np.quantile(100.0 * (a - b) / b, [0.025, 0.975])
    return float(low), float(high)


def _warm_up(dataset: Dataset, solver: Solver) -> None:
    """Have the solver load and compile what it needs on one instance, at most for about a second.

    One that refuses so short a limit is measured as it is.
    """
    one = dataset.first(1)
    with suppress(UsageError):
        if solver.solve(one.problem, one.arrays, time_limit=1.0).interrupted:
            raise KeyboardInterrupt


def _run(dataset: Dataset, solver: Solver, run: dict[str, Any], indices: list[int]) -> list[Outcome]:
    arrays = {name: array[indices] for name, array in dataset.arrays.items()}
    limit = None if run["time_limit"] is None else run["time_limit"] * len(indices)
    answers = solver.solve(dataset.problem, arrays, samples=run["samples"], seed=run["seed"], time_limit=limit)
    if answers.interrupted:
        raise KeyboardInterrupt  # half a search is not what the solver can do
    feasible = answers.feasible
    if dataset.forbidden is not None:
        feasible = feasible & ~uses_forbidden(dataset.forbidden[indices], answers.choice)
    device = _device_name(solver.runs_on)
    lower = dataset.problem.lower_bound(arrays) if dataset.reference is None else None
    outcomes = []
    for position, index in enumerate(indices):
        reference = None if dataset.reference is None else float(dataset.reference[index])
        if reference is not None and np.isnan(reference):
            reference = None
        outcomes.append(
            Outcome(
                **run,
                instance=index,
                cost=float(answers.cost[position]) if feasible[position] else None,
                feasible=bool(feasible[position]),
                proven=bool(answers.proven[position] and feasible[position]),
                bound=None if lower is None else float(lower[position]),
                reference=reference,
                reference_proven=bool(reference is not None and dataset.proven is not None and dataset.proven[index]),
                seconds=answers.seconds / len(indices),
                device=device,
            )
        )
    return outcomes


def _device_name(device: str) -> str:
    """Return a device in words for the table: 'cpu', or the name of the GPU."""
    if device == "cpu":
        return "cpu"
    import torch

    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = torch.device(automatic if device == "auto" else device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else chosen.type


def _ratio(numerator: float, denominator: float, percent: float) -> float | None:
    return percent * numerator / denominator if denominator != 0 else (0.0 if numerator == 0 else None)
