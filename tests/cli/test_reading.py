"""How files are read, from the command line: options that decide, what was understood, forbidden pairs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.io.corpus import xlsx

SHOP = "job,m1,m2\na,3,-\nb,x,6\nc,7,8\n"


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_an_answer_says_how_its_file_was_read(icdc: Any, tmp_path: Path) -> None:
    path = written(tmp_path, "shop.csv", "job;m1;m2\na;3,5;4\nb;5;6\nc;7;8\n")
    ran = icdc("solve", path, "--solver", "ect")
    said = "3 jobs × 2 machines; row 1 and column 1 are names; decimal comma"
    assert (ran.code, ran.out.splitlines()[1]) == (0, f"  read as {said}")
    assert json.loads(icdc("solve", path, "--solver", "ect", "--json").out)["understood"] == said


@pytest.mark.parametrize(
    ("content", "options", "solution"),
    [
        (",2,3\n2,,5\n3,5,", ["--no-labels"], 3),
        (",2,3\n2,,5\n3,5,", ["--labels"], 2),
        ("part,m1,m2\n1,3,4\n2,5,6\n3,7,8\n4,1,1", ["--id-column", "part"], 4),
        ("1,234;5\n2;3\n4;6", ["--decimal", ","], 3),
        ("a,3,4\n#2,5,6\nc,7,8\nd,1,1", ["--no-comments"], 4),
        ("a,3,4\n#2,5,6\nc,7,8\nd,1,1", ["--comments"], 3),
        ("city,x,y\na,0,0\nb,3,4", ["--metric", "euclidean"], 2),
        ("3,nan\n5,6\n7,8", ["--forbidden", "nan"], 3),
    ],
)
def test_options_that_decide(icdc: Any, tmp_path: Path, content: str, options: list[str], solution: int) -> None:
    path = written(tmp_path, "t.csv", content)
    solver = ("--solver", "random", "--samples", 64)
    refused = icdc("solve", path, *solver)
    assert refused.code in (2, 3)
    assert refused.out == ""
    assert options[0] in refused.err or "nan" in content
    ran = icdc("solve", path, *solver, *options, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert len(json.loads(ran.out)["solution"]) == solution


def test_a_sheet_and_a_range(icdc: Any, tmp_path: Path) -> None:
    book = xlsx([["Times", None, None], [None, 3, 4], [None, 5, 6], [None, 7, 8]], "One", Two=[[1]])
    path = written(tmp_path, "t.xlsx", book)
    assert "--sheet" in icdc("solve", path, "--solver", "ect").err
    ran = icdc("solve", path, "--solver", "ect", "--sheet", "One", "--range", "B2:C4", "--json")
    assert len(json.loads(ran.out)["solution"]) == 3


def test_forbidden_pairs_are_kept(icdc: Any, tmp_path: Path) -> None:
    path = written(tmp_path, "shop.csv", SHOP)
    ran = icdc("solve", path, "--solver", "dp", "--json", "--out", tmp_path / "plan.csv")
    answer = json.loads(ran.out)
    assert (answer["solution"][:2], answer["objective"], answer["feasible"]) == ([0, 1], 10, True)
    assert "2 forbidden pairs" in answer["understood"]
    good = icdc("verify", path, tmp_path / "plan.csv")
    assert (good.code, good.out) == (
        0,
        f"{tmp_path / 'plan.csv'}: feasible, makespan 10, at least 9 is needed (gap 11.11 %)\n",
    )
    bad = written(tmp_path, "bad.txt", "m2 m2 m1")
    ran = icdc("verify", path, bad)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == f"icdc: {bad}: the solution uses a forbidden pair of {path}: job 'a' with machine 'm2'\n"
    shown = json.loads(icdc("verify", path, bad, "--json").out)
    assert (shown["feasible"], shown["objective"]) == (False, None)
    started = icdc("solve", path, "--solver", "ect", "--start", bad)
    assert (started.code, "the solution is infeasible" in started.err) == (3, True)


def test_no_solution_ends_with_its_reason_and_exit_4(icdc: Any, tmp_path: Path) -> None:
    path = written(tmp_path, "shop.csv", "job,m1,m2\na,3,4\nb,,\nc,7,8\n")
    ran = icdc("solve", path, "--solver", "ect")
    assert (ran.code, ran.err) == (4, f"icdc: {path}: job 'b' has no permitted machine\n")
    assert "  job 'b' has no permitted machine" in ran.out.splitlines()
    answer = json.loads(icdc("solve", path, "--solver", "ect", "--json").out)
    assert (answer["solution"], answer["objective"], answer["bound"]) == (None, None, None)
    assert answer["reason"] == "job 'b' has no permitted machine"
    other = written(tmp_path, "other.csv", SHOP)
    out = tmp_path / "answers.jsonl"
    ran = icdc("solve", path, other, "--solver", "ect", "--out", out)
    assert (ran.code, "no feasible solution was found for 1 of 2 instances" in ran.err) == (4, True)
    assert [json.loads(line)["feasible"] for line in out.read_text().splitlines()] == [False, True]
    assert icdc("solve", path, other, "--solver", "ect", "--out", out, "--resume").code == 4


def test_a_picture_shows_no_stand_ins(icdc: Any, tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", ",A,B,C\nA,,2,-\nB,4,,5\nC,6,7,\n")
    ran = icdc("solve", path, "--solver", "branch", "--plot", tmp_path / "t.svg")
    assert ran.code == 0
    assert "length 13" in ran.out
    assert (tmp_path / "t.svg").stat().st_size > 0


def test_names_and_files_cannot_send_codes_to_a_terminal(icdc: Any, tmp_path: Path) -> None:
    path = written(tmp_path, "t\x1b[31m.csv", "\x1b[2Ja,3,4\nb,5,6\nc,7,8")
    ran = icdc("solve", path, "--solver", "ect", "--out", tmp_path / "plan.csv")
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    assert r"\x1b[2Ja" in ran.out
    assert icdc("verify", path, tmp_path / "plan.csv").code == 0
    missing = icdc("solve", tmp_path / "none\x1b[31m.csv")
    assert (missing.code, "\x1b" in missing.err) == (3, False)
