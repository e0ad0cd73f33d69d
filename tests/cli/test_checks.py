"""`icdc verify` of any solution, right or wrong; `icdc check-problem` of any problem."""

import json
from pathlib import Path
from typing import Any

import pytest

MATRIX = ",a,b,c\na,-,1,9\nb,9,-,1\nc,1,9,-\n"


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    path = tmp_path / "ring.csv"
    path.write_text(MATRIX)
    return path


def verified(icdc: Any, instance: Path, folder: Path, solution: str) -> tuple[Path, Any]:
    """Write a solution to a file and verify it."""
    path = folder / "solution.txt"
    path.write_text(solution)
    return path, icdc("verify", instance, path)


@pytest.mark.parametrize(
    ("solution", "said"),
    [("0 1 2", "length 3, optimal"), ("a c b", "length 27, at least 3 is needed (gap 800.00 %)")],
)
def test_a_feasible_solution(icdc: Any, ring: Path, tmp_path: Path, solution: str, said: str) -> None:
    path, ran = verified(icdc, ring, tmp_path, solution)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{path}: feasible, {said}\n"


def test_json(icdc: Any, ring: Path, tmp_path: Path) -> None:
    path = tmp_path / "solution.json"
    path.write_text("[0, 2, 1]")
    assert json.loads(icdc("verify", ring, path, "--json").out) == {
        "problem": "atsp",
        "instance": str(ring),
        "solution": str(path),
        "feasible": True,
        "objective": 27,
        "bound": 3,
        "gap": 8.0,
    }


@pytest.mark.parametrize(
    ("solution", "sentence"),
    [
        ("0 1 1", "every city must be named exactly once; 'b' is named more than once and 'c' is missing"),
        ("0 1", "the solution has 2 entries where the instance needs 3"),
        ("0 1 3", "entry 3 of the solution is 3; it must be from 0 to 2"),
        ("a b d", "'d' is neither a number nor a name of this instance"),
        ("", "the file is empty"),
    ],
)
def test_what_is_wrong_with_a_solution(icdc: Any, ring: Path, tmp_path: Path, solution: str, sentence: str) -> None:
    path, ran = verified(icdc, ring, tmp_path, solution)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == f"icdc: {path}: {sentence}\n"


def test_an_infeasible_solution_of_a_problem_with_a_mask(
    icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2] / "examples")
    instance = tmp_path / "shop.json"
    instance.write_text(json.dumps({"durations": [[1, 2], [3, 4]], "eligible": [[1, 0], [1, 1]]}))
    solution = tmp_path / "solution.json"
    solution.write_text("[1, 0]")
    command = ("verify", instance, solution, "--problem", "eligible_machines:EligibleMachines")
    ran = icdc(*command)
    assert ran.code == 3
    assert f"{solution}: the solution is infeasible for {instance}" in ran.err
    assert json.loads(icdc(*command, "--json").out)["feasible"] is False
    solution.write_text("[0, 1]")
    assert icdc(*command).out == f"{solution}: feasible, makespan 4, at least 3 is needed (gap 33.33 %)\n"


def test_one_of_several_instances(icdc: Any, tmp_path: Path) -> None:
    instances = tmp_path / "two.json"
    instances.write_text(json.dumps([{"durations": [[1, 2]]}, {"durations": [[3, 4]]}]))
    solution = tmp_path / "solution.txt"
    solution.write_text("1")
    ran = icdc("verify", instances, solution)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"icdc: {instances}: the file holds 2 instances; say which with --index, from 0\n"
    assert "makespan 4" in icdc("verify", instances, solution, "--index", 1).out
    ran = icdc("verify", instances, solution, "--index", 2)
    assert ran.code == 3
    assert "there is no instance 2; the file holds 2" in ran.err


def test_standard_input_only_once(icdc: Any) -> None:
    ran = icdc("verify", "-", "-")
    assert ran.code == 3
    assert "cannot both come from standard input" in ran.err


EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_built_in_problem(icdc: Any) -> None:
    ran = icdc("check-problem", "pmsp", "--size", "3x2")
    assert ran.code == 0
    assert "WRONG" not in ran.out


def test_the_worked_example(icdc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    ran = icdc("check-problem", "eligible_machines:EligibleMachines", "--size", "4x3")
    assert ran.code == 0
    assert {line.split()[0] for line in ran.out.splitlines()} == {"ok"}


BROKEN = """
from icdc.problems import Pmsp
class Broken(Pmsp):
    def density(self, size):
        return 0.5
"""


def test_a_broken_problem(icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_broken_problem.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    ran = icdc("check-problem", "my_broken_problem:Broken")
    assert ran.code == 3
    assert "WRONG  density is the share of ones: density is 0.5" in ran.out
    assert "breaks the contract of a problem in 1 of " in ran.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nothing",), "unknown problem 'nothing'"),
        (("no_such_module:Problem",), "cannot import the problem"),
        (("pmsp", "--size", "5by3"), "--size of 'pmsp' must be jobs x machines, got '5by3'"),
        (("pmsp", "--size", "5"), "--size of 'pmsp' must be jobs x machines, got '5'"),
        (("pmsp", "--size", "9x9"), "has too many assignments to list"),
    ],
)
def test_problems_that_cannot_be_checked(icdc: Any, arguments: tuple[str, ...], sentence: str) -> None:
    ran = icdc("check-problem", *arguments)
    assert ran.code == 2
    assert sentence in ran.err
