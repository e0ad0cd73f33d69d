"""Ways of solving chosen over families: who is least above the best of all, and what the card says then."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import ways
from icdc.models.catalogue import card_of
from icdc.models.file import digest_of
from icdc.problems.pmsp import Pmsp


def test_ways_are_judged_by_the_best_of_all() -> None:
    costs = [np.array([10.0, 22.0]), np.array([11.0, 20.0]), np.array([math.inf, 20.0])]
    assert ways.mean_excess(costs) == pytest.approx([5.0, 5.0, math.inf])


def test_every_family_counts_the_same_and_the_first_of_equals_is_chosen() -> None:
    among: list[ways.Way] = [{"temperature": 0.3}, {"temperature": 0.7}, {"temperature": 1.0}]
    assert ways.chosen(among, [[0.0, 0.5, 2.0], [1.5, 0.5, 0.5]]) == among[1]
    assert ways.chosen(among, [[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]]) == among[0]
    assert ways.chosen(among, [[11.0, 11.0, 0.0], [0.0, 0.5, 5.0], [0.1, 0.0, 0.2]]) == among[0]
    assert ways.chosen(among, [[math.inf, 11.0, 50.0], [0.0, 1.0, 2.0]]) == among[1]


def test_advice_replaces_that_of_its_size_and_kind_alone() -> None:
    card = {
        "data": "x",
        "solving": [
            {"size": [20], "samples": 1, "options": {"temperature": 1.0}},
            {"size": [100], "samples": 1, "options": {"temperature": 1.1}},
            {"size": [100], "samples": 8, "options": {"temperature": 1.2}},
            {"size": [100], "samples": 1, "options": {"temperature": 1.3}, "with_search": True},
        ],
    }
    alone = ways.with_advice(card, (100,), "alone", {"temperature": 0.3})
    assert [entry["options"]["temperature"] for entry in alone["solving"]] == [1.0, 1.3, 0.3]
    both = ways.with_advice(alone, (100,), "with search", {"temperature": 0.4})
    assert [entry["options"]["temperature"] for entry in both["solving"]] == [1.0, 0.3, 0.4]
    assert [entry.get("with_search", False) for entry in both["solving"]] == [False, False, True]
    assert both["data"] == "x"
    # advice to merge is beside that to those who do not
    merged = ways.with_advice(both, (100,), "merged", {"temperature": 0.8, "merge": 9})
    assert [entry["options"]["temperature"] for entry in merged["solving"]] == [1.0, 0.3, 0.4, 0.8]
    again = ways.with_advice(merged, (100,), "merged", {"temperature": 0.9, "merge": 9})
    assert [entry["options"]["temperature"] for entry in again["solving"]] == [1.0, 0.3, 0.4, 0.9]
    plain = ways.with_advice(again, (100,), "alone", {"temperature": 0.2})
    assert [entry["options"]["temperature"] for entry in plain["solving"]] == [1.0, 0.4, 0.9, 0.2]
    searched = ways.with_advice(plain, (100,), "with search", {"temperature": 0.6, "merge": 9})
    assert [entry["options"]["temperature"] for entry in searched["solving"]] == [1.0, 0.4, 0.9, 0.2, 0.6]
    # with search merging was one of the ways: what is better without it takes the place of all advice
    without = ways.with_advice(searched, (100,), "with search", {"temperature": 0.1})
    assert [entry["options"]["temperature"] for entry in without["solving"]] == [1.0, 0.9, 0.2, 0.1]


def test_the_command_writes_the_card_and_measures_nothing_twice(
    save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    some = {
        "alone": [{"temperature": 0.5}, {"temperature": 50.0}],
        "merged": [{"merge": 3}],
        "with search": [{"begin": "noise"}],
    }
    monkeypatch.setattr(ways, "WAYS", {"makespan": some})
    monkeypatch.setattr(Pmsp, "families", {name: Pmsp.families[name] for name in ("paper", "job-correlated")})
    model = save(tmp_path / "m.safetensors", "pmsp", [[6, 3]])
    digest, before = digest_of(model), model.read_bytes()
    asked = [str(model), "--samples", "2", "--sizes", "6x3", "--device", "cpu", "--store", str(tmp_path / "s.jsonl")]
    assert ways.main([*asked, "--minutes", "-1"]) == 0
    assert model.read_bytes() == before  # no time, no card
    assert ways.main(asked) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    cells = [line for line in printed if line.get("kind") == "alone" and "cell" in line]
    means = np.minimum([line["excess"] for line in cells], ways.MOST_EXCESS).mean(0)
    found = card_of(model)["solving"]
    assert found[0] == {"size": [6, 3], "options": {"merge": 3}}
    assert found[1]["options"] == some["alone"][int(means.argmin())]
    assert found[2] == {"size": [6, 3], "options": {"begin": "noise"}, "with_search": True}
    assert digest_of(model) == digest
    stored = (tmp_path / "s.jsonl").read_bytes()
    assert ways.main(asked) == 0
    assert (tmp_path / "s.jsonl").read_bytes() == stored
    with pytest.raises(SystemExit):
        ways.main([*asked, "--kinds", "with serach"])
    assert "unknown kind 'with serach'" in capsys.readouterr().err
