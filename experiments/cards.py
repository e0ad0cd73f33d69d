"""Measure where a model is at home, family by family and size by size, and write it into its card.

    python -m experiments.cards atsp pmsp --seconds 1 --count 4 --minutes 10 [--device cuda] [--store runs/cards.jsonl]

For every family of a model's problem and every size, instances of a seed of their own are solved in the same seconds by
the model alone, by the model with local search inside its chain in several settings, and by search alone; gaps are to
the best that any of them found, or search in `REFERENCE` times the seconds. The card then has

- `home`: these gaps for every family and size, and the range of the numbers that describe the matrices. By them
  `icdc solve` tells instances for which the model alone is worse than search;
- `improve_rounds` in what `solving` advises for local search inside the chain: the most changes to a solution that were
  best over all families of a size.

What was measured is in the store and is not measured again: stopped by `--minutes` or by hand, the same command goes
on, on the same kind of device. A table of everything goes to docs/results/cards.csv, rows of other models are kept.
"""

import argparse
import csv
import io
import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.card import SAMPLES, settings_of
from icdc.evaluation.evaluate import OutcomeFile, evaluate, gap_interval, run_of
from icdc.io.datasets import Dataset
from icdc.io.files import write_atomically
from icdc.models.card import advised, ranges
from icdc.models.catalogue import models_folder, path_of, write_index
from icdc.models.diffusion import CHAIN_STEPS, Model, load
from icdc.models.file import digest_of, pick_device, write_card
from icdc.problems import get_problem
from icdc.problems.base import Problem, Size
from icdc.problems.families import sample_family
from icdc.solvers import make_solver
from icdc.solving.solver import Solver

ROOT = Path(__file__).parents[1]
SEED = 20261201
"""Of the instances: neither of training nor of a test set."""
SIZES: dict[str, dict[str, tuple[Size, ...]]] = {
    "cpu": {"atsp": ((20,), (50,), (100,)), "pmsp": ((20, 4), (50, 5), (100, 10), (100, 20))},
    "cuda": {
        "atsp": ((20,), (50,), (100,), (200,), (500,), (1000,)),
        "pmsp": ((20, 4), (50, 5), (100, 10), (100, 20), (200, 20), (200, 50), (500, 50)),
    },
}
"""Sizes to measure at, by the kind of device; problems without families have no cells."""
ALONE, SEARCH, LONGER = "model", "search", "longer search"
REFERENCE = 4.0
"""Times the seconds that the search has which gaps are measured against."""
SETTINGS = ((40, CHAIN_STEPS), (10, CHAIN_STEPS), (120, CHAIN_STEPS))
"""Settings of search inside the chain to choose from: changes to a solution, and network passes of a trajectory; the
first of equals is chosen."""
DESCRIBED, DESCRIBED_CELLS = 24, 2**21
"""Instances, and entries of their matrices, at most, that the ranges of a family's numbers are taken from."""
COLUMNS = (
    "model", "digest", "family", "size", "instances", "seconds", "device", "alone", "alone_low", "alone_high",
    "with_search", "with_search_low", "with_search_high", "search", "search_low", "search_high", "improve_rounds",
    "steps",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A family and a size of a problem, with the instances that stand for them."""

    family: str
    dataset: Dataset

    @property
    def size(self) -> Size:
        """The size of the instances."""
        return tuple(self.dataset.problem.size(self.dataset.arrays))


@dataclass(frozen=True)
class Measuring:
    """What all measurements of a model share.

    digest : of its weights and configuration: what the store files outcomes under.
    seconds : for each instance, whoever solves it.
    store : outcomes that are known.
    """

    model: Model
    digest: str
    seconds: float
    device: str
    store: OutcomeFile

    def ways(self) -> dict[str, tuple[Solver, float]]:
        """Return the solvers to compare, by name, and how many times the seconds each has."""
        found: dict[str, tuple[Solver, float]] = {
            LONGER: (make_solver("search"), REFERENCE),
            SEARCH: (make_solver("search"), 1.0),
            ALONE: (make_solver("network", model=self.model, device=self.device), 1.0),
        }
        for rounds, steps in SETTINGS:
            options = {"improve_rounds": rounds, "steps": steps}
            solver = make_solver("network", model=self.model, device=self.device, **options)
            found[way(rounds, steps)] = (solver, 1.0)
        return found

    def costs(self, cell: Cell, name: str, solver: Solver, times: float, warm_up: bool) -> np.ndarray:
        """Return what a solver's answers for the instances of a cell cost, measured now or known from before."""
        label = name if name in (SEARCH, LONGER) else f"{name} of {self.digest} on {self.device}"
        found = evaluate(
            cell.dataset, solver, label, time_limit=times * self.seconds, chunk=len(cell.dataset), store=self.store,
            warm_up=warm_up,
        )  # fmt: skip
        return np.array([math.inf if one.cost is None else one.cost for one in found])

    def missing(self, cell: Cell, name: str, solver: Solver, times: float) -> bool:
        """Tell whether something is still to be measured."""
        label = name if name in (SEARCH, LONGER) else f"{name} of {self.digest} on {self.device}"
        run = run_of(cell.dataset, label, samples=solver.default_samples, time_limit=times * self.seconds)
        return len(self.store.outcomes_of(run)) < len(cell.dataset)


def way(rounds: int, steps: int) -> str:
    """Return the name of the model with so much search inside its chain."""
    return f"{ALONE}, improve_rounds={rounds}, steps={steps}"


def sizes_of(text: str, problem: Problem) -> list[Size]:
    """Return the sizes in a text such as "20,50" or "20x4,50x5" that a problem may have; others are not for it."""
    sizes = [tuple(map(int, part.split("x"))) for part in text.split(",") if part]
    return [size for size in sizes if len(size) == len(problem.size_names)]


def cells_of(problem: Problem, sizes: Iterable[Size], count: int, seed: int = SEED) -> list[Cell]:
    """Return the cells of a problem, small sizes first."""
    cells = []
    for size in sizes:
        for family in problem.families:
            arrays = sample_family(problem, family, count, size, np.random.default_rng([seed, *size]))
            name = f"{problem.name}-{family}-{'x'.join(map(str, size))}"
            cells.append(Cell(family, Dataset(problem, arrays, name=name)))
    return cells


def measure(measuring: Measuring, cells: Sequence[Cell], until: float) -> list[tuple[Cell, dict[str, np.ndarray]]]:
    """Return the costs of every way on the cells that are complete when the time is over."""
    complete, ways, warm = [], measuring.ways(), set[Size]()
    for cell in cells:
        costs = {}
        for name, (solver, times) in ways.items():
            expected = times * measuring.seconds * len(cell.dataset)
            if measuring.missing(cell, name, solver, times) and time.monotonic() + expected > until:
                break
            costs[name] = measuring.costs(cell, name, solver, times, cell.size not in warm)
        else:
            warm.add(cell.size)
            complete.append((cell, costs))
            print(f"{measuring.model.name}: {cell.dataset.name}", file=sys.stderr, flush=True)
            continue
        break
    return complete


def entries(found: Sequence[tuple[Cell, dict[str, np.ndarray]]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what the card says: `home`, and how local search inside the chain is used at each size."""
    settings = {way(*setting): setting for setting in SETTINGS}
    best: dict[Size, str] = {}
    for size in dict.fromkeys(cell.size for cell, _ in found):
        here = [costs for cell, costs in found if cell.size == size]
        best[size] = min(settings, key=lambda name: float(np.mean([gap(costs, name) for costs in here])))
    home = []
    for cell, costs in found:
        numbers = described(cell)
        home.append(
            {
                "family": cell.family,
                "size": list(cell.size),
                "alone": round(gap(costs, ALONE), 4),
                "with_search": round(gap(costs, best[cell.size]), 4),
                "search": round(gap(costs, SEARCH), 4),
                "numbers": {name: [round(low, 5), round(high, 5)] for name, (low, high) in numbers.items()},
            }
        )
    improving = [
        {"size": list(size), "options": dict(zip(("improve_rounds", "steps"), settings[name], strict=True))}
        for size, name in best.items()
    ]
    return home, improving


def with_changes(card: Mapping[str, Any], improving: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a card advises, with these numbers of changes for local search inside the chain at their sizes."""
    changes = {tuple(entry["size"]): entry["options"]["improve_rounds"] for entry in improving}
    others = [
        entry for entry in card.get("solving", []) if not (entry.get("with_search") and tuple(entry["size"]) in changes)
    ]
    fast = [
        {
            "size": list(size),
            "with_search": True,
            "options": {**advised(card, size, SAMPLES, with_search=True), "improve_rounds": rounds},
        }
        for size, rounds in changes.items()
    ]
    return settings_of({**card, "solving": [*others, *fast]})


def described(cell: Cell) -> dict[str, tuple[float, float]]:
    """Return the ranges of the numbers that describe matrices of a cell, from more instances than are solved."""
    problem = cell.dataset.problem
    count = max(1, min(DESCRIBED, DESCRIBED_CELLS // math.prod(problem.shape(cell.size))))
    rng = np.random.default_rng([SEED + 1, *cell.size])
    return ranges(problem, sample_family(problem, cell.family, count, cell.size, rng))


def gap(costs: dict[str, np.ndarray], name: str) -> float:
    """Return the gap of a way in %, to the best that anyone found of each instance; infinite costs are twice that."""
    reference = np.min(list(costs.values()), axis=0)
    own = np.where(np.isfinite(costs[name]), costs[name], 2 * reference)
    return 100.0 * float(own.mean() / reference.mean() - 1)


def rows_of(
    measuring: Measuring, found: Sequence[tuple[Cell, dict[str, np.ndarray]]], improving: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the lines of the table, with 95 % confidence intervals."""
    chosen = {tuple(entry["size"]): entry["options"] for entry in improving}
    rows = []
    for cell, costs in found:
        options = chosen[cell.size]
        row: dict[str, Any] = {
            "model": measuring.model.name, "digest": measuring.digest, "family": cell.family,
            "size": "x".join(map(str, cell.size)), "instances": len(cell.dataset), "seconds": measuring.seconds,
            "device": measuring.device, **options,
        }  # fmt: skip
        reference = np.min(list(costs.values()), axis=0)
        names = {"alone": ALONE, "with_search": way(options["improve_rounds"], options["steps"]), "search": SEARCH}
        for column, name in names.items():
            low, high = gap_interval(np.where(np.isfinite(costs[name]), costs[name], 2 * reference), reference)
            row |= {column: gap(costs, name), f"{column}_low": low, f"{column}_high": high}
        rows.append({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()})
    return rows


def write_rows(path: Path, rows: Sequence[dict[str, Any]], columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    """Write the table and return all of it; rows of models that were not measured now are kept."""
    mine = {str(row["model"]) for row in rows}
    kept: list[dict[str, Any]] = []
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            kept = [dict(row) for row in csv.DictReader(file) if row["model"] not in mine]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*kept, *rows])
    write_atomically(path, text.getvalue(), make_folder=True)
    return [*kept, *rows]


def card(name: str, asked: argparse.Namespace, until: float) -> list[dict[str, Any]]:
    """Measure one model until the time is over, write its card, and return the lines of the table."""
    path, kind = path_of(name), pick_device(asked.device).type
    model = load(name, kind)
    problem = model.problem
    wanted = sizes_of(asked.sizes, problem) or SIZES[kind].get(problem.name, ())
    if problem.structure is None or not problem.families:
        print(f"{name}: {problem.name} has no families to measure; its card stays as it is", file=sys.stderr)
        return []
    store = OutcomeFile(asked.store)
    try:
        measuring = Measuring(model, digest_of(path), asked.seconds, kind, store)
        found = measure(measuring, cells_of(get_problem(problem.name), wanted, asked.count), until)
    finally:
        store.close()
    if not found:
        return []
    home, improving = entries(found)
    measured = {
        "home": home,
        "solving": with_changes(model.card, improving),
        "measured": {
            "seconds": asked.seconds,
            "instances": asked.count,
            "seed": SEED,
            "device": kind,
            "shared": asked.shared,
        },
    }
    write_card(path, {**model.card, **measured})
    if path.parent == models_folder():
        write_index()
    return rows_of(measuring, found, improving)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the models one after another; the time is shared equally."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="shipped models or model files")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each instance and way")
    parser.add_argument("--count", type=int, default=4, help="instances of each family and size")
    parser.add_argument("--sizes", default="", help="with commas, such as 20,50 or 20x4,50x5; by default what suits")
    parser.add_argument("--minutes", type=float, default=1e6, help="for all models together")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--shared", default="", help="what else the machine did, for the card")
    parser.add_argument("--store", type=Path, default=Path("runs/cards.jsonl"), help="what was measured so far")
    parser.add_argument("--table", type=Path, default=ROOT / "docs" / "results" / "cards.csv")
    asked = parser.parse_args(arguments)
    until = time.monotonic() + 60.0 * asked.minutes
    for number, name in enumerate(asked.models):
        share = (until - time.monotonic()) / (len(asked.models) - number)
        rows = card(name, asked, time.monotonic() + share)
        if rows:
            write_rows(asked.table, rows)
        print(json.dumps({"model": name, "cells": len(rows)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
