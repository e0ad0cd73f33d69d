"""Train many variants side by side on one device, each validated as it goes.

    python -m experiments.training.side_by_side cause --seconds 500 --wall 560 --out local/cause
    python -m experiments.training.side_by_side presets --only paper-atsp-20-fixed --out local/presets

Every variant (see `variants`) is a process of its own; where there is NVIDIA's MPS they share a GPU well. A run is
validated every so many seconds on instances drawn for it, with optima by our own exact solvers: the gap of the
last sample, one decode at the end of each of 1 and 8 trajectories of T steps. It ends with the same for more samples on
the first instances of the standard test set. Runs on families of instances are validated on all of them, against
references by classical search, and have no test set. `curves.csv` and `summary.csv` are written as results come in, so
that a call that is cut short leaves what it had. With `--keep` the states of the named runs are packed into pieces, and
a later call goes on from them with `--resume FOLDER`: weights, their average and the optimizer, not the memory, which
fills anew.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.csvfiles import append_rows, read_rows, write_rows
from experiments.training.curve import gap
from experiments.training.packing import pack, unpack
from experiments.training.variants import GROUPS, Variant
from icdc.diffusion.sampler import SamplingOptions
from icdc.errors import IcdcError, UsageError
from icdc.io.datasets import STANDARD_SETS, Dataset, SeededSample, standard_set
from icdc.problems import get_problem
from icdc.solvers import make_solver
from icdc.solving.network import DiffusionSolver
from icdc.training import Progress, Trainer, TrainingConfig, load_config, parse_override
from icdc.training.checkpoint import STATE
from icdc.training.validation import References, Validation

COLUMNS = (
    "run", "words", "preset", "data", "weights", "way", "at", "wall", "round", "steps", "samples", "gap", "optimal",
    "cost", "target", "loss", "effective",
)  # fmt: skip
VALIDATION, VALIDATION_SEED = "validation", 777
EXACT = {"atsp": "branch", "navigation": "branch", "pmsp": "dp"}
"""The exact solver that gives the optima of each problem."""
CHAIN = "chain"
LAST = SamplingOptions(steps=20, reverse="independent", order="rule", temperature=1.0, decodes=1, keep="last")
WAYS = {
    "last": LAST,
    "greedy": replace(LAST, any_start=False),
    CHAIN: SamplingOptions(steps=10, decodes=4, temperature=1.0),
}
"""How a last sample is decoded: from any row, or from the first, as the paper's diffusion baselines; or
the best of a short chain, without search, in the order of decisions that targets are made in."""
REFERENCES = "references.json"
"""The file of references in the folder of the runs."""
ENDING = 25.0
"""Seconds before the end of the wall time that belong to the last evaluation and to packing."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        chosen = choose(options.group, options.only, options.leave_out)
        if options.run:
            train_one(next(v for v in chosen if v.name == options.run), options)
        else:
            train_all(chosen, options)
    except IcdcError as error:
        print(f"side_by_side: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def choose(group: str, only: str = "", leave_out: str = "") -> list[Variant]:
    """Return the variants of a group, or those of them that are named."""
    groups = group.split(",")
    if unknown := [name for name in groups if name not in GROUPS]:
        raise UsageError(f"unknown group '{unknown[0]}'; choose {', '.join(GROUPS)}")
    found = {variant.name: variant for name in groups for variant in GROUPS[name]()}
    wanted = only.split(",") if only else list(found)
    unwanted = leave_out.split(",") if leave_out else []
    if unknown := [name for name in (*wanted, *unwanted) if name not in found]:
        raise UsageError(f"unknown variant '{unknown[0]}'; choose {', '.join(found)}")
    return [found[name] for name in wanted if name not in unwanted]


def train_all(variants: Sequence[Variant], options: argparse.Namespace) -> None:
    """Train variants in processes of their own, so many at a time, and gather what they write."""
    began = time.time()
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.resume:
        unpack(options.resume, options.work)
    configs = [load(variant, options) for variant in variants]
    for config in {(config.families, config.sizes): config for config in configs}.values():
        if config.families:  # once, before all of them would
            of_families(config, options.count, options.work / REFERENCES)
    waiting, running = list(variants), dict[str, subprocess.Popen[bytes]]()
    end = began + options.wall
    while (waiting or running) and time.time() < end:
        while waiting and len(running) < options.jobs:
            variant = waiting.pop(0)
            running[variant.name] = _start(variant, options, began)
        time.sleep(min(2.0, max(0.05, end - time.time())))
        running = {name: process for name, process in running.items() if process.poll() is None}
        gather(variants, options.work, options.out)
    for process in running.values():
        process.terminate()
    for process in running.values():
        process.wait()
    gather(variants, options.work, options.out)
    if options.keep:
        pack(options.work, [options.work / name for name in options.keep.split(",")], options.out)


def train_one(variant: Variant, options: argparse.Namespace) -> None:
    """Train one variant until its time is over, and validate it as it goes."""
    folder = options.work / variant.name
    resumes = bool(options.resume) and (folder / STATE).is_file()
    config = load(variant, options)
    spec = STANDARD_SETS[variant.data]
    if config.families:
        validation = of_families(config, options.count, options.work / REFERENCES)
    else:
        validation = solved(spec.problem, config.sizes[0], options.count)
    counts = [int(text) for text in options.samples.split(",")]
    trainer = Trainer(config, device=options.device, out=folder, resume=resumes)
    curve = CurveFile(folder / "curve.csv", variant, trainer, options.began, goes_on=resumes)
    stop = min(options.began + options.wall - ENDING - options.final_seconds, time.time() + 10 * options.seconds)
    last, first = 0.0, 0.0
    ways = (CHAIN,) if config.families else ("greedy",) if variant.greedy else ("last",)

    def evaluate(data: Dataset, progress: Progress, samples: int) -> None:
        """Write a line for each way of decoding, with averaged and, where they differ, with current weights."""
        current = trainer.weights.model
        current.network.eval()
        both = (("average", progress.model), ("current", current))
        for weights, model in both if trainer.config.optimizer.average else both[:1]:
            for way in ways:
                sampling = WAYS[way]
                if way == CHAIN:
                    sampling = replace(sampling, order=config.targets.sampling.order)
                solver = DiffusionSolver(model, sampling=sampling, device=options.device)
                measured = gap(data, samples, solver, each=bool(config.families))
                curve.write(data.name, progress, samples, measured, weights, way)
        current.network.train()

    def watch(progress: Progress) -> bool:
        nonlocal last, first
        first = first or progress.seconds
        over = time.time() >= stop or progress.seconds - first >= options.seconds or progress.fraction >= 1.0
        if progress.seconds - last >= options.every or over:
            last = progress.seconds
            for samples in counts:
                evaluate(validation, progress, samples)
        return over

    model = trainer.run(watch, every=min(options.every, 5.0))
    if tuple(config.sizes[0]) == tuple(spec.size) and not config.families:
        test = standard_set(variant.data).first(options.final_count)
        ended = Progress(trainer.rounds_done, trainer.seconds, 1.0, {}, model)
        for samples in (int(text) for text in options.final_samples.split(",")):
            evaluate(test, ended, samples)


def load(variant: Variant, options: argparse.Namespace) -> TrainingConfig:
    """Return the configuration of a run: the variant's settings, those of the call, and its time."""
    config = load_config(variant.preset, {**variant.settings, **dict(map(parse_override, options.set))})
    config = load_config(config, {"time_limit": options.schedule or options.seconds, "memory.saved": False})
    assert isinstance(config, TrainingConfig)
    return config


def of_families(config: TrainingConfig, count: int, references: Path) -> Dataset:
    """Return instances of all families of a run, `count` in all, with references by classical search."""
    problem, size = get_problem(config.problem), config.sizes[0]
    families = list(dict.fromkeys(config.families))
    validation = Validation(
        problem, [size], families, max(1, count // len(families)),
        targets=config.targets.sampling, references=References(references), device="cpu",
    )  # fmt: skip
    groups = validation.groups(tuple(size))
    arrays = {name: np.concatenate([group.arrays[name] for group in groups]) for name in groups[0].arrays}
    return Dataset(problem, arrays, reference=np.concatenate([group.reference for group in groups]), name=VALIDATION)


def solved(problem_name: str, size: tuple[int, ...], count: int) -> Dataset:
    """Return instances of a size that belong to no test set, with their proven optima."""
    problem = get_problem(problem_name)
    arrays = SeededSample(size, count, VALIDATION_SEED).draw(problem)
    results = make_solver(EXACT[problem_name]).solve(problem, arrays, samples=1, seed=0)
    return Dataset(problem, arrays, reference=results.cost, name=VALIDATION)


class CurveFile:
    """The lines of one run, a line for each evaluation and number of samples."""

    def __init__(self, path: Path, variant: Variant, trainer: Trainer, began: float, *, goes_on: bool = False) -> None:
        self.path, self.variant, self.trainer, self.began = path, variant, trainer, began
        path.parent.mkdir(parents=True, exist_ok=True)
        if goes_on and path.is_file():
            return
        write_rows(path, COLUMNS, [])

    def write(
        self, data: str, progress: Progress, samples: int, measured: dict[str, float], weights: str, way: str
    ) -> None:
        """Append what was measured with the average of the weights, or with the current ones, in a way of decoding."""
        line: dict[str, Any] = {
            "run": self.variant.name,
            "words": self.variant.words,
            "preset": self.variant.preset,
            "data": data,
            "weights": weights,
            "way": way,
            "at": round(progress.seconds, 1),
            "wall": round(time.time() - self.began, 1),
            "round": progress.round,
            "steps": progress.round * self.trainer.config.cloning.steps_last,
            "samples": samples,
            "gap": measured["gap"],
            "optimal": measured["optimal"],
            **{name: f"{value:.5g}" for name, value in progress.metrics.items() if name in COLUMNS},
        }
        append_rows(self.path, COLUMNS, [line])


def gather(variants: Iterable[Variant], work: Path, out: Path) -> None:
    """Write all lines into one file, and the last line of every run, set and number of samples into another."""
    lines = []
    for variant in variants:
        lines += [line for line in read_rows(work / variant.name / "curve.csv") if line["gap"]]
    latest = {tuple(line[key] for key in ("run", "data", "weights", "way", "samples")): line for line in lines}
    for name, kept in (("curves.csv", lines), ("summary.csv", list(latest.values()))):
        write_rows(out / name, COLUMNS, kept)
    logs = ((variant.name, work / variant.name / "log.txt") for variant in variants)
    tails = {name: path.read_text(errors="replace")[-1500:] for name, path in logs if path.is_file()}
    if said := {name: tail for name, tail in tails.items() if tail}:
        (out / "logs.json").write_text(json.dumps(said, indent=1), encoding="utf-8")


def _start(variant: Variant, options: argparse.Namespace, began: float) -> "subprocess.Popen[bytes]":
    folder = options.work / variant.name
    folder.mkdir(parents=True, exist_ok=True)
    same = {
        "seconds": options.seconds, "wall": options.wall, "every": options.every, "count": options.count,
        "samples": options.samples, "final-samples": options.final_samples, "final-count": options.final_count,
        "final-seconds": options.final_seconds, "schedule": options.schedule, "device": options.device,
        "work": options.work, "out": options.out, "began": began,
    }  # fmt: skip
    command = [sys.executable, "-m", "experiments.training.side_by_side", options.group, "--run", variant.name]
    command += [part for name, value in same.items() for part in (f"--{name}", str(value))]
    command += [part for change in options.set for part in ("--set", change)]
    command += ["--resume", str(options.resume)] if options.resume else []
    with (folder / "log.txt").open("wb") as log:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.training.side_by_side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("group", help=f"{', '.join(GROUPS)}, or several of them with commas")
    parser.add_argument("--only", default="", help="names of variants, with commas; all of the group if none")
    parser.add_argument("--leave-out", default="", help="names of variants, with commas")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all of them")
    parser.add_argument("--seconds", type=float, default=480.0, help="training time of each")
    parser.add_argument("--schedule", type=float, default=0.0, help="time that schedules reckon with, if not --seconds")
    parser.add_argument("--wall", type=float, default=560.0, help="seconds after which everything ends")
    parser.add_argument("--every", type=float, default=30.0, help="seconds of training between evaluations")
    parser.add_argument("--jobs", type=int, default=16, help="runs at a time")
    parser.add_argument("--count", type=int, default=128, help="instances to validate on")
    parser.add_argument("--samples", default="1,8")
    parser.add_argument("--final-samples", default="1,8,32,128")
    parser.add_argument("--final-count", type=int, default=256, help="instances of the test set, at the end")
    parser.add_argument("--final-seconds", type=float, default=20.0, help="wall time left for the last evaluation")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=Path("local/side-by-side"), help="folder of the runs")
    parser.add_argument("--out", type=Path, required=True, help="folder of curves.csv, summary.csv and packed states")
    parser.add_argument("--keep", default="", help="runs whose states are packed, with commas")
    parser.add_argument("--resume", type=Path, help="folder with the packed states of an earlier call")
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
