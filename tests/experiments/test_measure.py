"""Measuring: nothing is run twice, nothing is invented, and what is missing says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.measure import LEFT_OUT, NOT_TRAINED, Measurement
from experiments.table import Row
from icdc.errors import MissingExtraError
from icdc.evaluation.outcomes import OutcomeFile

NEAREST = Row("atsp-20", "nn")
OURS = Row("atsp-20", "icdc", 1, "atsp", options="steps=2,decodes=1")


@pytest.fixture
def measurement(tmp_path: Path) -> Callable[..., Measurement]:
    """Measure two instances on a CPU; every call reads the outcomes from the file again."""

    def make(**options: Any) -> Measurement:
        store = OutcomeFile(tmp_path / "outcomes.jsonl")
        return Measurement(store, limit=2, runs=tmp_path / "runs", device="cpu", warm_up=False, **options)

    return make


@pytest.mark.usefixtures("shipped")
def test_a_second_run_measures_nothing_again(measurement: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = measurement().measure([NEAREST, OURS])
    assert all(m.summary is not None and m.summary.instances == 2 for m in first)
    assert first[1].settings == "steps=2,decodes=1"
    monkeypatch.setattr("icdc.evaluation.evaluate._run", None)
    assert measurement().measure([NEAREST, OURS]) == first


@pytest.mark.usefixtures("shipped")
def test_one_part_is_measured_beside_what_is_known_of_the_other(measurement: Any) -> None:
    """Models on one machine, the other solvers on another, and the table has both in the end."""

    def notes(**options: Any) -> list[str]:
        return [m.note for m in measurement(**options).measure([NEAREST, OURS])]

    assert notes(only="learned") == [LEFT_OUT, ""]
    assert notes(only="classical") == ["", ""]
    assert notes(only="learned") == ["", ""]


def test_only_the_methods_that_are_named_are_measured(measurement: Any) -> None:
    rows = [NEAREST, Row("atsp-20", "random", 2)]
    assert [m.note for m in measurement(methods=frozenset(["random"])).measure(rows)] == [LEFT_OUT, ""]
    assert [m.note for m in measurement().measure(rows)] == ["", ""]


@pytest.mark.usefixtures("shipped")
def test_a_model_trained_again_is_measured_again(measurement: Any, save: Any, tmp_path: Path) -> None:
    row = Row("atsp-20", "sl", 1, "sl-atsp-20", options="steps=2,decodes=1")
    (before,) = measurement().measure([row])
    assert (before.summary, before.note) == (None, NOT_TRAINED)
    digests = set()
    for seed in (0, 1):
        save(tmp_path / "runs" / "sl-atsp-20" / "model.safetensors", "atsp", [[20]], seed)
        (after,) = measurement().measure([row])
        assert after.summary is not None
        digests.add(after.digest)
    assert len(digests) == 2
    assert len((tmp_path / "outcomes.jsonl").read_text().splitlines()) == 4


@pytest.mark.usefixtures("shipped")
def test_the_advice_of_a_card_is_among_the_settings(measurement: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    advice = [{"size": [20], "samples": 1, "options": {"decodes": 3, "temperature": 0.7}}]
    monkeypatch.setattr("experiments.measure.card_of", lambda path: {"sizes": [[20]], "solving": advice})
    (found,) = measurement().measure([Row("atsp-20", "icdc", 1, "atsp", options="steps=2,decodes=1")])
    assert found.settings == "decodes=1,temperature=0.7,steps=2"


def test_solvers_that_cannot_run_are_listed_with_the_reason(measurement: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(spec: str, **options: Any) -> None:
        raise MissingExtraError("this needs pip install 'icdc[lkh]'")

    monkeypatch.setattr("experiments.measure.make_solver", missing)
    (found,) = measurement().measure([Row("atsp-20", "lkh")])
    assert "pip install" in found.note
    (other,) = measurement(only="classical").measure([Row("pmsp-20x3", "nn")])
    assert other.summary is None
