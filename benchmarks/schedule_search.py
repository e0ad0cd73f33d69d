"""Measure the classical search for schedules: makespans after 1 and 10 s of one core's time, one instance at a time.

Time is processor time of the process (other work on the machine does not count), construction included, compilation
not. Every line of the output is one instance: family, size, seed of the instance, bound, makespans.

    python -m benchmarks.schedule_search out.jsonl --instances 5 --seed 0
"""

import argparse
import json
import time
from pathlib import Path

from benchmarks.schedule_families import FAMILIES, durations
from icdc.search.schedule_bound import knapsack_bound
from icdc.search.schedules import construct, iterate

SIZES = ((100, 20), (200, 20), (200, 50), (1000, 50))
GOALS = ("job-correlated", "machine-correlated", "uniform-100")


def measure(
    family: str, jobs: int, machines: int, instance: int, seed: int, limits: tuple[float, ...]
) -> dict[str, object]:
    """Search one instance up to each of the limits in turn, in seconds of processor time since the beginning."""
    times, allowed = durations(family, jobs, machines, instance)
    begin = time.process_time()
    start = construct(times, allowed)
    line: dict[str, object] = {
        "family": family, "jobs": jobs, "machines": machines, "instance": instance, "seed": seed,
        "bound": start.prices.bound, "start": int(start.makespans[0]), "start_s": round(time.process_time() - begin, 3),
    }  # fmt: skip
    choice, bound, value = start.choices[0], start.prices.bound, int(start.makespans[0])
    for turn, limit in enumerate(limits):
        # a tenth of the time on search, up to a fifth on a proof, the rest on search
        for share in (0.1, 1.0):
            if share == 1.0 and value > bound:
                bound = max(bound, knapsack_bound(
                    times, start.prices, value, seconds=0.2 * limit, clock=time.process_time
                ))  # fmt: skip
            found = iterate(
                times, choice, allowed, prices=start.prices, bound=bound,
                seconds=share * limit - (time.process_time() - begin),
                seed=(seed * len(limits) + turn) * 2 + int(share), clock=time.process_time,
            )  # fmt: skip
            choice, value = found.choice, int(found.makespan)
        line[f"after_{limit:g}"], line[f"bound_{limit:g}"] = value, bound
        line[f"seconds_{limit:g}"] = round(time.process_time() - begin, 2)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--families", nargs="+", default=list(GOALS), choices=list(FAMILIES))
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limits", nargs="+", type=float, default=[1.0, 10.0])
    arguments = parser.parse_args()
    # compiles everything before the first measurement
    measure("uniform-100", 10, 3, 0, 0, (0.01, 0.02))
    knapsack_bound(small := durations("uniform-100", 10, 3, 0)[0], construct(small).prices, 1000)
    for jobs, machines in SIZES:
        for family in arguments.families:
            for instance in range(arguments.instances):
                line = measure(family, jobs, machines, instance, arguments.seed, tuple(arguments.limits))
                with arguments.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
