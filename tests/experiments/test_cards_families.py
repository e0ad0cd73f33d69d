"""Gaps of a model beside search: to the best of all, the best number of changes of a size, nothing measured twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.cards import families
from experiments.cards.choose import Cell
from icdc.io.datasets import Dataset
from icdc.models.catalogue import card_of
from icdc.models.file import digest_of
from icdc.problems.pmsp import Pmsp

FIRST, SECOND, THIRD = families.CHANGES


def costs(longer: list[float], **others: list[float]) -> families.Costs:
    names = {"search": families.SEARCH, "alone": families.ALONE}
    names |= {f"changes{changes}": families.with_changes(changes) for changes in families.CHANGES}
    values = {name: np.array(others.get(key, longer)) for key, name in names.items()}
    return {families.LONGER: np.array(longer), **values}


def cell(family: str, size: tuple[int, int]) -> Cell:
    return Cell(family, size, Dataset(Pmsp(), Pmsp().sample(2, size, np.random.default_rng(0)), name="x"))


def test_gaps_are_to_the_best_of_all() -> None:
    some = costs([10.0, 20.0], search=[10.0, 18.0], alone=[11.0, 20.0], changes40=[np.inf, 18.0])
    assert families.gap(some, families.SEARCH) == pytest.approx((0.0, 0.0, 0.0))
    gap, low, high = families.gap(some, families.ALONE)
    assert gap == pytest.approx(100 * (31 / 28 - 1))
    assert low <= gap <= high
    assert families.gap(some, families.with_changes(FIRST))[0] == pytest.approx(100 * (38 / 28 - 1))  # no answer


def test_a_card_has_the_changes_that_are_best_over_all_families_of_a_size() -> None:
    worst = {f"changes{THIRD}": [12.0, 12.0]}
    measured = [
        (cell("paper", (6, 3)), costs([10.0, 10.0], changes40=[11.0, 10.0], **worst)),
        (cell("uniform-100", (6, 3)), costs([10.0, 10.0], changes10=[10.0, 10.4], **worst)),
        (cell("paper", (9, 3)), costs([10.0, 10.0])),
    ]
    card = families.with_gaps({"sizes": [[6, 3], [9, 3]], "data": "x"}, measured)
    home = card["home"]
    assert [(one["family"], one["size"]) for one in home] == [
        ("paper", [6, 3]), ("uniform-100", [6, 3]), ("paper", [9, 3]),
    ]  # fmt: skip
    assert [one["with_search"] for one in home] == [0.0, 2.0, 0.0]  # by the second number, 2 % against 5 % in all
    assert set(home[0]["numbers"]) == {"ties", "spread", "by_rows", "by_columns", "forbidden"}
    changes = [entry["options"]["improve_rounds"] for entry in card["solving"] if entry["with_search"]]
    assert changes == [SECOND, FIRST]  # of equal ones the first
    assert card["data"] == "x"


def test_the_command_measures_once_and_goes_on(
    save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(families, "CHANGES", (4, 2))
    monkeypatch.setattr("icdc.evaluation.evaluate._warm_up", lambda dataset, solver: None)
    some = {name: Pmsp.families[name] for name in ("paper", "job-correlated")}
    monkeypatch.setattr(Pmsp, "families", some)
    model = save(tmp_path / "m.safetensors", "pmsp", [[6, 3]])
    digest = digest_of(model)
    words = [str(model), "--seconds", "0.05", "--count", "2", "--sizes", "6x3", "--device", "cpu",
             "--store", str(tmp_path / "s.jsonl"), "--table", str(tmp_path / "t.csv")]  # fmt: skip
    assert families.main(words) == 0
    card = card_of(model)
    assert digest_of(model) == digest
    assert [(one["family"], one["size"]) for one in card["home"]] == [("paper", [6, 3]), ("job-correlated", [6, 3])]
    assert [entry.get("with_search", False) for entry in card["solving"]] == [True]
    assert card["solving"][0]["options"]["improve_rounds"] in (4, 2)
    assert card["sizes"] == [[6, 3]]
    table = (tmp_path / "t.csv").read_text()
    assert len(table.splitlines()) == 3
    stored = (tmp_path / "s.jsonl").read_bytes()
    assert families.main(words) == 0
    assert (tmp_path / "s.jsonl").read_bytes() == stored
    assert (tmp_path / "t.csv").read_text() == table
    other = save(tmp_path / "n.safetensors", "pmsp", [[6, 3]], 1)
    assert families.main([str(other), *words[1:]]) == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 5  # rows of the first one are kept
