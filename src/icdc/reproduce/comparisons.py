"""Where ours is better, equal or worse: every comparison that a table allows, and its verdict by the rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from ..data.standard import standard_set
from ..evaluation import Summary
from .gaps import symmetric_gap
from .methods import MIXED
from .rows import Measured, Row

OURS = "IC/DC, ours"
LAST = "IC/DC, ours, last sample alone"

EXACT = "exact solvers"
HEURISTIC = "other classical solvers"
MATNET = "MatNet, trained here"
DIFFUSION_AS_PRINTED = "diffusion SL, RL, SL+RL as in the paper, trained here"
DIFFUSION_WITH_OURS = "diffusion SL, RL, SL+RL with our denoiser, trained here"
AS_PRINTED = "IC/DC as in the paper, trained here"
MATNET_PUBLISHED = "MatNet, as published"
DIFFUSION_PUBLISHED = "diffusion SL, RL, SL+RL, as published"
ICDC_PUBLISHED = "IC/DC, as published"
ICDC_PUBLISHED_LAST = "IC/DC, as published, beside our last samples alone"
OTHER = "other methods"

_PUBLISHED: dict[str | None, str] = {MATNET: MATNET_PUBLISHED, DIFFUSION_AS_PRINTED: DIFFUSION_PUBLISHED}

Verdict = Literal["better", "equal", "worse"]


@dataclass(frozen=True)
class Comparison:
    """Our row against another one, or against the figure that the paper prints beside that one.

    against : the competitor, one of a `family`.
    verdict : on ours; None where there is none, and then `reason` says why.
    """

    family: str
    against: str
    mine: Measured | None
    theirs: Measured
    published: bool = False
    verdict: Verdict | None = None
    reason: str = ""


def compare(rows: Sequence[Measured]) -> list[Comparison]:
    """Return all comparisons that the rows of one table allow, also those that lack a measurement."""
    found = []
    for theirs in rows:
        family = family_of(theirs.row)
        if family is None:
            continue
        classical = theirs.row.model is None
        # a classical solver meets both of our models where there are two; others meet the one trained as they are
        with_mixed = classical and any(m.row.method == MIXED for m in rows)
        for ours in (OURS, MIXED) if with_mixed else (OURS,):
            words = theirs.row.method
            if not classical and "trained here" not in words:
                words += ", trained here"
            if ours == MIXED:
                words += ", beside our mixed sizes"
            found.append(_measured(family, words, _counterpart(rows, ours, theirs.row, classical), theirs))
    for theirs in rows:
        found += _published(rows, theirs)
    return found


def family_of(row: Row) -> str | None:
    """Return the family of a competitor's row; None for a row of ours."""
    if row.method.startswith(OURS):
        return None
    if row.model is None:
        return EXACT if "exact" in row.method else HEURISTIC
    if row.method.startswith("MatNet"):
        return MATNET
    if row.method.startswith("diffusion"):
        return DIFFUSION_AS_PRINTED if "as in the paper" in row.method else DIFFUSION_WITH_OURS
    return AS_PRINTED if row.method.startswith("IC/DC as in the paper") else OTHER


def judge(low: float, high: float, their_low: float, their_high: float) -> Verdict:
    """Return the verdict on an interval beside another one: equal if they overlap; small is good."""
    if low <= their_high and their_low <= high:
        return "equal"
    return "better" if high < their_low else "worse"


def judge_published(mine: Summary, figure: float) -> Verdict | None:
    """Return the verdict beside a symmetric gap that is printed without an interval."""
    if mine.gap_low is None or mine.gap_high is None:
        return None
    return judge(symmetric_gap(mine.gap_low), symmetric_gap(mine.gap_high), figure, figure)


def judge_cost(mine: Summary, figure: float) -> Verdict | None:
    """Return the verdict beside a mean cost that is printed with two digits, for other instances than ours.

    Costs, unlike gaps, depend on the draw: our interval is widened by what the mean optima of two draws of this size
    differ by.
    """
    optima = standard_set(mine.dataset).reference
    if optima is None or mine.reference is None or mine.gap_low is None or mine.gap_high is None:
        return None
    draws = 1.96 * float(optima.std()) * sqrt(2.0 / mine.instances)
    low, high = (mine.reference * (1.0 + gap / 100.0) for gap in (mine.gap_low, mine.gap_high))
    return judge(low - draws, high + draws, figure - 0.005, figure + 0.005)


def _counterpart(rows: Sequence[Measured], ours: str, theirs: Row, classical: bool) -> Measured | None:
    """Return our row to set beside another: with as many samples, or, if there is none, the next fewer.

    A classical solver has no samples: beside it stands the row with the most that was measured.
    """
    here = sorted(
        (m for m in rows if m.row.method == ours and m.row.dataset == theirs.dataset), key=lambda m: m.row.samples
    )
    if classical:
        return next((m for m in reversed(here) if m.summary is not None), here[-1] if here else None)
    return next((m for m in reversed(here) if m.row.samples <= theirs.samples), None)


def _measured(family: str, words: str, mine: Measured | None, theirs: Measured) -> Comparison:
    reason = _lack("ours", mine) or _lack("theirs", theirs)
    if mine is None or mine.summary is None or theirs.summary is None or reason:
        return Comparison(family, words, mine, theirs, reason=reason)
    a, b = mine.summary, theirs.summary
    if a.instances != b.instances:
        return Comparison(family, words, mine, theirs, reason="not the same instances")
    if a.gap_low is None or a.gap_high is None or b.gap_low is None or b.gap_high is None:
        return Comparison(family, words, mine, theirs, reason="no intervals")
    return Comparison(family, words, mine, theirs, verdict=judge(a.gap_low, a.gap_high, b.gap_low, b.gap_high))


def _published(rows: Sequence[Measured], theirs: Measured) -> list[Comparison]:
    """Return the comparison with the figure that the paper prints beside a row of a learned method, if it does."""
    row = theirs.row
    if row.model is None or (row.paper is None and row.paper_cost is None):
        return []
    mine: Measured | None = theirs
    if row.method == OURS:
        family = words = ICDC_PUBLISHED
    elif row.method == LAST:
        family = words = ICDC_PUBLISHED_LAST
    elif family_of(row) in _PUBLISHED:
        family, words = _PUBLISHED[family_of(row)], f"{row.method.partition(',')[0]}, as published"
        mine = _counterpart(rows, OURS, row, classical=False)
    else:
        return []  # the paper's IC/DC stands beside our own rows already
    verdict, reason = None, _lack("ours", mine)
    if mine is not None and mine.summary is not None and not reason:
        if row.paper is not None:
            verdict = judge_published(mine.summary, row.paper)
        elif row.paper_cost is not None:
            verdict = judge_cost(mine.summary, row.paper_cost)
        reason = "" if verdict else "no interval"
    return [Comparison(family, words, mine, theirs, True, verdict, reason)]


def _lack(whose: str, measured: Measured | None) -> str:
    """Return why a row cannot be compared; nothing where it can."""
    if measured is None:
        return f"{whose}: no such row"
    if measured.summary is None:
        return f"{whose}: {measured.note or 'not measured'}"
    if measured.summary.feasible < 100.0:
        return f"{whose}: feasible on {measured.summary.feasible:.1f} % only"
    return ""
