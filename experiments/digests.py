"""Do the shipped models still answer as they did? A digest of what they answer on the standard sets.

    python -m experiments.digests [--instances N] [--samples K] [--device cpu|cuda] [--against FILE]

Every set is solved by the learned solver as it comes, with the model it chooses; the digest is that of all solutions
and costs. It is the same wherever the same code meets the same kind of processor: `--against` compares with the lines
that an earlier run printed, and exits with 1 where one differs. experiments/digests.jsonl has those of an x86-64 server
and of an NVIDIA H200, equal before and after the package was redesigned.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from icdc import __version__
from icdc.io.datasets import STANDARD_SETS, standard_set
from icdc.solving.network import DiffusionSolver


def digest(name: str, instances: int, samples: int, device: str) -> dict[str, object]:
    """Solve the first instances of a set and return the digest with what it belongs to."""
    dataset = standard_set(name).first(instances)
    results = DiffusionSolver(device=device).solve(dataset.problem, dataset.arrays, samples=samples)
    sums = hashlib.sha256(np.ascontiguousarray(results.choice, dtype=np.int64).tobytes())
    sums.update(np.ascontiguousarray(results.cost, dtype=np.float64).tobytes())
    return {
        "set": name,
        "instances": len(dataset),
        "samples": samples,
        "device": device,
        "mean_cost": float(results.cost.mean()),
        "digest": sums.hexdigest()[:16],
    }


def main() -> int:
    """Print the digests; compare them if options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--against", type=Path, help="lines that an earlier run printed")
    # those that every version of the package has
    usual = [name for name, spec in STANDARD_SETS.items() if spec.count >= 100]
    parser.add_argument("--sets", nargs="*", default=usual)
    options = parser.parse_args()
    before = {}
    if options.against is not None:
        lines = [json.loads(line) for line in options.against.read_text().splitlines()]
        before = {(line["set"], line["instances"], line["samples"], line["device"]): line for line in lines}
    differs = 0
    for name in options.sets:
        line = digest(name, options.instances, options.samples, options.device)
        print(json.dumps(line), flush=True)
        old = before.get((line["set"], line["instances"], line["samples"], line["device"]))
        if old is not None and old["digest"] != line["digest"]:
            differs += 1
            print(f"{name}: differs; mean cost {old['mean_cost']} before", file=sys.stderr)
    print(f"icdc {__version__}: {differs} of {len(options.sets)} differ", file=sys.stderr)
    return int(differs > 0)


if __name__ == "__main__":
    sys.exit(main())
