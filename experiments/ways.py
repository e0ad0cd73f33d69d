"""Choose how a model solves instances of all families, size by size, and write it into its card.

Alone, alone with its decodes merged, and with search inside the chain:

    python -m experiments.ways atsp pmsp --samples 8 --count 2 --minutes 20 [--sizes 100,200,100x20] [--device cuda]

Every way of `WAYS` solves the same instances, as many of every family, of a seed that no test set has. A way is judged
by how far its costs are above the best that any way found, family by family, and the least on average over all of them
is advised, a family that one way is far behind in being just that. `experiments.card` does the same on many instances
of the paper's own draw, at its sizes; this is for sizes at which people bring others. What was measured is in the store
and is not measured again: stopped, the same command goes on.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.card import settings_of
from experiments.cards import Cell, cells_of, sizes_of
from experiments.tables.rows import options_as_text
from icdc.evaluation.evaluate import OutcomeFile, evaluate
from icdc.models.catalogue import card_of, models_folder, path_of, write_index
from icdc.models.diffusion import Model, load
from icdc.models.file import digest_of, pick_device, write_card
from icdc.problems import get_problem
from icdc.problems.base import Size
from icdc.solvers import make_solver

Way = dict[str, Any]
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
                # states that know next to nothing of the last solution: every pass begins elsewhere
                ("noise", "rule", 1.0, 64, {"reverse": "independent", "reverse_temperature": 10.0}),
            )
        ],
    },
}
"""What there is to choose from, by the structure of the problem; of equals the first is chosen."""
SIZES: dict[str, tuple[Size, ...]] = {
    "atsp": ((100,), (200,)),
    "navigation": ((50,),),
    "pmsp": ((100, 10), (100, 20), (200, 10), (200, 20), (200, 50)),
}


def mean_excess(costs: Sequence[np.ndarray]) -> list[float]:
    """Return by how many % the costs (instances,) of every way are above the best of all ways, on average.

    A way that left an instance without an answer is infinitely bad.
    """
    best = np.min(costs, axis=0)
    return [100.0 * float(np.mean(one / best) - 1) for one in costs]


def chosen(ways: Sequence[Way], by_family: Sequence[Sequence[float]]) -> Way:
    """Return the way whose mean over families is least, none counting more than `MOST_EXCESS`; of equals the first."""
    excess = np.array(by_family)
    means = np.where(np.isinf(excess), excess, np.minimum(excess, MOST_EXCESS)).mean(0)
    return ways[int(means.argmin())]


def with_advice(card: Mapping[str, Any], size: Size, kind: str, way: Way) -> dict[str, Any]:
    """Return a card that advises a way for a size, in place of what it advised there before to the same people.

    Advice with merging replaces only advice with merging. Advice without it replaces only its like for the model alone;
    with search it replaces both, since merging was among the ways and lost.
    """
    searched, merges = kind == SEARCHED, bool(way.get("merge"))
    entry: dict[str, Any] = {"size": list(size), "samples": 1, "options": way}
    if searched:
        entry["with_search"] = True

    def goes(old: Mapping[str, Any]) -> bool:
        same_kind = old.get("size") == list(size) and bool(old.get("with_search")) == searched
        return same_kind and (bool(old["options"].get("merge")) == merges or (searched and not merges))

    others = [old for old in card.get("solving", []) if not goes(old)]
    return {**card, "solving": [*others, entry]}


def measure(
    model: Model, digest: str, cells: Iterable[Cell], kind: str, samples: int, store: OutcomeFile, until: float
) -> list[list[float]] | None:
    """Return, family by family, how far each way is above the best of all; None where the time is over before."""
    structure = model.problem.structure
    assert structure is not None
    found = []
    for cell in cells:
        costs = []
        for way in WAYS[structure][kind]:
            if time.monotonic() > until:
                return None
            more = {"improve_rounds": TO_A_LOCAL_OPTIMUM} if kind == SEARCHED else {}
            options = {"steps": STEPS, "merge": 0, **way, **more}
            solver = make_solver("network", model=model, device=model.device.type, **options)
            label = f"{kind}, {options_as_text(way)} of {digest}"
            made = evaluate(
                cell.dataset, solver, label, samples=samples, chunk=len(cell.dataset), store=store, warm_up=False
            )
            costs.append(np.array([math.inf if one.cost is None else one.cost for one in made]))
        found.append(mean_excess(costs))
        excess = [round(value, 3) for value in found[-1]]
        print(json.dumps({"cell": cell.dataset.name, "kind": kind, "excess": excess}), flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all sizes of all models, small ones first, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="shipped models or model files")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--count", type=int, default=2, help="instances of each family and size")
    parser.add_argument("--sizes", default="", help="with commas, such as 100,200 or 100x20; by default what suits")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what to choose for")
    parser.add_argument("--minutes", type=float, default=1e6, help="nothing is begun after so many")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--store", type=Path, default=Path("runs/ways.jsonl"), help="what was measured so far")
    asked = parser.parse_args(arguments)
    if unknown := [kind for kind in asked.kinds.split(",") if kind not in KINDS]:
        parser.error(f"unknown kind '{unknown[0]}'; choose {', '.join(KINDS)}")
    until, device = time.monotonic() + 60.0 * asked.minutes, pick_device(asked.device).type
    store = OutcomeFile(asked.store)
    try:
        for name in asked.models:
            path, model = path_of(name), load(name, device)
            problem = get_problem(model.problem.name)
            wanted = sizes_of(asked.sizes, problem) or SIZES.get(problem.name, ())
            for size in wanted:
                for kind in asked.kinds.split(","):
                    cells = cells_of(problem, [size], asked.count)
                    found = measure(model, digest_of(path), cells, kind, asked.samples, store, until)
                    if found is not None:
                        assert problem.structure is not None
                        way = chosen(WAYS[problem.structure][kind], found)
                        print(json.dumps({"model": name, "size": size, "kind": kind, "way": way}), flush=True)
                        card = with_advice(card_of(name), size, kind, way)
                        write_card(path, {**card, "solving": settings_of(card)})
            if path.parent == models_folder():
                write_index()
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
