"""Make the example instances again, always the same: `python examples/make_instances.py [FOLDER]`."""

import sys
from pathlib import Path

import numpy as np

from icdc import Atsp, Pmsp
from icdc.io import write_atomically
from icdc.io.tsplib import format_tsplib


def main(folder: Path) -> None:
    """Write a tour through 20 cities and a shop of 20 jobs on 4 machines."""
    distances = Atsp().sample(1, (20,), np.random.default_rng(20))["distances"][0]
    write_atomically(folder / "atsp20.atsp", format_tsplib(distances, "atsp20"))
    durations = Pmsp().sample(1, (20, 4), np.random.default_rng(204))["durations"][0]
    lines = ["job,saw,drill,mill,lathe"]
    lines += [f"J{job:02}," + ",".join(map(str, times)) for job, times in enumerate(durations.tolist(), 1)]
    write_atomically(folder / "pmsp20x4.csv", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
