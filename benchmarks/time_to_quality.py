"""Gap against training seconds: train a preset, and evaluate its averaged weights on validation sets as it goes.

    python benchmarks/time_to_quality.py atsp-20 --data validation.npz --seconds 300 --every 60 --out runs/atsp-20
    python benchmarks/time_to_quality.py matnet-atsp-20 --data validation.npz --way decoding=greedy --out runs/matnet

Writes `quality.jsonl` (a line for each evaluation, way of solving, set and number of samples), the trained model, its
metrics and `quality.png`. Evaluation time is not training time. Tune on sets made for it, never on the standard test
sets.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np

from icdc.data.dataset import Dataset, read_dataset
from icdc.solver import Solver
from icdc.solvers import make_solver
from icdc.training import Progress, parse_override
from icdc.training.checkpoint import MODEL
from icdc.training.methods import load_run, make_trainer


def gap(dataset: Dataset, samples: int, solver: Solver) -> dict[str, float]:
    """Return the mean plain gap in percent of one solver, and its seconds."""
    results = solver.solve(dataset.problem, dataset.arrays, samples=samples, seed=1)
    scale = dataset.reference
    assert scale is not None
    return {
        "gap": round(100 * float(results.cost.mean() / scale.mean() - 1), 4),
        "optimal": round(float(np.mean(results.cost <= scale * (1 + 1e-6))), 4),
        "seconds": round(results.seconds, 2),
    }


def plot(lines: list[dict[str, object]], path: Path) -> None:
    """Draw gap against seconds, one line a set, way and number of samples."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.5), constrained_layout=True)
    for key in sorted({(str(line["data"]), str(line["way"]), int(str(line["samples"]))) for line in lines}):
        own = [line for line in lines if (line["data"], line["way"], line["samples"]) == key]
        label = f"{key[0]} ×{key[2]}" + (f", {key[1]}" if key[1] else "")
        ax.plot([line["at"] for line in own], [line["gap"] for line in own], marker="o", label=label)
    ax.set(xlabel="training seconds", ylabel="gap to the optimum (%)", yscale="symlog")
    ax.set_yscale("symlog", linthresh=0.01)
    ax.grid(alpha=0.3)
    ax.legend()
    figure.savefig(path, dpi=130)


def main() -> None:
    """Train, and evaluate as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--data", type=Path, action="append", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--samples", default="1,8,32")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument(
        "--way", action="append", default=[], metavar="OPTIONS", help="options of the solver; repeatable"
    )
    parser.add_argument("--shared", default="", help="for the model's card: what else ran on the device")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    overrides = dict(map(parse_override, options.set)) | {"time_limit": options.seconds}
    config = load_run(options.preset, overrides)
    datasets = {path.stem: read_dataset(path).first(options.count) for path in options.data}
    counts = [int(text) for text in options.samples.split(",")]
    options.out.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, object]] = []
    last = 0.0
    began = time.perf_counter()

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
            spec = f"{config.method}:{way}" if way else config.method
            measured = gap(dataset, samples, make_solver(spec, model=progress.model, device=options.device))
            line = {"at": round(last, 1), "data": name, "samples": samples, "way": way, **measured}
            lines.append(line)
            print(json.dumps(line), flush=True)
            with open(options.out / "quality.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")

    model = make_trainer(config, device=options.device, out=options.out).run(watch)
    if options.shared:
        model.card["training"]["shared"] = options.shared
        model.save(options.out / MODEL)
    plot(lines, options.out / "quality.png")


if __name__ == "__main__":
    main()
