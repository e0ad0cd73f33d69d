"""Do limits hold at every size? Seconds over the time limit and peak memory of whole commands, without a GPU.

    python -m benchmarks.limits                                    # 20 … 2000 cities, 20×4 … 2000×100, limits 1 and 5
    python -m benchmarks.limits --quick                            # three sizes, limit 1
    python -m benchmarks.limits --solver lkh --solver cpsat        # other solvers than the default
    python -m benchmarks.limits --out docs/results/limits.csv --page docs/command-line.md     # writes them, too
    python -m benchmarks.limits --measured docs/results/limits.csv --page docs/command-line.md   # the page again

`over` is what solving took more than the limit, `start` is the rest of the command: imports, reading and writing. A row
whose solver says that it cannot take the size has its words instead. Two cores; where the load that is printed first is
not near 0, others had a share of them.
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
from pathlib import Path

import numpy as np

from experiments.markdown import between_marks, table
from icdc.errors import InputError
from icdc.io.files import write_atomically
from icdc.problems import get_problem

CORES = 2
TOURS = [(20,), (50,), (100,), (200,), (500,), (1000,), (2000,)]
SHOPS = [(20, 4), (50, 5), (100, 10), (200, 20), (500, 50), (1000, 50), (2000, 100)]
QUICK = {"atsp": [(20,), (200,), (1000,)], "pmsp": [(20, 4), (200, 20), (1000, 50)]}
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
DEFAULT = "icdc"


def measure(problem: str, size: tuple[int, ...], solver: str, limit: float, folder: Path, machine: str) -> list[str]:
    """Solve one instance of a size by a command and return a row of the table."""
    name = f"{problem}-{'x'.join(map(str, size))}"
    file = folder / f"{name}.npy"
    if not file.exists():
        (arrays,) = get_problem(problem).sample(1, size, np.random.default_rng(0)).values()
        np.save(file, arrays[0])
    command = [sys.executable, "-m", "icdc", "solve", str(file), "--problem", problem, "--device", "cpu"]
    if solver != "icdc":
        command = command[:-2]  # classical solvers have no device
    command += ["--solver", solver, "--time-limit", str(limit), "--json"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out, words = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    memory = f"{usage.ru_maxrss / 1024:.0f}"
    if process.returncode:
        sentence = words.strip().splitlines()[-1] if words.strip() else f"exit code {process.returncode}"
        return [name, solver, f"{limit:g}", "–", f"{wall:.1f}", memory, "–", sentence, machine]
    answer = json.loads(out)
    over = max(0.0, answer["seconds"] - limit)
    gap = "–" if answer["gap"] is None else f"{100 * answer['gap']:.2f}"
    return [name, solver, f"{limit:g}", f"{over:.1f}", f"{wall - answer['seconds']:.1f}", memory, gap, "", machine]


def page_of(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows of a table (`COLUMNS`) as a part of a page, in words."""
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    for row in found:
        row["instance"] = _in_words(row["instance"])
    alone = all(row["solver"] == DEFAULT for row in found)
    silent = not any(row["words"] for row in found)
    shown = [name for name in HEADINGS if not (name == "solver" and alone) and not (name == "words" and silent)]
    machines = "; ".join(dict.fromkeys(row["machine"] for row in found))
    by = f"By the default solver, `{DEFAULT}`, on " if alone else "On "
    text = table([HEADINGS[name] for name in shown], [[row[name] for name in shown] for row in found])
    return f"{text}\n\n{by}{machines}."


def measured(path: Path) -> list[list[str]]:
    """Return the rows of a CSV file that an earlier run has written."""
    heading, *rows = list(csv.reader(path.read_text("utf-8").splitlines()))
    if tuple(heading) != COLUMNS:
        raise InputError(f"{path}: the columns must be {', '.join(COLUMNS)}")
    return rows


def write_page(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Put the rows between the marks of a page."""
    write_atomically(path, between_marks(path.read_text("utf-8"), "limits", page_of(rows)))


def _in_words(name: str) -> str:
    """Return the name of an instance, such as pmsp-20x4, as what it is: 20 jobs on 4 machines."""
    problem, _, size = name.partition("-")
    return get_problem(problem).describe_size(tuple(map(int, size.split("x")))).removeprefix("tour of ")


def main() -> None:
    """Measure every case, print the rows and write them; exit with 1 where a limit was passed by over a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solver", action="append", help="a solver of icdc info; may be repeated")
    parser.add_argument("--limit", action="append", type=float, help="seconds; may be repeated")
    parser.add_argument("--problem", choices=("atsp", "pmsp"), help="only this problem")
    parser.add_argument("--most", type=int, default=10**9, help="only sizes of at most so many matrix entries")
    parser.add_argument("--quick", action="store_true", help="three sizes of each problem")
    parser.add_argument("--out", type=Path, help="a CSV file to write")
    parser.add_argument("--page", type=Path, help="a page with the marks 'limits', such as docs/command-line.md")
    parser.add_argument("--measured", type=Path, help="a CSV file of --out to take the figures from")
    options = parser.parse_args()
    if options.measured is not None:
        if options.page is None:
            parser.error("--measured writes a page again; name it with --page")
        write_page(options.page, measured(options.measured))
        return
    sizes = QUICK if options.quick else {"atsp": TOURS, "pmsp": SHOPS}
    limits = options.limit or ([1.0] if options.quick else [1.0, 5.0])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    machine = f"{CORES} of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before it began"
    print(machine, flush=True)
    print(*HEADINGS.values(), sep=" | ", flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for problem in [options.problem] if options.problem else list(sizes):
            for size in sizes[problem]:
                cells = size[0] * (size[1] if len(size) > 1 else size[0])
                for solver in options.solver or ["icdc"]:
                    for limit in limits if cells <= options.most else []:
                        rows.append(measure(problem, size, solver, limit, Path(folder), machine))
                        print(*rows[-1][:-1], sep=" | ", flush=True)
    if options.out is not None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([COLUMNS, *rows])
        write_atomically(options.out, buffer.getvalue(), make_folder=True)
    if options.page is not None:
        write_page(options.page, rows)
    if any(row[3] != "–" and float(row[3]) > 1.0 for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
