"""Values that callers give are checked alike in Python and on the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import icdc as package
from icdc import options
from icdc.errors import InputError, UsageError
from icdc.solving import Abilities, DiffusionSolver, Found, Improvement, Request, Solver

SHOP = [[3, 5], [4, 2], [1, 1]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"samples": "3"}, "samples must be a whole number, got '3'"),
        ({"samples": 2.0}, "samples must be a whole number, got 2.0"),
        ({"samples": True}, "samples must be a whole number, got True"),
        ({"samples": 10**9}, "1000000000 samples need a time limit"),
        ({"samples": 2**63, "time_limit": 1.0}, "samples must be at most 9223372036854775807"),
        ({"seed": -1}, "the seed must be at least 0, got -1"),
        ({"seed": 2**63}, "the seed must be at most 9223372036854775807"),
        ({"seed": 1.5}, "the seed must be a whole number, got 1.5"),
        ({"time_limit": float("nan")}, "the time limit must be more than 0 seconds, got nan"),
        ({"time_limit": float("inf")}, "the time limit must be a finite number of seconds"),
        ({"time_limit": -1}, "the time limit must be more than 0 seconds, got -1"),
        ({"time_limit": "5"}, "the time limit must be a number of seconds, got '5'"),
        ({"solver": 3}, "the solver must be a Solver or a text or None, got 3"),
        ({"solver": None, "model": 3}, "the model must be a Model or a text or a PathLike or None, got 3"),
        ({"problem": 3}, "the problem must be a Problem or a text or None, got 3"),
        ({"callback": 3}, "the callback must be callable, got int"),
        ({"solver": "ga", "iterations": "many"}, "option 'iterations' of solver 'ga' must be a whole number"),
        ({"solver": "ga", "mutation": "often"}, "option 'mutation' of solver 'ga' must be a number, got 'often'"),
        ({"solver": "ga", "device": 3}, "option 'device' of solver 'ga' must be a text, got 3"),
        ({"solver": "icdc", "steps": "ten"}, "option 'steps' of solver 'icdc' must be a whole number"),
        ({"solver": "icdc", "refine": None}, "option 'refine' of solver 'icdc' must be a whole number, got None"),
        ({"solver": "icdc", "chunk": -1}, "a chunk needs at least one trajectory, got -1"),
        ({"solver": "icdc", "decodes": 10**9}, "decodes must be at most 65536"),
        ({"solver": "icdc", "device": "cuda:99"}, "choose the device cpu"),
        ({"solver": "icdc", "device": "meta"}, "not supported; choose auto, cpu or cuda"),
    ],
)
def test_python_gets_a_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        package.solve(SHOP, **{"solver": "ect", **given})
    assert words in str(error.value)
    assert "--" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--samples", 0), "--samples"),
        (("--samples", 10**9), "1000000000 samples need a time limit"),
        (("--seed", -1), "--seed must be at least 0, got -1"),
        (("--seed", 2**63), "--seed must be at most 9223372036854775807"),
        (("--time-limit", "nan"), "--time-limit must be more than 0 seconds, got nan"),
        (("--time-limit", "inf"), "--time-limit must be a finite number of seconds"),
        (("--solver", "ect", "--device", "moon"), "unknown device 'moon'; choose auto, cpu or cuda"),
        (("--solver", "ga", "--device", ""), "unknown device ''; choose auto, cpu or cuda"),
        (("--solver", "random", "--device", "-1"), "unknown device '-1'"),
        (("--solver", "ga:iterations=x"), "option 'iterations' of solver 'ga' must be a whole number"),
    ],
)
def test_so_does_the_command_line(icdc: Any, shop: Path, arguments: tuple[object, ...], words: str) -> None:
    ran = icdc("solve", shop, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("icdc: ")
    assert words in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--start", "--out", "--plot", "--model"])
def test_a_name_that_no_file_can_have_is_refused(icdc: Any, shop: Path, option: str) -> None:
    ran = icdc("solve", shop, "--solver", "network" if option == "--model" else "ect", option, "x" * 5000 + ".csv")
    assert ran.code in (2, 3)
    assert "internal" not in ran.err


def test_numbers_of_any_type_are_numbers() -> None:
    assert options.whole(np.int64(3), "n") == 3
    assert options.seconds(np.float32(2)) == 2.0
    assert options.of_kind(np.int32(3), int, "n") == 3
    assert options.of_kind(3, float, "x") == 3
    assert options.of_kind(None, int | None, "n") is None
    assert package.solve(SHOP, solver="ga", iterations=np.int64(3), samples=np.int64(2)).feasible
    with pytest.raises(UsageError, match="x must be a number, got nan"):
        options.of_kind(float("nan"), float, "x")
    with pytest.raises(UsageError, match=r"n must be a whole number, got \['aaaa.*…$"):
        options.whole(["a" * 100], "n")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1, 2], [3]], "row 2 has 1 entries where row 1 has 2"),
        ([[1, 2], [3, 4], 5], "row 3 has 0 entries where row 1 has 2"),
        ([[1, 2], [3, [4, 5]]], "row 2 holds lists where numbers are needed"),
        ([[1, 2], [3, "x"]], "must hold numbers"),
    ],
)
def test_ragged_lists_name_the_row(rows: Any, words: str) -> None:
    for problem in (None, "pmsp"):
        with pytest.raises(InputError, match=words):
            package.solve(rows if problem else rows + rows, problem=problem or "pmsp", solver="ect")


@dataclass(frozen=True)
class Wrong(Solver):
    """Returns whatever it is told to."""

    found: Any
    name = "wrong"
    abilities = Abilities()

    def refusal(self, problem: Any) -> None:
        return None

    def search(self, request: Request) -> Found:
        return self.found


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "must return a Found, got NoneType"),
        (Found(np.zeros((1, 2), dtype=int), 0.1), r"int64 choices of shape \(1, 2\), where whole numbers \(1, 3\)"),
        (Found(np.zeros((1, 3)), 0.1), "float64 choices"),
        (Found(np.zeros((1, 3), dtype=int), 0.1, np.zeros(2)), r"'bound' of shape \(2,\), where \(1,\)"),
        (Found(np.zeros((1, 3), dtype=int), 0.1, None, np.zeros((1, 1))), r"'proven' of shape \(1, 1\)"),
    ],
)
def test_a_solver_of_ones_own_is_told_what_it_got_wrong(found: Any, words: str) -> None:
    with pytest.raises(UsageError, match=f"the solver 'wrong' .*{words}"):
        package.solve(SHOP, solver=Wrong(found))


def test_callbacks_know_which_instances_they_hear_of() -> None:
    heard: list[tuple[int, ...]] = []

    def hear(improvement: Improvement) -> None:
        assert len(improvement.places) == len(improvement.cost)
        heard.append(improvement.places)

    package.solve_many([SHOP, [*SHOP, [1, 2]], SHOP], solver="ect", callback=hear)
    assert heard == [(0, 2), (1,)]


def test_a_million_samples_are_as_many_as_fit(models: dict[str, Path]) -> None:
    learned = DiffusionSolver(str(models["pmsp"]), steps=2)
    for solver in (learned, package.make_solver("random"), package.make_solver("ga")):
        answer = package.solve([[7, 9, 8]] * 5 + [[3, 4, 1]], solver=solver, samples=10**12, time_limit=0.3)
        assert answer.feasible
        assert 1 <= answer.samples < 10**9
        assert answer.seconds < 10.0  # not those of a billion, however busy the machine is
