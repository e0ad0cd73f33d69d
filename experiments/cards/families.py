"""Measure a model beside search, family by family and size by size, and write the gaps into its card.

    python -m experiments.cards.families atsp pmsp --sizes 20,50,20x4 --seconds 1 --count 4 [--device cuda]

Instances of every family of a model's problem are solved in the same seconds by the model alone, by the model with
local search inside its chain, and by search alone; gaps are to the best of all answers, or those of search in
`REFERENCE` times the seconds. The card then has

- `home`: these gaps for every family and size, and the range of the numbers that describe the matrices. By them
  `icdc solve` tells instances for which the model alone is worse than search;
- `improve_rounds` in what it advises for local search inside the chain: those of `CHANGES` that were best over all
  families of a size.

What was measured is in the store and is not measured again, on the same kind of device: stopped, the same command goes
on. A table of everything goes to docs/results/cards.csv.
"""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cards.choose import SEARCHED, SEED, Cell, cells_of, parser_of, save_card, sizes_of, with_advice
from experiments.csvfiles import replace_rows
from icdc.evaluation.evaluate import OutcomeFile, evaluate, gap_interval
from icdc.models.card import advised, ranges
from icdc.models.catalogue import path_of
from icdc.models.diffusion import CHAIN_STEPS, Model, load
from icdc.models.file import digest_of, pick_device
from icdc.problems.base import Size
from icdc.problems.families import sample_family
from icdc.solvers import make_solver
from icdc.solving.solver import Solver

ROOT = Path(__file__).parents[2]
ALONE, SEARCH, LONGER = "model", "search", "longer search"
REFERENCE = 4.0
"""Times the seconds that the search has which gaps are measured against."""
CHANGES = (40, 10, 120)
"""Changes by search inside the chain to a solution, to choose from; the first of equals is chosen."""
SAMPLES = 32
"""Samples of `icdc solve --solver network`, whose advice is completed."""
DESCRIBED, DESCRIBED_ENTRIES = 24, 2**21
"""Instances, and entries of their matrices, at most, that the ranges of a family's numbers are taken from."""
GAPS = ("alone", "with_search", "search")
COLUMNS = (
    "model", "digest", "family", "size", "instances", "seconds", "device",
    *(f"{name}{end}" for name in GAPS for end in ("", "_low", "_high")), "improve_rounds",
)  # fmt: skip
Costs = dict[str, np.ndarray]


def with_changes(changes: int) -> str:
    """Return the name of the model with so much search inside its chain."""
    return f"{ALONE}, improve_rounds={changes}"


def solvers(model: Model) -> dict[str, tuple[Solver, float]]:
    """Return the solvers to compare, by name, and how many times the seconds each has."""
    network = partial(make_solver, "network", model=model, device=model.device.type)
    return {
        LONGER: (make_solver("search"), REFERENCE),
        SEARCH: (make_solver("search"), 1.0),
        ALONE: (network(), 1.0),
        **{with_changes(changes): (network(improve_rounds=changes, steps=CHAIN_STEPS), 1.0) for changes in CHANGES},
    }


def measure(
    model: Model, digest: str, cells: Iterable[Cell], seconds: float, store: OutcomeFile
) -> list[tuple[Cell, Costs]]:
    """Return the costs of every solver on every cell."""
    measured: list[tuple[Cell, Costs]] = []
    for cell in cells:
        costs: Costs = {}
        first = all(cell.size != other.size for other, _ in measured)  # of its size: something may have to compile
        for name, (solver, times) in solvers(model).items():
            label = name if name in (SEARCH, LONGER) else f"{name} of {digest} on {model.device.type}"
            outcomes = evaluate(
                cell.dataset, solver, label, time_limit=times * seconds, chunk=len(cell.dataset), store=store,
                warm_up=first,
            )  # fmt: skip
            costs[name] = np.array([math.inf if one.cost is None else one.cost for one in outcomes])
        measured.append((cell, costs))
        print(f"{model.name}: {cell.dataset.name}", file=sys.stderr, flush=True)
    return measured


def gap(costs: Costs, name: str) -> tuple[float, float | None, float | None]:
    """Return the gap of a solver in %, to the best answer of all, and its interval; infinite costs are twice that."""
    reference = np.min(list(costs.values()), axis=0)
    own = np.where(np.isfinite(costs[name]), costs[name], 2 * reference)
    return 100.0 * float(own.mean() / reference.mean() - 1), *gap_interval(own, reference)


def best_changes(measured: Sequence[tuple[Cell, Costs]]) -> dict[Size, int]:
    """Return, for every size, the number of changes that is best over all families."""
    return {
        size: min(
            CHANGES,
            key=lambda changes: float(
                np.mean([gap(costs, with_changes(changes))[0] for cell, costs in measured if cell.size == size])
            ),
        )
        for size in dict.fromkeys(cell.size for cell, _ in measured)
    }


def rows_of(measured: Sequence[tuple[Cell, Costs]]) -> list[dict[str, Any]]:
    """Return what was measured of each cell, with 95 % confidence intervals."""
    changes = best_changes(measured)
    rows = []
    for cell, costs in measured:
        best = changes[cell.size]
        row: dict[str, Any] = {
            "family": cell.family,
            "size": "x".join(map(str, cell.size)),
            "instances": len(cell.dataset),
        }
        for column, name in zip(GAPS, (ALONE, with_changes(best), SEARCH), strict=True):
            for end, value in zip(("", "_low", "_high"), gap(costs, name), strict=True):
                row[f"{column}{end}"] = None if value is None else round(value, 4)
        rows.append({**row, "improve_rounds": best})
    return rows


def described(cell: Cell) -> dict[str, list[float]]:
    """Return the ranges of the numbers that describe matrices of a cell, from more instances than are solved."""
    problem = cell.dataset.problem
    count = max(1, min(DESCRIBED, DESCRIBED_ENTRIES // math.prod(problem.shape(cell.size))))
    rng = np.random.default_rng([SEED + 1, *cell.size])
    numbers = ranges(problem, sample_family(problem, cell.family, count, cell.size, rng))
    return {name: [round(low, 5), round(high, 5)] for name, (low, high) in numbers.items()}


def with_gaps(card: Mapping[str, Any], measured: Sequence[tuple[Cell, Costs]]) -> dict[str, Any]:
    """Return a card with these gaps, and with the best numbers of changes in its advice."""
    home = [
        {"family": cell.family, "size": list(cell.size), **{name: row[name] for name in GAPS},
         "numbers": described(cell)}
        for (cell, _), row in zip(measured, rows_of(measured), strict=True)
    ]  # fmt: skip
    changed = {**card, "home": home}
    for size, changes in best_changes(measured).items():
        way = {**advised(card, size, SAMPLES, with_search=True), "improve_rounds": changes}
        changed = with_advice(changed, size, SEARCHED, way)
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the models one after another."""
    parser = parser_of(__doc__, "cards.jsonl")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each instance and solver")
    parser.add_argument("--shared", default="", help="what else the machine did, for the card")
    parser.add_argument("--table", type=Path, default=ROOT / "docs" / "results" / "cards.csv")
    options = parser.parse_args(arguments)
    device = pick_device(options.device).type
    with closing(OutcomeFile(options.store)) as store:
        for name in options.models:
            path, model = path_of(name), load(name, device)
            sizes = sizes_of(options.sizes, model.problem)
            cells = [cell for size in sizes for cell in cells_of(model.problem, size, options.count)]
            measured = measure(model, digest_of(path), cells, options.seconds, store)
            about = {"seconds": options.seconds, "device": device}
            more = {"instances": options.count, "seed": SEED, "shared": options.shared}
            save_card(path, {**with_gaps(model.card, measured), "measured": {**about, **more}})
            about |= {"model": model.name, "digest": digest_of(path)}
            replace_rows(options.table, COLUMNS, [{**about, **row} for row in rows_of(measured)], ("model",))
    return 0


if __name__ == "__main__":
    sys.exit(main())
