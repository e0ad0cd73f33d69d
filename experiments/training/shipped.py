"""Train the models that ship, side by side on one device, in calls of a limited time that go on from one another.

    python -m experiments.training.shipped --references        # once, on a CPU: what validation compares with
    python -m experiments.training.shipped --minutes 9 --calls-left 3 --state local/shipped --out results
    python -m experiments.training.shipped --minutes 9 --calls-left 2 --state local/shipped --out results
    python -m experiments.training.shipped --minutes 9 --calls-left 1 --state local/shipped --out results

Every job is a preset in a process of its own; where there is NVIDIA's MPS they share a GPU by it. A call ends when its
minutes are over, whatever else happens: each run writes its state before, and the schedules of learning rate and
curriculum are laid out so that they end with the last call. The folder `--out` gets the packed state of each job, in
two pieces below 16 MiB, or, from the last call, its model; `metrics.jsonl`, all lines of all runs; and `gaps.csv`, the
latest gap and share of every family and size. On another machine `--resume FOLDER` goes on from packed states. `--set`
changes settings of all jobs, `--set tours:cloning.batch=64` of one.
"""

import argparse
import contextlib
import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.training.packing import pack, unpack
from icdc.errors import IcdcError, UsageError
from icdc.io.files import write_atomically
from icdc.problems import get_problem
from icdc.training import Progress, Trainer, TrainingConfig, load_config, parse_override
from icdc.training.checkpoint import METRICS, MODEL, STATE
from icdc.training.validation import SHIPPED, References, Validation

JOBS = {"tours": "atsp-families", "schedules": "pmsp-families", "navigation": "navigation-families"}
"""The preset of each job."""
SETTING_UP = 90.0
"""Seconds of a call that are thought to go into starting, recording, validating and ending, not into training."""
ENDING = 12.0
"""Seconds before the end of a call at which a run stops, to write its state and to be packed."""
COLUMNS = ("job", "size", "family", "gap", "share", "round", "seconds")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        jobs = options.jobs.split(",")
        if unknown := [job for job in jobs if job not in JOBS]:
            raise UsageError(f"unknown job '{unknown[0]}'; choose {', '.join(JOBS)}")
        if options.references:
            make_references(jobs, options)
        elif options.run:
            train_one(options.run, options)
        else:
            return train_all(jobs, options)
    except IcdcError as error:
        print(f"train_shipped: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def settings_of(job: str, changes: Sequence[str]) -> dict[str, Any]:
    """Return the settings that a call changes of a job: those for all, and those that name it."""
    found = {}
    for text in changes:
        before, separator, rest = text.partition(":")
        if separator and before in JOBS and before != job:
            continue
        key, value = parse_override(rest if separator and before in JOBS else text)
        found[key] = value
    return found


def config_of(job: str, options: argparse.Namespace) -> TrainingConfig:
    """Return the configuration of a job as it begins."""
    config = load_config(JOBS[job], {"memory.saved": False, **settings_of(job, options.set)})
    assert isinstance(config, TrainingConfig)
    return config


def train_all(jobs: Sequence[str], options: argparse.Namespace) -> int:
    """Train every job in a process of its own until the call is over; return 1 where one of them failed."""
    options.began = time.time()
    end = options.began + 60 * options.minutes
    options.state.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.resume:
        for job in jobs:
            unpack(options.resume, options.state, job)
    with contextlib.nullcontext() if options.no_mps else sharing_a_gpu(options.state):
        running = {job: _start(job, options) for job in jobs}
        while any(process.poll() is None for process in running.values()) and time.time() < end:
            time.sleep(min(1.0, max(0.05, end - time.time())))
            gather(jobs, options.state, options.out)
        for process in running.values():
            process.terminate()
        codes = {job: process.wait() for job, process in running.items()}
    gather(jobs, options.state, options.out)
    for job in jobs:
        folder = options.state / job
        if options.calls_left > 1:
            pack(options.state, [folder], options.out, job)
        elif (folder / MODEL).is_file():
            shutil.copy(folder / MODEL, options.out / f"{job}.safetensors")
        if codes[job] not in (0, -signal.SIGTERM):  # a run that was stopped at the end wrote a state shortly before
            tail = (folder / "log.txt").read_text(errors="replace")[-2000:]
            print(f"train_shipped: {job} ended with {codes[job]}\n{tail}", file=sys.stderr)
    print(f"{(time.time() - options.began) / 60:.1f} min, " + ", ".join(f"{job} {codes[job]}" for job in jobs))
    return int(any(code not in (0, -signal.SIGTERM) for code in codes.values()))


def train_one(job: str, options: argparse.Namespace) -> None:
    """Train one job until shortly before its call is over."""
    folder, stop = options.state / job, options.began + 60 * options.minutes - ENDING
    resumes = (folder / STATE).is_file()
    # all calls that are left have as much time for training as this one
    box = 60 * options.minutes - ENDING
    planned = options.calls_left * max(box - options.setting_up, box / 2)
    config = config_of(job, options)
    if resumes:
        plan_again(folder, planned)
    else:
        config = load_config(config, {"time_limit": planned})  # type: ignore[assignment]
    Trainer(config, device=options.device, out=folder, resume=resumes).run(watch(stop), every=2.0)


def watch(stop: float) -> Any:
    """Return a callback that ends a run at a time of the clock on the wall."""

    def over(_: Progress) -> bool:
        return time.time() >= stop

    return over


def plan_again(folder: Path, seconds: float) -> None:
    """Let the schedules of a saved run end after so many more seconds of training."""
    state = torch.load(folder / STATE, map_location="cpu", weights_only=True)
    config = json.loads(state["config"])
    config["time_limit"] = float(state["seconds"]) + seconds
    state["config"] = json.dumps(config)
    torch.save(state, folder / f"{STATE}.new")
    (folder / f"{STATE}.new").replace(folder / STATE)


def make_references(jobs: Sequence[str], options: argparse.Namespace) -> None:
    """Make what validation compares with, of all families and sizes of the jobs, and keep it."""
    references = References(options.into)
    for job in jobs:
        config = config_of(job, options)
        validation = Validation(
            get_problem(config.problem), config.sizes, config.families, config.validation.instances,
            targets=config.targets.sampling, references=references, device="cpu",
        )  # fmt: skip
        for size in sorted(validation.sizes, key=math.prod):
            began = time.time()
            validation.groups(size)
            print(f"{job} {size}: {time.time() - began:.1f} s", flush=True)


def gather(jobs: Sequence[str], state: Path, out: Path) -> None:
    """Write all lines of all runs into one file, and the latest gaps and shares into another."""
    lines, rows = [], []
    for job in jobs:
        path = state / job / METRICS
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        # a run may be writing its last line
        own = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        lines += [{"job": job, **line} for line in own]
        for latest in [line for line in own if "gaps" in line][-1:]:
            at = latest["round"], latest["seconds"]
            for size, gaps in latest["gaps"].items():
                rows += [(job, size, family, gap, latest["shares"][size][family], *at) for family, gap in gaps.items()]
    write_atomically(out / METRICS, "".join(json.dumps(line) + "\n" for line in lines))
    with (out / "gaps.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


@contextlib.contextmanager
def sharing_a_gpu(folder: Path) -> Iterator[None]:
    """Let processes share a GPU by NVIDIA's MPS while this lasts, where it is installed and not running already."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield
        return
    own = {
        "CUDA_MPS_PIPE_DIRECTORY": str(folder.resolve() / "mps"),
        "CUDA_MPS_LOG_DIRECTORY": str(folder.resolve() / "mps"),
    }
    (folder / "mps").mkdir(exist_ok=True)
    os.environ.update(own)
    try:
        if subprocess.run([control, "-d"], check=False).returncode:  # without it the GPU is shared by turns
            for name in own:
                del os.environ[name]
        yield
    finally:
        if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
            subprocess.run([control], input=b"quit\n", check=False)
            for name in own:
                del os.environ[name]


def _start(job: str, options: argparse.Namespace) -> "subprocess.Popen[bytes]":
    folder = options.state / job
    folder.mkdir(parents=True, exist_ok=True)
    same = {
        "minutes": options.minutes, "calls-left": options.calls_left, "state": options.state, "out": options.out,
        "device": options.device, "began": options.began, "setting-up": options.setting_up,
    }  # fmt: skip
    command = [sys.executable, "-m", "experiments.training.shipped", "--run", job]
    command += [part for name, value in same.items() for part in (f"--{name}", str(value))]
    command += [part for change in options.set for part in ("--set", change)]
    with (folder / "log.txt").open("wb") as log:
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.training.shipped",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jobs", default=",".join(JOBS), help="with commas")
    parser.add_argument("--minutes", type=float, default=9.0, help="of this call, all included")
    parser.add_argument(
        "--calls-left", type=int, default=1, help="calls as long as this one that schedules reckon with"
    )
    parser.add_argument(
        "--setting-up", type=float, default=SETTING_UP, help="seconds of the call that no training is planned for"
    )
    parser.add_argument("--state", type=Path, default=Path("local/shipped"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=Path("local/shipped-out"), help="folder of what is brought back")
    parser.add_argument("--resume", type=Path, help="folder with packed states, which replace those in --state")
    parser.add_argument("--set", action="append", default=[], metavar="[JOB:]KEY=VALUE", help="change a setting")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--no-mps", action="store_true", help="let processes take turns on the GPU")
    parser.add_argument("--references", action="store_true", help="make what validation compares with, and end")
    parser.add_argument("--into", type=Path, default=SHIPPED, help="the file of references")
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
