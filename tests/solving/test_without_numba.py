"""The default solver on a machine without numba: everything runs, and the classical part does not dominate."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.families import distances_of

WITHOUT = """
import sys, time
import icdc.search.compiled as compiled
compiled.available = lambda: False
from icdc.cli import run
code = run(sys.argv[1:])
sys.exit(code or ("numba" in sys.modules))
"""


def solve(matrix: np.ndarray, folder: Path, *options: str) -> dict[str, object]:
    file = folder / "instance.csv"
    np.savetxt(file, matrix, fmt="%d", delimiter=",")
    command = [sys.executable, "-c", WITHOUT, "solve", str(file), "--problem", "atsp", "--json", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, object] = json.loads(ran.stdout)
    return answer


def test_limits_are_kept_and_answers_are_good(tmp_path: Path) -> None:
    answer = solve(distances_of("noisy-plane", 150, 0), tmp_path, "--time-limit", "2")
    assert answer["feasible"]
    assert float(str(answer["seconds"])) < 3.5
    assert answer["found_by"] in ("search", "exact", "construction")


def test_without_a_limit_it_ends_soon_and_repeats_itself(tmp_path: Path) -> None:
    found = [solve(distances_of("noisy-plane", 60, 0), tmp_path, "--solver", "search:seconds=none") for _ in range(2)]
    assert found[0]["solution"] == found[1]["solution"]
