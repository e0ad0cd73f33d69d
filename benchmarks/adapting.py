"""Is it worth to learn the instances at hand before they are answered? Equal seconds with adapting and without.

    python -m benchmarks.adapting --cases jobs,map --count 8 --seconds 60 --share 0.6 [--device cuda] [--page FILE]

Cases are batches of similar instances:

- `jobs`: schedules of 200 jobs on 20 machines with job-correlated times, the first of the standard test set;
- `map`: tours through 40 of the 150 cities of one noisy plane, other cities each.

Every way has the same seconds for the whole batch: `network` and `icdc` without adapting and with it (a share of the
seconds), and `search` alone. Gaps are in %, to the best that any of them or a longer search found of each instance,
with 95 % confidence intervals over instances. Lines are added to docs/results/adapting.csv; what is there is
not run again.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runs import append_rows, read_rows
from experiments.markdown import between_marks, percent, table
from icdc.evaluation.evaluate import gap_interval
from icdc.io.files import write_atomically
from icdc.io.standard import standard_instances
from icdc.problems.contract import Arrays, Problem
from icdc.problems.families import sample_family
from icdc.problems.instance import Instance
from icdc.problems.registry import get_problem
from icdc.solving.adapting import Adapt
from icdc.solving.jobs import Observer
from icdc.solving.path import solve_instances
from icdc.solving.registry import make_solver

ROOT = Path(__file__).parents[1]
JOBS = "pmsp-job-correlated-200x20"
MAP, CITIES, MAP_SEED = 150, 40, 20261202
"""Cities of the map, of each tour, and the seed of both."""
REFERENCE = "reference"
WAYS: dict[str, tuple[str, bool]] = {
    REFERENCE: ("search", False),
    "network": ("network", False),
    "network, adapted": ("network", True),
    "icdc": ("icdc", False),
    "icdc, adapted": ("icdc", True),
    "search": ("search", False),
}
"""The solver of each way, and whether it adapts."""
LONGER = 2.0
"""Times the seconds that the reference has."""
COLUMNS = ("case", "way", "seconds", "adapt", "seed", "device", "instance", "cost", "model", "found_by", "took", "said")


def jobs(count: int) -> tuple[Problem, Arrays]:
    """Return schedules of one kind."""
    return get_problem("pmsp"), {name: array[:count] for name, array in standard_instances(JOBS).items()}


def city_map(count: int) -> tuple[Problem, Arrays]:
    """Return tours through cities of one map."""
    problem, rng = get_problem("atsp"), np.random.default_rng(MAP_SEED)
    (whole,) = sample_family(problem, "noisy-plane", 1, (MAP,), rng)["distances"]
    chosen = [rng.choice(MAP, CITIES, replace=False) for _ in range(count)]
    return problem, {"distances": np.stack([whole[np.ix_(some, some)] for some in chosen])}


CASES = {"jobs": jobs, "map": city_map}


class Listener(Observer):
    """Keeps what came of adapting."""

    said = ""

    def adapted(self, sentence: str) -> None:
        self.said = sentence


def run(case: str, way: str, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Solve the instances of a case in one way; return a line for each."""
    problem, arrays = CASES[case](asked.count)
    spec, adapts = WAYS[way]
    options = {"device": asked.device} if spec != "search" else {}
    seconds = asked.seconds * (LONGER if way == REFERENCE else 1.0)
    instances = [
        Instance(str(number), problem, {name: array[number] for name, array in arrays.items()})
        for number in range(asked.count)
    ]
    heard, began = Listener(), time.perf_counter()
    adapt = Adapt(asked.share * seconds) if adapts else None
    answers = dict(
        solve_instances(
            instances, make_solver(spec, **options), seed=asked.seed, time_limit=seconds, adapt=adapt, observer=heard
        )
    )
    took = round(time.perf_counter() - began, 2)
    about = {"case": case, "way": way, "seconds": seconds, "adapt": 0.0 if adapt is None else adapt.seconds}
    return [
        {
            **about, "seed": asked.seed, "device": asked.device, "instance": number, "cost": answer.objective,
            "model": answer.model or "", "found_by": answer.found_by, "took": took, "said": heard.said,
        }
        for number, answer in sorted(answers.items())
    ]  # fmt: skip


def page(rows: Sequence[dict[str, str]]) -> str:
    """Return the table for people: a line for each case and way."""
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        for case in dict.fromkeys(row["case"] for row in rows):
            here = [row for row in rows if (row["case"], row["device"]) == (case, device)]
            best: dict[str, float] = {}
            for row in here:
                best[row["instance"]] = min(best.get(row["instance"], np.inf), float(row["cost"]))
            for way in WAYS:
                mine = [row for row in here if row["way"] == way]
                if mine and way != REFERENCE:
                    lines.append(_line(case, way, device, mine, best))
    return table(["instances", "solver", "device", "seconds", "gap, %", "runs", "adapted weights used"], lines)


def _line(case: str, way: str, device: str, rows: Sequence[dict[str, str]], best: dict[str, float]) -> list[str]:
    cost = np.array([float(row["cost"]) for row in rows])
    reference = np.array([best[row["instance"]] for row in rows])
    low, high = gap_interval(cost, reference)
    gap = 100.0 * float(cost.mean() / reference.mean() - 1)
    words = f"{percent(gap)} ({percent(low)}–{percent(high)})"
    used = sum(row["said"].startswith("adapted") for row in rows)
    adapted = f"{used} of {len(rows)}" if way.endswith("adapted") else ""
    shares = f"{float(rows[0]['seconds']):g}"
    if float(rows[0]["adapt"]):
        shares += f", {float(rows[0]['adapt']):g} of them adapting"
    return [case, way, device, shares, words, str(len(rows)), adapted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the file lacks, and write the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--count", type=int, default=8, help="instances of a case, 10 jobs cases at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all instances of a case together")
    parser.add_argument("--share", type=float, default=0.6, help="of the seconds, for adapting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "adapting.csv")
    parser.add_argument("--page", type=Path, help="a page with a place for the table, such as docs/finetuning.md")
    asked = parser.parse_args(arguments)
    done = {(row["case"], row["way"], row["seed"], row["device"]) for row in read_rows(asked.out)}
    for case in asked.cases.split(","):
        for way in WAYS:
            if (case, way, str(asked.seed), asked.device) not in done:
                rows = run(case, way, asked)
                append_rows(asked.out, COLUMNS, rows)
                mean = np.mean([float(row["cost"]) for row in rows])
                print(
                    f"{case}, {way}: {mean:g} in {rows[0]['took']:g} s; {rows[0]['said']}", file=sys.stderr, flush=True
                )
    if asked.page is not None:
        text = between_marks(asked.page.read_text(encoding="utf-8"), "adapting", page(read_rows(asked.out)))
        write_atomically(asked.page, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
