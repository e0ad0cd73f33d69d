"""What a network is worth: its samples alone, merged and with search, beside search without it and beside optima.

    python -m experiments.cards.worth sets atsp pmsp [--sets atsp-100,pmsp-100x10] [--page docs/families.md]
    python -m experiments.cards.worth navigation navigation --sizes 10,20,50 --count 100,100,20

`sets` measures, on every standard test set of a model's problem:

- *model*: so many samples of the network, of 20 passes each, nothing else;
- *merged model*: the same, the better parts of all decodes put together (`merge`);
- *model + search*: the same with local search to a local optimum inside the chain, as the model's card advises;
- *starts + search*: the same local search from starts that dual prices guide, as many as fit into the seconds of
  *model + search*, on the same device, the best of them merged as decodes are;
- *search*: the classical solver `search` in the same seconds, on a CPU of the same machine.

`navigation` measures models of hidden travel times family by family, on instances of a seed of their own, alone and
merged where the card advises that. References are optima proven by `branch`, which sees the hidden travel times.

Gaps are in %, with 95 % confidence intervals over instances; seconds are those of all instances together. Every outcome
is kept in the store: stopped, the same command goes on. The tables are docs/results/worth.csv and
docs/results/navigation-families.csv; `--page` writes them into a page as well.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from experiments.cards.choose import ALONE, MERGED, STEPS, TO_A_LOCAL_OPTIMUM, Cell, cells_of, sizes_of
from experiments.csvfiles import replace_rows
from experiments.markdown import between_marks, gap_in_row, table
from experiments.tables.rows import options_as_text
from icdc.diffusion.sampler import MOST_DECODES, SamplingOptions
from icdc.errors import UsageError
from icdc.evaluation.evaluate import OutcomeFile, Summary, evaluate, summarise
from icdc.io.datasets import STANDARD_SETS, standard_set
from icdc.io.files import write_atomically
from icdc.models.card import advised
from icdc.models.catalogue import path_of
from icdc.models.diffusion import Model, load
from icdc.models.file import digest_of, pick_device
from icdc.problems.base import Instances, Problem
from icdc.problems.navigation import Navigation
from icdc.problems.tensors import to_tensors
from icdc.solvers import make_solver
from icdc.solving.network import DiffusionSolver
from icdc.solving.solver import Abilities, Request, Solver

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SIZES = ("100x10", "100x20", "200x20", "200x50")
SETS = (
    "atsp-100", "atsp-200", "atsp-500", "atsp-1000", *(f"atsp-uniform-{size}" for size in (20, 50, 100)),
    *(f"atsp-{family}-{size}" for family in ("noisy-plane", "one-way-plane", "roads", "crane")
      for size in (50, 100, 200)),
    "pmsp-uniform-100-100x20", *(f"pmsp-{kind}-correlated-{size}" for kind in ("job", "machine") for size in SIZES),
    "pmsp-100x10", "pmsp-200x10",
)  # fmt: skip
BY_NETWORK = MODEL, MERGED_MODEL, BOTH = "model", "merged model", "model + search"
STARTS, SEARCH = "starts + search", "search"
ROWS = (*BY_NETWORK, STARTS, SEARCH)
TRIAL = 8
"""Starts by which is measured how many fit into the time."""
MERGED_STARTS = 64
"""Starts whose better parts are put together, the best ones."""
MOST_ENTRIES = {"cpu": 2**28, "cuda": 2**30}
"""Entries of all matrices of starts that are decoded at once, at most."""
WORTH = ("model", "set", "row", "samples", "instances", "gap", "gap_low", "gap_high", "seconds", "device", "options")
SEED = 20261203
"""Of the instances with hidden travel times: neither of training nor of validation, of a test set, or of a card."""
EXACT = "branch"
CHUNK = 32
"""Instances of hidden travel times that are solved, and kept, together."""
HIDDEN = (
    "model", "digest", "family", "size", "way", "instances", "samples", "seed", "device", "gap", "gap_low", "gap_high",
    "optimal", "seconds", "options",
)  # fmt: skip


@dataclass(frozen=True)
class PricedStarts(Solver):
    """Local search from many starts that dual prices guide: all that the chain has but the network.

    improve_rounds : changes by local search to every start, beyond those it is made with.
    """

    name: ClassVar[str] = "starts"
    abilities: ClassVar[Abilities] = Abilities(device=True)
    device: str = "auto"
    improve_rounds: int = 40

    def refusal(self, problem: Problem) -> str | None:
        return None if problem.structure is not None else f"{problem.name} has no prices to begin from"

    def search(self, request: Request) -> None:
        began = time.perf_counter()
        device = pick_device(self.device)
        instances = to_tensors(request.arrays, device)
        limit, count = request.time_limit or 0.0, TRIAL
        most = max(TRIAL, MOST_ENTRIES[device.type] // (request.count * math.prod(request.shape)))
        with torch.inference_mode():
            while True:
                before = time.perf_counter()
                choice = self._best(request.problem, instances, count)
                now = time.perf_counter()
                # the first ones are among those of a larger number, which is made from nothing
                more = min(most, 4 * count, int(count * (limit - (now - began)) / (now - before)))
                if more <= count:
                    break
                count = more
        request.offer(choice)

    def _best(self, problem: Problem, instances: Instances, count: int) -> np.ndarray:
        """Return the best of so many starts of every instance, with the better parts of others, (batch, rows)."""
        starts = problem.construct(instances, count).choice
        improved = problem.improve(instances, starts, self.improve_rounds)
        order = problem.cost(instances, improved).argsort(dim=1, stable=True)[:, :MERGED_STARTS, None]
        best = improved.gather(1, order.expand(-1, -1, improved.shape[2]))
        merged = problem.merge(instances, best[:, :1], best[:, None, 1:])
        return problem.improve(instances, merged, self.improve_rounds)[:, 0].cpu().numpy()


@dataclass(frozen=True)
class Subject:
    """A model that is measured; outcomes are filed under the digest of its weights."""

    model: Model
    digest: str
    device: str
    store: OutcomeFile

    def network(self, **options: Any) -> DiffusionSolver:
        """Return the solver of the model."""
        solver = make_solver("network", model=self.model, device=self.device, **options)
        assert isinstance(solver, DiffusionSolver)
        return solver

    def on_set(self, name: str, rows: Sequence[str], samples: int, count: int | None) -> Iterator[Any]:
        """Yield the rows of a test set; equal seconds need those of the model first."""
        dataset = standard_set(name) if count is None else standard_set(name).first(count)
        solvers: dict[str, Solver] = {
            MODEL: self.network(steps=STEPS, merge=0),
            MERGED_MODEL: self.network(steps=STEPS, merge=MOST_DECODES),
            BOTH: self.network(steps=STEPS, improve_rounds=TO_A_LOCAL_OPTIMUM),
            STARTS: PricedStarts(self.device, TO_A_LOCAL_OPTIMUM),
            SEARCH: make_solver("search"),
        }
        limit, device = None, ""
        for row, solver in solvers.items():
            if row not in rows:
                continue
            words = ""
            if isinstance(solver, DiffusionSolver):  # what differs from what runs when nothing is said
                usual = asdict(SamplingOptions())
                used = asdict(solver.options_for(self.model, self.model.problem.size(dataset.arrays), samples))
                words = " ".join(f"{key}={value}" for key, value in used.items() if value != usual[key])
            outcomes = evaluate(
                dataset, solver, f"{row} {words} of {self.digest} on {self.device}",
                samples=samples if words else 1, time_limit=None if words else limit, chunk=len(dataset),
                store=self.store,
            )  # fmt: skip
            summary = summarise(outcomes)
            if row == BOTH:
                limit = round(max(summary.seconds_per_instance, 1e-4), 6)
            device = device or summary.device  # the classical solver runs on a CPU of the same machine
            yield {
                "model": self.model.name, "set": name, "row": row, "samples": summary.samples if words else "",
                "instances": summary.instances, **figures(summary), "device": device, "options": words,
            }  # fmt: skip

    def on_cell(self, cell: Cell, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a family and size whose dataset has optima, with so many samples each."""
        for way in (ALONE, MERGED) if advised(self.model.card, cell.size, 1).get("merge") else (ALONE,):
            for samples in counts:
                advice = options_as_text(advised(self.model.card, cell.size, samples, merging=way == MERGED))
                outcomes = evaluate(
                    cell.dataset, self.network(**({} if way == MERGED else {"merge": 0})),
                    f"network {advice} of {self.digest} on {self.device}", samples=samples, chunk=CHUNK,
                    store=self.store, warm_up=samples == counts[0],
                )  # fmt: skip
                summary = summarise(outcomes)
                yield {
                    "model": self.model.name, "digest": self.digest, "family": cell.family,
                    "size": "x".join(map(str, cell.size)), "way": way, "instances": len(cell.dataset),
                    "samples": samples, "seed": SEED, "device": summary.device, "options": advice, **figures(summary),
                }  # fmt: skip


def figures(summary: Summary) -> dict[str, float | None]:
    """Return what a row has of a measurement."""
    values = {name: getattr(summary, name) for name in ("gap", "gap_low", "gap_high", "optimal", "seconds")}
    # sums of reals in another order may be just below a gap of 0, and -0.0 would look like one
    return {name: None if value is None else round(value, 4) + 0.0 for name, value in values.items()}


def with_optima(cell: Cell, store: OutcomeFile) -> Cell:
    """Return a cell with the optima of its instances; where one cannot be proven, there is nothing to measure by."""
    outcomes = evaluate(cell.dataset, make_solver(EXACT), EXACT, store=store, warm_up=False)
    if unproven := sum(not one.proven for one in outcomes):
        raise UsageError(f"'{EXACT}' proves no optimum for {unproven} of {cell.dataset.name}; take smaller sizes")
    optima = np.array([one.cost for one in outcomes], dtype=np.float64)
    return cell._replace(dataset=replace(cell.dataset, reference=optima, proven=np.ones(len(optima), dtype=bool)))


def set_order(row: Mapping[str, str]) -> tuple[Any, ...]:
    """Return where a row of a test set stands in its table."""
    names = list(dict.fromkeys((*SETS, *STANDARD_SETS)))
    return row["device"], row["model"], names.index(row["set"]), ROWS.index(row["row"])


def sets_page(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the table for people: a line for each set and model, gaps with intervals, and seconds."""
    lines: dict[tuple[str, str, str], dict[str, Mapping[str, str]]] = {}
    for row in rows:
        lines.setdefault((row["set"], row["model"], row["device"]), {})[row["row"]] = row
    heads = ["test set", "model", "device", "instances", "alone", "merged", "with search", "starts + search", "search",
             "seconds"]  # fmt: skip
    body = []
    for (name, model, device), line in lines.items():
        counts = " / ".join(dict.fromkeys(row["instances"] for row in line.values()))
        seconds = [f"{float(line[row]['seconds']):.3g}" if row in line else "–" for row in BY_NETWORK]
        gaps = [gap_in_row(line.get(row)) for row in ROWS]
        body.append([name, f"`{model}`", device.removeprefix("NVIDIA "), counts, *gaps, " / ".join(seconds)])
    return table(heads, body)


def navigation_page(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the table for people: a line for each family and size, a column for each number of samples."""
    numbers = sorted({int(row["samples"]) for row in rows})
    lines: dict[tuple[str, ...], dict[int, Mapping[str, str]]] = {}
    for row in rows:
        names = ("family", "size", "way", "model", "device", "instances")
        lines.setdefault(tuple(row[key] for key in names), {})[int(row["samples"])] = row
    body = []
    for (family, size, way, model, device, instances), line in lines.items():
        gaps = [gap_in_row(line.get(number)) for number in numbers]
        optimal = [f"{float(line[number]['optimal']):.3g}" if number in line else "–" for number in numbers]
        about = [family, size, way, f"`{model}`", device.removeprefix("NVIDIA "), instances]
        body.append([*about, *gaps, " / ".join(optimal)])
    heads = ["family", "cities", "way", "model", "device", "instances", *(f"×{number}" for number in numbers)]
    return table([*heads, "optimal, %"], body)


def rows_of_sets(subject: Subject, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the rows of all test sets of a model's problem."""
    for name in options.sets.split(","):
        if STANDARD_SETS[name].problem == subject.model.problem.name:
            yield from subject.on_set(name, options.rows, options.samples, options.limit)


def rows_of_cells(subject: Subject, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the rows of all families and sizes of hidden travel times."""
    counts, samples = ([int(number) for number in text.split(",")] for text in (options.count, options.samples))
    for size, count in zip(sizes_of(options.sizes, Navigation()), counts, strict=True):
        for cell in cells_of(Navigation(), size, count, SEED):
            yield from subject.on_cell(with_optima(cell, subject.store), samples)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    sets, hidden = what.add_parser("sets"), what.add_parser("navigation")
    for command, name in ((sets, "worth"), (hidden, "navigation-families")):
        command.add_argument("models", nargs="+", metavar="MODEL", help="shipped models or model files")
        command.add_argument("--device", default="auto")
        command.add_argument("--store", type=Path, default=Path(f"runs/{name}.jsonl"), help="what was measured so far")
        command.add_argument("--table", type=Path, default=RESULTS / f"{name}.csv")
        command.add_argument("--page", type=Path, help="a page with a place for the table, such as docs/families.md")
        command.set_defaults(mark=name)
    sets.add_argument("--sets", default=",".join(SETS), help="standard test sets, with commas")
    sets.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    sets.add_argument("--samples", type=int, default=32)
    sets.add_argument("--limit", type=int, help="only the first so many instances of each set")
    hidden.add_argument("--sizes", default="10,20,50", help="numbers of cities, with commas")
    hidden.add_argument("--count", default="100,100,20", help="instances of each family, for each size")
    hidden.add_argument("--samples", default="1,8,32", help="numbers of samples, with commas")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the table, and the page if asked."""
    parser = _parser()
    options = parser.parse_args(arguments)
    on_sets = options.what == "sets"
    if on_sets and {STARTS, SEARCH} & {*options.rows} and BOTH not in options.rows:
        parser.error(f"'{STARTS}' and '{SEARCH}' have the seconds of '{BOTH}', which must be measured, too")
    if not on_sets and len(options.sizes.split(",")) != len(options.count.split(",")):
        parser.error("give one number of instances for each size")
    kind = pick_device(options.device).type
    columns, same, key = (
        (WORTH, ("model", "set", "row", "device"), set_order) if on_sets else (HIDDEN, ("model",), None)
    )
    rows: list[dict[str, Any]] = []
    try:
        with closing(OutcomeFile(options.store)) as store:
            for name in options.models:
                subject = Subject(load(name, kind), digest_of(path_of(name)), kind, store)
                for row in (rows_of_sets if on_sets else rows_of_cells)(subject, options):
                    rows.append(row)
                    print({name: row[name] for name in (*same, "gap")}, file=sys.stderr, flush=True)
    finally:
        lines = replace_rows(options.table, columns, rows, same, key)
    if options.page is not None:
        text = (sets_page if on_sets else navigation_page)(lines)
        write_atomically(options.page, between_marks(options.page.read_text(encoding="utf-8"), options.mark, text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
