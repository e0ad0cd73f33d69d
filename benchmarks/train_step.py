"""Milliseconds of a training step: eager, compiled, and captured, against the memory bandwidth of the device.

    python benchmarks/train_step.py --preset atsp-20 [--set cloning.batch=512] [--variants eager,captured]

A variant joins words by "+": `captured` (the steps, as CUDA graphs), `unfused` (without kernels of our own, plain
operations instead), `compiled` (the layers; only where no kernels of our own take their place); `eager` is none of
them.

Bytes a step must move are counted for the edge tensors of the network, which are nearly all of it: forward, every
layer reads and writes its edge state once; backward, it reads both again with the gradient of the output and
writes the gradient of the input. Bandwidth is a device-to-device copy measured in the same run.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from icdc.kernels import without_triton
from icdc.models.base import pick_device
from icdc.training import Trainer, TrainingConfig, parse_override
from icdc.training.presets import build_config, read_settings


def milliseconds(step: Callable[[], None], device: torch.device, repeats: int) -> float:
    """Return the median time of a step, each synchronised."""
    step()
    times = []
    for _ in range(repeats):
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def bandwidth(device: torch.device) -> float:
    """Return bytes a second of a large copy, read and written bytes both counted."""
    source = torch.randn(2**28 if device.type == "cuda" else 2**24, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)

    spent = milliseconds(copy, device, 10)
    return 2 * source.numel() * source.element_size() / (spent / 1e3)


def clone_bytes(config: TrainingConfig, rows: int, columns: int, element: int) -> float:
    """Return the bytes of edge state that one cloning step cannot avoid moving."""
    network = config.model.network
    layers = network.encoder_layers + network.denoiser_layers
    edges = config.cloning.batch * rows * columns * network.edge_width * element
    return layers * edges * (2 + 4)


def measure(config: TrainingConfig, variant: str, device: str, repeats: int) -> dict[str, float]:
    """Build a trainer of one variant, and time its steps."""
    begin = time.perf_counter()
    words = set(variant.split("+"))
    trainer = Trainer(config, device=device, capture="captured" in words, compile_network="compiled" in words)
    trainer.set_up()
    steps, run = trainer.steps[0], trainer.graphs.run
    for step in (steps.draw, steps.make_targets, steps.clone):
        run(step)
    set_up = time.perf_counter() - begin
    times = {"set-up s": set_up}
    for name in ("draw", "make_targets", "improve", "clone"):
        times[name] = milliseconds(partial(run, getattr(steps, name)), trainer.device, repeats)
    return times


def profile(config: TrainingConfig, variant: str, most: int = 25) -> None:
    """Print which kernels the time of a cloning step and of a round of targets goes into."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    words = set(variant.split("+"))
    trainer = Trainer(config, device="cuda", capture="captured" in words, compile_network="compiled" in words)
    trainer.set_up()
    steps, run = trainer.steps[0], trainer.graphs.run
    run(steps.draw)
    run(steps.make_targets)
    for name in ("clone", "make_targets"):
        step = getattr(steps, name)
        run(step)
        torch.cuda.synchronize()
        with watch(activities=[ProfilerActivity.CUDA]) as seen:
            run(step)
            torch.cuda.synchronize()
        kernels = sorted(seen.key_averages(), key=lambda kernel: -kernel.device_time_total)
        total = sum(kernel.device_time_total for kernel in kernels)
        print(f"{name}: {total:.0f} µs in {sum(kernel.count for kernel in kernels)} kernels")
        for kernel in kernels[:most]:
            print(f"  {kernel.device_time_total:8.0f} µs {kernel.count:5d} × {kernel.key[:100]}")


def main() -> None:
    """Print one JSON line a variant, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="atsp-20")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--variants", default="eager+unfused,eager,captured+unfused,captured")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--profile", metavar="VARIANT", help="instead, print where the time of one variant goes (GPU)")
    options = parser.parse_args()
    config = build_config(TrainingConfig, read_settings(options.preset, dict(map(parse_override, options.set))))
    if options.profile:
        with without_triton() if "unfused" in options.profile else nullcontext():
            profile(config, options.profile)
        return
    device = pick_device(options.device)
    speed = bandwidth(device)
    rows, columns = 0, 0
    lines = []
    for variant in options.variants.split(","):
        with without_triton() if "unfused" in variant else nullcontext():
            times = measure(config, variant, options.device, options.repeats)
        if not rows:
            from icdc.problems import get_problem

            rows, columns = get_problem(config.problem).shape(config.sizes[0])
        least = clone_bytes(config, rows, columns, 2 if device.type == "cuda" else 4)
        line = {
            "variant": variant,
            **{name: round(value, 3) for name, value in times.items()},
            "clone GB": round(least / 1e9, 3),
            "copy TB/s": round(speed / 1e12, 3),
            "share of bandwidth": round(least / speed / (times["clone"] / 1e3), 3),
        }
        lines.append(line)
        print(json.dumps(line), flush=True)
    if options.out:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    width = max(len(name) for name in lines[0])
    for name in lines[0]:
        print(name.ljust(width), *(str(line[name]).rjust(12) for line in lines), file=sys.stderr)


if __name__ == "__main__":
    main()
