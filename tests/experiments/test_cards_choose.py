"""Ways of solving chosen over families: who is least above the best of all, and what the card says then."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.cards import choose
from icdc.models.catalogue import card_of
from icdc.models.file import digest_of
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp


def test_ways_are_judged_by_the_best_of_all() -> None:
    costs = [np.array([10.0, 22.0]), np.array([11.0, 20.0]), np.array([math.inf, 20.0])]
    assert choose.mean_excess(costs) == pytest.approx([5.0, 5.0, math.inf])


def test_every_family_counts_the_same_and_the_first_of_equals_is_chosen() -> None:
    among: list[choose.Way] = [{"temperature": 0.3}, {"temperature": 0.7}, {"temperature": 1.0}]
    assert choose.best_way(among, [[0.0, 0.5, 2.0], [1.5, 0.5, 0.5]]) == among[1]
    assert choose.best_way(among, [[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]]) == among[0]
    assert choose.best_way(among, [[11.0, 11.0, 0.0], [0.0, 0.5, 5.0], [0.1, 0.0, 0.2]]) == among[0]
    assert choose.best_way(among, [[math.inf, 11.0, 50.0], [0.0, 1.0, 2.0]]) == among[1]


def test_advice_replaces_that_of_its_size_and_kind_alone() -> None:
    def entry(size: int, temperature: float, search: bool = False, **more: Any) -> dict[str, Any]:
        searched = {"with_search": True} if search else {}
        return {"size": [size], **searched, "options": {"temperature": temperature, **more}}

    old = [{"samples": 1, "options": {}}, entry(100, 1.1), entry(100, 1.3, True), entry(20, 1.0)]
    card = choose.with_advice({"data": "x", "solving": old}, (100,), "alone", {"temperature": 0.3})
    assert card["data"] == "x"
    assert card["solving"] == [entry(20, 1.0), entry(100, 0.3), entry(100, 1.3, True)]  # sizes in order, no others
    card = choose.with_advice(card, (100,), "merged", {"temperature": 0.8, "merge": 9})
    assert card["solving"][1:] == [entry(100, 0.3), entry(100, 0.8, merge=9), entry(100, 1.3, True)]
    for more in ({"merge": 9}, {}):  # with search, merging is one of the ways
        card = choose.with_advice(card, (100,), "with search", {"temperature": 0.6, **more})
        assert card["solving"][3:] == [entry(100, 0.6, True, **more)]
    assert choose.with_advice({}, (20,), "alone", {"temperature": 1.0})["solving"] == [entry(20, 1.0)]


def test_sizes_are_read_for_a_problem() -> None:
    assert choose.sizes_of("20,50x5,30", Navigation()) == [(20,), (30,)]
    assert choose.sizes_of("20,50x5,30", Pmsp()) == [(50, 5)]
    assert choose.sizes_of("", Pmsp()) == []


def test_the_command_writes_the_card_and_measures_nothing_twice(
    save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    some = {
        "alone": [{"temperature": 0.5}, {"temperature": 50.0}],
        "merged": [{"merge": 3}],
        "with search": [{"begin": "noise"}],
    }
    monkeypatch.setattr(choose, "WAYS", {"makespan": some})
    monkeypatch.setattr(Pmsp, "families", {name: Pmsp.families[name] for name in ("paper", "job-correlated")})
    model = save(tmp_path / "m.safetensors", "pmsp", [[6, 3]])
    digest = digest_of(model)
    words = [str(model), "--samples", "2", "--sizes", "6x3", "--device", "cpu", "--store", str(tmp_path / "s.jsonl")]
    assert choose.main(words) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    cells = [line for line in printed if line.get("kind") == "alone" and "cell" in line]
    means = np.minimum([line["excess"] for line in cells], choose.MOST_EXCESS).mean(0)
    advice = card_of(model)["solving"]
    assert advice[0]["options"] == some["alone"][int(means.argmin())]
    assert advice[1] == {"size": [6, 3], "options": {"merge": 3}}
    assert advice[2] == {"size": [6, 3], "options": {"begin": "noise"}, "with_search": True}
    assert digest_of(model) == digest
    stored = (tmp_path / "s.jsonl").read_bytes()
    assert choose.main(words) == 0
    assert (tmp_path / "s.jsonl").read_bytes() == stored
