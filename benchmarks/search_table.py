"""How far above the best known cost a solver is after 1 and after 10 seconds on two cores, family by family.

    python -m benchmarks.search_table --solver search --solver icdc --pairs 8 --minutes 25

Each instance is one run of one seed on a pair of cores of its own, `--pairs` of them side by side. Every run is a line
of the CSV file, written when it ends; the same command goes on where it was. `--page` writes the table of what is there
between the marks of a page. Best known is the least of the shipped reference and of all costs in the file.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from benchmarks.runs import Run, read_rows, run_all
from experiments.markdown import between_marks, percent, table
from icdc.errors import IcdcError, UsageError
from icdc.io.datasets import shipped_references
from icdc.io.files import write_atomically

ROOT = Path(__file__).parents[1]
LIMITS = (1.0, 10.0)


@dataclass(frozen=True)
class Cell:
    """Some test sets that are one row of the table, and the gaps in % that are to be reached at 1 and 10 s."""

    name: str
    sets: tuple[str, ...]
    goals: tuple[float, float]


def _schedules(family: str, goals: Sequence[tuple[float, float]]) -> Iterator[Cell]:
    for size, goal in zip(("100x20", "200x20", "200x50", "1000x50"), goals, strict=True):
        yield Cell(f"{family} {size.replace('x', '×')}", (f"pmsp-{family}-{size}",), goal)


CELLS: dict[str, Cell] = {
    cell.name: cell
    for cell in (
        *_schedules("job-correlated", ((1.0, 0.5), (0.6, 0.3), (0.7, 0.4), (0.13, 0.08))),
        *_schedules("machine-correlated", ((0.02, 0.0), (0.02, 0.0), (0.02, 0.01), (0.05, 0.03))),
        *_schedules("uniform-100", ((0.6, 0.2), (0.7, 0.2), (1.5, 0.5), (1.0, 0.4))),
        Cell("tmat 100", ("atsp-100",), (0.03, 0.005)),
        Cell("tmat 200", ("atsp-200",), (0.1, 0.03)),
        Cell("tmat 500", ("atsp-500",), (0.5, 0.15)),
        Cell("tmat 1000", ("atsp-1000",), (0.9, 0.5)),
        Cell("noisy-plane 100", ("atsp-noisy-plane-100",), (0.4, 0.05)),
        Cell("noisy-plane 200", ("atsp-noisy-plane-200",), (0.8, 0.3)),
        Cell("roads 170", ("atsp-roads-170",), (0.2, 0.02)),
        Cell("crane 300–450", ("atsp-crane-300", "atsp-crane-450"), (0.0, 0.0)),
    )
}


def wanted(cells: Sequence[Cell], solvers: Sequence[str], instances: int, seed: int) -> list[Run]:
    """Return the runs of the table, instance by instance, so that one cut short has a few of every cell."""
    return [
        Run(solver, name, instance, seed, LIMITS)
        for instance in range(instances)
        for cell in cells
        for name in cell.sets
        for solver in solvers
    ]


def best_known(rows: Sequence[dict[str, str]]) -> dict[tuple[str, int], float]:
    """Return the best known cost by set and instance: of the shipped references and of the rows."""
    best: dict[tuple[str, int], float] = {}
    for name in dict.fromkeys(row["set"] for row in rows):
        for instance, cost in enumerate(shipped_references(name).get("reference", ())):
            if np.isfinite(cost):
                best[name, instance] = float(cost)
    for row in rows:
        key = row["set"], int(row["instance"])
        best[key] = min(best.get(key, np.inf), float(row["cost"]))
    return best


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a mean and half the width of its 95 % confidence interval (Student's t); infinite for one value."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else np.inf
    half = float(student.ppf(0.975, len(values) - 1)) * spread / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return float(np.mean(values)), half


def as_markdown(rows: Sequence[dict[str, str]]) -> str:
    """Return the table: a line for every cell and solver, gaps in % at every limit."""
    best = best_known(rows)
    lines = []
    for cell in CELLS.values():
        for solver in dict.fromkeys(row["solver"] for row in rows):
            mine = [row for row in rows if row["solver"] == solver and row["set"] in cell.sets]
            if not mine:
                continue
            words, counts = [], set()
            for limit, goal in zip(LIMITS, cell.goals, strict=True):
                at = [row for row in mine if float(row["limit"]) == limit]
                gaps = [100.0 * (float(row["cost"]) / best[row["set"], int(row["instance"])] - 1.0) for row in at]
                counts.add(len(gaps))
                mean, half = mean_and_interval(gaps)
                words += [f"{percent(mean)} ± {percent(half) if np.isfinite(half) else '–'}", f"{goal:g}"]
            last = [row for row in mine if float(row["limit"]) == max(LIMITS)]
            proven = sum(row["proven"] == "True" for row in last)
            longest = max(float(row["seconds"]) for row in last)
            lines.append([cell.name, solver, *words, f"{proven} of {len(last)}", f"{longest:.1f}", str(max(counts))])
    if not lines:
        return "Not measured yet."
    columns = [word for limit in LIMITS for word in (f"{limit:g} s, % over best known", "goal")]
    return table(["instances", "solver", *columns, "proven", "longest run, s", "runs"], lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solver", action="append", help="NAME or NAME:option=value,…; repeat it; default search")
    parser.add_argument("--cells", nargs="+", metavar="WORD", help="only cells whose name holds one of these words")
    parser.add_argument("--instances", type=int, default=10, help="the first so many of each set")
    parser.add_argument("--pairs", type=int, default=1, help="runs side by side, each on two cores of its own")
    parser.add_argument("--minutes", type=float, default=600.0, help="all in all; 0 measures nothing")
    parser.add_argument("--seed", type=int, default=0, help="of the solvers")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "search-table.csv")
    parser.add_argument("--page", type=Path, help="a page with the marks 'search-table', such as docs/families.md")
    options = parser.parse_args(arguments)
    try:
        cells = [cell for cell in CELLS.values() if not options.cells or any(w in cell.name for w in options.cells)]
        if not cells:
            raise UsageError(f"no cell is called so; there are {', '.join(CELLS)}")
        if options.minutes > 0:
            solvers = options.solver or ["search"]
            runs = wanted(cells, solvers, options.instances, options.seed)
            run_all(runs, options.out, options.pairs, options.minutes)
        text = as_markdown([row for row in read_rows(options.out) if int(row["seed"]) == options.seed])
        print(text)
        if options.page:
            write_atomically(options.page, between_marks(options.page.read_text("utf-8"), "search-table", text))
    except IcdcError as error:
        print(f"search_table: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
