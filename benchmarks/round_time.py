"""Milliseconds of a training round of any preset, alone on the device: what a run would have taken by itself.

    python benchmarks/round_time.py atsp-20 sl-atsp-20 rl-atsp-20 paper-sl-atsp-20 paper-rl-atsp-20 matnet-atsp-20

Runs that share a device slow each other down, but by less than their number where their kernels are small. The rounds
of a run (its card names them) times what a round takes alone are the seconds of the device that it had. A round is
timed at the beginning, the middle and the end of the schedules, since the number of its steps may grow.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from icdc.training import load_config, make_trainer, parse_override


def milliseconds(preset: str, settings: list[str], device: str, repeats: int) -> dict[str, object]:
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


def main() -> None:
    """Print one JSON line a preset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all of them")
    parser.add_argument("--examples", action="append", default=[], metavar="PRESET=FILE", help="solved examples")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--out", type=Path, help="append the lines to this file, too")
    options = parser.parse_args()
    examples = dict(pair.split("=", 1) for pair in options.examples)
    for preset in options.presets:
        settings = list(options.set)
        if preset in examples:
            settings.append(f'targets.examples=["{examples[preset]}"]')
        line = json.dumps(milliseconds(preset, settings, options.device, options.repeats))
        print(line, flush=True)
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
