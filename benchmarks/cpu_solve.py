"""Seconds, CPU seconds and peak memory of whole commands without a GPU, from the call to the end of the process.

    python benchmarks/cpu_solve.py                                     # prints the rows
    python benchmarks/cpu_solve.py --out docs/results/commands.csv     # and writes them

Imports, reading the file, loading the model and checking the answer are all in it. One run each, on two cores; where
the load that is printed first is not near 0, others had a share of them, and the CPU seconds say more.
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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from icdc.io.datasets import standard_set
from icdc.io.files import write_atomically

CORES = 2
COLUMNS = ("instance", "model", "samples", "seconds", "cpu_seconds", "peak_mib", "gap")
CASES = [("atsp-20", None), ("atsp-50", None), ("atsp-100", 100), ("pmsp-50x5", None)]
"""Standard sets whose first instance is solved, with the number of samples; None leaves it to the command."""


@dataclass(frozen=True)
class Run:
    """One command: what it printed, its wall-clock and CPU seconds, and its largest resident memory in MiB."""

    answer: dict[str, float]
    wall: float
    cpu: float
    memory: float


def run(command: list[str]) -> Run:
    """Run a command that prints one JSON object, and measure it."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Run(json.loads(answer), wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure(name: str, samples: int | None, more: list[str]) -> list[str]:
    """Solve the first instance of a standard set, and return a row of the table."""
    dataset = standard_set(name)
    (matrix,) = dataset.arrays.values()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.npy"
        np.save(file, matrix[0])
        asked = [] if samples is None else ["--samples", str(samples)]
        command = ["solve", str(file), "--problem", dataset.problem.name, "--device", "cpu", *asked, *more]
        made = run([sys.executable, "-m", "icdc", *command, "--json"])
    gap = "–"
    if dataset.reference is not None:
        gap = f"{100 * (made.answer['objective'] / float(dataset.reference[0]) - 1):.2f}"
    numbers = [f"{made.wall:.1f}", f"{made.cpu:.1f}", f"{made.memory:.0f}", gap]
    return [f"{name}[0]", str(made.answer["model"]), str(made.answer["samples"]), *numbers]


def main() -> None:
    """Measure every case, print the rows and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a CSV file to write")
    parser.add_argument("--case", action="append", help="only this set, as NAME or NAME:SAMPLES; may be repeated")
    parser.add_argument("more", nargs="*", help="further options of icdc solve, after --")
    options = parser.parse_args()
    cases = CASES
    if options.case:
        split = [case.partition(":") for case in options.case]
        cases = [(name, int(samples) if samples else None) for name, _, samples in split]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{cores} of {os.cpu_count()} cores, load {load:.1f}", *COLUMNS, flush=True)
    rows = []
    for name, samples in cases:
        rows.append(measure(name, samples, options.more))
        print(*rows[-1], flush=True)
    if options.out is not None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([COLUMNS, *rows])
        write_atomically(options.out, buffer.getvalue(), make_folder=True)


if __name__ == "__main__":
    main()
