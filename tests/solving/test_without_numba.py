"""The default solver on a machine without numba: everything runs, and the classical part does not dominate."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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


COUNTED = """
import sys
if sys.argv[1] == "warm":  # compiled functions and torch are there before the command begins
    import numpy, torch, icdc
    rng = numpy.random.default_rng(9)
    icdc.solve(rng.integers(1, 99, (12, 12)), problem="atsp", seed=5)
    icdc.solve(rng.integers(1, 99, (12, 4)), problem="pmsp", seed=5)
if sys.argv[1] == "without":
    import icdc.search.compiled as compiled
    compiled.available = lambda: False
from icdc.cli import run
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize(("problem", "shape"), [("atsp", (40, 40)), ("pmsp", (24, 5))])
def test_without_a_limit_an_answer_does_not_depend_on_what_is_loaded(
    problem: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    """Counted instead of timed: a cold start, a warm one and one without numba end alike."""
    file = tmp_path / "instance.csv"
    np.savetxt(file, np.random.default_rng(3).integers(1, 1000, shape), fmt="%d", delimiter=",")
    options = ["solve", str(file), "--problem", problem, "--no-labels", "--json", "--seed", "4", "--samples", "2"]
    answers = []
    for state in ("cold", "warm", "without"):
        command = [sys.executable, "-c", COUNTED, state, *options]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        answers.append(json.loads(ran.stdout))
    for name in ("solution", "objective", "bound", "found_by"):
        assert [answer[name] for answer in answers] == [answers[0][name]] * 3


def test_limits_are_kept_and_answers_are_good(tmp_path: Path) -> None:
    answer = solve(distances_of("noisy-plane", 150, 0), tmp_path, "--time-limit", "2")
    assert answer["feasible"]
    assert float(str(answer["seconds"])) < 3.5
    assert answer["found_by"] in ("search", "exact", "construction")


def test_without_a_limit_it_ends_soon_and_repeats_itself(tmp_path: Path) -> None:
    found = [solve(distances_of("noisy-plane", 60, 0), tmp_path, "--solver", "search:seconds=none") for _ in range(2)]
    assert found[0]["solution"] == found[1]["solution"]
