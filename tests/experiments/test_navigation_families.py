"""Hidden costs family by family: gaps to proven optima, kept and taken up again, and the table on the page."""

import csv
import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import cards, navigation
from experiments.cards import ROOT, Cell, cells_of, sizes_of
from icdc.errors import UsageError
from icdc.evaluation.evaluate import OutcomeFile
from icdc.models.catalogue import card_of
from icdc.models.file import write_card
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.problems.tensors import to_tensors
from icdc.training import validation


@pytest.fixture
def cell() -> Cell:
    (first, *_) = cells_of(Navigation(), [(6,)], 3, navigation.SEED)
    return first


@pytest.fixture
def store(tmp_path: Path) -> Any:
    file = OutcomeFile(tmp_path / "optima.jsonl")
    yield file
    file.close()


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_seed_is_of_nothing_else() -> None:
    assert navigation.SEED not in (cards.SEED, cards.SEED + 1, validation.SEED, 0)
    mine, of_cards = (cells_of(Navigation(), [(6,)], 2, seed) for seed in (navigation.SEED, cards.SEED))
    assert [one.family for one in mine] == list(Navigation.families)
    for one, other in zip(mine, of_cards, strict=True):
        assert not np.array_equal(one.dataset.arrays["traffic"], other.dataset.arrays["traffic"])


def test_sizes_are_read_for_a_problem() -> None:
    assert sizes_of("20,50x5,30", Navigation()) == [(20,), (30,)]
    assert sizes_of("20,50x5,30", Pmsp()) == [(50, 5)]
    assert sizes_of("", Pmsp()) == []


def test_references_are_proven_optima(cell: Cell, store: OutcomeFile) -> None:
    found = navigation.with_optima(cell, store).dataset
    assert found.reference is not None
    assert found.proven is not None
    assert found.proven.all()
    tours = np.array([(0, *order) for order in permutations(range(1, 6))])  # all of them
    times = Navigation().travel(to_tensors(found.arrays)).numpy()
    assert found.reference == pytest.approx(times[:, tours, np.roll(tours, -1, axis=1)].sum(2).min(1))


def test_without_a_proof_nothing_is_measured(cell: Cell, store: OutcomeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(navigation, "EXACT", "random")  # which proves nothing
    with pytest.raises(UsageError, match="no optimum for 3 of navigation-paper-6"):
        navigation.with_optima(cell, store)


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
    assert navigation.main([*asked, "--minutes", "-1"]) == 0
    assert lines(file) == []  # no time, no rows
    assert navigation.main([*asked, "--page", str(page)]) == 0
    rows = lines(file)
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
        assert (row["model"], row["device"], row["seed"]) == (str(model), "cpu", str(navigation.SEED))
    outcomes = [json.loads(line) for line in kept.read_text().splitlines()]
    assert all(one["reference_proven"] for one in outcomes if one["solver"].startswith("network"))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert f"| light-traffic | 6 | merged | `{model}` | cpu | 2 |" in text
    before = kept.read_bytes(), file.read_bytes()
    assert navigation.main(asked) == 0
    assert (kept.read_bytes(), file.read_bytes()) == before
    other = save(tmp_path / "n.safetensors", "navigation", [[5], [6]], 1)
    assert navigation.main([str(other), *asked[1:]]) == 0
    assert lines(file)[: len(rows)] == rows  # those of the first one are kept
    assert {row["model"] for row in lines(file)[len(rows) :]} == {str(other)}


def test_what_does_not_fit_is_refused(save: Any, tmp_path: Path, capsys: Any) -> None:
    asked = ["--device", "cpu", "--store", str(tmp_path / "s.jsonl"), "--table", str(tmp_path / "t.csv")]
    with pytest.raises(SystemExit):
        navigation.main(["--sizes", "5,6,7", "--count", "3,2", *asked])
    assert "2 numbers of instances for 3 sizes" in capsys.readouterr().err
    tours = save(tmp_path / "tours.safetensors", "atsp", [[5]])
    with pytest.raises(UsageError, match="is for atsp, not for navigation"):
        navigation.main([str(tours), "--sizes", "5", "--count", "1", *asked])


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
        [cell.strip() for cell in line.strip("|").split("|")] for line in navigation.page(rows).splitlines()
    )
    assert heads[6:] == ["×1", "×8", "optimal, %"]
    gap = "0.500 (0.250–1.50)"
    assert body == [
        ["paper", "20", "alone", "`a`", "H200", "9", gap, gap, "62.5 / 62.5"],
        ["slow-ways", "20", "alone", "`a`", "H200", "9", gap, "–", "62.5 / –"],
    ]


def test_the_page_is_that_of_the_file() -> None:
    """`python -m experiments.navigation --page docs/families.md` writes it again."""
    rows = lines(ROOT / "docs" / "results" / "navigation-families.csv")
    assert navigation.page(rows) in (ROOT / "docs" / "families.md").read_text(encoding="utf-8")
