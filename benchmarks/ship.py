"""Choose how a model solves on validation sets, measure it on standard test sets, and write both into its card.

    python benchmarks/ship.py runs/atsp-20/model.safetensors --name atsp-20 \
        --pair validation/atsp-20.npz=atsp-20 --out src/icdc/models

For every pair VALIDATION=STANDARD and every number of samples the setting with the smallest gap on the validation
set is measured on the standard set: the best solution decoded along each trajectory (the chain), the last sample
alone as the paper counts, and refinement that at most doubles the time of the most samples.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from icdc.data.dataset import Dataset, read_dataset
from icdc.data.standard import STANDARD_SETS, standard_set
from icdc.evaluation import evaluate, summarise
from icdc.files import write_atomically
from icdc.model import Model, load
from icdc.problems import problem_path
from icdc.solving import DiffusionSolver

WAYS: list[dict[str, Any]] = [
    {"reverse": "fresh", "temperature": 0.7},
    {"reverse": "fresh", "temperature": 1.0},
    {"reverse": "fresh", "temperature": 1.5},
    {"reverse": "independent", "temperature": 1.5},
    {"reverse": "independent", "temperature": 2.0},
    {"reverse": "independent", "temperature": 1.0, "reverse_temperature": 10.0},
    {"reverse": "independent", "temperature": 1.5, "reverse_temperature": 5.0},
    {"reverse": "independent", "temperature": 1.5, "reverse_temperature": 30.0},
    {"reverse": "independent", "temperature": 2.0, "reverse_temperature": 30.0},
]
"""Reverse processes and temperatures to choose from."""
LAST_SAMPLE: dict[str, Any] = {
    "decodes": 1,
    "order": "rule",
    "temperature": 1.0,
    "reverse": "independent",
    "keep": "last",
    "steps": 20,
}


def candidates(kinds: list[str], decodes: list[int]) -> list[dict[str, Any]]:
    """Return the settings to choose from: ways of these kinds, each with so many solutions decoded from a pass."""
    return [
        {**way, "order": "rule", "decodes": number, "steps": 20}
        for way in WAYS
        for number in decodes
        if way["reverse"] in kinds
    ]


def tuned(model: Model, dataset: Dataset, samples: int, device: str, among: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the candidate with the smallest mean cost on a validation set."""
    costs = []
    for candidate in among:
        solver = DiffusionSolver(model, device=device, **candidate)
        costs.append(float(solver.solve(dataset.problem, dataset.arrays, samples=samples, seed=1).cost.mean()))
        print(json.dumps({"tuning": dataset.name, "samples": samples, **candidate, "cost": costs[-1]}), flush=True)
    return among[int(np.argmin(costs))]


def measured(
    model: Model, dataset: Dataset, way: str, samples: int, device: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Return one row of results on a standard set; `icdc reproduce --cards` reads them."""
    solver = DiffusionSolver(model, device=device, **options)
    summary = summarise(evaluate(dataset, solver, f"icdc:{options}", samples=samples, chunk=1000))
    kept = ("gap", "gap_low", "gap_high", "symmetric_gap", "optimal", "cost", "feasible", "below", "seconds", "device")
    values = {k: (round(v, 4) if isinstance(v, float) else v) for k, v in summary.as_dict().items() if k in kept}
    about = {"set": dataset.name, "instances": len(dataset), "way": way, "samples": samples}
    return {**about, **values, "options": options}


def main() -> None:
    """Tune, measure, and save the model with its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--name", required=True)
    parser.add_argument("--pair", action="append", required=True, metavar="VALIDATION=STANDARD")
    parser.add_argument("--samples", default="1,8,32,128")
    parser.add_argument("--tune-count", type=int, default=256)
    parser.add_argument("--test-count", type=int, default=1000)
    parser.add_argument("--tune-most", type=int, default=32, help="more samples use the setting chosen at this many")
    parser.add_argument("--decodes", default="32", help="numbers of solutions decoded from a pass to choose from")
    parser.add_argument("--reverse", default="fresh,independent", help="kinds of reverse processes to choose from")
    parser.add_argument("--refine", type=int, default=6, help="rounds of refinement; 0 leaves them out")
    parser.add_argument("--no-last", dest="last", action="store_false", help="leave out the last sample alone")
    parser.add_argument("--append", action="store_true", help="keep the results the card has; replace the same rows")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--card", action="store_true", help="write only the card, as JSON: for a model that does not ship"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    model = load(options.model, options.device)
    counts = [int(text) for text in options.samples.split(",")]
    among = candidates(options.reverse.split(","), [int(text) for text in options.decodes.split(",")])
    rows: list[dict[str, Any]] = model.card.get("results", []) if options.append else []

    def add(row: dict[str, Any]) -> None:
        same = ("set", "way", "samples")
        rows[:] = [old for old in rows if any(old[key] != row[key] for key in same)] + [row]
        print(json.dumps(row), flush=True)
        model.card["results"] = rows
        write()

    def write() -> None:
        if options.card:
            card = {"problem": problem_path(model.problem), "kind": model.kind, **model.card}
            write_atomically(
                options.out / f"{options.name}.json", (json.dumps(card, indent=1) + "\n").encode(), make_folder=True
            )
        else:
            model.save(options.out / f"{options.name}.safetensors")

    for pair in options.pair:
        validation_name, _, standard_name = pair.partition("=")
        validation = read_dataset(validation_name).first(options.tune_count)
        test = standard_set(standard_name).first(options.test_count)
        best: dict[str, Any] = {}
        for samples in counts:
            if samples <= options.tune_most:
                best = tuned(model, validation, samples, options.device, among)
            add(measured(model, test, "chain", samples, options.device, best))
        for samples in counts if options.last else ():
            add(measured(model, test, "last sample", samples, options.device, LAST_SAMPLE))
        if options.refine:
            refined = {**best, "refine": options.refine}
            add(measured(model, test, "refined", counts[-1], options.device, refined))
    model.card["solving"] = advice(rows)
    write()


def advice(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, for every size and number of samples, the options it was measured with: what to do when not told.

    All but the number of steps: how long to take over a large instance is for whoever waits to decide.
    """
    return [
        {
            "size": list(STANDARD_SETS[row["set"]].size),
            "samples": row["samples"],
            "options": {name: value for name, value in row["options"].items() if name != "steps"},
        }
        for row in rows
        if row["way"] == "chain"
    ]


if __name__ == "__main__":
    main()
