"""Results of shipped models: measured into cards, taken into tables, and gone when a model takes another's place."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.cards import results
from experiments.tables.rows import Measured, Row, read_table, write_table
from icdc.errors import UsageError
from icdc.evaluation.evaluate import Summary
from icdc.io.datasets import standard_set
from icdc.models.catalogue import card_of
from icdc.models.file import digest_of, write_card

FIGURES: dict[str, Any] = {
    "cost": 5.0, "gap": 1.0, "gap_low": 0.5, "gap_high": 1.5, "symmetric_gap": 0.9, "optimal": 40.0, "feasible": 100.0,
    "below": 0, "seconds": 3.0, "device": "NVIDIA H200",
}  # fmt: skip


def measured(row: Row, digest: str) -> Measured:
    about = {"dataset": row.dataset, "solver": row.method, "samples": row.samples, "seed": 0, "instances": 1000}
    summary = Summary(**about, **FIGURES, reference=4.0, gap_at_most=None, seconds_per_instance=0.003)
    return Measured(row, summary, "steps=20", digest)


def entry(way: str, samples: int, gap: float, instances: int = 1000, **options: Any) -> dict[str, Any]:
    figures = {**FIGURES, "gap": gap}
    return {"set": "atsp-20", "way": way, "samples": samples, "instances": instances, "options": options, **figures}


def test_rows_of_other_weights_take_what_the_card_has() -> None:
    """The same set, samples and answer, all instances, and the same refinement; nothing else counts."""
    card = {
        "results": [
            entry("chain", 8, 0.25, order="rule", decodes=32),
            entry("last sample", 8, 3.5, steps=20, keep="last"),
            entry("chain", 32, 0.125, instances=64),
            entry("refined", 128, 0.0625, refine=6),
        ]
    }
    ours = {
        "best": Row("atsp-20", "icdc", 8, "atsp"),
        "last": Row("atsp-20", "icdc", 8, "atsp", "last", options="steps=20,keep=last"),
        "fewer steps": Row("atsp-20", "icdc", 8, "atsp", "last", options="steps=5,keep=last"),
        "few instances": Row("atsp-20", "icdc", 32, "atsp"),
        "more samples": Row("atsp-20", "icdc", 128, "atsp"),
        "its end": Row("atsp-20", "icdc", 8, "atsp", "end"),
        "refined": Row("atsp-20", "icdc", 128, "atsp", "refined", options="refine=6"),
        "refined less": Row("atsp-20", "icdc", 128, "atsp", "refined", options="refine=3"),
        "changed": Row("atsp-20", "icdc", 8, "atsp", change="one decode a pass"),
    }
    rows = [measured(row, "old") for row in ours.values()]
    found = dict(zip(ours, results.follow(rows, {"atsp": "new"}, {"atsp": card}), strict=True))
    assert {name: m.gap for name, m in found.items() if m.summary} == {"best": 0.25, "last": 3.5, "refined": 0.0625}
    best = found["best"]
    assert (best.digest, best.settings) == ("new", "decodes=32,order=rule")
    assert best.summary is not None
    reference = standard_set("atsp-20").reference
    assert reference is not None
    assert best.summary.reference == pytest.approx(reference.mean())
    assert best.summary.seconds_per_instance == 0.003
    assert {m.note for m in found.values() if m.summary is None} == {results.OLD}


def test_other_rows_stay() -> None:
    rows = [
        measured(Row("atsp-20", "icdc", 8, "atsp"), "new"),
        measured(Row("atsp-20", "icdc", 8, "atsp-20"), "old"),
        measured(Row("atsp-20", "random"), ""),
        Measured(Row("atsp-20", "icdc", 1, "atsp"), note="not measured yet"),
    ]
    assert results.follow(rows, {"atsp": "new"}, {"atsp": {}}) == rows


def test_rows_that_waited_are_filled() -> None:
    row = Row("atsp-20", "icdc", 8, "atsp")
    card = {"results": [entry("chain", 8, 0.25)]}
    (found,) = results.follow([Measured(row, note=results.OLD)], {"atsp": "new"}, {"atsp": card})
    assert (found.gap, found.digest, found.note) == (0.25, "new", "")


def test_tables_are_written_again(tmp_path: Path) -> None:
    """The tables of a folder, those that are there: of weights that never shipped nothing is left."""
    path = tmp_path / "atsp-table.csv"
    path.write_text(write_table([measured(Row("atsp-20", "icdc", 3, "atsp"), "0123456789ab")]))
    assert results.main(["tables", "--out", str(tmp_path)]) == 0
    (row,) = read_table(path)
    assert (row.summary, row.note) == (None, results.OLD)
    assert list(tmp_path.iterdir()) == [path]


OLD: dict[str, Any] = {
    "problem": "pmsp",
    "sizes": [[50, 5], [20, 3]],
    "ranges": {"ties": [0.1, 0.4], "spread": [0.0, 1.0]},
    "solving": [{"size": [20, 3], "samples": 1, "options": {"temperature": 0.3}}],
    "home": [{"family": "paper"}],
    "results": [{"set": "pmsp-20x3", "gap": 1.0}],
    "training": {"seconds": 496.5, "before": "345 s as `pmsp-20`", "rounds": 7},
    "data": "old",
}
NEW: dict[str, Any] = {
    "problem": "pmsp",
    "sizes": [[20, 3], [100, 10]],
    "ranges": {"ties": [0.2, 0.6], "forbidden": [0.0, 0.5]},
    "solving": [{"samples": 1, "options": {"decodes": 512}}],
    "training": {"seconds": 424.0, "rounds": 655},
    "data": "new",
}


def test_what_is_still_true_is_kept_and_results_go() -> None:
    card = results.successor(NEW, OLD, "tours")
    assert card["sizes"] == [[20, 3], [50, 5], [100, 10]]
    assert card["ranges"] == {"ties": [0.1, 0.6], "spread": [0.0, 1.0], "forbidden": [0.0, 0.5]}
    assert (card["solving"], card["home"]) == (OLD["solving"], OLD["home"])
    assert (card["results"], card["data"]) == ([], "new")
    assert "improving" not in card
    assert card["training"] == {
        "seconds": 424.0,
        "rounds": 655,
        "before": "345 s as `pmsp-20`, and 496 s as the model before it",
        "shared": "the GPU was shared with tours",
    }
    assert "shared" not in results.successor(NEW, OLD)["training"]
    assert "before" not in results.successor(NEW, {**OLD, "training": {}})["training"]


def test_models_of_another_problem_do_not_follow() -> None:
    with pytest.raises(UsageError, match="a model of pmsp cannot take the place of one of atsp"):
        results.successor(NEW, {**OLD, "problem": "atsp"})


def test_the_command_replaces_weights_card_and_index(
    save: Any, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(results, "models_folder", lambda: shipped)
    place = shipped / "pmsp.safetensors"
    new = save(tmp_path / "new.safetensors", "pmsp", [[10, 2]], seed=1)
    write_card(place, {**card_of(str(place)), "solving": OLD["solving"]})
    before, wanted = digest_of(place), digest_of(new)
    assert before != wanted
    assert results.main(["replace", "pmsp", "--by", str(new)]) == 0
    assert capsys.readouterr().out == f"pmsp: {wanted} instead of {before}\n"
    assert digest_of(place) == wanted
    card = card_of(str(place))
    assert (card["sizes"], card["solving"], card["results"]) == ([[10, 2], [20, 3]], OLD["solving"], [])
    assert json.loads((shipped / "index.json").read_text())["pmsp"]["sizes"] == [[10, 2], [20, 3]]
    whole = place.read_bytes()

    def killed(path: Path, card: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "write_card", killed)
    third = save(tmp_path / "third.safetensors", "pmsp", [[9, 2]], seed=2)
    with pytest.raises(KeyboardInterrupt):
        results.main(["replace", "pmsp", "--by", str(third)])
    assert place.read_bytes() == whole, "weights of one model with the card of another"
    other = save(tmp_path / "other.safetensors", "atsp", [[5]])
    assert results.main(["replace", "pmsp", "--by", str(other)]) == UsageError.exit_code
    assert "cannot take the place" in capsys.readouterr().err
    assert digest_of(place) == wanted


def test_results_are_measured_into_the_card(shipped: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """As the card advises, the last sample alone, and refined; measured again, they replace those of before."""
    monkeypatch.setattr("icdc.evaluation.evaluate._warm_up", lambda dataset, solver: None)
    place = shipped / "atsp.safetensors"
    advice = {"reverse": "fresh", "temperature": 0.5, "decodes": 4}
    write_card(place, {**card_of("atsp"), "solving": [{"size": [20], "options": advice}]})
    words = "measure atsp --sets atsp-20 --samples 1,2 --refine 1 --limit 2 --device cpu".split()
    for _ in range(2):
        assert results.main(words) == 0
        rows = card_of("atsp")["results"]
        assert [(row["way"], row["samples"]) for row in rows] == [
            ("chain", 1), ("last sample", 1), ("chain", 2), ("last sample", 2), ("refined", 2),
        ]  # fmt: skip
    assert rows[0]["options"] == {**advice, "steps": 20}
    assert rows[1]["options"]["keep"] == "last"
    assert rows[-1]["options"] == {**advice, "steps": 20, "refine": 1}
    assert all(row["instances"] == 2 and row["below"] == 0 for row in rows)
