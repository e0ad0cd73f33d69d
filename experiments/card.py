"""Choose how a model solves on validation sets, measure it on standard test sets, and write both into its card.

    python -m experiments.card runs/atsp-20/model.safetensors --name atsp-20 \
        --pair validation/atsp-20.npz=atsp-20 --out src/icdc/models/weights

For every pair VALIDATION=STANDARD and every number of samples the setting with the smallest gap on the validation
set is measured on the standard set: the best solution decoded along each trajectory (the chain), the last sample
alone as the paper counts, and refinement that at most doubles the time of the most samples.
"""

import argparse
import json
import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from experiments.tables.rows import ANSWERS, options_as_text, options_of
from icdc.evaluation.evaluate import Summary, evaluate, summarise
from icdc.io.datasets import STANDARD_SETS, Dataset, read_dataset, standard_set
from icdc.models.card import advised
from icdc.models.diffusion import Model, load
from icdc.solvers import make_solver

WAYS: list[dict[str, Any]] = [
    {"reverse": "fresh", "temperature": 0.3},
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
KEPT = ("gap", "gap_low", "gap_high", "symmetric_gap", "optimal", "cost", "feasible", "below", "seconds", "device")


def solved(model: Model, dataset: Dataset, options: str, samples: int, device: str, seed: int = 0) -> Summary:
    """Return how good a model is on a dataset with these options of the solver."""
    solver = make_solver(f"network:{options}", model=model, device=device)
    return summarise(evaluate(dataset, solver, "network", samples=samples, seed=seed, chunk=1000))


def costs_of(model: Model, dataset: Dataset, samples: int, device: str, among: list[dict[str, Any]]) -> list[float]:
    """Return the mean cost of every candidate on a validation set, infinite where one failed; all are printed."""
    costs = []
    for candidate in among:
        found = solved(model, dataset, options_as_text(candidate), samples, device, seed=1)
        about = {"tuning": dataset.name, "samples": samples, **candidate}
        print(json.dumps(about | {key: found.as_dict()[key] for key in KEPT}), flush=True)
        costs.append(math.inf if found.cost is None else found.cost)
    return costs


def chosen(among: list[dict[str, Any]], costs: list[list[float]]) -> dict[str, Any]:
    """Return the candidate with the smallest cost; of equals, the one that was better with fewer samples.

    costs : of every candidate, for ever more samples. Many samples solve all instances of a small validation set with
        nearly any candidate: what fewer samples say then tells them apart.
    """
    return min(zip(among, zip(*costs, strict=True), strict=True), key=lambda pair: pair[1][::-1])[0]


def _options(text: str) -> dict[str, Any]:
    """Return options as the card has them: numbers as numbers."""
    return {name: value if value.isalpha() else json.loads(value) for name, value in options_of(text).items()}


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


def with_advice(card: dict[str, Any], rows: list[dict[str, Any]], measured: list[list[int]]) -> list[dict[str, Any]]:
    """Return what a card advises from now on: what follows from the rows of sizes that were `measured` now.

    Other sizes, and search inside the chain, keep the advice they had.
    """
    others = [
        entry for entry in card.get("solving", []) if entry.get("with_search") or entry.get("size") not in measured
    ]
    return [*(entry for entry in advice(rows) if entry["size"] in measured), *others]


SAMPLES = 32
"""How many samples `icdc solve --solver network` makes unless told otherwise."""


def settings_of(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a card advises, two settings for each size: for the model alone, and for local search inside it.

    Where decodes are merged, a third one is for solving without that, if it differs. Of settings for several numbers of
    samples the one for as many as `icdc solve --solver network` makes is kept.
    """
    sizes = sorted({tuple(entry["size"]) for entry in card.get("solving", []) if entry.get("size")})
    kinds = {bool(entry.get("with_search")) for entry in card.get("solving", [])}
    settings: list[dict[str, Any]] = []
    for size in sizes:
        if False in kinds:
            alone, plain = (advised(card, size, SAMPLES, merging=merging) for merging in (True, False))
            settings.append({"size": list(size), "options": alone})
            if plain != {name: value for name, value in alone.items() if name != "merge"}:
                settings.append({"size": list(size), "options": plain})
        if True in kinds:
            options = advised(card, size, SAMPLES, with_search=True)
            settings.append({"size": list(size), "with_search": True, "options": options})
    return settings


def main() -> None:
    """Tune, measure, and save the model with its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--name", required=True)
    parser.add_argument("--pair", action="append", required=True, metavar="VALIDATION=STANDARD")
    parser.add_argument("--samples", default="1,8,32,128")
    parser.add_argument("--tune-count", type=int, default=256, help="instances of a validation set")
    parser.add_argument("--test-count", type=int, default=1000, help="instances of a standard set; 0: only tune")
    parser.add_argument("--tune-most", type=int, default=32, help="more samples use the setting chosen at this many")
    parser.add_argument("--decodes", default="32", help="numbers of solutions decoded from a pass to choose from")
    parser.add_argument("--reverse", default="fresh,independent", help="kinds of reverse processes to choose from")
    parser.add_argument("--orders", default="rule", help="orders of decisions in decoding to choose from")
    parser.add_argument("--refine", type=int, default=6, help="rounds of refinement; 0 leaves them out")
    parser.add_argument("--append", action="store_true", help="keep the results the card has; replace the same rows")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    model = load(options.model, options.device)
    counts = [int(text) for text in options.samples.split(",")]
    decodes = [int(text) for text in options.decodes.split(",")]
    among = [
        {**way, "order": order, "decodes": number, "steps": 20}
        for way, order, number in product(WAYS, options.orders.split(","), decodes)
        if way["reverse"] in options.reverse.split(",")
    ]
    rows: list[dict[str, Any]] = model.card.get("results", []) if options.append else []

    def add(dataset: Dataset, way: str, samples: int, settings: dict[str, Any]) -> None:
        found = solved(model, dataset, options_as_text(settings), samples, options.device).as_dict()
        values = {k: round(found[k], 4) if isinstance(found[k], float) else found[k] for k in KEPT}
        row = {"set": dataset.name, "instances": len(dataset), "way": way, "samples": samples, **values}
        rows[:] = [old for old in rows if any(old[key] != row[key] for key in ("set", "way", "samples"))]
        rows.append({**row, "options": settings})
        print(json.dumps(rows[-1]), flush=True)
        model.card["results"], model.card["solving"] = rows, with_advice(model.card, rows, measured)
        model.card["solving"] = settings_of(model.card)
        model.save(options.out / f"{options.name}.safetensors")

    measured = [list(STANDARD_SETS[pair.partition("=")[2]].size) for pair in options.pair]
    last = _options(ANSWERS["last"])
    for pair in options.pair:
        validation_name, _, standard_name = pair.partition("=")
        validation = read_dataset(validation_name).first(options.tune_count)
        best: dict[str, Any] = {}
        costs: list[list[float]] = []
        for samples in counts:
            if samples <= options.tune_most:
                costs.append(costs_of(model, validation, samples, options.device, among))
                best = chosen(among, costs)
            if options.test_count:
                test = standard_set(standard_name).first(options.test_count)
                add(test, "chain", samples, best)
                add(test, "last sample", samples, last)
        if options.refine and options.test_count:
            add(test, "refined", counts[-1], {**best, "refine": options.refine})


if __name__ == "__main__":
    main()
