"""How good answers are after some seconds on two cores: three tables of docs/families.md.

    python -m experiments.search.tables search --solver search --solver icdc --pairs 8 --minutes 25
    python -m experiments.search.tables rivals --solver icdc --pairs 8 --instances 3
    python -m experiments.search.tables masked --page docs/families.md

- `search`: how far above the best known cost a solver is after 1 and after 10 seconds, family by family. Best known is
  the least of the shipped reference and of all costs in the file.
- `rivals`: wins, ties and losses of 10 seconds of ours against 300 of CP-SAT, on job-correlated schedules.
- `masked`: the same instances as they are drawn and with a share of their pairs forbidden (every job keeps a machine,
  every tour instance a hidden tour). What is left unproven is answered again with ten times the time and another seed;
  the better of both is the reference.

Each instance is one run of one seed on a pair of cores of its own, `--pairs` of them side by side. Every run is a line
of a CSV file in docs/results, written when it ends; the same command goes on where it was. `--page` writes the table of
what is there between the marks of a page.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from experiments.csvfiles import append_rows, read_rows
from experiments.markdown import between_marks, percent, table
from experiments.search.runs import CORES, PinnedWorkers, Run, run_all
from icdc.errors import IcdcError, UsageError
from icdc.io.datasets import shipped_references
from icdc.io.files import write_atomically
from icdc.problems import Atsp, Instance, Pmsp, Problem
from icdc.problems.forbidden import with_stand_ins
from icdc.solvers import make_solver
from icdc.solving.jobs import solve_instances

ROOT = Path(__file__).parents[2]
EMPTY = "Not measured yet."

# How far the search gets.

LIMITS = (1.0, 10.0)
SCHEDULES = ("100x20", "200x20", "200x50", "1000x50")
CELLS: dict[str, tuple[str, ...]] = {
    **{
        f"{family} {size.replace('x', '×')}": (f"pmsp-{family}-{size}",)
        for family in ("job-correlated", "machine-correlated", "uniform-100")
        for size in SCHEDULES
    },
    **{f"tmat {cities}": (f"atsp-{cities}",) for cities in (100, 200, 500, 1000)},
    **{f"noisy-plane {cities}": (f"atsp-noisy-plane-{cities}",) for cities in (100, 200)},
    "roads 170": ("atsp-roads-170",),
    "crane 300–450": ("atsp-crane-300", "atsp-crane-450"),
}
"""The test sets that are a row of the table, by its name."""


def search_runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs of the table, instance by instance, so that one cut short has a few of every cell."""
    cells = [sets for name, sets in CELLS.items() if not options.only or any(word in name for word in options.only)]
    if not cells:
        raise UsageError(f"no cell is called so; there are {', '.join(CELLS)}")
    return [
        Run(solver, name, instance, options.seed, LIMITS)
        for instance in range(options.instances)
        for sets in cells
        for name in sets
        for solver in options.solver
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


def search_table(rows: Sequence[dict[str, str]]) -> str:
    """Return the table: a line for every cell and solver, gaps in % at every limit."""
    best = best_known(rows)
    lines = []
    for name, sets in CELLS.items():
        for solver in dict.fromkeys(row["solver"] for row in rows):
            mine = [row for row in rows if row["solver"] == solver and row["set"] in sets]
            if not mine:
                continue
            gaps = [
                [
                    100.0 * (float(row["cost"]) / best[row["set"], int(row["instance"])] - 1.0)
                    for row in mine
                    if float(row["limit"]) == limit
                ]
                for limit in LIMITS
            ]
            last = [row for row in mine if float(row["limit"]) == max(LIMITS)]
            proven = f"{sum(row['proven'] == 'True' for row in last)} of {len(last)}"
            longest = f"{max(float(row['seconds']) for row in last):.1f}"
            lines.append([name, solver, *map(with_interval, gaps), proven, longest, str(max(map(len, gaps)))])
    columns = [f"{limit:g} s, % over best known" for limit in LIMITS]
    heads = ["instances", "solver", *columns, "proven", "longest run, s", "runs"]
    return table(heads, lines) if lines else EMPTY


def with_interval(values: Sequence[float]) -> str:
    """Return the mean of some percentages with its interval, as tables show it."""
    mean, half = mean_and_interval(values) if values else (np.nan, np.inf)
    return f"{percent(mean)} ± {percent(half) if np.isfinite(half) else '–'}"


# Against CP-SAT with thirty times the time.

SETS = tuple(f"pmsp-job-correlated-{size}" for size in ("100x20", "200x20", "200x50"))
RIVAL = "cpsat:workers=2"
SECONDS, RIVAL_SECONDS = 10.0, 300.0


def rival_runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs of ours and of the rival; of an instance the long one first."""
    return [
        Run(spec, name, instance, options.seed, (limit,))
        for instance in range(options.instances)
        for name in SETS
        for spec, limit in ((RIVAL, RIVAL_SECONDS), *((solver, SECONDS) for solver in options.solver))
    ]


def rivals_table(rows: Sequence[dict[str, str]]) -> str:
    """Return the table: a line for every set, solver but the rival, and pair of limits."""
    rivals = [row for row in rows if row["solver"] == RIVAL]
    ours = dict.fromkeys((row["solver"], row["limit"]) for row in rows if row["solver"] != RIVAL)
    lines = []
    for name in SETS:
        for (solver, limit), rival_limit in product(ours, dict.fromkeys(row["limit"] for row in rivals)):
            theirs = {
                (row["instance"], row["seed"]): float(row["cost"])
                for row in rivals
                if row["set"] == name and row["limit"] == rival_limit
            }
            both = [
                (float(row["cost"]), theirs[row["instance"], row["seed"]])
                for row in rows
                if (row["set"], row["solver"], row["limit"]) == (name, solver, limit)
                and (row["instance"], row["seed"]) in theirs
            ]
            if both:
                wins, ties = sum(a < b for a, b in both), sum(a == b for a, b in both)
                excess = 100.0 * (sum(a for a, _ in both) / sum(b for _, b in both) - 1.0)
                times = f"{solver}, {float(limit):g} s", f"{float(rival_limit):g} s"
                counts = map(str, (wins, ties, len(both) - wins - ties))
                lines.append([name, *times, *counts, f"{excess:+.2f} %"])
    heads = ["set", "ours", "CP-SAT", "wins", "ties", "losses", "mean cost beside CP-SAT's"]
    return table(heads, lines) if lines else EMPTY


# With forbidden pairs.

SIZES = tuple((Pmsp.name, size) for size in ((20, 4), (50, 5), (100, 10), (100, 20), (200, 20)))
SIZES += tuple((Atsp.name, (cities,)) for cities in (20, 50, 100, 200))
MASKED = (
    "solver", "problem", "size", "forbidden", "instance", "seconds", "cost", "proven", "took", "reference",
    "reference_proven",
)  # fmt: skip
SHARE = 0.3
"""Of pairs that are forbidden."""
REFERENCE = 10.0
"""Times the seconds of an answer that its reference may take."""


class Case(NamedTuple):
    """One instance: its problem and size, the share of forbidden pairs, and its number."""

    problem: str
    size: tuple[int, ...]
    share: float
    number: int


def instance_of(case: Case) -> Instance:
    """Return the instance of a case: the same numbers for every share."""
    problem: Problem = Pmsp() if case.problem == Pmsp.name else Atsp()
    (name,) = problem.arrays
    rng = np.random.default_rng([case.number, *case.size])
    matrix = problem.sample(1, case.size, rng)[name][0].astype(np.int64)
    if case.share == 0:
        return Instance("plain", problem, {name: matrix})
    forbidden = some_forbidden(matrix, case.share, problem.feature_sizes.same_items, rng)
    arrays = with_stand_ins(problem, {name: matrix}, forbidden)
    return Instance("masked", problem, arrays, forbidden=forbidden)


def some_forbidden(matrix: NDArray[np.int64], share: float, tour: bool, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Forbid a share of the pairs (rows, columns) at random, but none of one random solution."""
    rows, columns = matrix.shape
    forbidden = rng.random(matrix.shape) < share
    if tour:
        order = rng.permutation(rows)
        forbidden[order, np.roll(order, -1)] = False
        np.fill_diagonal(forbidden, False)
    else:
        forbidden[np.arange(rows), rng.integers(0, columns, rows)] = False
    return forbidden


def measured(solver: str, case: Case, seconds: float) -> dict[str, object]:
    """Answer an instance, and once more with longer time where that leaves something open; return a line."""
    instance, ready = instance_of(case), make_solver(solver)
    began = time.perf_counter()
    ((_, answer),) = solve_instances([instance], ready, time_limit=seconds)
    spent = round(time.perf_counter() - began, 3)
    cost = np.inf if answer.objective is None else float(answer.objective)
    reference, proven = cost, answer.optimal
    if not proven:
        ((_, longer),) = solve_instances([instance], ready, time_limit=REFERENCE * seconds, seed=1)
        if longer.objective is not None:
            reference = min(reference, float(longer.objective))
        proven = longer.optimal
    size = "x".join(map(str, case.size))
    values = (solver, case.problem, size, case.share, case.number, seconds, cost, answer.optimal, spent)
    return dict(zip(MASKED, (*values, reference, proven), strict=True))


def run_masked(options: argparse.Namespace, out: Path) -> None:
    """Measure the cases that the file lacks, one after the other on two cores, as long as there is time."""
    chosen = [(p, size) for p, size in SIZES if not options.only or "x".join(map(str, size)) in options.only]
    if not chosen:
        raise UsageError("there is no such size")
    deadline = time.monotonic() + 60.0 * options.minutes
    done = {tuple(row[name] for name in MASKED[:6]) for row in read_rows(out)}
    with PinnedWorkers(1, CORES) as workers:
        for solver, (problem, size), number, share in product(
            options.solver, chosen, range(options.instances), (0.0, SHARE)
        ):
            case = Case(problem, size, share, number)
            key = tuple(map(str, (solver, problem, "x".join(map(str, size)), share, number, options.seconds)))
            if key in done or time.monotonic() > deadline:
                continue
            if (number, share) == (0, 0.0):  # load and compile before anything is timed
                workers.submit(measured, solver, case._replace(number=10**6), options.seconds).result()
            row = workers.submit(measured, solver, case, options.seconds).result()
            append_rows(out, MASKED, [row])
            print(", ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr, flush=True)


def masked_table(rows: Sequence[dict[str, str]]) -> str:
    """Return the table: a line for every size, gaps in % without and with forbidden pairs beside each other."""
    lines = []
    for problem, size in dict.fromkeys((row["problem"], row["size"]) for row in rows):
        mine = [row for row in rows if (row["problem"], row["size"]) == (problem, size)]
        plain = [row for row in mine if float(row["forbidden"]) == 0]
        for share in sorted({float(row["forbidden"]) for row in mine} - {0.0}):
            masked = [row for row in mine if float(row["forbidden"]) == share]
            words = []
            for part in (plain, masked):
                gaps = [100.0 * (float(row["cost"]) / float(row["reference"]) - 1.0) for row in part]
                sure = sum(row["reference_proven"] == "True" for row in part)
                words += [with_interval(gaps), f"{sure} of {len(part)}"]
            longest = f"{max(float(row['took']) for row in masked):.1f}"
            lines.append([f"{problem} {size.replace('x', '×')}", f"{100 * share:g} %", *words, longest])
    heads = ["instances", "forbidden", "gap %, none forbidden", "optimum known", "gap %, some forbidden"]
    return table([*heads, "optimum known", "longest run, s"], lines) if lines else EMPTY


TABLES: dict[str, tuple[str, Callable[[Sequence[dict[str, str]]], str]]] = {
    "search": ("search-table", search_table),
    "rivals": ("against-cpsat", rivals_table),
    "masked": ("masked", masked_table),
}
"""The file, and the marks on the page, of each table, and what makes it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--solver", action="append", help="NAME or NAME:option=value,…; repeat it; default icdc")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cells whose name holds a word; masked: sizes")
    parser.add_argument("--instances", type=int, default=10, help="the first so many of each set or size")
    parser.add_argument("--pairs", type=int, default=1, help="runs side by side, each on two cores of its own")
    parser.add_argument("--seconds", type=float, default=1.0, help="for an answer of the table masked")
    parser.add_argument("--minutes", type=float, default=600.0, help="all in all; 0 measures nothing")
    parser.add_argument("--seed", type=int, default=0, help="of the solvers")
    parser.add_argument("--out", type=Path, help="the CSV file; default in docs/results")
    parser.add_argument("--page", type=Path, help="a page with the marks of the table, such as docs/families.md")
    options = parser.parse_args(arguments)
    options.solver = options.solver or ["icdc:device=cpu"]
    name, as_text = TABLES[options.table]
    out = options.out or ROOT / "docs" / "results" / f"{name}.csv"
    try:
        if options.table == "masked":
            if options.minutes > 0:
                run_masked(options, out)
        else:
            runs = search_runs(options) if options.table == "search" else rival_runs(options)
            if options.minutes > 0:
                run_all(runs, out, options.pairs, options.minutes)
        text = as_text([row for row in read_rows(out) if int(row.get("seed", options.seed)) == options.seed])
        print(text)
        if options.page:
            write_atomically(options.page, between_marks(options.page.read_text("utf-8"), name, text))
    except IcdcError as error:
        print(f"tables: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
