"""`icdc check-problem`: built-in problems, the worked example, a broken one."""

from pathlib import Path
from typing import Any

import pytest

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
def test_usage_errors(icdc: Any, arguments: tuple[str, ...], sentence: str) -> None:
    ran = icdc("check-problem", *arguments)
    assert ran.code == 2
    assert sentence in ran.err
