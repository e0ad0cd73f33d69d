"""Gap against time on single instances: the learned solver beside CP-SAT, LKH and PyVRP, on two CPU cores.

    python benchmarks/anytime.py --out docs                        # writes docs/anytime.md and docs/anytime.png

The learned solver is watched while it works: every improvement is a point. The others are run anew for each
point, since not all of them can be watched: CP-SAT and PyVRP with growing time limits, LKH, which cannot be
stopped, with growing numbers of runs. Seconds are those of solving: imports and loading a model are left out
for all alike. Costs are computed afresh from the instance and compared with its best known solution.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from icdc.data.standard import standard_set
from icdc.problem import Arrays, Problem, to_tensors
from icdc.solver import Results
from icdc.solvers import make_solver
from icdc.solving import DiffusionSolver, Improvement
from icdc.solving.api import DEFAULT_SAMPLES

CORES = 2
LIMITS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RUNS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
COLOURS = {"icdc": "#0072B2", "cpsat": "#D55E00", "lkh": "#009E73", "pyvrp": "#CC79A7"}
MARKS = {"icdc": "o", "cpsat": "s", "lkh": "^", "pyvrp": "D"}


@dataclass(frozen=True)
class Instance:
    """One instance of a standard set, with its best known cost."""

    name: str
    problem: Problem
    arrays: Arrays
    reference: float
    proven: bool

    def gap(self, choice: np.ndarray) -> float:
        """Return how far a choice (rows,) is above the best known cost, in %; infinite if infeasible."""
        exact, chosen = to_tensors(self.arrays), torch.from_numpy(np.ascontiguousarray(choice))[None, None]
        if not self.problem.feasible(exact, chosen).item():
            return float("inf")
        return 100 * (float(self.problem.cost(exact, chosen).item()) / self.reference - 1)


@dataclass(frozen=True)
class Point:
    """The gap in % that a solver had after some seconds, and whether it had proven its answer optimal."""

    seconds: float
    gap: float
    proven: bool = False


def instance_of(text: str) -> Instance:
    """Return the instance that `SET:INDEX` names."""
    name, _, index = text.partition(":")
    dataset, place = standard_set(name), int(index or 0)
    if dataset.reference is None or dataset.proven is None:
        raise SystemExit(f"{name} has no references")
    arrays = {key: array[place : place + 1] for key, array in dataset.arrays.items()}
    reference, proven = float(dataset.reference[place]), bool(dataset.proven[place])
    return Instance(f"{name}[{place}]", dataset.problem, arrays, reference, proven)


def watched(instance: Instance, seconds: float, samples: int, model: str | None) -> tuple[list[Point], str]:
    """Return the improvements of the learned solver within a time limit, and the name of its model."""
    solver = DiffusionSolver(model, device="cpu")
    # a first call loads the model, which is not solving
    solver.solve(instance.problem, instance.arrays, samples=1, seed=1, time_limit=0.01)
    points: list[Point] = []

    def note(event: Improvement) -> None:
        points.append(Point(event.seconds, instance.gap(event.choice[0])))

    results = solver.solve(
        instance.problem, instance.arrays, samples=samples, seed=0, time_limit=seconds, callback=note
    )
    end = Point(results.seconds, instance.gap(results.choice[0]), bool(results.proven[0]))
    return [*points, end], str(results.extra["model"])


def repeated(name: str, instance: Instance, seconds: float) -> list[Point]:
    """Return what a solver reaches with growing effort, each time from the beginning."""
    points = []
    for results in _efforts(name, instance, seconds):
        points.append(Point(results.seconds, instance.gap(results.choice[0]), bool(results.proven[0])))
        if results.proven[0] or results.seconds >= 0.95 * seconds:
            break
    return [point for point in points if point.seconds <= 1.2 * seconds]


def _efforts(name: str, instance: Instance, seconds: float) -> Iterator[Results]:
    if name == "lkh":
        for runs in RUNS:
            yield make_solver(f"lkh:runs={runs}").solve(instance.problem, instance.arrays)
        return
    spec = f"cpsat:workers={CORES}" if name == "cpsat" else "pyvrp:iterations=1000000000"
    for limit in [limit for limit in LIMITS if limit < seconds] + [seconds]:
        yield make_solver(spec).solve(instance.problem, instance.arrays, time_limit=limit)


def draw(found: dict[str, dict[str, list[Point]]], seconds: float, path: Path) -> None:
    """Draw gap against time, an instance beside the other."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(5.2 * len(found), 4.2), layout="constrained", squeeze=False)
    for ax, (name, solvers) in zip(axes[0], found.items(), strict=True):
        for solver, points in solvers.items():
            x, y = [max(point.seconds, 1e-3) for point in points], [point.gap for point in points]
            if points[-1].proven is False and points[-1].seconds < seconds:
                x, y = [*x, seconds], [*y, y[-1]]
            ax.step(x, y, where="post", color=COLOURS[solver], marker=MARKS[solver], markersize=5, label=solver)
            if points[-1].proven:
                ax.plot(x[-1], y[-1], marker="*", markersize=15, color=COLOURS[solver], linestyle="none")
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=0.1)
        ax.set_ylim(-0.02, max(10.0, *(1.5 * point.gap for points in solvers.values() for point in points)))
        ax.set_xlim(0.02, 1.3 * seconds)
        ax.set_xticks([tick for tick in (0.02, 0.1, 1, 10) if tick <= seconds])
        ax.set_yticks([0, 0.1, 1, 10])
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter("")
        ax.set(title=name, xlabel="seconds", ylabel="above the best known cost (%)")
        ax.grid(alpha=0.3)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), title="★ proven optimal", frameon=False
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def document(found: dict[str, dict[str, list[Point]]], about: dict[str, str], seconds: float, command: str) -> str:
    """Return the page: what was run, on what, and where everyone was after some of the seconds."""
    marks = [limit for limit in (0.1, 0.5, 1.0, 2.0, 5.0, 10.0) if limit < seconds] + [seconds]
    lines = [
        "# Ten seconds on two cores" if seconds == 10 else f"# {seconds:g} seconds on two cores",
        "",
        f"Made by `{command}`.",
        f"One instance each of a standard test set, {seconds:g} seconds for every solver, on {about['machine']}.",
        f"Load average when it began: {about['load']}.",
        "",
        "![gap against time](anytime.png)",
        "",
        "Gap to the best known cost in %, after so many seconds of solving (imports and loading a model are left out",
        "for all). The learned solver is watched while it works; the others are run anew for every point, LKH with",
        "growing numbers of runs, since it cannot be stopped. An asterisk: proven optimal by then. A dash: no answer",
        "yet, or the solver does not do such problems.",
        "",
    ]
    for name, solvers in found.items():
        lines += [f"## {name}", "", about[name], ""]
        lines += ["| solver | " + " | ".join(f"{mark:g} s" for mark in marks) + " |", "|---" * (len(marks) + 1) + "|"]
        for solver, points in solvers.items():
            cells = []
            for mark in marks:
                # a run that was given the limit may end a little after it
                by_then = [point for point in points if point.seconds <= 1.1 * mark + 0.05]
                best = min((point.gap for point in by_then), default=None)
                proven = any(point.proven for point in by_then)
                cells.append("–" if best is None else f"{best:.2f}{'*' if proven else ''}")
            lines.append(f"| {solver} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def machine() -> str:
    """Return the processor's name and how many cores were used."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return f"{CORES} cores of a machine with {os.cpu_count()} ({names[0] if names else 'unknown processor'})"


def main() -> None:
    """Run everyone on every instance, and write the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", metavar="SET:INDEX", help="instances; default one of each problem")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--samples", type=int, default=DEFAULT_SAMPLES)
    parser.add_argument("--model", help="for the learned solver; default the shipped one that fits best")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    torch.set_num_threads(CORES)
    chosen = options.set or ["atsp-50:0", "pmsp-50x5:0"]
    about = {"machine": machine(), "load": f"{os.getloadavg()[0]:.1f}"}
    found: dict[str, dict[str, list[Point]]] = {}
    for instance in map(instance_of, chosen):
        points, model = watched(instance, options.seconds, options.samples, options.model)
        rivals = [name for name in ("cpsat", "lkh", "pyvrp") if make_solver(name).supports(instance.problem)]
        found[instance.name] = {"icdc": points, **{name: repeated(name, instance, options.seconds) for name in rivals}}
        known = "proven optimal" if instance.proven else "the best known"
        about[instance.name] = (
            f"Model `{model}`, {options.samples} samples; the reference, {known}, costs {instance.reference:.10g}."
        )
        print(
            instance.name,
            {name: f"{points[-1].gap:.2f} %" for name, points in found[instance.name].items()},
            flush=True,
        )
    options.out.mkdir(parents=True, exist_ok=True)
    draw(found, options.seconds, options.out / "anytime.png")
    given = "".join(f" --set {name}" for name in options.set or [])
    command = f"python benchmarks/anytime.py{given} --seconds {options.seconds:g}"
    (options.out / "anytime.md").write_text(document(found, about, options.seconds, command))


if __name__ == "__main__":
    main()
