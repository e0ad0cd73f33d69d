"""Gap against training seconds: train a preset, and evaluate its averaged weights on validation sets as it goes.

    python benchmarks/time_to_quality.py atsp-20 --data validation.npz --seconds 300 --every 60 --out runs/atsp-20

Writes `quality.jsonl` (a line for each evaluation, set and number of samples), the trained model, its metrics and
`quality.png`. Evaluation time is not training time. Tune on sets made for it, never on the standard test sets.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from icdc.data.dataset import Dataset, read_dataset
from icdc.solving import DiffusionSolver
from icdc.training import Progress, Trainer, load_config, parse_override


def gap(dataset: Dataset, samples: int, **options: object) -> dict[str, float]:
    """Return the mean plain gap in percent of one solver setting, and its seconds."""
    options.setdefault("steps", 20)
    solver = DiffusionSolver(**options)
    results = solver.solve(dataset.problem, dataset.arrays, samples=samples, seed=1)
    scale = dataset.reference
    assert scale is not None
    return {
        "gap": round(100 * float(results.cost.mean() / scale.mean() - 1), 4),
        "optimal": round(float(np.mean(results.cost <= scale * (1 + 1e-6))), 4),
        "seconds": round(results.seconds, 2),
    }


def plot(lines: list[dict[str, object]], path: Path) -> None:
    """Draw gap against seconds, one line a set and number of samples."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.5), constrained_layout=True)
    for key in sorted({(str(line["data"]), int(str(line["samples"]))) for line in lines}):
        own = [line for line in lines if (line["data"], line["samples"]) == key and line["setting"] == "chain"]
        ax.plot([line["at"] for line in own], [line["gap"] for line in own], marker="o", label=f"{key[0]} ×{key[1]}")
    ax.set(xlabel="training seconds", ylabel="gap to the optimum (%)", yscale="symlog")
    ax.set_yscale("symlog", linthresh=0.01)
    ax.grid(alpha=0.3)
    ax.legend()
    figure.savefig(path, dpi=130)


def main() -> None:
    """Train, evaluate as it goes, and at the end try the settings of solving."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--data", type=Path, action="append", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--samples", default="1,8,32")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--final", action="store_true", help="at the end, also the last sample and refinement")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-capture", action="store_true")
    options = parser.parse_args()
    overrides = dict(map(parse_override, options.set)) | {"time_limit": options.seconds}
    config = load_config(options.preset, overrides)
    datasets = {path.stem: read_dataset(path).first(options.count) for path in options.data}
    counts = [int(text) for text in options.samples.split(",")]
    options.out.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, object]] = []
    last = 0.0
    began = time.perf_counter()

    def note(at: float, setting: str, samples: int, progress: Progress, **how: object) -> None:
        for name, dataset in datasets.items():
            measured = gap(dataset, samples, model=progress.model, device=options.device, **how)
            line = {"at": round(at, 1), "data": name, "samples": samples, "setting": setting, **measured}
            lines.append(line)
            print(json.dumps(line), flush=True)
            with open(options.out / "quality.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")

    def watch(progress: Progress) -> None:
        nonlocal last
        done = progress.seconds >= options.seconds
        if progress.seconds - last < options.every and not done:
            return
        last = progress.seconds
        shown = {name: round(value, 4) for name, value in progress.metrics.items()}
        wall = round(time.perf_counter() - began)
        print(json.dumps({"at": round(last, 1), "round": progress.round, "wall": wall, **shown}), flush=True)
        for samples in counts:
            note(last, "chain", samples, progress)
        if done and options.final:
            for samples in counts:
                plain = {"keep": "last", "reverse": "independent", "order": "rule", "temperature": 1.0}
                note(last, "last sample", samples, progress, **plain)
            note(last, "refined", counts[-1], progress, refine=3)

    trainer = Trainer(
        config,
        device=options.device,
        out=options.out,
        compile_network=not options.no_compile,
        capture=not options.no_capture,
    )
    trainer.run(watch)
    plot(lines, options.out / "quality.png")


if __name__ == "__main__":
    main()
