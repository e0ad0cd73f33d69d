"""The cross-check sees what is wrong, and sees nothing wrong for some seconds."""

import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.errors import InfeasibleError, UsageError
from tests.cross_check import KINDS, Question, all_solutions, ask_alone, complaints, draw

ROOT = Path(__file__).parents[1]
TOUR = Question("atsp", {"distances": [[0, 1, None], [4, 0, 2], [3, 1, 0]]}, {}, "small")
SHOP = Question("pmsp", {"durations": [[0.5, 2.0], [1.5, 0.25]]}, {"start": [1, 1], "stay": 1.0}, "reals")


def answer(**changes: Any) -> dict[str, Any]:
    return {"feasible": True, "solution": [0, 1, 2], "objective": 6, "bound": 6, **changes}


def test_what_is_right_is_not_complained_of() -> None:
    assert list(complaints(TOUR, all_solutions(TOUR), answer(), "icdc")) == []
    moved = answer(solution=[0, 1], objective=1.5, cost=0.5, bound=None)
    assert list(complaints(SHOP, all_solutions(SHOP), moved, "icdc")) == []
    nothing = Question("atsp", {"distances": [[0, None], [1, 0]]}, {}, "small")
    assert list(complaints(nothing, all_solutions(nothing), InfeasibleError("none"), "icdc")) == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (answer(objective=5, bound=5), "costs 6"),
        (answer(bound=7), "the best is 6, below the bound"),
        (answer(solution=[0, 2, 1]), "no solution"),
        (answer(objective=6.0), "whole numbers with a real cost"),
        (answer(cost=5), "costs 6 without the weight of its changes"),
        (InfeasibleError("none"), "there are 1 solutions"),
        (answer(feasible=False, solution=None), "there are 1 solutions"),
        (UsageError("no"), "refused"),
        (ValueError("no"), "an internal error"),
    ],
)
def test_what_is_wrong_is_complained_of(wrong: Any, complaint: str) -> None:
    assert complaint in list(complaints(TOUR, all_solutions(TOUR), wrong, "icdc"))


def test_a_claim_of_optimality_is_of_the_best() -> None:
    late = answer(solution=[1, 0], objective=2.5, cost=2.0, bound=2.5)
    found = list(complaints(SHOP, all_solutions(SHOP), late, "icdc"))
    assert found == ["the best is 1.5, below the bound", "called optimal, the best is 1.5"]


def test_every_solution_is_listed() -> None:
    """Of plain instances as many as there are, whatever the numbers."""
    rng = np.random.default_rng(0)
    counts = {"atsp": 6, "navigation": 6, "pmsp": None, "setups": 24, "flow-shop": 24}
    for problem, count in counts.items():
        question = draw(problem, rng, 4)
        while question.conditions or any(None in row for row in question.arrays.get("distances", [[]])):
            question = draw(problem, rng, 4)
        if problem == "pmsp":
            machines = [sum(one is not None for one in row) for row in question.arrays["durations"]]
            count = int(np.prod(machines))
        if problem == "setups" and any(None in row for row in question.arrays["setups"]):
            continue
        assert len(all_solutions(question)) == count


def test_a_flow_shop_by_its_definition() -> None:
    """No job waits: trying beginnings one unit later until every machine is free when the job arrives."""
    rng = np.random.default_rng(1)
    times = rng.integers(0, 5, (4, 3)).tolist()
    solutions = all_solutions(Question("flow-shop", {"durations": times}, {}, "small"))
    for order in permutations(range(4)):
        free, begin = [0, 0, 0], 0
        for job in order:
            while any(begin + sum(times[job][:m]) < free[m] for m in range(3)):
                begin += 1
            free = [begin + sum(times[job][: m + 1]) for m in range(3)]
        assert solutions[order].cost == free[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_questions_are_answered(kind: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        question = draw(kind, rng, 3)
        assert list(complaints(question, all_solutions(question), ask_alone(question, "icdc"), "icdc")) == []


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--seed", "7"], ["--seed", "8", "--torch", "--no-service"]])
def test_half_a_minute_of_it(words: list[str]) -> None:
    """In processes of their own: what is imported and what was answered before must change nothing."""
    command = [sys.executable, "-m", "tests.cross_check", "--minutes", "0.4", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
