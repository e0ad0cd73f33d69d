"""How close to the optimum answers are where pairs are forbidden, beside instances of the same sizes where none are.

    python -m benchmarks.masked --page docs/families.md

The same instances twice, as they are drawn and with a share of their pairs forbidden (every job keeps a machine, every
tour instance a hidden tour), each answered with `--seconds` on two cores. What that leaves unproven is answered again
with `--reference-seconds` and another seed: the better of both is the reference. Every instance is a line of the CSV
file, written when it is done; the same command goes on where it was.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.pinned import PinnedWorkers
from benchmarks.runs import CORES, append_rows, read_rows
from benchmarks.search_table import mean_and_interval
from experiments.markdown import between_marks, percent, table
from icdc.errors import IcdcError, UsageError
from icdc.io.files import write_atomically
from icdc.problems import Atsp, Instance, Pmsp, Problem
from icdc.problems.forbidden import with_stand_ins
from icdc.solving.path import solve_instances
from icdc.solving.registry import make_solver

ROOT = Path(__file__).parents[1]
SCHEDULES = ((20, 4), (50, 5), (100, 10), (100, 20), (200, 20))
TOURS = ((20,), (50,), (100,), (200,))
COLUMNS = (
    "solver", "problem", "size", "forbidden", "instance", "seconds", "cost", "proven", "took", "reference",
    "reference_proven",
)  # fmt: skip
FACTOR, SLACK = 2.0, 0.005
"""How many times as far from the optimum answers with forbidden pairs may be, and what counts as no distance, in %."""


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


def measured(solver: str, case: Case, seconds: float, reference_seconds: float) -> dict[str, object]:
    """Answer an instance twice, the second time longer where the first leaves something open; return a line."""
    instance, ready = instance_of(case), make_solver(solver)
    began = time.perf_counter()
    ((_, answer),) = solve_instances([instance], ready, time_limit=seconds)
    took = time.perf_counter() - began
    cost = np.inf if answer.objective is None else float(answer.objective)
    reference, proven = cost, answer.optimal
    if not proven:
        ((_, longer),) = solve_instances([instance], ready, time_limit=reference_seconds, seed=1)
        if longer.objective is not None:
            reference = min(reference, float(longer.objective))
        proven = longer.optimal
    size = "x".join(map(str, case.size))
    values = (solver, case.problem, size, case.share, case.number, seconds, cost, answer.optimal, round(took, 3))
    return dict(zip(COLUMNS, (*values, reference, proven), strict=True))


def run_all(
    cases: Sequence[Case], solver: str, seconds: float, reference_seconds: float, out: Path, minutes: float
) -> None:
    """Measure the cases that the file lacks, one after the other on two cores, as long as there is time."""
    deadline = time.monotonic() + 60.0 * minutes
    done = {_key(row) for row in read_rows(out)}
    with PinnedWorkers(1, CORES) as workers:
        warm = dict.fromkeys(case.problem for case in cases)
        for problem in warm:  # compile and load before anything is timed
            first = next(case for case in cases if case.problem == problem)
            workers.submit(measured, solver, first._replace(number=10**6), seconds, seconds).result()
        for case in cases:
            key = solver, case.problem, "x".join(map(str, case.size)), case.share, case.number, seconds
            if key in done or time.monotonic() > deadline:
                continue
            row = workers.submit(measured, solver, case, seconds, reference_seconds).result()
            append_rows(out, COLUMNS, [row])
            print(", ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr, flush=True)


def _key(row: dict[str, str]) -> tuple[str, str, str, float, int, float]:
    numbers = float(row["forbidden"]), int(row["instance"]), float(row["seconds"])
    return row["solver"], row["problem"], row["size"], *numbers


def as_markdown(rows: Sequence[dict[str, str]]) -> str:
    """Return the table: a line for every size, gaps in % without and with forbidden pairs beside each other."""
    lines = []
    for problem, size in dict.fromkeys((row["problem"], row["size"]) for row in rows):
        mine = [row for row in rows if (row["problem"], row["size"]) == (problem, size)]
        plain = [row for row in mine if float(row["forbidden"]) == 0]
        for share in sorted({float(row["forbidden"]) for row in mine} - {0.0}):
            masked = [row for row in mine if float(row["forbidden"]) == share]
            words = []
            for part in (plain, masked):
                mean, half = mean_and_interval(_gaps(part)) if part else (np.nan, np.inf)
                sure = sum(row["reference_proven"] == "True" for row in part)
                spread = percent(half) if np.isfinite(half) else "–"
                words += [f"{percent(mean)} ± {spread}", f"{sure} of {len(part)}"]
            near = "yes" if within(_gaps(plain), _gaps(masked)) else "no"
            longest = max(float(row["took"]) for row in masked)
            lines.append([f"{problem} {size.replace('x', '×')}", f"{100 * share:g} %", *words, near, f"{longest:.1f}"])
    if not lines:
        return "Not measured yet."
    heading = ["instances", "forbidden", "gap %, none forbidden", "optimum known", "gap %, some forbidden"]
    return table([*heading, "optimum known", f"within ×{FACTOR:g}", "longest run, s"], lines)


def within(plain: Sequence[float], masked: Sequence[float]) -> bool:
    """Tell whether the mean gap with forbidden pairs is at most so many times the one without."""
    return bool(plain and masked) and bool(np.mean(masked) <= max(FACTOR * float(np.mean(plain)), SLACK))


def _gaps(rows: Sequence[dict[str, str]]) -> list[float]:
    return [100.0 * (float(row["cost"]) / float(row["reference"]) - 1.0) for row in rows]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solver", default="icdc:device=cpu", help="NAME or NAME:option=value,…")
    parser.add_argument("--sizes", nargs="+", metavar="SIZE", help="only these, such as 20x4 or 50")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.3], help="of forbidden pairs; 0 is always there")
    parser.add_argument("--instances", type=int, default=10, help="of each size")
    parser.add_argument("--seconds", type=float, default=1.0, help="for an answer")
    parser.add_argument("--reference-seconds", type=float, default=10.0, help="for a reference")
    parser.add_argument("--minutes", type=float, default=600.0, help="all in all; 0 measures nothing")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "masked.csv")
    parser.add_argument("--page", type=Path, help="a page with the marks 'masked', such as docs/families.md")
    options = parser.parse_args(arguments)
    try:
        every = [(Pmsp.name, size) for size in SCHEDULES] + [(Atsp.name, size) for size in TOURS]
        chosen = [(p, size) for p, size in every if not options.sizes or "x".join(map(str, size)) in options.sizes]
        if not chosen or not all(0 < share < 1 for share in options.shares):
            raise UsageError("there is no such size, or a share that is not between 0 and 1")
        cases = [
            Case(problem, size, share, number)
            for problem, size in chosen
            for number in range(options.instances)
            for share in (0.0, *options.shares)
        ]
        if options.minutes > 0:
            limits = options.seconds, options.reference_seconds
            run_all(cases, options.solver, *limits, options.out, options.minutes)
        text = as_markdown(read_rows(options.out))
        print(text)
        if options.page:
            write_atomically(options.page, between_marks(options.page.read_text("utf-8"), "masked", text))
    except IcdcError as error:
        print(f"masked: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
