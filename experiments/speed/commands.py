"""Seconds and peak memory of whole commands without a GPU, from the call to the end of the process.

    python -m experiments.speed.commands limits                # 20 … 4000 cities, 20×4 … 2000×100, limits 1 and 5
    python -m experiments.speed.commands limits --quick        # three sizes, limit 1
    python -m experiments.speed.commands limits --solver lkh --solver cpsat    # other solvers than the default
    python -m experiments.speed.commands sets                  # no limit: the first instance of some standard sets
    python -m experiments.speed.commands limits --measured --page docs/command-line.md      # only the page again

`limits` asks whether limits hold at every size: `over` is what solving took more than the limit, `start` is the rest of
the command: imports, reading and writing. A row whose solver says that it cannot take the size has its words instead.
One run each, on two cores; where the load that is printed first is not near 0, others had a share of them. `--write`
puts the rows into docs/results.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.markdown import between_marks, table
from icdc.errors import InputError
from icdc.io.datasets import standard_set
from icdc.io.files import write_atomically
from icdc.problems import get_problem

RESULTS = Path(__file__).parents[2] / "docs" / "results"
CORES = 2
DEFAULT = "icdc"
SIZES: dict[str, list[tuple[int, ...]]] = {
    "atsp": [(20,), (50,), (100,), (200,), (500,), (1000,), (2000,), (3000,), (4000,)],
    "pmsp": [(20, 4), (50, 5), (100, 10), (200, 20), (500, 50), (1000, 50), (2000, 100)],
}
QUICK: dict[str, list[tuple[int, ...]]] = {
    "atsp": [(20,), (200,), (1000,)],
    "pmsp": [(20, 4), (200, 20), (1000, 50)],
}
NUMBERS = ("own", "reals", "equal")
"""What the numbers of an instance are: the problem's own draw; reals between 0 and 1; all the same."""
OWN_ONLY = 1_000
"""Cities or jobs below which only the problem's own draw is tried: it is large ones that limits are hard for."""
COLUMNS = ("instance", "solver", "limit", "over", "start", "peak_mib", "gap_percent", "words", "machine")
HEADINGS = {
    "instance": "instance",
    "solver": "solver",
    "limit": "limit, s",
    "over": "over the limit, s",
    "start": "start of the command, s",
    "peak_mib": "peak memory, MiB",
    "gap_percent": "gap to its own bound, %",
    "words": "what the solver says",
}
"""What the columns of the page are called; what is empty or the same in all rows is left out, or said below."""
CASES = [("atsp-20", None), ("atsp-50", None), ("atsp-100", 100), ("pmsp-50x5", None)]
"""Standard sets whose first instance is solved, with the number of samples; None leaves it to the command."""
SET_COLUMNS = ("instance", "model", "samples", "seconds", "cpu_seconds", "peak_mib", "gap")


@dataclass(frozen=True)
class Run:
    """One command: its answer, or the sentence instead of it, its wall-clock and CPU seconds, and its memory in MiB."""

    answer: dict[str, Any] | None
    sentence: str
    wall: float
    cpu: float
    memory: float


def run(options: Sequence[str]) -> Run:
    """Run `icdc solve` with options, and measure it."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "icdc", "solve", *options, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out, words = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall, cpu, memory = time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    if process.returncode:
        sentence = words.strip().splitlines()[-1] if words.strip() else f"exit code {process.returncode}"
        return Run(None, sentence, wall, cpu, memory)
    return Run(json.loads(out), "", wall, cpu, memory)


def matrix_of(problem: str, size: tuple[int, ...], numbers: str) -> NDArray[Any]:
    """Return the matrix of an instance that is always the same."""
    rng = np.random.default_rng(0)
    if numbers == "own":
        (arrays,) = get_problem(problem).sample(1, size, rng).values()
        return np.asarray(arrays[0])
    shape = get_problem(problem).shape(size)
    return rng.random(shape) if numbers == "reals" else np.full(shape, 7)


def limit_row(name: str, file: Path, solver: str, limit: float, machine: str) -> list[str]:
    """Solve an instance by a command and return a row of the table of limits."""
    options = [str(file), "--problem", name.partition("-")[0], "--solver", solver, "--time-limit", str(limit)]
    options += ["--device", "cpu"] if solver == DEFAULT else []  # classical solvers have no device
    made = run(options)
    memory = f"{made.memory:.0f}"
    if made.answer is None:
        return [name, solver, f"{limit:g}", "–", f"{made.wall:.1f}", memory, "–", made.sentence, machine]
    seconds, gap = made.answer["seconds"], made.answer["gap"]
    over, start = max(0.0, seconds - limit), made.wall - seconds
    percent = "–" if gap is None else f"{100 * gap:.2f}"
    return [name, solver, f"{limit:g}", f"{over:.1f}", f"{start:.1f}", memory, percent, "", machine]


def set_row(name: str, samples: int | None, folder: Path) -> list[str]:
    """Solve the first instance of a standard set, and return a row of the table of sets."""
    dataset = standard_set(name)
    (matrix,) = dataset.arrays.values()
    file = folder / f"{name}.npy"
    np.save(file, matrix[0])
    options = [str(file), "--problem", dataset.problem.name, "--device", "cpu"]
    made = run([*options, *([] if samples is None else ["--samples", str(samples)])])
    if made.answer is None:
        raise SystemExit(f"{name}: {made.sentence}")
    gap = "–"
    if dataset.reference is not None:
        gap = f"{100 * (made.answer['objective'] / float(dataset.reference[0]) - 1):.2f}"
    numbers = [f"{made.wall:.1f}", f"{made.cpu:.1f}", f"{made.memory:.0f}", gap]
    return [f"{name}[0]", str(made.answer["model"]), str(made.answer["samples"]), *numbers]


def page_of(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows of the table of limits as a part of a page, in words."""
    lines = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    for line in lines:
        line["instance"] = _in_words(line["instance"])
    alone = all(line["solver"] == DEFAULT for line in lines)
    silent = not any(line["words"] for line in lines)
    shown = [name for name in HEADINGS if not (name == "solver" and alone) and not (name == "words" and silent)]
    machines = "; ".join(dict.fromkeys(line["machine"] for line in lines))
    by = f"By the default solver, `{DEFAULT}`, on " if alone else "On "
    text = table([HEADINGS[name] for name in shown], [[line[name] for name in shown] for line in lines])
    return f"{text}\n\n{by}{machines}."


def measured(path: Path) -> list[list[str]]:
    """Return the rows of a table of limits that an earlier run has written."""
    heading, *rows = list(csv.reader(path.read_text("utf-8").splitlines()))
    if tuple(heading) != COLUMNS:
        raise InputError(f"{path}: the columns must be {', '.join(COLUMNS)}")
    return rows


def write_page(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Put the rows between the marks of a page."""
    write_atomically(path, between_marks(path.read_text("utf-8"), "limits", page_of(rows)))


def _in_words(name: str) -> str:
    """Return the name of an instance, such as pmsp-20x4-reals, as what it is: 20 jobs on 4 machines, reals."""
    problem, size, *numbers = name.split("-")
    words = get_problem(problem).describe_size(tuple(map(int, size.split("x")))).removeprefix("tour of ")
    return ", ".join([words, *({"equal": "all equal"}.get(one, one) for one in numbers)])


def measure_limits(options: argparse.Namespace, machine: str) -> list[list[str]]:
    """Measure and print every case of the table of limits."""
    limits = options.limit or ([1.0] if options.quick else [1.0, 5.0])
    rows = []
    print(*HEADINGS.values(), sep=" | ", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for problem, sizes in (QUICK if options.quick else SIZES).items():
            for size in sizes:
                for numbers in NUMBERS if size[0] >= OWN_ONLY and not options.quick else NUMBERS[:1]:
                    name = f"{problem}-{'x'.join(map(str, size))}" + (f"-{numbers}" if numbers != "own" else "")
                    if options.only and not any(word in name for word in options.only):
                        continue
                    file = Path(folder) / f"{name}.npy"
                    np.save(file, matrix_of(problem, size, numbers))
                    for solver in options.solver or [DEFAULT]:
                        for limit in limits:
                            rows.append(limit_row(name, file, solver, limit, machine))
                            print(*rows[-1][:-1], sep=" | ", flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every case, print the rows and write them; return 1 where a limit was passed by over a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("limits", "sets"))
    parser.add_argument("--solver", action="append", help="limits: a solver of icdc info; may be repeated")
    parser.add_argument("--limit", action="append", type=float, help="limits: seconds; may be repeated")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="limits: instances whose name holds a word")
    parser.add_argument("--quick", action="store_true", help="limits: three sizes of each problem")
    parser.add_argument("--measured", action="store_true", help="limits: measure nothing, take docs/results/limits.csv")
    parser.add_argument("--page", type=Path, help="limits: a page with its marks, such as docs/command-line.md")
    parser.add_argument("--case", action="append", help="sets: only this one, as NAME or NAME:SAMPLES; may be repeated")
    parser.add_argument("--write", type=Path, nargs="?", const=RESULTS, help="a folder for the CSV file")
    options = parser.parse_args(arguments)
    if options.measured:
        rows = measured(RESULTS / "limits.csv")
        if options.page is not None:
            write_page(options.page, rows)
        return 0
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    machine = f"{CORES} of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before it began"
    print(machine, flush=True)
    if options.what == "limits":
        name, columns, rows = "limits", COLUMNS, measure_limits(options, machine)
        if options.page is not None:
            write_page(options.page, rows)
    else:
        name, columns, rows = "commands", SET_COLUMNS, []
        split = [case.partition(":") for case in options.case or []]
        with tempfile.TemporaryDirectory() as folder:
            for case, samples in [(n, int(count) if count else None) for n, _, count in split] or CASES:
                rows.append(set_row(case, samples, Path(folder)))
                print(*rows[-1], flush=True)
    if options.write is not None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([columns, *rows])
        write_atomically(options.write / f"{name}.csv", buffer.getvalue(), make_folder=True)
    return int(name == "limits" and any(row[3] != "–" and float(row[3]) > 1.0 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
