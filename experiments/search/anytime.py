"""Gap against time on single instances: the learned solver beside CP-SAT, LKH and PyVRP, on two CPU cores.

    python -m experiments.search.anytime           # writes docs/results/anytime.csv and anytime.png

The learned solver is watched while it works: every improvement is a point. The others are run anew for each
point, since not all of them can be watched: CP-SAT and PyVRP with growing time limits, LKH, which cannot be
stopped, with growing numbers of runs. Seconds are those of solving: imports and loading a model are left out
for all alike. Costs are computed afresh from the instance and compared with its best known solution.
"""

import argparse
import csv
import io
import os
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from icdc.io.datasets import Dataset, standard_set
from icdc.io.files import write_atomically
from icdc.solvers import make_solver
from icdc.solving.answer import judge
from icdc.solving.solver import Result

CORES = 2
LIMITS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RUNS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
COLOURS = {"icdc": "#0072B2", "cpsat": "#D55E00", "lkh": "#009E73", "pyvrp": "#CC79A7"}


@dataclass(frozen=True)
class Point:
    """The gap in % that a solver had after some seconds, and whether it had proven its answer optimal."""

    instance: str
    solver: str
    seconds: float
    gap: float
    proven: bool


def points_of(name: str, title: str, instance: Dataset, options: argparse.Namespace) -> list[Point]:
    """Return how far one solver was on an instance (a dataset of one) after how many seconds."""

    def point(seconds: float, choice: Any, proven: bool) -> Point:
        feasible, cost = judge(instance.problem, instance.arrays, choice)
        if instance.reference is None:
            raise SystemExit(f"{title} has no reference")
        gap = 100.0 * (float(cost[0]) / float(instance.reference[0]) - 1.0) if feasible[0] else float("inf")
        return Point(title, name, seconds, gap, proven)

    if name == "icdc":
        solver = make_solver("icdc", model=options.model, device="cpu")
        # a first call loads the model, which is not solving
        solver.solve(instance.problem, instance.arrays, samples=1, seed=1, time_limit=0.01)
        found: list[Point] = []
        results = solver.solve(
            instance.problem, instance.arrays, samples=options.samples, seed=0, time_limit=options.seconds,
            callback=lambda event: found.append(point(event.seconds, event.choice, False)),
        )  # fmt: skip
        return [*found, point(results.seconds, results.choice, bool(results.proven[0]))]
    found = []
    for results in _efforts(name, instance, options.seconds):
        found.append(point(results.seconds, results.choice, bool(results.proven[0])))
        if found[-1].proven or results.seconds >= 0.95 * options.seconds:
            break
    return [each for each in found if each.seconds <= 1.2 * options.seconds]


def _efforts(name: str, instance: Dataset, seconds: float) -> Iterator[Result]:
    """Yield the answers of a solver to growing efforts, each time from the beginning."""
    if name == "lkh":
        for runs in RUNS:
            yield make_solver(f"lkh:runs={runs}").solve(instance.problem, instance.arrays)
        return
    spec = f"cpsat:workers={CORES}" if name == "cpsat" else "pyvrp:iterations=1000000000"
    for limit in [limit for limit in LIMITS if limit < seconds] + [seconds]:
        yield make_solver(spec).solve(instance.problem, instance.arrays, time_limit=limit)


def draw(points: list[Point], seconds: float) -> bytes:
    """Return a PNG of gap against time, an instance beside the other."""
    from matplotlib.figure import Figure

    instances = list(dict.fromkeys(point.instance for point in points))
    figure = Figure(figsize=(5.2 * len(instances), 4.2), layout="constrained")
    every = figure.subplots(1, len(instances), squeeze=False)[0]
    for axes, instance in zip(every, instances, strict=True):
        for solver, colour in COLOURS.items():
            own = [point for point in points if (point.instance, point.solver) == (instance, solver)]
            if not own:
                continue
            x, y = [max(point.seconds, 1e-3) for point in own], [point.gap for point in own]
            if own[-1].proven:
                axes.plot(x[-1], y[-1], marker="*", markersize=15, color=colour, linestyle="none")
            else:
                x, y = [*x, seconds], [*y, y[-1]]
            axes.step(x, y, where="post", color=colour, marker="o", markersize=5, label=solver)
        axes.set(title=instance, xlabel="seconds", ylabel="above the best known cost, %", xscale="log")
        axes.set_yscale("symlog", linthresh=0.1)
        axes.grid(alpha=0.3)
    handles, labels = every[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, title="★ proven optimal", frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def main() -> None:
    """Run everyone on every instance, and write the points and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", metavar="SET:INDEX", help="default: atsp-50:0 and pmsp-50x5:0")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--model", help="for the learned solver; default the shipped one that fits best")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "docs" / "results")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    torch.set_num_threads(CORES)
    points: list[Point] = []
    for text in options.set or ["atsp-50:0", "pmsp-50x5:0"]:
        name, _, index = text.partition(":")
        whole, place = standard_set(name), int(index or 0)
        one = whole.first(place + 1)
        instance = Dataset(
            one.problem, {key: array[place:] for key, array in one.arrays.items()},
            None if one.reference is None else one.reference[place:],
        )  # fmt: skip
        for solver in COLOURS:
            if solver == "icdc" or make_solver(solver).supports(instance.problem):
                points += points_of(solver, f"{name}[{place}]", instance, options)
                print(points[-1], flush=True)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([[entry.name for entry in fields(Point)], *map(astuple, points)])
    write_atomically(options.out / "anytime.csv", buffer.getvalue(), make_folder=True)
    write_atomically(options.out / "anytime.png", draw(points, options.seconds))


if __name__ == "__main__":
    main()
