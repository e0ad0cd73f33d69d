"""Gap against training seconds: train a preset, and evaluate its averaged weights on validation sets as it goes.

    python -m experiments.training.curve atsp-20 --data validation.npz --seconds 300 --every 60 --out runs/atsp-20
    python -m experiments.training.curve matnet-atsp-20 --data validation.npz --way decoding=greedy --out runs/matnet

Writes `curve.csv` (a line for each evaluation, way of solving, set and number of samples), `curve.png`, the trained
model and its metrics. A run in pieces, each begun with the weights of the one before (`--set init=…`), becomes one
curve by `--after` with the `curve.csv` of the piece before. Evaluation time is not training time. Tune on sets made
for it, never on the standard test sets.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np

from experiments.csvfiles import append_rows, read_rows, write_rows
from experiments.tables.figures import draw, training_curves
from icdc.io.datasets import Dataset, read_dataset
from icdc.io.files import write_atomically
from icdc.solvers import make_solver
from icdc.solving.solver import Solver
from icdc.training import Progress, load_config, make_trainer, parse_override
from icdc.training.validation import gaps_in_percent

COLUMNS = ("run", "at", "data", "options", "samples", "gap", "optimal", "seconds")

SOLVERS = {"icdc": "network", "matnet": "matnet"}
"""The solver that runs what a method trains."""


def gap(dataset: Dataset, samples: int, solver: Solver, *, each: bool = False) -> dict[str, float]:
    """Return the plain gap in percent of one solver, the share of optima it reached, and its seconds.

    each : the mean of the gaps of all instances, for sets of families whose costs differ by orders of magnitude,
        instead of the gap of the mean cost; none counts more than 100 %.
    """
    results = solver.solve(dataset.problem, dataset.arrays, samples=samples, seed=1)
    scale = dataset.reference
    if scale is None:
        raise SystemExit(f"{dataset.name} has no references")
    of_mean = 100 * float(results.cost.mean() / scale.mean() - 1)
    return {
        "gap": round(float(gaps_in_percent(results.cost, scale).mean()) if each else of_mean, 4),
        "optimal": round(float(np.mean(results.cost <= scale * (1 + 1e-6))), 4),
        "seconds": round(results.seconds, 2),
    }


def main() -> None:
    """Train, and evaluate as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--data", type=Path, action="append", required=True, help="a dataset with references")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--samples", default="1,8,32")
    parser.add_argument("--count", type=int, default=256, help="instances of each dataset")
    parser.add_argument("--way", action="append", metavar="OPTIONS", help="options of the solver; repeatable")
    parser.add_argument("--after", type=Path, help="curve.csv of the piece before this one")
    parser.add_argument("--shared", default="", help="for the model's card: what else ran on the device")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.after is not None and not options.after.is_file():
        parser.error(f"there is no file '{options.after}'")
    config = load_config(options.preset, dict(map(parse_override, options.set)) | {"time_limit": options.seconds})
    datasets = {path.stem: read_dataset(path).first(options.count) for path in options.data}
    counts = [int(text) for text in options.samples.split(",")]
    options.out.mkdir(parents=True, exist_ok=True)
    curve = options.out / "curve.csv"
    earlier = [] if options.after is None else read_rows(options.after)
    before = float(earlier[-1]["at"]) if earlier else 0.0
    write_rows(curve, COLUMNS, [{**line, "run": options.preset} for line in earlier])
    last, began = 0.0, time.perf_counter()

    def watch(progress: Progress) -> None:
        nonlocal last
        done = progress.round >= config.rounds if config.rounds else progress.seconds >= options.seconds
        if progress.seconds - last < options.every and not done:
            return
        last = progress.seconds
        shown = {name: round(value, 4) for name, value in progress.metrics.items()}
        wall = round(time.perf_counter() - began)
        print(json.dumps({"at": round(last, 1), "round": progress.round, "wall": wall, **shown}), flush=True)
        for way, samples, (name, dataset) in product(options.way or [""], counts, datasets.items()):
            solver = make_solver(f"{SOLVERS[config.method]}:{way}", model=progress.model, device=options.device)
            about = {"run": options.preset, "at": round(before + last, 1), "data": name, "options": way}
            line = {**about, "samples": samples, **gap(dataset, samples, solver)}
            print(json.dumps(line), flush=True)
            append_rows(curve, COLUMNS, [line])

    model = make_trainer(config, device=options.device, out=options.out).run(watch)
    if options.shared:
        model.card["training"]["shared"] = options.shared
        model.save(options.out / "model.safetensors")
    write_atomically(options.out / "curve.png", draw(training_curves(curve)))


if __name__ == "__main__":
    main()
