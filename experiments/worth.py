"""What a network is worth: its samples alone, with search, and the same search without it in the same time.

    python -m experiments.worth atsp pmsp --sets atsp-100,pmsp-job-correlated-100x20 [--device cuda] [--minutes 20]

For every standard test set, with every given model of its problem:

- *model*: so many samples of the network, of 20 passes each, nothing else;
- *merged model*: the same, the better parts of all decodes put together (`merge`);
- *model + search*: the same with local search to a local optimum inside the chain, as the model's card advises;
- *starts + search*: the same local search from starts that dual prices guide, as many as fit into the seconds of
  *model + search*, on the same device, the best of them merged as decodes are;
- *search*: the classical solver `search` in the same seconds, on a CPU of the same machine.

Gaps are in %, to the references of the sets, with 95 % confidence intervals over instances; seconds are those of the
whole set. Every outcome is kept in the store: stopped, by `--minutes` or by hand, the same command goes on. The table
is docs/results/worth.csv, rows of other models and sets are kept; `--page` writes it into a page as well.
"""

import argparse
import csv
import io
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from experiments.markdown import between_marks, gap_in_row, table
from experiments.ways import STEPS, TO_A_LOCAL_OPTIMUM
from icdc.diffusion.sampler import MOST_DECODES, SamplingOptions
from icdc.evaluation.evaluate import OutcomeFile, Summary, evaluate, summarise
from icdc.io.datasets import STANDARD_SETS, Dataset, standard_set
from icdc.io.files import write_atomically
from icdc.models.catalogue import path_of
from icdc.models.diffusion import Model, load
from icdc.models.file import digest_of, pick_device
from icdc.problems.base import Instances, Problem
from icdc.problems.tensors import to_tensors
from icdc.solvers import make_solver
from icdc.solving.network import DiffusionSolver
from icdc.solving.solver import Abilities, Request, Solver

ROOT = Path(__file__).parents[1]
_CORRELATED = ("100x10", "100x20", "200x20", "200x50")
GOALS: dict[str, tuple[float, float]] = {
    "atsp-100": (0.03, 0.01), "atsp-200": (0.1, 0.04), "atsp-500": (0.6, 0.2), "atsp-1000": (1.5, 0.5),
    "atsp-uniform-20": (0.05, 0.0), "atsp-uniform-50": (0.2, 0.02), "atsp-uniform-100": (0.5, 0.1),
    **{
        f"atsp-{family}-{size}": goal
        for family in ("noisy-plane", "one-way-plane", "roads", "crane")
        for size, goal in ((50, (0.3, 0.02)), (100, (0.8, 0.1)), (200, (2.0, 0.4)))
    },
    "pmsp-uniform-100-100x20": (3.0, 0.4),
    **{
        f"pmsp-job-correlated-{size}": goal
        for size, goal in zip(_CORRELATED, ((3.0, 0.3), (5.0, 1.2), (4.0, 0.6), (6.0, 0.8)), strict=True)
    },
    **{
        f"pmsp-machine-correlated-{size}": goal
        for size, goal in zip(_CORRELATED, ((0.5, 0.01), (1.0, 0.03), (1.0, 0.03), (2.0, 0.05)), strict=True)
    },
    "pmsp-100x10": (0.3, 0.05), "pmsp-200x10": (0.4, 0.08),
}  # fmt: skip
"""Test sets, and the gaps that were aimed at: the model alone, and with search."""
MODEL, MERGED, BOTH, STARTS, SEARCH = WAYS = "model", "merged model", "model + search", "starts + search", "search"
TRIAL = 8
"""Starts by which is found how many fit into the time."""
MERGED_STARTS = 64
"""Starts whose better parts are put together, the best ones."""
MOST_CELLS = {"cpu": 2**28, "cuda": 2**30}
"""Entries of all matrices of starts that are decoded at once, at most."""
COLUMNS = (
    "model", "set", "row", "samples", "instances", "gap", "gap_low", "gap_high", "goal", "seconds", "device", "options",
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
        most = max(TRIAL, MOST_CELLS[device.type] // (request.count * math.prod(request.shape)))
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
        found = problem.improve(instances, starts, self.improve_rounds)
        order = problem.cost(instances, found).argsort(dim=1, stable=True)[:, :MERGED_STARTS, None]
        best = found.gather(1, order.expand(-1, -1, found.shape[2]))
        merged = problem.merge(instances, best[:, :1], best[:, None, 1:])
        return problem.improve(instances, merged, self.improve_rounds)[:, 0].cpu().numpy()


@dataclass(frozen=True)
class Judging:
    """What all rows of a model share."""

    model: Model
    digest: str
    samples: int
    device: str
    count: int | None
    store: OutcomeFile
    wanted: Sequence[str] = WAYS

    def rows(self, name: str, until: float) -> list[dict[str, Any]]:
        """Return the rows of a test set, as many as are done in time; equal seconds need those of the model first."""
        dataset = standard_set(name) if self.count is None else standard_set(name).first(self.count)
        network = {"model": self.model, "device": self.device, "steps": STEPS}
        by_network = {
            MODEL: make_solver("network", **network, merge=0),
            MERGED: make_solver("network", **network, merge=MOST_DECODES),
            BOTH: make_solver("network", **network, improve_rounds=TO_A_LOCAL_OPTIMUM),
        }
        words = {row: self._words(solver, dataset) for row, solver in by_network.items()}
        made: dict[str, Summary] = {}
        solvers: dict[str, Solver] = {
            **by_network,
            STARTS: PricedStarts(self.device, TO_A_LOCAL_OPTIMUM),
            SEARCH: make_solver("search"),
        }
        for row, solver in solvers.items():
            if row not in self.wanted:
                continue
            if time.monotonic() > until:
                break
            limit = None if row in by_network else made[BOTH].seconds_per_instance
            made[row] = self._summary(dataset, row, solver, limit, words.get(row, ""))
        # the classical solver runs on a CPU of the machine whose device the others have
        device = next(iter(made.values())).device if made else ""
        return [self._line(name, row, summary, device, words.get(row, "")) for row, summary in made.items()]

    def _words(self, solver: Solver, dataset: Dataset) -> str:
        """Return how trajectories run, as far as that differs from what runs when nothing is said."""
        assert isinstance(solver, DiffusionSolver)
        used = solver.options_for(self.model, self.model.problem.size(dataset.arrays), self.samples)
        usual = asdict(SamplingOptions())
        return " ".join(f"{name}={value}" for name, value in asdict(used).items() if value != usual[name])

    def _summary(self, dataset: Dataset, row: str, solver: Solver, limit: float | None, more: str) -> Summary:
        label = f"{row} {more} of {self.digest} on {self.device}"
        samples = self.samples if limit is None else 1
        limit = None if limit is None else round(max(limit, 1e-4), 6)
        found = evaluate(
            dataset, solver, label, samples=samples, time_limit=limit, chunk=len(dataset), store=self.store
        )
        return summarise(found)

    def _line(self, name: str, row: str, summary: Summary, device: str, words: str) -> dict[str, Any]:
        alone, both = GOALS.get(name, ("", ""))
        goal = {MODEL: alone, MERGED: alone, BOTH: both}.get(row, "")
        values = {key: getattr(summary, key) for key in ("gap", "gap_low", "gap_high", "seconds")}
        return {
            "model": self.model.name, "set": name, "row": row,
            "samples": summary.samples if row in (MODEL, MERGED, BOTH) else "", "instances": summary.instances,
            **{key: None if value is None else round(value, 4) for key, value in values.items()},
            "goal": goal, "device": device, "options": words,
        }  # fmt: skip


def keep(path: Path, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Write rows into the table, over those of the same model, set, row and device; return all of it, sets in order."""
    same = ("model", "set", "row", "device")
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            known = {tuple(row[key] for key in same): dict(row) for row in csv.DictReader(file)}
    known |= {tuple(str(row[key]) for key in same): dict(row) for row in rows}
    order = {name: place for place, name in enumerate((*GOALS, *STANDARD_SETS))}
    ordered = sorted(known.values(), key=lambda r: (r["device"], r["model"], order[r["set"]], WAYS.index(r["row"])))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(ordered)
    write_atomically(path, text.getvalue(), make_folder=True)
    return ordered


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table for people: a line for each set and model, gaps with intervals, goals, and seconds."""
    lines: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault((str(row["set"]), str(row["model"]), str(row["device"])), {})[str(row["row"])] = row
    heads = ["test set", "model", "device", "instances", "alone", "merged", "goal", "with search", "goal",
             "starts + search", "search", "seconds"]  # fmt: skip
    body = []
    for (name, model, device), found in lines.items():
        counts = {str(row["instances"]): None for row in found.values()}
        cells = [name, f"`{model}`", device.removeprefix("NVIDIA "), " / ".join(counts)]
        goal = {row: str(found[row]["goal"]) for row in (MODEL, MERGED, BOTH) if row in found}
        gap = {row: gap_in_row(found.get(row)) for row in WAYS}
        cells += [gap[MODEL], gap[MERGED], goal.get(MODEL, goal.get(MERGED, ""))]
        cells += [gap[BOTH], goal.get(BOTH, ""), gap[STARTS], gap[SEARCH]]
        seconds = [f"{float(found[row]['seconds']):.3g}" if row in found else "–" for row in (MODEL, MERGED, BOTH)]
        body.append([*cells, " / ".join(seconds)])
    return table(heads, body)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the table, and the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="shipped models or model files")
    parser.add_argument("--sets", default=",".join(GOALS), help="standard test sets, with commas")
    parser.add_argument(
        "--rows", default=",".join(WAYS), help="with commas; those of equal seconds need 'model + search'"
    )
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--limit", type=int, help="only the first so many instances of each set")
    parser.add_argument("--minutes", type=float, default=1e6, help="nothing is begun after so many")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--store", type=Path, default=Path("runs/worth.jsonl"), help="what was measured so far")
    parser.add_argument("--table", type=Path, default=ROOT / "docs" / "results" / "worth.csv")
    parser.add_argument("--page", type=Path, help="a page with a place for the table, such as docs/families.md")
    asked = parser.parse_args(arguments)
    wanted = asked.rows.split(",")
    if unknown := [row for row in wanted if row not in WAYS]:
        parser.error(f"unknown row '{unknown[0]}'; choose {', '.join(WAYS)}")
    if {STARTS, SEARCH} & {*wanted} and BOTH not in wanted:
        parser.error(f"'{STARTS}' and '{SEARCH}' have the seconds of '{BOTH}', which must be measured, too")
    until, kind = time.monotonic() + 60.0 * asked.minutes, pick_device(asked.device).type
    store, rows = OutcomeFile(asked.store), []
    try:
        for given in asked.models:
            model = load(given, kind)
            judging = Judging(model, digest_of(path_of(given)), asked.samples, kind, asked.limit, store, wanted)
            for name in asked.sets.split(","):
                if STANDARD_SETS[name].problem == model.problem.name and time.monotonic() < until:
                    rows += judging.rows(name, until)
                    print(f"{model.name}: {name}", file=sys.stderr, flush=True)
    finally:
        store.close()
        everything = keep(asked.table, rows)
    if asked.page is not None:
        text = between_marks(asked.page.read_text(encoding="utf-8"), "worth", page(everything))
        write_atomically(asked.page, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
