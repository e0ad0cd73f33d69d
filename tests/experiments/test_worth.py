"""What a network is worth: five rows a set, equal seconds, kept and taken up again."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import worth
from icdc.errors import UsageError
from icdc.io.datasets import STANDARD_SETS, standard_set
from icdc.problems.atsp import Atsp
from icdc.problems.pmsp import Pmsp
from icdc.problems.tensors import to_tensors


@pytest.mark.parametrize("name", ["pmsp-20x4", "atsp-20"])
def test_starts_are_feasible_better_with_time_and_keep_the_limit(name: str) -> None:
    some = standard_set(name).first(3)
    solver = worth.PricedStarts("cpu", improve_rounds=0)
    solver.solve(some.problem, some.arrays, time_limit=0.001)  # what is compiled when it is first called is now
    few, many = (solver.solve(some.problem, some.arrays, time_limit=limit) for limit in (0.001, 1.5))
    assert few.feasible.all()
    assert (many.cost <= few.cost).all()
    assert few.seconds < many.seconds < 30.0
    assert some.reference is not None
    assert (many.cost <= 1.1 * some.reference).all()


def test_starts_are_improved_further() -> None:
    """By as many changes as the chain makes, from what the problem itself makes."""
    some, asked = standard_set("pmsp-20x4").first(2), []

    class Watched(Pmsp):
        def improve(self, instances: Any, choice: Any, rounds: int) -> Any:
            asked.append((tuple(choice.shape), rounds))
            return super().improve(instances, choice, rounds)

    assert Watched.structure == "makespan"
    worth.PricedStarts("cpu", 7).solve(Watched(), some.arrays, time_limit=0.001)
    assert asked[-2:] == [((2, worth.TRIAL, 20), 7), ((2, 1, 20), 7)]  # all, then what they were merged into


def test_starts_are_merged_as_decodes_are() -> None:
    """The best one takes parts of the next best, from the best on, and no more than so many."""
    some, asked = standard_set("pmsp-20x4").first(2), []

    class Watched(Pmsp):
        def merge(self, instances: Any, choice: Any, others: Any) -> Any:
            costs = self.cost(instances, others[:, 0])
            asked.append((others.shape[2], self.cost(instances, choice), costs))
            return super().merge(instances, choice, others)

    worth.PricedStarts("cpu", 0).solve(Watched(), some.arrays, time_limit=0.001)
    count, best, costs = asked[-1]
    assert count == worth.TRIAL - 1
    assert (costs.diff(dim=1) >= 0).all()
    assert (best <= costs).all()
    worth.PricedStarts("cpu", 0)._best(Watched(), to_tensors(some.arrays), 100)
    assert asked[-1][0] == worth.MERGED_STARTS - 1


def test_problems_without_prices_are_refused() -> None:
    class Another(Pmsp):
        structure = None

    arrays = Pmsp().sample(1, (5, 2), np.random.default_rng(0))
    with pytest.raises(UsageError, match="no prices"):
        worth.PricedStarts("cpu").solve(Another(), arrays)
    assert worth.PricedStarts("cpu").refusal(Atsp()) is worth.PricedStarts("cpu").refusal(Pmsp()) is None


def test_the_goals_are_of_sets_that_exist() -> None:
    assert set(worth.GOALS) <= set(STANDARD_SETS)
    assert all(alone >= both for alone, both in worth.GOALS.values())


def test_five_rows_of_every_set_of_a_models_problem(save: Any, tmp_path: Path) -> None:
    model = save(tmp_path / "m.safetensors", "pmsp", [[20, 4]])
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- worth: begin -->\nold\n<!-- worth: end -->\nafter\n")
    asked = [str(model), "--sets", "pmsp-20x4,atsp-20", "--limit", "2", "--samples", "2", "--device", "cpu",
             "--store", str(tmp_path / "s.jsonl"), "--table", str(tmp_path / "t.csv")]  # fmt: skip
    assert worth.main([*asked, "--minutes", "-1"]) == 0
    assert worth.main([*asked, "--page", str(page)]) == 0
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows] == ["model", "merged model", "model + search", "starts + search", "search"]
    assert {(row["set"], row["instances"]) for row in rows} == {("pmsp-20x4", "2")}
    assert [row["samples"] for row in rows] == ["2", "2", "2", "", ""]
    assert ["merge=" in row["options"] for row in rows] == [False, True, False, False, False]
    stored = [line for line in (tmp_path / "s.jsonl").read_text().splitlines() if '"starts' in line]
    assert len(stored) == 2
    limit = float(stored[0].split('"time_limit": ')[1].split(",")[0])
    assert limit == pytest.approx(float(rows[2]["seconds"]) / 2, rel=0.02)
    text = page.read_text()
    assert text.startswith("before\n")
    assert "| pmsp-20x4 |" in text
    assert "old" not in text
    before = (tmp_path / "s.jsonl").read_bytes()
    assert worth.main(asked) == 0
    assert (tmp_path / "s.jsonl").read_bytes() == before


def test_some_rows_alone(save: Any, tmp_path: Path, capsys: Any) -> None:
    model = save(tmp_path / "m.safetensors", "pmsp", [[20, 4]])
    asked = [str(model), "--sets", "pmsp-20x4", "--limit", "2", "--samples", "2", "--device", "cpu",
             "--store", str(tmp_path / "s.jsonl"), "--table", str(tmp_path / "t.csv")]  # fmt: skip
    assert worth.main([*asked, "--rows", "model + search"]) == 0
    with (tmp_path / "t.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["row"] == "model + search"
    assert row["device"]
    assert "improve_rounds=1000" in row["options"]
    assert "steps" not in row["options"]  # 20 is what runs when nothing is said
    for rows, words in (("model,search", "must be measured, too"), ("models", "unknown row 'models'")):
        with pytest.raises(SystemExit):
            worth.main([*asked, "--rows", rows])
        assert words in capsys.readouterr().err


def test_rows_of_others_are_kept_and_the_same_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    row = dict.fromkeys(worth.COLUMNS, "") | {"model": "a", "set": "atsp-200", "row": "model", "device": "cpu"}
    worth.keep(path, [{**row, "gap": 3.0}, {**row, "set": "atsp-100", "gap": 2.0}])
    found = worth.keep(path, [{**row, "gap": 1.0}, {**row, "device": "gpu", "gap": 0.5}])
    assert [(one["device"], one["set"], float(one["gap"])) for one in found] == [
        ("cpu", "atsp-100", 2.0), ("cpu", "atsp-200", 1.0), ("gpu", "atsp-200", 0.5),
    ]  # fmt: skip


def test_the_page_tells_rows_of_other_counts_and_missing_ones_apart() -> None:
    row = dict.fromkeys(worth.COLUMNS, "") | {"model": "a", "set": "atsp-200", "device": "cpu", "seconds": "2.0"}
    row |= {"gap_low": "0", "gap_high": "9", "goal": "0.1"}
    rows = [
        {**row, "row": "model", "instances": "10", "gap": "3.0"},
        {**row, "row": "model + search", "instances": "5", "gap": "1.0", "goal": "0.04"},
    ]
    line = worth.page(rows).splitlines()[-1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[3:] == ["10 / 5", "3.00 (0.000–9.00)", "–", "0.1", "1.00 (0.000–9.00)", "0.04", "–", "–", "2 / – / 2"]
