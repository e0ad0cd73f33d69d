"""Tables follow the models that ship: rows of other weights take what the card has, or wait to be measured."""

from pathlib import Path
from typing import Any

import pytest

from experiments import card_rows
from experiments.tables.rows import Measured, Row, read_table, write_table
from icdc.evaluation.evaluate import Summary
from icdc.io.datasets import standard_set

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
    found = dict(zip(ours, card_rows.follow(rows, {"atsp": "new"}, {"atsp": card}), strict=True))
    assert {name: m.gap for name, m in found.items() if m.summary} == {"best": 0.25, "last": 3.5, "refined": 0.0625}
    best = found["best"]
    assert (best.digest, best.settings) == ("new", "decodes=32,order=rule")
    assert best.summary is not None
    reference = standard_set("atsp-20").reference
    assert reference is not None
    assert best.summary.reference == pytest.approx(reference.mean())
    assert best.summary.seconds_per_instance == 0.003
    assert {m.note for m in found.values() if m.summary is None} == {card_rows.OLD}


def test_other_rows_stay() -> None:
    rows = [
        measured(Row("atsp-20", "icdc", 8, "atsp"), "new"),
        measured(Row("atsp-20", "icdc", 8, "atsp-20"), "old"),
        measured(Row("atsp-20", "random"), ""),
        Measured(Row("atsp-20", "icdc", 1, "atsp"), note="not measured yet"),
    ]
    assert card_rows.follow(rows, {"atsp": "new"}, {"atsp": {}}) == rows


def test_rows_that_waited_are_filled() -> None:
    row = Row("atsp-20", "icdc", 8, "atsp")
    card = {"results": [entry("chain", 8, 0.25)]}
    (found,) = card_rows.follow([Measured(row, note=card_rows.OLD)], {"atsp": "new"}, {"atsp": card})
    assert (found.gap, found.digest, found.note) == (0.25, "new", "")


def test_tables_are_written_again(tmp_path: Path) -> None:
    """The tables of a folder, those that are there: of weights that never shipped nothing is left."""
    path = tmp_path / "atsp-table.csv"
    path.write_text(write_table([measured(Row("atsp-20", "icdc", 3, "atsp"), "0123456789ab")]))
    assert card_rows.main(tmp_path) == 0
    (row,) = read_table(path)
    assert (row.summary, row.note) == (None, card_rows.OLD)
    assert list(tmp_path.iterdir()) == [path]
