"""Choose how a model solves instances of all families, size by size, and write it into its card.

    python -m experiments.cards.choose atsp pmsp --sizes 100,200,100x20 --samples 8 --count 2 [--device cuda]

Every way of `WAYS` solves the same instances, as many of every family, of a seed that no test set has: the model alone,
the model alone with its decodes merged, and with search inside its chain. A way is judged by how far its costs are
above the best that any way reached, family by family, and the least on average over all of them is advised. What was
measured is in the store and is not measured again: stopped, the same command goes on.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.tables.rows import options_as_text
from icdc.evaluation.evaluate import OutcomeFile, evaluate
from icdc.io.datasets import Dataset
from icdc.models.catalogue import card_of, models_folder, path_of, write_index
from icdc.models.diffusion import Model, load
from icdc.models.file import digest_of, pick_device, write_card
from icdc.problems.base import Problem, Size
from icdc.problems.families import sample_family
from icdc.solvers import make_solver

Way = dict[str, Any]
SEED = 20261201
"""Of the instances: neither of training nor of a test set."""
TO_A_LOCAL_OPTIMUM = 1000
"""Changes that local search may make to a solution: more than there are to make at the sizes measured here."""
STEPS = 20
KINDS = ALONE, MERGED, SEARCHED = "alone", "merged", "with search"
MOST_EXCESS = 2.0
"""By how many % a way may be behind in a family before it does not matter how many more: where makespans are single
digits, one unit of a few instances would outvote all other families."""
WAYS: dict[str, dict[str, list[Way]]] = {
    "tour": {
        ALONE: [
            {"reverse": "fresh", "temperature": 0.3, "decodes": 32},
            {"reverse": "fresh", "temperature": 1.0, "decodes": 32},
            {"reverse": "best", "temperature": 0.3, "decodes": 32},
            {"reverse": "best", "temperature": 0.3, "decodes": 128},
            {"reverse": "best", "temperature": 0.5, "decodes": 128},
            {"reverse": "best", "temperature": 0.7, "decodes": 128},
        ],
        # what merging leaves is the best of its trajectory, so that "fresh" noises just that
        MERGED: [
            {"reverse": "fresh", "temperature": temperature, "decodes": decodes, "merge": decodes}
            for temperature, decodes in ((0.5, 128), (0.5, 512), (0.8, 512))
        ],
        SEARCHED: [
            {"begin": "noise", "reverse": "best", "temperature": 0.5, "decodes": 32},
            {"begin": "noise", "reverse": "fresh", "temperature": 0.5, "decodes": 32, "merge": 64},
            {"begin": "noise", "reverse": "fresh", "temperature": 0.7, "decodes": 64, "merge": 64},
        ],
    },
    "makespan": {
        ALONE: [
            {"order": order, "temperature": temperature, "decodes": 512, **more}
            for order, temperature, more in (
                ("rule", 0.7, {"reverse": "fresh"}),
                ("rule", 1.0, {"reverse": "fresh"}),
                ("rule", 1.0, {"reverse": "independent", "reverse_temperature": 10.0}),
                ("rule", 1.5, {"reverse": "independent", "reverse_temperature": 30.0}),
                ("loads", 0.7, {"reverse": "fresh"}),
                ("loads", 1.5, {"reverse": "fresh"}),
            )
        ],
        MERGED: [
            {"reverse": "fresh", "order": order, "temperature": temperature, "decodes": 512, "merge": 512}
            for order, temperature in (("mixed", 0.7), ("rule", 0.7), ("rule", 1.0), ("loads", 0.7))
        ],
        SEARCHED: [
            {"begin": begin, "reverse": "fresh", "order": order, "temperature": temperature, "decodes": decodes, **more}
            for begin, order, temperature, decodes, more in (
                # where all of these solve everything: 64 decodes are all improved, the best 64 of 512 are much alike
                ("starts", "rule", 1.5, 64, {}),
                ("noise", "rule", 0.7, 512, {}),
                ("noise", "rule", 0.7, 512, {"merge": 64}),
                ("noise", "mixed", 0.7, 512, {"merge": 64}),
                ("noise", "rule", 1.0, 64, {"merge": 64}),
                ("noise", "rule", 2.0, 64, {"merge": 64}),
                # states that hold next to nothing of the last solution: every pass begins elsewhere
                ("noise", "rule", 1.0, 64, {"reverse": "independent", "reverse_temperature": 10.0}),
            )
        ],
    },
}
"""What there is to choose from, by the structure of the problem; of equals the first is chosen."""


class Cell(NamedTuple):
    """A family and a size of a problem, with the instances that stand for them."""

    family: str
    size: Size
    dataset: Dataset


def sizes_of(text: str, problem: Problem) -> list[Size]:
    """Return the sizes in a text such as "20,50" or "20x4,50x5" that a problem may have; others are not for it."""
    sizes = [tuple(map(int, part.split("x"))) for part in text.split(",") if part]
    return [size for size in sizes if len(size) == len(problem.size_names)]


def cells_of(problem: Problem, size: Size, count: int, seed: int = SEED) -> list[Cell]:
    """Return the cells of all families at a size, with so many instances each."""
    cells = []
    for family in problem.families:
        arrays = sample_family(problem, family, count, size, np.random.default_rng([seed, *size]))
        name = f"{problem.name}-{family}-{'x'.join(map(str, size))}"
        cells.append(Cell(family, size, Dataset(problem, arrays, name=name)))
    return cells


def mean_excess(costs: Sequence[np.ndarray]) -> list[float]:
    """Return by how many % the costs (instances,) of every way are above the best of all ways, on average.

    A way that left an instance without an answer is infinitely bad.
    """
    best = np.min(costs, axis=0)
    return [100.0 * float(np.mean(one / best) - 1) for one in costs]


def best_way(ways: Sequence[Way], by_family: Sequence[Sequence[float]]) -> Way:
    """Return the way whose mean over families is least, none counting more than `MOST_EXCESS`; of equals the first."""
    excess = np.array(by_family)
    means = np.where(np.isinf(excess), excess, np.minimum(excess, MOST_EXCESS)).mean(0)
    return ways[int(means.argmin())]


def with_advice(card: Mapping[str, Any], size: Size, kind: str, way: Way) -> dict[str, Any]:
    """Return a card that advises a way for a size, in place of what it advised there of this kind."""
    entry = {"size": list(size), **({"with_search": True} if kind == SEARCHED else {}), "options": way}
    others = [old for old in card.get("solving", []) if old.get("size")]
    others = [old for old in others if tuple(old["size"]) != size or _kind(old) != kind]
    entries = sorted([*others, entry], key=lambda one: (one["size"], KINDS.index(_kind(one))))
    return {**card, "solving": entries}


def _kind(entry: Mapping[str, Any]) -> str:
    return SEARCHED if entry.get("with_search") else MERGED if entry["options"].get("merge") else ALONE


def save_card(path: Path, card: Mapping[str, Any]) -> None:
    """Write the card of a model, and the index where it is one that ships."""
    write_card(path, dict(card))
    if path.parent == models_folder():
        write_index()


def measure(
    model: Model, digest: str, cells: Iterable[Cell], kind: str, samples: int, store: OutcomeFile
) -> list[list[float]]:
    """Return, family by family, how far each way is above the best of all."""
    by_family = []
    for cell in cells:
        costs = []
        for way in WAYS[str(model.problem.structure)][kind]:
            more = {"improve_rounds": TO_A_LOCAL_OPTIMUM} if kind == SEARCHED else {}
            solver = make_solver(
                "network", model=model, device=model.device.type, **{"steps": STEPS, "merge": 0, **way, **more}
            )
            label = f"{kind}, {options_as_text(way)} of {digest}"
            outcomes = evaluate(
                cell.dataset, solver, label, samples=samples, chunk=len(cell.dataset), store=store, warm_up=False
            )
            costs.append(np.array([math.inf if one.cost is None else one.cost for one in outcomes]))
        by_family.append(mean_excess(costs))
        excess = [round(value, 3) for value in by_family[-1]]
        print(json.dumps({"cell": cell.dataset.name, "kind": kind, "excess": excess}), flush=True)
    return by_family


def parser_of(text: str | None, store: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all commands share which measure models."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="shipped models or model files")
    parser.add_argument("--sizes", required=True, help="with commas, such as 100,200,100x20; those that suit a model")
    parser.add_argument("--count", type=int, default=4, help="instances of each family and size")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--store", type=Path, default=Path("runs") / store, help="what was measured so far")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all sizes of all models in turn, and write what is best into their cards."""
    parser = parser_of(__doc__, "ways.jsonl")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="what to choose for")
    parser.add_argument("--samples", type=int, default=8)
    options = parser.parse_args(arguments)
    with closing(OutcomeFile(options.store)) as store:
        for name in options.models:
            path, model = path_of(name), load(name, pick_device(options.device).type)
            problem = model.problem
            for size, kind in product(sizes_of(options.sizes, problem), options.kinds):
                cells = cells_of(problem, size, options.count)
                by_family = measure(model, digest_of(path), cells, kind, options.samples, store)
                way = best_way(WAYS[str(problem.structure)][kind], by_family)
                print(json.dumps({"model": name, "size": size, "kind": kind, "way": way}), flush=True)
                save_card(path, with_advice(card_of(name), size, kind, way))
    return 0


if __name__ == "__main__":
    sys.exit(main())
