"""Measure a model of hidden travel times family by family: how far from the optimum its samples are.

    python -m experiments.navigation [MODEL...] --sizes 10,20,50 --count 100,100,20 --page docs/families.md

For every family of the problem `navigation` and every size, instances of a seed of their own are solved by the network
alone, as its card advises for so many samples, and where the card advises it with its decodes merged. References are
optima, proven by the exact solver `branch`, which sees the travel times that are hidden from the network. Gaps are in
%, with 95 % confidence intervals over instances; seconds are those of all instances of a cell.

What was measured is in the store and is not measured again: stopped, by `--minutes` or by hand, the same command goes
on. The table is docs/results/navigation-families.csv, rows of other models are kept; `--page` writes it into a page.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cards import ROOT, Cell, cells_of, sizes_of, write_rows
from experiments.markdown import between_marks, gap_in_row, table
from experiments.tables.rows import options_as_text
from experiments.ways import ALONE, MERGED
from icdc.errors import UsageError
from icdc.evaluation.evaluate import OutcomeFile, evaluate, summarise
from icdc.io.files import write_atomically
from icdc.models.card import advised
from icdc.models.catalogue import path_of
from icdc.models.diffusion import Model, load
from icdc.models.file import digest_of, pick_device
from icdc.problems.navigation import Navigation
from icdc.solvers import make_solver

SEED = 20261203
"""Of the instances: neither of training nor of validation, of a test set, or of a card."""
EXACT = "branch"
CHUNK = 32
"""Instances that are solved, and kept, together."""
COLUMNS = (
    "model", "digest", "family", "size", "way", "instances", "samples", "seed", "device", "gap", "gap_low", "gap_high",
    "optimal", "seconds", "options",
)  # fmt: skip


@dataclass(frozen=True)
class Measuring:
    """What all measurements of a model share; outcomes are filed under the digest of its weights."""

    model: Model
    digest: str
    device: str
    store: OutcomeFile

    def ways(self, cell: Cell) -> list[str]:
        """Return the ways to solve a cell: without merging, and with it where the model's card advises that."""
        return [ALONE, MERGED] if advised(self.model.card, cell.size, 1).get("merge") else [ALONE]

    def row(self, cell: Cell, way: str, samples: int, warm_up: bool) -> dict[str, Any]:
        """Return the line of the table for a cell whose dataset has references."""
        merging = way == MERGED
        advice = options_as_text(advised(self.model.card, cell.size, samples, merging=merging))
        changes: dict[str, Any] = {} if merging else {"merge": 0}
        summary = summarise(
            evaluate(
                cell.dataset, make_solver("network", model=self.model, device=self.device, **changes),
                f"network {advice} of {self.digest} on {self.device}", samples=samples, chunk=CHUNK, store=self.store,
                warm_up=warm_up,
            )
        )  # fmt: skip
        figures = {name: getattr(summary, name) for name in ("gap", "gap_low", "gap_high", "optimal", "seconds")}
        return {
            "model": self.model.name, "digest": self.digest, "family": cell.family,
            "size": "x".join(map(str, cell.size)), "way": way, "instances": len(cell.dataset), "samples": samples,
            "seed": SEED, "device": summary.device, "options": advice,
            # sums of reals in another order may be just below a gap of 0, and -0.0 would look like one
            **{name: None if value is None else round(value, 4) + 0.0 for name, value in figures.items()},
        }  # fmt: skip


def with_optima(cell: Cell, store: OutcomeFile) -> Cell:
    """Return a cell with the optima of its instances; where one cannot be proven, there is nothing to measure by."""
    found = evaluate(cell.dataset, make_solver(EXACT), EXACT, store=store, warm_up=False)
    if unproven := sum(not one.proven for one in found):
        raise UsageError(f"'{EXACT}' proves no optimum for {unproven} of {cell.dataset.name}; take smaller sizes")
    optima = np.array([one.cost for one in found], dtype=np.float64)
    return replace(cell, dataset=replace(cell.dataset, reference=optima, proven=np.ones(len(optima), dtype=bool)))


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table for people: a line for each family and size, a column for each number of samples."""
    numbers = sorted({int(row["samples"]) for row in rows})
    lines: dict[tuple[str, ...], dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        line = tuple(str(row[key]) for key in ("family", "size", "way", "model", "device", "instances"))
        lines.setdefault(line, {})[int(row["samples"])] = row
    body = []
    for (family, size, way, model, device, instances), found in lines.items():
        gaps = [gap_in_row(found.get(number)) for number in numbers]
        optimal = [f"{float(found[number]['optimal']):.3g}" if number in found else "–" for number in numbers]
        body.append(
            [family, size, way, f"`{model}`", device.removeprefix("NVIDIA "), instances, *gaps, " / ".join(optimal)]
        )
    heads = [
        "family",
        "cities",
        "way",
        "model",
        "device",
        "instances",
        *(f"×{number}" for number in numbers),
        "optimal, %",
    ]
    return table(heads, body)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the table, and the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["navigation"], metavar="MODEL", help="shipped ones or files")
    parser.add_argument("--sizes", default="10,20,50", help="numbers of cities, with commas")
    parser.add_argument("--count", default="100,100,20", help="instances of each family, for all sizes or for each")
    parser.add_argument("--samples", default="1,8,32", help="numbers of samples, with commas")
    parser.add_argument("--minutes", type=float, default=1e6, help="nothing is begun after so many")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--store", type=Path, default=Path("runs/navigation.jsonl"), help="what was measured so far")
    parser.add_argument("--table", type=Path, default=ROOT / "docs" / "results" / "navigation-families.csv")
    parser.add_argument("--page", type=Path, help="a page with a place for the table, such as docs/families.md")
    asked = parser.parse_args(arguments)
    until, kind = time.monotonic() + 60.0 * asked.minutes, pick_device(asked.device).type
    problem, numbers = Navigation(), [int(part) for part in asked.samples.split(",")]
    sizes, counts = sizes_of(asked.sizes, problem), [int(part) for part in asked.count.split(",")]
    if len(counts) not in (1, len(sizes)):
        parser.error(f"{len(counts)} numbers of instances for {len(sizes)} sizes; give one, or one for each size")
    if len(counts) == 1:
        counts *= len(sizes)
    rows: list[dict[str, Any]] = []
    store = OutcomeFile(asked.store)
    try:
        for name in asked.models:
            measuring = Measuring(load(name, kind), digest_of(path_of(name)), kind, store)
            for size, count in zip(sizes, counts, strict=True):
                for cell in cells_of(problem, [size], count, SEED):
                    if time.monotonic() > until:
                        break
                    solved = with_optima(cell, store)
                    for way in measuring.ways(cell):
                        rows += [measuring.row(solved, way, number, number == numbers[0]) for number in numbers]
                    print(f"{measuring.model.name}: {cell.dataset.name}", file=sys.stderr, flush=True)
    finally:
        store.close()
        everything = write_rows(asked.table, rows, COLUMNS)
    if asked.page is not None:
        text = between_marks(asked.page.read_text(encoding="utf-8"), "navigation-families", page(everything))
        write_atomically(asked.page, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
