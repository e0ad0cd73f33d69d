"""How long a whole test set takes, by the number of reverse steps: gap and seconds of the shipped models.

    python -m experiments.speed.sets --set atsp-50 --set pmsp-50x5 --steps 5,20 --out docs/results/throughput.csv

Times every set after a warm-up on one of its instances, alone on the device. What else ran on the device at the time
would make the seconds meaningless: run nothing beside it.
"""

import argparse
from itertools import product
from pathlib import Path

from experiments.csvfiles import write_rows
from icdc.evaluation.evaluate import evaluate, summarise
from icdc.io.datasets import standard_set
from icdc.solvers import make_solver

COLUMNS = ("dataset", "steps", "gap", "gap_low", "gap_high", "seconds", "instances", "samples", "device")


def main() -> None:
    """Measure row by row, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", required=True, help="a standard test set; several times")
    parser.add_argument("--steps", default="5,20")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--limit", type=int, help="only the first so many instances")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="write the rows to this CSV file, too")
    options = parser.parse_args()
    rows = []
    for name, steps in product(options.set, map(int, options.steps.split(","))):
        dataset = standard_set(name)
        dataset = dataset if options.limit is None else dataset.first(options.limit)
        spec = f"network:steps={steps}"
        solver = make_solver(spec, device=options.device)
        found = summarise(evaluate(dataset, solver, spec, samples=options.samples, chunk=len(dataset)))
        rows.append({"steps": steps, **{key: value for key, value in found.as_dict().items() if key in COLUMNS}})
        print(rows[-1], flush=True)
        if options.out is not None:
            write_rows(options.out, COLUMNS, rows)


if __name__ == "__main__":
    main()
