"""What each switch is worth: train a preset with one switch changed at a time, for the same seconds, and compare.

    python benchmarks/ablation.py atsp-20 --data validation.npz --seconds 100 --parallel 3 --out runs/ablation

Runs go side by side, `--parallel` at a time, and share the device equally; a run that has finished is not run again.
Writes `ablation.md` and `ablation.csv`: gap in % on the validation set by number of samples, of the best along each
trajectory and of its last solution alone. The preset itself is the first row, and the paper's preset of the same
problem the last, where there is one.
"""

import argparse
import csv
import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from icdc.files import write_atomically
from icdc.training import presets

VARIANTS: dict[str, list[str]] = {
    "the preset": [],
    "targets: plain best of the trajectories, not refined": ["targets.refine_rounds=0"],
    "targets: fresh noise on decoded solutions": ["targets.sampling.reverse=fresh"],
    "targets: independent elements": ["targets.sampling.reverse=independent"],
    "targets: decoded by confidence": ["targets.sampling.order=confidence"],
    "targets: from the averaged weights": ["targets.from_average=true"],
    "IMPROVEMENT at full weight throughout": ["improvement.weight=0.5", "improvement.until=2.0"],
    "the paper's alternation: samples of IMPROVEMENT are the targets": [
        "targets.from_improvement=true",
        "targets.instances=64",
        "targets.trajectories=8",
        "improvement.weight=1.0",
        "improvement.until=2.0",
        "improvement.sampling.decodes=1",
        "improvement.per_trajectory=false",
        "memory.reward_weighted=true",
        "memory.mixture=0.5",
        "cloning.drafts=0.0",
    ],
    "no IMPROVEMENT": ["improvement.weight=0.0"],
    "no cloning of p̂": ["cloning.decoder=0.0"],
    "no drafts": ["cloning.drafts=0.0"],
    "drafts in a quarter of the batch": ["cloning.drafts=0.25"],
    "no variational bound": ["cloning.vb=0.0"],
    "memory of 64 rounds": ["memory.rounds=64"],
    "memory of 4 rounds": ["memory.rounds=4"],
    "relations not seen by the denoiser": ["model.network.relations_in_denoiser=false"],
    "raw relations only": ["model.network.rich_relations=false"],
    "the paper's gated denoiser": ["model.network.denoiser=gated"],
    "the paper's encoder": ["model.network.encoder=dual"],
    "3 denoiser layers": ["model.network.denoiser_layers=3"],
    "linear noise schedule": ["model.diffusion.schedule=linear"],
    "T = 10": ["model.diffusion.steps=10"],
}

CHAIN = "steps=20"
LAST_SAMPLE = "steps=20,keep=last,reverse=independent,order=rule,temperature=1.0"
"""Ways of solving: the best along a trajectory, and its last sample as the paper counts."""


def run(name: str, preset: str, settings: list[str], options: argparse.Namespace) -> dict[str, object]:
    """Train one variant, unless it has been, and return its row."""
    folder = options.out / "".join(c if c.isalnum() else "-" for c in name)
    if not (folder / "quality.png").exists():  # written last
        command = [
            sys.executable, str(Path(__file__).with_name("time_to_quality.py")), preset, "--data", str(options.data),
            "--seconds", str(options.seconds), "--every", str(10 * options.seconds), "--samples", options.samples,
            "--count", str(options.count), "--device", options.device, "--out", str(folder),
            "--way", CHAIN, "--way", LAST_SAMPLE,
        ]  # fmt: skip
        for setting in [*options.set, *settings]:
            command += ["--set", setting]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "quality.jsonl").unlink(missing_ok=True)
        with open(folder / "log.txt", "w") as log:
            subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    lines = [json.loads(line) for line in (folder / "quality.jsonl").read_text().splitlines()]
    row: dict[str, object] = {"variant": name, "settings": " ".join(settings)}
    row |= {f"×{line['samples']}": line["gap"] for line in lines if line["way"] == CHAIN}
    row |= {f"last ×{line['samples']}": line["gap"] for line in lines if line["way"] == LAST_SAMPLE}
    return row


def main() -> None:
    """Run all variants and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--samples", default="1,8,32")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every variant")
    parser.add_argument("--only", action="append", help="names of variants; all unless given")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    plan = [(name, options.preset, settings) for name, settings in VARIANTS.items()]
    if f"paper-{options.preset}" in presets():
        plan.append(("the paper's preset", f"paper-{options.preset}", []))
    if options.only:
        unknown = set(options.only) - {name for name, _, _ in plan}
        if unknown:
            parser.error(f"unknown variants: {', '.join(sorted(unknown))}")
        plan = [part for part in plan if part[0] in options.only]
    with ThreadPoolExecutor(options.parallel) as pool:
        rows = list(pool.map(lambda part: run(*part, options), plan))
    columns = list(rows[0])
    table = io.StringIO()
    writer = csv.DictWriter(table, columns)
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(options.out / "ablation.csv", table.getvalue().encode())
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * 2 + " ---: |" * (len(columns) - 2)]
    lines += ["| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows]
    write_atomically(options.out / "ablation.md", ("\n".join(lines) + "\n").encode())
    print("\n".join(lines))


if __name__ == "__main__":
    main()
