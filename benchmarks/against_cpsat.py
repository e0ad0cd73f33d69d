"""Wins, ties and losses of a short run of ours against a long one of CP-SAT, on job-correlated schedules.

    python -m benchmarks.against_cpsat --solver icdc --pairs 8 --count 3 --minutes 20

Both get the same two cores, one after the other, CP-SAT two search workers. Every run is a line of the CSV file; the
same command goes on where it was. `--page` writes the table between the marks of a page.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks.runs import Run, read_rows, run_all
from experiments.markdown import between_marks, table
from icdc.errors import IcdcError
from icdc.io.files import write_atomically

ROOT = Path(__file__).parents[1]
SETS = tuple(f"pmsp-job-correlated-{size}" for size in ("100x20", "200x20", "200x50"))
RIVAL = "cpsat:workers=2"


def wanted(solver: str, count: int, limits: tuple[float, float], seed: int) -> list[Run]:
    """Return the runs of ours and of the rival; of an instance the long one first."""
    return [
        Run(spec, name, instance, seed, (limit,))
        for instance in range(count)
        for name in SETS
        for spec, limit in ((RIVAL, limits[1]), (solver, limits[0]))
    ]


def as_markdown(rows: Sequence[dict[str, str]]) -> str:
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
                who = f"{solver}, {float(limit):g} s", f"{float(rival_limit):g} s"
                counts = map(str, (wins, ties, len(both) - wins - ties))
                lines.append([name, *who, *counts, f"{excess:+.2f} %"])
    if not lines:
        return "Not measured yet."
    return table(["set", "ours", "CP-SAT", "wins", "ties", "losses", "mean cost beside CP-SAT's"], lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solver", default="icdc", help="ours: NAME or NAME:option=value,…")
    parser.add_argument("--count", type=int, default=10, help="the first so many instances of each set")
    parser.add_argument("--pairs", type=int, default=1, help="runs side by side, each on two cores of its own")
    parser.add_argument("--seconds", type=float, default=10.0, help="ours")
    parser.add_argument("--rival-seconds", type=float, default=300.0, help="CP-SAT's")
    parser.add_argument("--minutes", type=float, default=600.0, help="all in all; 0 measures nothing")
    parser.add_argument("--seed", type=int, default=0, help="of the solvers")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "against-cpsat.csv")
    parser.add_argument("--page", type=Path, help="a page with the marks 'against-cpsat', such as docs/families.md")
    options = parser.parse_args(arguments)
    try:
        if options.minutes > 0:
            runs = wanted(options.solver, options.count, (options.seconds, options.rival_seconds), options.seed)
            run_all(runs, options.out, options.pairs, options.minutes)
        text = as_markdown(read_rows(options.out))
        print(text)
        if options.page:
            write_atomically(options.page, between_marks(options.page.read_text("utf-8"), "against-cpsat", text))
    except IcdcError as error:
        print(f"against_cpsat: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
