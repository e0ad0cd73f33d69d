"""The default solver, counted instead of timed, whatever is loaded and compiled before it begins."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

COUNTED = """
import sys
if sys.argv[1] == "warm":  # compiled functions and torch are there before the command begins
    import numpy, torch, icdc
    rng = numpy.random.default_rng(9)
    icdc.solve(rng.integers(1, 99, (12, 12)), problem="atsp", seed=5)
    icdc.solve(rng.integers(1, 99, (12, 4)), problem="pmsp", seed=5)
from icdc.cli import run
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize(("problem", "shape"), [("atsp", (40, 40)), ("pmsp", (24, 5))])
def test_without_a_limit_an_answer_does_not_depend_on_what_is_loaded(
    problem: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    """Counted instead of timed: a cold start and a warm one end alike."""
    file = tmp_path / "instance.csv"
    np.savetxt(file, np.random.default_rng(3).integers(1, 1000, shape), fmt="%d", delimiter=",")
    options = ["solve", str(file), "--problem", problem, "--no-labels", "--json", "--seed", "4", "--samples", "2"]
    answers = []
    for state in ("cold", "warm"):
        command = [sys.executable, "-c", COUNTED, state, *options]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        answers.append(json.loads(ran.stdout))
    for name in ("solution", "objective", "bound", "found_by"):
        assert [answer[name] for answer in answers] == [answers[0][name]] * 2
