"""How far the classical search for tours is above the best known, family by family, one core, one instance at a time.

    python -m benchmarks.tour_gaps --seconds 1 --instances 5 --references best.json tmat:100 roads:170

Best known lengths are kept in a file, and lowered there whenever a run finds a shorter tour: run it with a long limit
first. `--cpu-time` measures limits by the time of this process alone, for machines that others use, too.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.tour_families import family
from icdc.search.tour_search import search


def main() -> None:
    """Measure the families named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="+", help="name:size")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the search")
    parser.add_argument("--references", type=Path, default=Path("best.json"))
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    if options.cpu_time:
        time.perf_counter = time.process_time
    search(family("noisy_plane", 30, 0), 0.3, 1)  # compile
    search(family("tmat", 30, 0), 0.3, 1)
    for wanted in options.families:
        name, size = wanted.split(":")
        gaps, below, spent, proofs = [], [], [], 0
        for index in range(options.instances):
            distances = family(name, int(size), index)
            begin = time.perf_counter()
            found = search(distances, options.seconds, options.seed)
            spent.append(time.perf_counter() - begin)
            assert found is not None  # nothing is forbidden in these families
            cost = int(distances[np.arange(len(distances)), found.successor].sum())
            gaps.append(100 * (cost / _reference(options.references, f"{wanted}:{index}", cost) - 1))
            below.append(100 * (cost / found.bound - 1))
            proofs += found.proven
        print(
            f"{wanted:20} {np.mean(gaps):.4f} % over best known (most {max(gaps):.3f}), {np.mean(below):.3f} % over its"
            f" bound, {proofs} of {len(gaps)} proven, {np.mean(spent):.2f} s (most {max(spent):.2f})",
            flush=True,
        )


def _reference(file: Path, key: str, cost: int) -> int:
    """Return the best known length, lowered to `cost` in the file if that is less."""
    known: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    if cost < known.get(key, cost + 1):
        file.write_text(json.dumps(known | {key: cost}, indent=0))
    return min(cost, known.get(key, cost))


if __name__ == "__main__":
    main()
