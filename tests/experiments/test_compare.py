"""Better, equal or worse: by intervals on the same instances, by the published figure, or no verdict at all."""

from typing import Any

import pytest

from experiments import compare
from experiments.measure import NOT_TRAINED
from experiments.methods import Family
from experiments.table import Measured, Row


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
    assert compare.judge(0.1, 0.3, 0.2, 0.4) == compare.judge(0.2, 0.4, 0.1, 0.2) == "equal"
    assert compare.judge(0.0, 0.0, 0.0, 0.0) == "equal"
    assert compare.judge(0.1, 0.3, 0.31, 0.4) == "better"
    assert compare.judge(0.1, 0.3, 0.0, 0.09) == "worse"


@pytest.mark.parametrize(("figure", "verdict"), [(45.0, "equal"), (80.0, "better"), (39.0, "worse")])
def test_published_gaps_are_symmetric(measured: Any, figure: float, verdict: str) -> None:
    """As plain gaps, 45 lies below 50 … 100 and 80 within; as symmetric ones the interval is 40 … 66.7."""
    row = Row("atsp-20", "icdc", 1, "atsp", paper_gap=figure)
    assert compare.judge_published(measured(row, 75.0, 50.0, 100.0).summary, row) == verdict


@pytest.mark.parametrize(("cost", "verdict"), [(1.51, "equal"), (1.53, "equal"), (1.60, "better"), (1.40, "worse")])
def test_published_costs_allow_for_another_draw(measured: Any, cost: float, verdict: str) -> None:
    row = Row("navigation-20", "icdc", 64, "navigation-20", paper_cost=cost)
    assert compare.judge_published(measured(row, 0.5, 0.4, 0.6).summary, row) == verdict


def test_every_competitor_has_its_verdict(tours: list[Measured]) -> None:
    found = compare.compare(tours)
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
    assert compare.counts(found) == {"better": 4, "equal": 1, "worse": 5, None: 1}


def test_what_cannot_be_compared_has_no_verdict(measured: Any) -> None:
    mine = measured(Row("atsp-20", "icdc", 8, "atsp"), 0.2, 0.1, 0.3)
    more = measured(Row("atsp-20", "matnet", 32, "m"), 2.0, 1.0, 3.0)
    fewer = measured(Row("atsp-20", "matnet", 1, "m"), 2.0, 1.0, 3.0)
    others = measured(Row("atsp-20", "matnet", 8, "m"), 2.0, 1.0, 3.0, instances=2)
    verdicts = [c.verdict for c in compare.compare([mine, more, fewer, others])]
    assert verdicts == ["better", None, None]  # the next fewer of ours; none as few; not the same instances


@pytest.mark.parametrize(("seconds", "wins"), [(0.0005, True), (0.5, False)])
def test_the_quickest_exact_solver(tours: list[Measured], measured: Any, seconds: float, wins: bool) -> None:
    slower = measured(Row("atsp-20", "cpsat"), 0.0, 0.0, 0.0, 2.0)
    quick = measured(Row("atsp-20", "branch"), 0.0, 0.0, 0.0, seconds)
    (found,) = compare.quickest_exact(compare.compare([slower, quick, *tours[1:]]))
    assert found.theirs is quick
    assert compare.exact_wins(found) is wins
