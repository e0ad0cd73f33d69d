"""kill -9 at random moments of whole commands: nothing that was finished is lost, and every resumed run ends alike.

    python -m tests.kills                                  # 50 kills of each command
    python -m tests.kills --count 5 --command generate     # a few of one

Every command is run once without interruption. Then it is started again and again in a new folder, killed at a random
moment of its time (every third one twice), and called until it ends; its result must be that of the unbroken run, and
what was on the disk after a kill must still be there in the end. One core and fixed seeds, so that results are equal to
the last bit. Exits with 1 if any is not.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from icdc.problems import get_problem

NETWORK = {"width": 16, "heads": 2, "edge_width": 4, "encoder_layers": 1, "denoiser_layers": 1}


class Command(ABC):
    """A command that can be killed and called again.

    Parameters
    ----------
    inputs : a folder for what it reads.
    effort : how long it takes, in arbitrary units; 1 is a few seconds.
    """

    name: str

    def __init__(self, inputs: Path, effort: float = 1.0) -> None:
        self.inputs, self.effort = inputs, effort
        self.prepare()

    def prepare(self) -> None:
        """Write what the command reads."""
        return

    @abstractmethod
    def first(self, folder: Path) -> list[Any]:
        """Return the arguments of the first call."""

    def again(self, folder: Path) -> list[Any]:
        """Return the arguments of a call that goes on: the same, unless it must be asked for."""
        return self.first(folder)

    @abstractmethod
    def result(self, folder: Path) -> Any:
        """Return what came of it, times left out, to be compared."""

    def done(self, folder: Path) -> bool:
        """Tell whether nothing is left to do, where a further call would be a mistake."""
        return False

    def finished(self, folder: Path) -> list[str]:
        """Return what is finished so far, a text for each part: all of it must be there in the end."""
        return []

    def count(self, number: int) -> int:
        """Return a number of things to do, scaled by the effort."""
        return max(2, round(number * self.effort))


class Batch(Command):
    """`icdc solve --out FILE.jsonl`: answers of many sizes, one job each."""

    name = "batch"

    def prepare(self) -> None:
        pmsp, rng = get_problem("pmsp"), np.random.default_rng(0)
        sizes = [(5 + number % 20, 2 + number // 20) for number in range(self.count(60))]
        shops = [{"durations": pmsp.sample(1, size, rng)["durations"][0].tolist()} for size in sizes]
        (self.inputs / "batch.json").write_text(json.dumps(shops))

    def first(self, folder: Path) -> list[Any]:
        out = folder / "answers.jsonl"
        return ["solve", self.inputs / "batch.json", "--solver", "ga:iterations=150", "--out", out, "--resume"]

    def result(self, folder: Path) -> Any:
        lines = [json.loads(line) for line in self.finished(folder)]
        return sorted((line["instance"], line["solution"], line["objective"], line["bound"]) for line in lines)

    def finished(self, folder: Path) -> list[str]:
        return whole_lines(folder / "answers.jsonl")


class Train(Command):
    """`icdc train`: a tiny network for some rounds."""

    name = "train"

    def first(self, folder: Path) -> list[Any]:
        settings = {
            "sizes": "[[5, 2]]", "targets.instances": 4, "targets.trajectories": 2, "targets.sampling.decodes": 2,
            "targets.refine_decodes": 2, "cloning.batch": 8, **{f"model.network.{k}": v for k, v in NETWORK.items()},
        }  # fmt: skip
        changes = [f"--set={name}={value}" for name, value in settings.items()]
        rounds = ["--rounds", self.count(25), "--device", "cpu"]
        return ["train", "pmsp-20", *changes, *rounds, "--out", folder / "run"]

    def again(self, folder: Path) -> list[Any]:
        if not (folder / "run" / "state.pt").exists():
            return self.first(folder)
        return ["train", "pmsp-20", "--out", folder / "run", "--resume", "--device", "cpu"]

    def result(self, folder: Path) -> Any:
        return tensors(folder / "run" / "model.safetensors")


class Finetune(Command):
    """`icdc finetune`: what `train` made, on a few matrices."""

    name = "finetune"

    def prepare(self) -> None:
        drawn = get_problem("pmsp").sample(12, (5, 2), np.random.default_rng(1))
        np.savez(self.inputs / "shops.npz", problem="pmsp", **drawn)
        subprocess.run(command_line(Train(self.inputs, 0.01).first(self.inputs)), check=True, **quietly())

    def first(self, folder: Path) -> list[Any]:
        model, out = self.inputs / "run" / "model.safetensors", folder / "tuned.safetensors"
        rounds = ["--rounds", self.count(25), "--device", "cpu"]
        return ["finetune", model, self.inputs / "shops.npz", *rounds, "--out", out]

    def done(self, folder: Path) -> bool:
        return [path.name for path in folder.iterdir()] == ["tuned.safetensors"]

    def result(self, folder: Path) -> Any:
        return tensors(folder / "tuned.safetensors")


class Generate(Command):
    """`icdc generate --reference`: instances with proven optima."""

    name = "generate"

    def first(self, folder: Path) -> list[Any]:
        effort = ["--size", "12x4", "--count", self.count(300), "--reference", "dp"]
        return ["generate", "pmsp", *effort, "--out", folder / "set.npz"]

    def result(self, folder: Path) -> Any:
        with np.load(folder / "set.npz") as file:
            return {name: file[name].tolist() for name in file.files}


class Evaluate(Command):
    """`icdc evaluate --out FILE.jsonl`: outcomes, chunk by chunk."""

    name = "evaluate"

    def prepare(self) -> None:
        drawn = get_problem("pmsp").sample(self.count(60), (12, 3), np.random.default_rng(2))
        np.savez(self.inputs / "shops.npz", problem="pmsp", **drawn)

    def first(self, folder: Path) -> list[Any]:
        solvers = ["--solver", "ga:iterations=150", "--solver", "pso:iterations=30", "--chunk", 3]
        return ["evaluate", self.inputs / "shops.npz", *solvers, "--out", folder / "outcomes.jsonl"]

    def result(self, folder: Path) -> Any:
        lines = [json.loads(line) for line in self.finished(folder)]
        return sorted((line["solver"], line["instance"], line["cost"], line["proven"]) for line in lines)

    def finished(self, folder: Path) -> list[str]:
        return whole_lines(folder / "outcomes.jsonl")


COMMANDS: dict[str, type[Command]] = {kind.name: kind for kind in (Batch, Train, Finetune, Generate, Evaluate)}


def whole_lines(path: Path) -> list[str]:
    """Return the lines of a file that have an end; none where there is no file."""
    return path.read_bytes().decode().split("\n")[:-1] if path.exists() else []


def tensors(path: Path) -> dict[str, Any]:
    """Return the weights of a model file, to the last bit."""
    return {name: array.tobytes() for name, array in load_file(path).items()}


def command_line(arguments: list[Any]) -> list[str]:
    return [sys.executable, "-m", "icdc", *map(str, arguments)]


def quietly() -> dict[str, Any]:
    """Return how processes are started: one core, no words."""
    path = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}


def unbroken(command: Command, folder: Path) -> tuple[Any, float]:
    """Run a command without interruption; return its result, and how long it took."""
    folder.mkdir()
    began = time.monotonic()
    subprocess.run(command_line(command.first(folder)), check=True, **quietly())
    return command.result(folder), time.monotonic() - began


def killed(command: Command, folder: Path, moments: list[float], wanted: Any) -> str | None:
    """Kill a command after so many seconds, time after time, and then let it end; return what is wrong, if anything."""
    folder.mkdir()
    kept: set[str] = set()
    arguments = command.first(folder)
    for moment in moments:
        with subprocess.Popen(command_line(arguments), **quietly()) as process:
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
        kept |= set(command.finished(folder))
        over = process.returncode == 0 or command.done(folder)
        if over:
            break
        arguments = command.again(folder)
    if not over:
        ended = subprocess.run(
            command_line(arguments), check=False, **{**quietly(), "stderr": subprocess.PIPE}, text=True
        )
        if ended.returncode:
            return f"the resumed call ended with {ended.returncode}: {ended.stderr.strip().splitlines()[-1:]}"
    if not kept <= set(command.finished(folder)):
        return "something that was finished is lost"
    if command.result(folder) != wanted:
        return "the result differs from that of an unbroken run"
    left = [path.name for path in folder.iterdir() if path.name.endswith((".part", ".partial", ".lock"))]
    return f"left behind: {', '.join(left)}" if left and command.name != "train" else None


def kill_often(
    name: str, count: int, folder: Path, effort: float = 1.0, seed: int = 0
) -> Iterator[tuple[str, str | None]]:
    """Yield, for every one of `count` runs, the moments at which it was killed, and what went wrong."""
    rng = random.Random(f"{seed} {name}")
    inputs = folder / name
    inputs.mkdir()
    command = COMMANDS[name](inputs, effort)
    wanted, seconds = unbroken(command, folder / f"{name}-unbroken")
    for number in range(count):
        moments = [rng.uniform(0.2, 1.0) * seconds for _ in range(2 if number % 3 == 2 else 1)]
        place = folder / f"{name}-{number}"
        wrong = killed(command, place, moments, wanted)
        shutil.rmtree(place)
        yield ", ".join(f"{moment:.2f} s" for moment in moments), wrong


def main() -> int:
    """Kill the commands and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="runs of each command that are killed")
    parser.add_argument("--command", action="append", choices=list(COMMANDS), help="only this one; may be repeated")
    parser.add_argument("--effort", type=float, default=1.0, help="how long commands take")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    failures = 0
    for name in options.command or COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            runs = kill_often(name, options.count, Path(folder), options.effort, options.seed)
            for moments, wrong in runs:
                if wrong is not None:
                    failures += 1
                    print(f"{name} killed after {moments}: {wrong}", flush=True)
        print(f"{name}: {options.count} runs killed", flush=True)
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
