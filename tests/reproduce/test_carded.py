"""Rows from the cards of shipped models: the same set, samples and settings, or nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icdc.data.standard import standard_set
from icdc.outcomes import OutcomeFile
from icdc.reproduce import methods
from icdc.reproduce import session as session_module
from icdc.reproduce.carded import from_card
from icdc.reproduce.methods import PLAIN_LAST
from icdc.reproduce.rows import Row
from icdc.reproduce.session import LEFT_OUT, Session
from icdc.solvers import make_solver

WARM: dict[str, Any] = {
    "reverse": "independent", "order": "rule", "temperature": 1.5, "reverse_temperature": 30.0,
    "decodes": 64, "steps": 20,
}  # fmt: skip
PLAIN: dict[str, Any] = {
    "reverse": "independent", "order": "rule", "temperature": 1.0, "decodes": 1, "keep": "last", "steps": 20,
}  # fmt: skip
DATA = standard_set("pmsp-20x3")


def result(gap: float, **options: Any) -> dict[str, Any]:
    figures = {"gap": gap, "gap_low": gap / 2, "gap_high": 2 * gap, "symmetric_gap": gap, "optimal": 90.0}
    about = {"set": "pmsp-20x3", "instances": len(DATA), "samples": 8, "device": "a GPU"}
    return {**about, **figures, "cost": 42.0, "feasible": 100.0, "seconds": 5.0, "options": options}


CARD: dict[str, Any] = {
    "problem": "pmsp",
    "kind": "diffusion",
    "sizes": [[20, 3]],
    "settings": {"model": {"diffusion": {"steps": 20}}},
    "solving": [{"size": [20, 3], "samples": 8, "options": {k: v for k, v in WARM.items() if k != "steps"}}],
    "results": [result(0.1, **WARM), result(0.2, **WARM, refine=6), result(0.3, **PLAIN)],
}


@pytest.mark.parametrize(
    ("spec", "gap", "words"),
    [
        ("icdc", 0.1, "reverse temperature 30"),
        ("icdc:refine=3", 0.2, "refined 6×"),
        (f"icdc:{PLAIN_LAST}", 0.3, "last sample alone"),
    ],
)
def test_the_same_measurement_is_found(spec: str, gap: float, words: str) -> None:
    found = from_card(CARD, Row("pmsp-20x3", "ours", spec, 8, "pmsp"), DATA, make_solver(spec))  # type: ignore[arg-type]
    assert found is not None
    assert found.gap == gap
    assert words in found.how
    assert found.summary is not None
    assert found.summary.seconds_per_instance == 5.0 / len(DATA)


@pytest.mark.parametrize(
    ("spec", "samples", "instances"),
    [("icdc:steps=5", 8, None), ("icdc:temperature=2.0", 8, None), ("icdc", 32, None), ("icdc", 8, 10)],
)
def test_another_measurement_is_not(spec: str, samples: int, instances: int | None) -> None:
    data = DATA if instances is None else DATA.first(instances)
    assert from_card(CARD, Row("pmsp-20x3", "ours", spec, samples, "pmsp"), data, make_solver(spec)) is None  # type: ignore[arg-type]


def test_a_last_sample_is_not_drawn_by_warm_reverse_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert methods.last_of("trained-by-someone") == methods.LAST
    monkeypatch.setattr(methods, "card_of", lambda name: CARD)
    assert methods.last_of("pmsp") == PLAIN_LAST
    cool = [{"samples": 8, "options": {"temperature": 1.0}}]
    monkeypatch.setattr(methods, "card_of", lambda name: {**CARD, "solving": cool})
    assert methods.last_of("pmsp") == methods.LAST


def test_only_where_cards_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "card_of", lambda name: CARD)
    row = Row("pmsp-20x3", "ours", "icdc", 8, "pmsp")
    session = Session(OutcomeFile(tmp_path / "none.jsonl"), only="classical")
    assert session.measure([row])[0].note == LEFT_OUT
    (carded,) = replace(session, cards=True).measure([row])
    assert carded.gap == 0.1
    assert replace(session, cards=True, seed=1).measure([row])[0].note == LEFT_OUT
