"""Measuring: nothing is run twice or invented, what is missing says why; and what is better, equal or worse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.tables.measure import (
    LEFT_OUT,
    NOT_TRAINED,
    Measurement,
    compare,
    counts,
    exact_wins,
    judge,
    judge_published,
    quickest_exact,
)
from experiments.tables.rows import Family, Measured, Row
from icdc.errors import MissingExtraError
from icdc.evaluation.evaluate import OutcomeFile

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
    monkeypatch.setattr("experiments.tables.measure.card_of", lambda path: {"sizes": [[20]], "solving": advice})
    (found,) = measurement().measure([Row("atsp-20", "icdc", 1, "atsp", options="steps=2,decodes=1")])
    assert found.settings == "decodes=1,temperature=0.7,steps=2"


def test_solvers_that_cannot_run_are_listed_with_the_reason(measurement: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(spec: str, **options: Any) -> None:
        raise MissingExtraError("this needs pip install 'icdc[lkh]'")

    monkeypatch.setattr("experiments.tables.measure.make_solver", missing)
    (found,) = measurement().measure([Row("atsp-20", "lkh")])
    assert "pip install" in found.note
    (other,) = measurement(only="classical").measure([Row("pmsp-20x3", "nn")])
    assert other.summary is None


@pytest.fixture
def tours(measured: Any) -> list[Measured]:
    """Ours at two numbers of samples, one method of each kind, and something that is not trained."""
    return [
        measured(Row("atsp-20", "branch", paper_gap=0.0), 0.0, 0.0, 0.0, 0.0005),
        measured(Row("atsp-20", "nn", paper_gap=26.099), 30.0, 29.0, 31.0),
        measured(Row("atsp-20", "matnet", 1, "matnet-atsp-20", paper_gap=0.078), 2.5, 2.0, 3.0),
        measured(Row("atsp-20", "matnet", 8, "matnet-atsp-20", paper_gap=0.078), 0.3, 0.2, 0.4),
        Measured(Row("atsp-20", "paper-sl", 8, "paper-sl-atsp-20", "last", paper_gap=4.179), note=NOT_TRAINED),
        measured(Row("atsp-20", "icdc", 1, "atsp", paper_gap=4.8), 1.0, 0.5, 1.5),
        measured(Row("atsp-20", "icdc", 8, "atsp", paper_gap=0.0), 0.2, 0.1, 0.3),
        measured(Row("atsp-20", "icdc", 8, "atsp", "last", paper_gap=0.909), 2.0, 1.0, 3.0),
        measured(Row("atsp-20", "icdc", 8, "atsp-20", paper_gap=0.0), 5.0, 4.0, 6.0),
    ]


def test_the_rule() -> None:
    assert judge(0.1, 0.3, 0.2, 0.4) == judge(0.2, 0.4, 0.1, 0.2) == "equal"
    assert judge(0.0, 0.0, 0.0, 0.0) == "equal"
    assert judge(0.1, 0.3, 0.31, 0.4) == "better"
    assert judge(0.1, 0.3, 0.0, 0.09) == "worse"


@pytest.mark.parametrize(("figure", "verdict"), [(45.0, "equal"), (80.0, "better"), (39.0, "worse")])
def test_published_gaps_are_symmetric(measured: Any, figure: float, verdict: str) -> None:
    """As plain gaps, 45 lies below 50 … 100 and 80 within; as symmetric ones the interval is 40 … 66.7."""
    row = Row("atsp-20", "icdc", 1, "atsp", paper_gap=figure)
    assert judge_published(measured(row, 75.0, 50.0, 100.0).summary, row) == verdict


@pytest.mark.parametrize(("cost", "verdict"), [(1.51, "equal"), (1.53, "equal"), (1.60, "better"), (1.40, "worse")])
def test_published_costs_allow_for_another_draw(measured: Any, cost: float, verdict: str) -> None:
    row = Row("navigation-20", "icdc", 64, "navigation-20", paper_cost=cost)
    assert judge_published(measured(row, 0.5, 0.4, 0.6).summary, row) == verdict


def test_every_competitor_has_its_verdict(tours: list[Measured]) -> None:
    found = compare(tours)
    assert [(c.family, c.published, c.theirs.row.samples, c.theirs.row.answer, c.verdict) for c in found] == [
        (Family.EXACT, False, 1, "best", "worse"),  # beside our most samples
        (Family.HEURISTIC, False, 1, "best", "better"),
        (Family.MATNET, False, 1, "best", "better"),
        (Family.MATNET, True, 1, "best", "worse"),
        (Family.MATNET, False, 8, "best", "equal"),
        (Family.MATNET, True, 8, "best", "worse"),
        (Family.PAPER_DIFFUSION, False, 8, "last", None),
        (Family.PAPER_DIFFUSION, True, 8, "last", "better"),
        (Family.OURS, True, 1, "best", "better"),
        (Family.OURS, True, 8, "best", "worse"),
        (Family.OURS, True, 8, "last", "worse"),
    ]  # fmt: skip
    assert counts(found) == {"better": 4, "equal": 1, "worse": 5, None: 1}


def test_what_cannot_be_compared_has_no_verdict(measured: Any) -> None:
    mine = measured(Row("atsp-20", "icdc", 8, "atsp"), 0.2, 0.1, 0.3)
    more = measured(Row("atsp-20", "matnet", 32, "m"), 2.0, 1.0, 3.0)
    fewer = measured(Row("atsp-20", "matnet", 1, "m"), 2.0, 1.0, 3.0)
    others = measured(Row("atsp-20", "matnet", 8, "m"), 2.0, 1.0, 3.0, instances=2)
    verdicts = [c.verdict for c in compare([mine, more, fewer, others])]
    assert verdicts == ["better", None, None]  # the next fewer of ours; none as few; not the same instances


@pytest.mark.parametrize(("seconds", "wins"), [(0.0005, True), (0.5, False)])
def test_the_quickest_exact_solver(tours: list[Measured], measured: Any, seconds: float, wins: bool) -> None:
    slower = measured(Row("atsp-20", "cpsat"), 0.0, 0.0, 0.0, 2.0)
    quick = measured(Row("atsp-20", "branch"), 0.0, 0.0, 0.0, seconds)
    (found,) = quickest_exact(compare([slower, quick, *tours[1:]]))
    assert found.theirs is quick
    assert exact_wins(found) is wins
