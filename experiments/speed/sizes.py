"""Seconds and memory against size, for a network that looks at all columns and for one that looks at candidates.

    python -m experiments.speed.sizes [--device cuda] [--minutes 10] [--out docs/results]

Tours and schedules of a size are solved by one network with random weights in both layouts: what it sees of an instance
(features), one pass of the denoiser, and a whole trajectory with its decoding, each after a first one that does not
count. Memory is the most that all of this takes beyond what was there after a small instance; on a CPU it is that of a
process, so that every line has one of its own. Seconds depend on what else the machine does; what both layouts take in
the same run can be compared. Lines go to sizes.csv, those of another device are kept and those that are there are not
measured again unless `--again`; then sizes.png is drawn.
"""

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.csvfiles import read_rows, write_rows
from experiments.tables.figures import Panel, draw
from icdc.diffusion.sampler import SamplingOptions, generate
from icdc.io.files import write_atomically
from icdc.kernels import Noise
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.problems.base import Problem, Size
from icdc.problems.task import Task
from icdc.problems.tensors import to_tensors

ROOT = Path(__file__).parents[2]
SIZES: dict[str, tuple[Size, ...]] = {
    "atsp": ((20,), (50,), (100,), (200,), (500,), (1000,)),
    "pmsp": ((20, 4), (50, 5), (100, 20), (200, 20), (200, 50), (500, 50)),
}
SMALL: dict[str, Size] = {"atsp": (17,), "pmsp": (17, 17)}
"""A size that loads and compiles what is needed."""
CPU_DENSE_UP_TO = 250_000
"""Entries of a matrix up to which all columns are looked at on a CPU: beyond, a pass takes many seconds."""
COLUMNS = (
    "problem", "size", "layout", "samples", "features s", "pass s", "trajectory s", "peak MiB", "hardware", "threads",
)  # fmt: skip


class Memory:
    """The most memory in use since `reset`, beyond what was in use then."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def reset(self) -> None:
        """Begin anew."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        else:  # Linux forgets the process's highest mark
            Path("/proc/self/clear_refs").write_text("5")
        self.before = self._now("VmRSS")

    def peak(self) -> float:
        """Return MiB."""
        return (self._now("VmHWM") - self.before) / 2**20

    def _now(self, entry: str) -> int:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated() if entry == "VmHWM" else torch.cuda.memory_allocated()
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(entry))


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Return how long the quickest of some runs takes, after one that does not count."""
    times = []
    for number in range(repeats + 1):
        begin = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if number or repeats == 0:
            times.append(time.perf_counter() - begin)
    return min(times)


def measure(problem: str, size: Size, candidates: int, asked: argparse.Namespace) -> dict[str, object]:
    """Time one layout on one instance."""
    device = torch.device(asked.device)
    network = NetworkConfig(
        width=asked.width, edge_width=asked.width // 2, priced=True, candidates=candidates, dense_up_to=0
    )
    torch.manual_seed(0)
    model = Model(get_problem(problem), ModelConfig(network=network)).to(device)
    memory = Memory(device)
    solve(model, SMALL[problem], asked.samples, asked.steps, 0)  # loads and compiles what is needed
    memory.reset()
    _, *found = solve(model, size, asked.samples, asked.steps, asked.repeats)
    layout = layout_of(candidates)
    line = (problem, text_of(size), layout, asked.samples, *found, memory.peak(), *hardware(device))
    return {
        name: round(value, 4) if isinstance(value, float) else value for name, value in zip(COLUMNS, line, strict=True)
    }


def layout_of(candidates: int) -> str:
    """Return a layout in words."""
    return f"{candidates} candidates" if candidates else "all columns"


def text_of(size: Size) -> str:
    """Return a size as tables have it."""
    return "x".join(map(str, size))


def hardware(device: torch.device) -> tuple[str, int]:
    """Return the name of a device, and how many threads a CPU uses."""
    return (torch.cuda.get_device_name(), 0) if device.type == "cuda" else ("CPU", torch.get_num_threads())


def solve(model: Model, size: Size, samples: int, steps: int, repeats: int) -> tuple[str, float, float, float]:
    """Return the layout that was used, and the seconds of features, of a pass and of a trajectory."""
    problem, device = model.problem, model.device
    instances = to_tensors(_instance(problem, size), device)
    options = SamplingOptions(steps=steps)
    keys = torch.arange(samples, device=device)
    with torch.inference_mode():
        features = model.features(instances)
        looking = seconds(lambda: model.features(instances), device, min(1, repeats))
        task = Task(problem, instances, candidates=features.candidates)
        predict = model.predict(model.encode(features, Noise(keys[:1])), task.density)
        x = model.diffusion.prior(task.rows, task.width, task.density, Noise(keys))
        one_pass = seconds(lambda: predict(x, torch.full_like(keys, 10)), device, repeats)
        whole = seconds(lambda: generate(predict, task, model.diffusion, Noise(keys), options), device, repeats // 2)
    layout = layout_of(0 if features.candidates is None else features.candidates.count)
    return layout, looking, one_pass, whole


def _instance(problem: Problem, size: Size) -> dict[str, Any]:
    """Return one instance of random integers, whatever the problem draws itself: that takes long for large ones."""
    rng = np.random.default_rng(0)
    small = problem.sample(1, size if math.prod(size) < 10_000 else tuple(min(n, 20) for n in size), rng)
    ((name, _),) = small.items()
    return {name: rng.integers(1, 10**6, size=(1, *problem.shape(size)))}


def lines_to_do(asked: argparse.Namespace, known: Sequence[Mapping[str, str]]) -> list[tuple[str, Size, int]]:
    """Return what is to be measured: problem, size and candidates (0 for all columns), small ones first."""
    device = torch.device(asked.device)
    here = {(row["problem"], row["size"], row["layout"]) for row in known if row["hardware"] == hardware(device)[0]}
    todo = []
    for problem, sizes in SIZES.items():
        for size in sizes:
            rows, columns = get_problem(problem).shape(size)
            for candidates in (0, asked.candidates):
                dense_too_large = device.type == "cpu" and rows * columns > CPU_DENSE_UP_TO
                if columns <= candidates or (not candidates and dense_too_large):
                    continue
                if asked.again or (problem, text_of(size), layout_of(candidates)) not in here:
                    todo.append((problem, size, candidates))
    return sorted(todo, key=lambda line: math.prod(get_problem(line[0]).shape(line[1])))


def panels(rows: Sequence[Mapping[str, str]]) -> list[Panel]:
    """Return the figure: seconds of a trajectory, and memory, against cities and against jobs."""
    found = []
    for problem, what in (("atsp", "cities"), ("pmsp", "jobs × machines")):
        mine = sorted((row for row in rows if row["problem"] == problem), key=lambda row: _items(row["size"]))
        ticks = list(dict.fromkeys(row["size"] for row in mine))
        for column, y in (("trajectory s", "seconds of a trajectory of 5 passes"), ("peak MiB", "memory, MiB")):
            lines: dict[str, list[tuple[float, float]]] = {}
            for row in mine:
                label = f"{row['layout']}, {row['hardware'].removeprefix('NVIDIA ')}"
                lines.setdefault(label, []).append((float(ticks.index(row["size"])), float(row[column])))
            found.append(Panel(what, what, y, lines, ticks=[tick.replace("x", "×") for tick in ticks], log=True))
    return found


def _items(size: str) -> int:
    return math.prod(map(int, size.split("x")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the table lacks, a JSON line for each, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5, help="network passes of a trajectory")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--width", type=int, default=128, help="of the network; 64 is a quarter of the work")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=1e6, help="nothing is begun after so many")
    parser.add_argument("--again", action="store_true", help="measure what is in the table again")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    asked = parser.parse_args(arguments)
    until = time.monotonic() + 60.0 * asked.minutes
    path = asked.out / "sizes.csv"
    rows: list[dict[str, Any]] = list(read_rows(path))
    todo = lines_to_do(asked, rows)
    lines_a_process = 1 if asked.device == "cpu" else None
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=lines_a_process) as pool:
        for line in todo:
            if time.monotonic() > until:
                print("the time is over; the same command goes on", file=sys.stderr)
                break
            fresh = pool.apply(measure, (*line, asked))
            same = ("problem", "size", "layout", "hardware")
            rows = [row for row in rows if any(str(row[name]) != str(fresh[name]) for name in same)] + [fresh]
            write_rows(path, COLUMNS, rows)
            print(json.dumps(fresh), flush=True)
    write_atomically(asked.out / "sizes.png", draw(panels(read_rows(path))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
