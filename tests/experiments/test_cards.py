"""Cards by measurement: gaps to the best of all, the best setting of each size, and nothing measured twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import cards
from icdc.io.datasets import Dataset
from icdc.models.catalogue import card_of
from icdc.models.file import digest_of
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp


def costs(**values: list[float]) -> dict[str, np.ndarray]:
    names = {"longer": cards.LONGER, "search": cards.SEARCH, "alone": cards.ALONE}
    first, *others = (cards.way(*setting) for setting in cards.SETTINGS)
    names |= {"first": first, **{f"other{n}": name for n, name in enumerate(others)}}
    return {name: np.array(values.get(key, values["longer"])) for key, name in names.items()}


def test_gaps_are_to_the_best_that_anyone_found() -> None:
    found = costs(longer=[10.0, 20.0], search=[10.0, 18.0], alone=[11.0, 20.0], first=[np.inf, 18.0])
    assert cards.gap(found, cards.SEARCH) == pytest.approx(0.0)
    assert cards.gap(found, cards.ALONE) == pytest.approx(100 * (31 / 28 - 1))
    assert cards.gap(found, cards.way(*cards.SETTINGS[0])) == pytest.approx(100 * (38 / 28 - 1))  # none was found


def cell(family: str, size: tuple[int, int]) -> cards.Cell:
    arrays = Pmsp().sample(2, size, np.random.default_rng(0))
    return cards.Cell(family, Dataset(Pmsp(), arrays, name="x"))


def test_a_card_has_the_setting_that_is_best_over_all_families_of_a_size() -> None:
    found = [
        (cell("paper", (6, 3)), costs(longer=[10.0, 10.0], first=[11.0, 10.0], other0=[10.0, 10.0])),
        (cell("uniform-100", (6, 3)), costs(longer=[10.0, 10.0], first=[10.0, 10.0], other0=[10.0, 10.4])),
        (cell("paper", (9, 3)), costs(longer=[10.0, 10.0])),
    ]
    for _, each in found[:2]:
        each[costs_name("other1")] = np.array([12.0, 12.0])
    home, improving = cards.entries(found)
    assert [(one["family"], one["size"]) for one in home] == [
        ("paper", [6, 3]), ("uniform-100", [6, 3]), ("paper", [9, 3]),
    ]  # fmt: skip
    assert [one["with_search"] for one in home] == [0.0, 2.0, 0.0]  # by the second setting, 2 % against 5 % in all
    rounds, steps = cards.SETTINGS[1]
    assert improving[0] == {"size": [6, 3], "options": {"improve_rounds": rounds, "steps": steps}}
    assert improving[1]["options"]["improve_rounds"] == cards.SETTINGS[0][0]  # equal ones: the first
    assert set(home[0]["numbers"]) == {"ties", "spread", "by_rows", "by_columns", "forbidden"}


def costs_name(name: str) -> str:
    return cards.way(*cards.SETTINGS[int(name.removeprefix("other")) + 1])


def test_the_command_measures_once_and_goes_on(
    save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(cards, "SETTINGS", ((4, 2), (2, 1)))
    monkeypatch.setattr("icdc.evaluation.evaluate._warm_up", lambda dataset, solver: None)
    families = {name: Pmsp.families[name] for name in ("paper", "job-correlated")}
    monkeypatch.setattr(Pmsp, "families", families)
    model = save(tmp_path / "m.safetensors", "pmsp", [[6, 3]])
    before, digest = model.read_bytes(), digest_of(model)
    asked = [str(model), "--seconds", "0.05", "--count", "2", "--sizes", "6x3", "--device", "cpu",
             "--store", str(tmp_path / "s.jsonl"), "--table", str(tmp_path / "t.csv")]  # fmt: skip
    assert cards.main([*asked, "--minutes", "0"]) == 0
    assert model.read_bytes() == before  # no time, no card
    assert cards.main(asked) == 0
    card = card_of(model)
    assert digest_of(model) == digest
    assert [(one["family"], one["size"]) for one in card["home"]] == [("paper", [6, 3]), ("job-correlated", [6, 3])]
    assert [entry.get("with_search", False) for entry in card["solving"]] == [True]
    assert card["solving"][0]["options"]["improve_rounds"] in (4, 2)
    assert card["sizes"] == [[6, 3]]
    table = (tmp_path / "t.csv").read_text()
    assert len(table.splitlines()) == 3
    stored = (tmp_path / "s.jsonl").read_bytes()
    assert cards.main([*asked, "--minutes", "0"]) == 0  # everything is known, and needs no time
    assert (tmp_path / "s.jsonl").read_bytes() == stored
    assert (tmp_path / "t.csv").read_text() == table
    other = save(tmp_path / "n.safetensors", "pmsp", [[6, 3]], 1)
    assert cards.main([str(other), *asked[1:]]) == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 5  # rows of the first one are kept


def test_a_problem_without_families_keeps_its_card(
    save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(Navigation, "families", {})
    model = save(tmp_path / "m.safetensors", "navigation", [[6]])
    before = model.read_bytes()
    assert cards.main([str(model), "--device", "cpu", "--store", str(tmp_path / "s.jsonl")]) == 0
    assert "navigation has no families to measure" in capsys.readouterr().err
    assert model.read_bytes() == before
