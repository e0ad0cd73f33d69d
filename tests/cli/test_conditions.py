"""What is asked of solutions on the command line: answers, files, sentences and exit codes; a batch that goes on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MAP = ",a,b,c,d\na,-,3,4,5\nb,6,-,7,8\nc,1,2,-,9\nd,4,1,2,-\n"
SHOP = "job,M1,M2\na,4,9\nb,2,7\nc,6,1\nd,3,3\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a map, a shop, and files of what is asked."""
    for name, content in {
        "map.csv": MAP, "shop.csv": SHOP, "steps.csv": "from,to\nb,c\n", "jobs.csv": "job,machine\na,M2\n",
        "busy.csv": "machine,until\nM1,5\n", "old.txt": "M1 M1 M2 M2", "tour.txt": "a b c d",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer_of(ran: Any) -> dict[str, Any]:
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.mark.usefixtures("folder")
class TestSolve:
    def test_an_open_path(self, icdc: Any) -> None:
        found = answer_of(icdc("solve", "map.csv", "--open", "--json"))
        assert (found["solution"], found["objective"], found["bound"]) == ([3, 2, 0, 1], 6, 6)
        assert found["conditions"] == {"open": True}
        assert "cost" not in found
        assert "path through 4 cities, length 6, optimal" in icdc("solve", "map.csv", "--open").out

    def test_ends(self, icdc: Any) -> None:
        path = answer_of(icdc("solve", "map.csv", "--open", "--first", "a", "--last", "2", "--json"))
        assert (path["solution"][0], path["solution"][-1], path["objective"]) == (0, 2, 13)
        assert path["conditions"] == {"open": True, "first": 0, "last": 2}
        tour = icdc("solve", "map.csv", "--first", "d").out.splitlines()
        assert tour[2] == "  asked for beginning with city d"
        assert tour[3].strip().startswith("d → ")
        assert tour[3].strip().endswith(" → d")

    def test_fixed_and_busy(self, icdc: Any) -> None:
        found = answer_of(icdc("solve", "shop.csv", "--fix", "jobs.csv", "--busy", "busy.csv", "--json"))
        assert found["conditions"] == {"fixed": [[0, 1]], "busy": [5, 0]}
        assert (found["solution"], found["objective"]) == ([1, 0, 1, 0], 10)
        text = icdc("solve", "shop.csv", "--fix", "jobs.csv", "--busy", "busy.csv").out
        assert "asked for 1 job fixed; 1 machine busy at the beginning" in text
        assert "  machine M1  10  ░░░░░░░░░░░░████████████  (busy until 5) b d" in text
        steps = answer_of(icdc("solve", "map.csv", "--fix", "steps.csv", "--json"))
        assert steps["solution"][steps["solution"].index(1) + 1] == 2

    def test_changes_weigh(self, icdc: Any) -> None:
        found = answer_of(icdc("solve", "map.csv", "--start", "tour.txt", "--stay", "2", "--json"))
        steps = dict(zip(found["solution"], [*found["solution"][1:], found["solution"][0]], strict=True))
        assert found["changes"] == sum(steps[i] != (i + 1) % 4 for i in range(4))
        assert found["objective"] == found["cost"] + 2 * found["changes"] == found["bound"]
        assert found["conditions"] == {"stay": 2, "before": [1, 2, 3, 0]}
        text = icdc("solve", "shop.csv", "--start", "old.txt", "--stay", "1").out.splitlines()[0]
        assert text == (
            "shop.csv: 4 jobs on 2 machines, makespan 6 with 0 jobs moved; weighed 6 (1 longer for each job moved), "
            "optimal"
        )

    def test_explained(self, icdc: Any) -> None:
        said = icdc("solve", "shop.csv", "--busy", "busy.csv", "--explain").err
        assert "read: shop.csv, 4 jobs on 2 machines (pmsp)" in said
        assert "asked for: 1 machine busy at the beginning" in said
        assert "solved as: 5 jobs on 2 machines (pmsp), 1 forbidden pair" in said

    def test_files_are_in_the_words_that_were_asked(self, icdc: Any) -> None:
        assert icdc("solve", "map.csv", "--open", "--out", "path.csv", "--plot", "path.png").code == 0
        assert Path("path.csv").read_text() == "position,city\n0,d\n1,c\n2,a\n3,b\n"
        assert Path("path.png").stat().st_size > 5000
        assert icdc("verify", "map.csv", "path.csv", "--open").out == "path.csv: feasible, length 6, optimal\n"
        assert icdc("solve", "map.csv", "--open", "--start", "path.csv", "--json", "--solver", "random").code == 0

    @pytest.mark.parametrize(
        ("options", "code", "sentence"),
        [
            (["map.csv", "--fix", "none.csv"], 3, "none.csv: no such file"),
            (["map.csv", "--busy", "none.csv"], 3, "none.csv: no such file"),
            (["map.csv", "--stay", "3"], 2, "--stay needs --start: it weighs changes against that"),
            (["map.csv", "--busy", "busy.csv"], 2,
             "--busy busy.csv is for schedules on parallel machines, and map.csv is of 'atsp'"),
            (["shop.csv", "--open"], 2, "--open is for tours, and shop.csv is a schedule ('pmsp')"),
            (["shop.csv", "--problem", "flow-shop", "--open"], 2,
             "--open is for tours; a sequence of 'flow-shop' begins and ends anyway, --first and --last say where"),
            (["shop.csv", "--first", "a"], 2, "--first is for tours, and shop.csv is a schedule ('pmsp')"),
            (["map.csv", "--first", "x"], 3, "--first: map.csv has no city 'x'; the first is 'a'"),
            (["map.csv", "--first", "a", "--last", "a"], 3, "map.csv: --first and --last both name city 'a'"),
            (["map.csv", "--fix", "jobs.csv"], 3, "--fix jobs.csv: map.csv has no city 'M2'; the first is 'a'"),
            (["map.csv", "--fix", "steps.csv", "--open", "--first", "c"], 3,
             "--fix steps.csv: from city 'b' to city 'c', but --first says that nothing comes before"),
            (["map.csv", "--fix", "steps.csv", "--start", "old.txt"], 3,
             "old.txt: 'M1' is neither a number nor a name"),
            (["shop.csv", "--fix", "jobs.csv", "--start", "old.txt"], 3,
             "the start of shop.csv does not keep to what is asked: it does not have job 'a' with machine 'M2'"),
            (["shop.csv", "--start", "old.txt", "--stay", "-1"], 3,
             "--stay: the number must be finite and not negative, got -1.0"),
            (["shop.csv", "--busy", "busy.csv", "--plot", "x.gif", "--solver", "network"], 2,
             "--plot x.gif: an animation shows a plain instance; leave out --fix, --stay, --open, --first, --last and "
             "--busy"),
            (["shop.csv", "--problem", "flow-shop", "--plot", "x.gif", "--solver", "network"], 2,
             "--plot x.gif: a 'flow-shop' cannot be animated; write .png instead"),
            (["-", "--fix", "-"], 2, "standard input can be read only once"),
        ],
    )  # fmt: skip
    def test_refusals(self, icdc: Any, options: list[str], code: int, sentence: str) -> None:
        ran = icdc("solve", *options)
        assert (ran.code, ran.out) == (code, "")
        assert ran.err.startswith(f"icdc: {sentence}")
        assert ran.err.count("\n") == 1

    def test_nothing_that_keeps_to_it_exists(self, icdc: Any) -> None:
        Path("line.csv").write_text(",a,b,c\na,-,1,x\nb,x,-,1\nc,1,x,-\n")
        ran = icdc("solve", "line.csv", "--open", "--first", "a", "--last", "b")
        assert ran.code == 4
        assert "line.csv: " in ran.err
        assert "infeasible" in ran.out


@pytest.mark.usefixtures("folder")
class TestVerify:
    @pytest.mark.parametrize(
        ("options", "solution", "said"),
        [
            (["map.csv", "--open"], "d c a b", "feasible, length 6, optimal"),
            (["map.csv"], "d c a b", "feasible, length 14, optimal"),
            (["shop.csv", "--busy", "busy.csv"], "M2 M1 M2 M1", "feasible, makespan 10, at least 9 is needed"),
            (["map.csv", "--start", "tour.txt", "--stay", "5"], "a b c d",
             "feasible, length 23 with 0 new steps; weighed 23 (5 for each new step)"),
            (["map.csv", "--start", "tour.txt", "--stay", "5"], "a b d c",
             "feasible, length 14 with 3 new steps; weighed 29 (5 for each new step)"),
            (["shop.csv", "--problem", "flow-shop"], "a b c d", "feasible, makespan 26, at least 23 is needed"),
        ],
    )  # fmt: skip
    def test_right(self, icdc: Any, options: list[str], solution: str, said: str) -> None:
        Path("mine.txt").write_text(solution)
        ran = icdc("verify", options[0], "mine.txt", *options[1:])
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(f"mine.txt: {said}")

    @pytest.mark.parametrize(
        ("options", "solution", "sentence"),
        [
            (["map.csv", "--open", "--last", "b"], "a b c d", "it ends with city d, not b"),
            (["map.csv", "--fix", "steps.csv"], "a c b d", "it does not have from city 'b' to city 'c'"),
            (["shop.csv", "--fix", "jobs.csv"], "0 0 1 1", "it does not have job 'a' with machine 'M2'"),
            (["shop.csv", "--problem", "flow-shop", "--first", "b"], "a b c d", "it begins with job a, not b"),
        ],
    )
    def test_wrong(self, icdc: Any, options: list[str], solution: str, sentence: str) -> None:
        Path("mine.txt").write_text(solution)
        ran = icdc("verify", options[0], "mine.txt", *options[1:])
        assert (ran.code, ran.out) == (3, "")
        assert ran.err == f"icdc: mine.txt: the solution is infeasible for {options[0]}: {sentence}\n"

    def test_json(self, icdc: Any) -> None:
        Path("mine.txt").write_text("a b d c")
        ran = icdc("verify", "map.csv", "mine.txt", "--json", "--start", "tour.txt", "--stay", "5")
        found = json.loads(ran.out)
        assert {key: found[key] for key in ("objective", "cost", "changes", "conditions")} == {
            "objective": 29, "cost": 14, "changes": 3, "conditions": {"stay": 5, "before": [1, 2, 3, 0]},
        }  # fmt: skip

    def test_stay_needs_a_start(self, icdc: Any) -> None:
        for options, words in (
            (["--stay", "3"], "--stay needs --start: it weighs changes against that"),
            (["--start", "tour.txt"], "--start needs --stay: what each change of the start weighs"),
        ):
            ran = icdc("verify", "map.csv", "tour.txt", *options)
            assert (ran.code, ran.err) == (2, f"icdc: {words}\n")


class TestBatch:
    """Options are asked of every instance, and a file of answers knows what was asked."""

    @pytest.fixture
    def many(self, folder: Path) -> Path:
        rng = np.random.default_rng(0)
        np.savez(folder / "many.npz", problem="pmsp", durations=rng.integers(1, 20, (5, 6, 2)))
        (folder / "times.csv").write_text("8\n0\n")
        return folder

    def test_each_instance_is_asked(self, icdc: Any, many: Path) -> None:
        ran = icdc("solve", "many.npz", "--busy", "times.csv", "--json")
        found = [json.loads(line) for line in ran.out.splitlines()]
        assert [answer["conditions"] for answer in found] == [{"busy": [8, 0]}] * 5
        times = np.load(many / "many.npz")["durations"]
        for answer, mine in zip(found, times, strict=True):
            loads = np.bincount(answer["solution"], mine[np.arange(6), answer["solution"]], 2) + np.array([8, 0])
            assert answer["objective"] == loads.max()

    def test_going_on_with_the_same_and_with_something_else(self, icdc: Any, many: Path) -> None:
        command = ["solve", "many.npz", "--out", "all.jsonl"]
        assert icdc(*command, "--busy", "times.csv").code == 0
        whole = Path("all.jsonl").read_text()
        lines = whole.splitlines(keepends=True)
        Path("all.jsonl").write_text("".join(lines[:2]))
        assert icdc(*command, "--busy", "times.csv", "--resume").code == 0
        kept = [{**json.loads(line), "seconds": 0} for line in Path("all.jsonl").read_text().splitlines()]
        assert kept == [{**json.loads(line), "seconds": 0} for line in lines]
        ran = icdc(*command, "--resume")
        assert (ran.code, "line 1 was asked for with busy [8, 0], not none; resume with the same" in ran.err) == (
            2,
            True,
        )
        Path("times.csv").write_text("9\n0\n")
        ran = icdc(*command, "--resume", "--busy", "times.csv")
        assert (ran.code, "busy [8, 0], not [9, 0]" in ran.err) == (2, True)
        edited = lines[0].replace('"solution": [', '"solution": [1, ').replace(", 0], ", "], ", 1)
        Path("all.jsonl").write_text(edited)
        Path("times.csv").write_text("8\n0\n")
        assert icdc(*command, "--resume", "--busy", "times.csv").code == 3

    def test_answers_of_a_sequence_are_taken_up(self, icdc: Any, many: Path) -> None:
        command = ["solve", "shop.csv", "--problem", "flow-shop", "--out", "all.jsonl"]
        assert icdc(*command).code == 0
        ran = icdc(*command, "--resume")
        assert (ran.code, "1 of 1 instances answered, 1 of them before" in ran.err) == (0, True)
        changed = Path("all.jsonl").read_text().replace('"solution": [', '"solution": [3, 2, 1, 0], "other": [')
        Path("all.jsonl").write_text(changed)
        ran = icdc(*command, "--resume")
        assert (ran.code, "does not fit shop.csv" in ran.err) == (3, True)

    def test_changes_against_the_answers_of_before(self, icdc: Any, many: Path) -> None:
        assert icdc("solve", "many.npz", "--out", "before.jsonl").code == 0
        ran = icdc("solve", "many.npz", "--busy", "times.csv", "--start", "before.jsonl", "--stay", "100", "--json")
        assert [json.loads(line)["changes"] for line in ran.out.splitlines()] == [0] * 5
