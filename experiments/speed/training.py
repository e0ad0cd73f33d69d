"""Milliseconds of training: of single steps against the memory bandwidth of the device, and of whole rounds.

    python -m experiments.speed.training steps atsp-20 [--set cloning.batch=512] [--variants eager,captured]
    python -m experiments.speed.training rounds atsp-20 sl-atsp-20 matnet-atsp-20
    python -m experiments.speed.training profile atsp-20 --variants captured      # where the time goes, on a GPU

A variant of `steps` joins words by "+": `captured` (the steps, as CUDA graphs), `unfused` (without kernels of our own,
plain operations instead), `compiled` (the layers; only where no kernels of our own take their place); `eager` is none
of them. Bytes a step must move are counted for the edge tensors of the network, which are nearly all of it: forward,
every layer reads and writes its edge state once; backward, it reads both again with the gradient of the output and
writes the gradient of the input. Bandwidth is a device-to-device copy measured in the same run.

`rounds` says what a run would have taken by itself: runs that share a device slow each other down, but by less than
their number where their kernels are small. The rounds of a run (its card names them) times what a round takes alone are
the seconds of the device that it had. A round is timed at the beginning, the middle and the end of the schedules, since
the number of its steps may grow.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from icdc.kernels import without_triton
from icdc.models.file import pick_device
from icdc.problems import get_problem
from icdc.training import Trainer, TrainingConfig, load_config, make_trainer, parse_override


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


def round_milliseconds(preset: str, settings: list[str], device: str, repeats: int) -> dict[str, object]:
    """Set a run up as training does, and time rounds at three places of its schedules."""
    begin = time.perf_counter()
    trainer = make_trainer(load_config(preset, dict(map(parse_override, settings))), device=device)
    trainer.set_up()
    trainer.round(0, 0.0)
    trainer.synchronise()
    set_up = time.perf_counter() - begin
    places = []
    for fraction in (0.05, 0.5, 0.95):
        times = []
        for number in range(repeats):
            begin = time.perf_counter()
            trainer.round(number, fraction)
            trainer.synchronise()
            times.append(1e3 * (time.perf_counter() - begin))
        places.append(statistics.median(times))
    hardware = torch.cuda.get_device_name() if trainer.device.type == "cuda" else "CPU"
    return {
        "preset": preset,
        "round ms": round(statistics.fmean(places), 2),
        "at the beginning, the middle, the end": [round(place, 2) for place in places],
        "set-up s": round(set_up, 1),
        "hardware": hardware,
    }


def measure_steps(
    config: TrainingConfig, variants: list[str], device_name: str, repeats: int
) -> list[dict[str, object]]:
    """Print and return a line for each variant."""
    device = pick_device(device_name)
    speed = bandwidth(device)
    rows, columns = get_problem(config.problem).shape(config.sizes[0])
    least = clone_bytes(config, rows, columns, 2 if device.type == "cuda" else 4)
    lines = []
    for variant in variants:
        with without_triton() if "unfused" in variant else nullcontext():
            times = measure(config, variant, device_name, repeats)
        lines.append(
            {
                "variant": variant,
                **{name: round(value, 3) for name, value in times.items()},
                "clone GB": round(least / 1e9, 3),
                "copy TB/s": round(speed / 1e12, 3),
                "share of bandwidth": round(least / speed / (times["clone"] / 1e3), 3),
            }
        )
        print(json.dumps(lines[-1]), flush=True)
    return lines


def main() -> None:
    """Print one JSON line a variant, or a preset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("steps", "rounds", "profile"))
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all of them")
    parser.add_argument("--variants", default="eager+unfused,eager,captured+unfused,captured")
    parser.add_argument("--examples", action="append", default=[], metavar="PRESET=FILE", help="solved examples")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--out", type=Path, help="append the lines to this file, too")
    options = parser.parse_args()
    examples = dict(pair.split("=", 1) for pair in options.examples)
    for preset in options.presets:
        given = [f'targets.examples=["{examples[preset]}"]'] if preset in examples else []
        lines: list[dict[str, object]] = []
        if options.what == "rounds":
            lines.append(round_milliseconds(preset, [*options.set, *given], options.device, options.repeats))
            print(json.dumps(lines[-1]), flush=True)
        else:
            config = load_config(preset, dict(map(parse_override, [*options.set, *given])))
            assert isinstance(config, TrainingConfig)
            variants = options.variants.split(",")
            if options.what == "steps":
                lines = measure_steps(config, variants, options.device, options.repeats)
            else:
                with without_triton() if "unfused" in variants[0] else nullcontext():
                    profile(config, variants[0])
        if options.out is not None:
            with options.out.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
