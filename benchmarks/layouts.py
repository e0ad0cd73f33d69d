"""Seconds and memory against size, for a network that looks at all columns and for one that looks at candidates.

    python benchmarks/layouts.py --sizes 50 100 200 500 --device cpu [--dense-up-to 500] [--out FILE]

Tours of a size are solved by one network with random weights in both layouts: what it sees of an instance (features),
one pass of the denoiser, and a whole trajectory with its decoding, each after a first one that does not count. Every
line is a process of its own, one after another. Memory is the most that all of this takes beyond what was there after a
small instance. Seconds depend on what else the machine does; what both layouts take in the same run can be compared.
"""

import argparse
import csv
import json
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from icdc.diffusion.sampler import SamplingOptions, generate
from icdc.kernels import Noise
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems.contract import to_tensors
from icdc.problems.registry import get_problem
from icdc.problems.task import Task

COLUMNS = ("cities", "layout", "samples", "features s", "pass s", "trajectory s", "peak MiB", "hardware")


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


def measure(network: NetworkConfig, cities: int, asked: argparse.Namespace) -> dict[str, object]:
    """Time one layout on one instance."""
    device = torch.device(asked.device)
    torch.manual_seed(0)
    model = Model(get_problem("atsp"), ModelConfig(network=network)).to(device)
    memory = Memory(device)
    solve(model, 40, asked.samples, asked.steps, 0)  # loads and compiles what is needed
    memory.reset()
    layout, *found = solve(model, cities, asked.samples, asked.steps, asked.repeats)
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    line = (cities, layout, asked.samples, *found, memory.peak(), hardware)
    return {
        name: round(value, 4) if isinstance(value, float) else value for name, value in zip(COLUMNS, line, strict=True)
    }


def solve(model: Model, cities: int, samples: int, steps: int, repeats: int) -> tuple[str, float, float, float]:
    """Return the layout, and the seconds of features, of a pass and of a trajectory."""
    problem, device = model.problem, model.device
    distances = np.random.default_rng(0).integers(1, 10**6, size=(1, cities, cities))
    instances = to_tensors({"distances": distances}, device)
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
    layout = "all columns" if features.candidates is None else f"{features.candidates.count} candidates"
    return layout, looking, one_pass, whole


def main() -> None:
    """Print one JSON line for each size and layout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200, 500, 1000])
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--dense-up-to", type=int, default=500, help="the largest size with all columns")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5, help="network passes of a trajectory")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--width", type=int, default=128, help="of the network; 64 is a quarter of the work")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="write a table to this CSV file, too")
    asked = parser.parse_args()
    rows = []
    for cities in asked.sizes:
        layouts = [asked.candidates] if cities > asked.dense_up_to else [0, asked.candidates]
        for candidates in layouts:
            network = NetworkConfig(
                width=asked.width, edge_width=asked.width // 2, priced=True, candidates=candidates, dense_up_to=0
            )
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                rows.append(pool.apply(measure, (network, cities, asked)))
            print(json.dumps(rows[-1]), flush=True)
    if asked.out is not None:
        with asked.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
