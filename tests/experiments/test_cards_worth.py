"""What a network is worth: five rows a set in equal seconds, hidden costs beside optima, kept and taken up again."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.cards import choose, worth
from experiments.csvfiles import read_rows, replace_rows
from experiments.markdown import between_marks
from icdc.errors import UsageError
from icdc.evaluation.evaluate import OutcomeFile
from icdc.io.datasets import standard_set
from icdc.models.catalogue import card_of
from icdc.models.file import write_card
from icdc.problems.atsp import Atsp
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.problems.tensors import to_tensors
from icdc.training import validation


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


def test_five_rows_of_every_set_of_a_models_problem(save: Any, tmp_path: Path) -> None:
    model = save(tmp_path / "m.safetensors", "pmsp", [[20, 4]])
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- worth: begin -->\nold\n<!-- worth: end -->\nafter\n")
    asked = [str(model), "--sets", "pmsp-20x4,atsp-20", "--limit", "2", "--samples", "2", "--device", "cpu",
             "--store", str(tmp_path / "s.jsonl"), "--table", str(tmp_path / "t.csv")]  # fmt: skip
    assert worth.main(["sets", *asked, "--page", str(page)]) == 0
    rows = read_rows(tmp_path / "t.csv")
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
    assert worth.main(["sets", *asked]) == 0
    assert (tmp_path / "s.jsonl").read_bytes() == before


def test_some_rows_alone(save: Any, tmp_path: Path, capsys: Any) -> None:
    model = save(tmp_path / "m.safetensors", "pmsp", [[20, 4]])
    asked = [str(model), "--sets", "pmsp-20x4", "--limit", "2", "--samples", "2", "--device", "cpu",
             "--store", str(tmp_path / "s.jsonl"), "--table", str(tmp_path / "t.csv")]  # fmt: skip
    assert worth.main(["sets", *asked, "--rows", "model + search"]) == 0
    (row,) = read_rows(tmp_path / "t.csv")
    assert row["row"] == "model + search"
    assert row["device"]
    assert "improve_rounds=1000" in row["options"]
    assert "steps" not in row["options"]  # 20 is what runs when nothing is said
    with pytest.raises(SystemExit):
        worth.main(["sets", *asked, "--rows", "model", "search"])
    assert "must be measured, too" in capsys.readouterr().err


def test_rows_of_others_are_kept_and_the_same_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    row = dict.fromkeys(worth.WORTH, "") | {"model": "a", "set": "atsp-200", "row": "model", "device": "cpu"}

    def kept(*rows: dict[str, object]) -> list[dict[str, str]]:
        return replace_rows(path, worth.WORTH, rows, ("model", "set", "row", "device"), worth.set_order)

    kept({**row, "gap": 3.0}, {**row, "set": "atsp-100", "gap": 2.0})
    lines = kept({**row, "gap": 1.0}, {**row, "device": "gpu", "gap": None})
    assert lines == read_rows(path)
    assert [(one["device"], one["set"], one["gap"]) for one in lines] == [
        ("cpu", "atsp-100", "2.0"), ("cpu", "atsp-200", "1.0"), ("gpu", "atsp-200", ""),
    ]  # fmt: skip


def test_the_page_tells_rows_of_other_counts_and_missing_ones_apart() -> None:
    row = dict.fromkeys(worth.WORTH, "") | {"model": "a", "set": "atsp-200", "device": "cpu", "seconds": "2.0"}
    row |= {"gap_low": "0", "gap_high": "9"}
    rows = [
        {**row, "row": "model", "instances": "10", "gap": "3.0"},
        {**row, "row": "model + search", "instances": "5", "gap": "1.0"},
    ]
    line = worth.sets_page(rows).splitlines()[-1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[3:] == ["10 / 5", "3.00 (0.000–9.00)", "–", "1.00 (0.000–9.00)", "–", "–", "2 / – / 2"]


@pytest.fixture
def cell() -> choose.Cell:
    first, *_ = choose.cells_of(Navigation(), (6,), 3, worth.SEED)
    return first


@pytest.fixture
def store(tmp_path: Path) -> Any:
    file = OutcomeFile(tmp_path / "optima.jsonl")
    yield file
    file.close()


def test_the_seed_is_of_nothing_else() -> None:
    assert worth.SEED not in (choose.SEED, choose.SEED + 1, validation.SEED, 0)
    mine, of_cards = (choose.cells_of(Navigation(), (6,), 2, seed) for seed in (worth.SEED, choose.SEED))
    assert [one.family for one in mine] == list(Navigation.families)
    for one, other in zip(mine, of_cards, strict=True):
        assert not np.array_equal(one.dataset.arrays["traffic"], other.dataset.arrays["traffic"])


def test_references_are_proven_optima(cell: choose.Cell, store: OutcomeFile) -> None:
    found = worth.with_optima(cell, store).dataset
    assert found.reference is not None
    assert found.proven is not None
    assert found.proven.all()
    tours = np.array([(0, *order) for order in permutations(range(1, 6))])  # all of them
    times = Navigation().travel(to_tensors(found.arrays)).numpy()
    assert found.reference == pytest.approx(times[:, tours, np.roll(tours, -1, axis=1)].sum(2).min(1))


def test_without_a_proof_nothing_is_measured(
    cell: choose.Cell, store: OutcomeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worth, "EXACT", "random")  # which proves nothing
    with pytest.raises(UsageError, match="no optimum for 3 of navigation-paper-6"):
        worth.with_optima(cell, store)


def test_the_command_measures_once_and_goes_on(save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    families = {name: Navigation.families[name] for name in ("paper", "light-traffic")}
    monkeypatch.setattr(Navigation, "families", families)
    monkeypatch.setattr("icdc.evaluation.evaluate._warm_up", lambda dataset, solver: None)
    model = save(tmp_path / "m.safetensors", "navigation", [[5], [6]])
    merging = {"size": [6], "samples": 1, "options": {"merge": 2, "decodes": 2}}
    write_card(model, {**card_of(str(model)), "solving": [{"size": [5], "samples": 1, "options": {}}, merging]})
    file, kept, page = tmp_path / "t.csv", tmp_path / "s.jsonl", tmp_path / "page.md"
    page.write_text("before\n<!-- navigation-families: begin -->\nold\n<!-- navigation-families: end -->\nafter\n")
    asked = [str(model), "--sizes", "5,6", "--count", "3,2", "--samples", "1,2", "--device", "cpu",
             "--store", str(kept), "--table", str(file)]  # fmt: skip
    assert worth.main(["navigation", *asked, "--page", str(page)]) == 0
    rows = read_rows(file)
    assert [(row["family"], row["size"], row["way"], row["instances"], row["samples"]) for row in rows] == [
        (family, size, way, count, samples)
        for size, ways, count in (("5", ["alone"], "3"), ("6", ["alone", "merged"], "2"))  # as the card advises
        for family in families
        for way in ways
        for samples in ("1", "2")
    ]
    assert all(("merge" in row["options"]) == (row["way"] == "merged") for row in rows)
    for row in rows:
        assert 0.0 <= float(row["gap_low"]) <= float(row["gap"]) <= float(row["gap_high"])
        assert 0.0 <= float(row["optimal"]) <= 100.0
        assert (row["model"], row["device"], row["seed"]) == (str(model), "cpu", str(worth.SEED))
    outcomes = [json.loads(line) for line in kept.read_text().splitlines()]
    assert all(one["reference_proven"] for one in outcomes if one["solver"].startswith("network"))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert f"| light-traffic | 6 | merged | `{model}` | cpu | 2 |" in text
    before = kept.read_bytes(), file.read_bytes()
    assert worth.main(["navigation", *asked]) == 0
    assert (kept.read_bytes(), file.read_bytes()) == before
    other = save(tmp_path / "n.safetensors", "navigation", [[5], [6]], 1)
    assert worth.main(["navigation", str(other), *asked[1:]]) == 0
    assert read_rows(file)[: len(rows)] == rows  # those of the first one are kept
    assert {row["model"] for row in read_rows(file)[len(rows) :]} == {str(other)}


def test_what_does_not_fit_is_refused(save: Any, tmp_path: Path, capsys: Any) -> None:
    tours = str(save(tmp_path / "tours.safetensors", "atsp", [[5]]))
    files = ["--device", "cpu", "--store", str(tmp_path / "s.jsonl"), "--table", str(tmp_path / "t.csv")]
    with pytest.raises(SystemExit):
        worth.main(["navigation", tours, "--sizes", "5,6,7", "--count", "3,2", *files])
    assert "one number of instances for each size" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is for atsp, not for navigation"):
        worth.main(["navigation", tours, "--sizes", "5", "--count", "1", *files])


def test_the_page_has_a_column_for_each_number_of_samples() -> None:
    row = {
        "family": "paper",
        "size": "20",
        "way": "alone",
        "model": "a",
        "device": "NVIDIA H200",
        "instances": "9",
        "optimal": "62.5",
    }
    row |= {"gap": "0.5", "gap_low": "0.25", "gap_high": "1.5"}
    rows = [{**row, "samples": "8"}, {**row, "samples": "1"}, {**row, "samples": "1", "family": "slow-ways"}]
    heads, _, *body = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in worth.navigation_page(rows).splitlines()
    )
    assert heads[6:] == ["×1", "×8", "optimal, %"]
    gap = "0.500 (0.250–1.50)"
    assert body == [
        ["paper", "20", "alone", "`a`", "H200", "9", gap, gap, "62.5 / 62.5"],
        ["slow-ways", "20", "alone", "`a`", "H200", "9", gap, "–", "62.5 / –"],
    ]


@pytest.mark.parametrize(("name", "text"), [("worth", worth.sets_page), ("navigation-families", worth.navigation_page)])
def test_the_page_is_that_of_the_file(name: str, text: Any) -> None:
    rows = read_rows(worth.RESULTS / f"{name}.csv")
    page = (worth.RESULTS.parent / "families.md").read_text(encoding="utf-8")
    assert between_marks(page, name, text(rows)) == page
