"""Where ours is better, equal or worse: every comparison that a table allows, its verdict, and why we think so."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from ..data.standard import standard_set
from ..evaluation import Summary
from .rows import Measured, Row
from .sizes import MIXED

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

WHY: dict[str, str] = {
    EXACT: """
    They end with a proof, so that ours can equal them in quality and never be better. Their search is short at
    these sizes: the assignment bound of such matrices is close to the optimum, and small whole durations keep the
    tables of dynamic programming small. The time of a model does not depend on how hard an instance is, and many
    instances share a pass on a GPU: if it saves time anywhere, then on many instances at once, on larger ones, or
    where no such solver exists.""",
    HEURISTIC: """
    A dispatching or insertion rule decides once and takes nothing back; a genetic algorithm and a particle swarm
    change solutions without having learned from other instances. The model has seen very many instances and revises
    a whole solution in every step. LKH-3 is more than a rule, a local search made for tours: we expect no more than
    to equal it.""",
    MATNET: """
    MatNet encodes an instance once and builds a solution piece by piece; an early choice is not taken back, and
    another sample is another beginning. A diffusion model revises the whole solution in every step and keeps the
    best on the way, so that one trajectory is a search already. Ours also learns every choice of an improved
    solution, a denser signal than one reward for a whole rollout. With minutes of training MatNet is far from what
    its many hours of training made of it: what it can become is told by its published figures. On routes with
    hidden travel times it has no place for coordinates.""",
    DIFFUSION_AS_PRINTED: """
    SL learns one optimum of an instance, although many solutions may be as good, and is shown noised optima only,
    never what its own reverse process visits. RL has one reward for a whole chain of steps, a gradient of high
    variance. Both denoise elements independently, decode greedily from one start, and count the last sample alone.""",
    DIFFUSION_WITH_OURS: """
    Network, steps and decoding are ours, and the best on the way is kept; only the source of learning differs. What
    is left between us is what the model's own improved solutions are worth beside given optima: targets that it can
    reach, several for an instance, made without end; and beside reward alone, which is a gradient of high variance
    through the chain. Supervision has proven optima from the beginning and spends no time on making targets, so that
    it takes more steps in the same time and learns from better solutions. On tours the refined targets of the model
    itself soon are optimal as well; on machines, where many schedules are off by a single unit, some of them never
    are.""",
    AS_PRINTED: """
    The same method with the paper's network, training and sampling, trained by this code. Every sample of
    IMPROVEMENT is a target there, only weighed by its reward, and the policy gradient never fades; ours clones only
    the best, refined. Its network sees distances or durations in the encoder alone, its elements are denoised
    independently, and only the last sample counts. The paper does not say for how long it trained; we suppose for
    far longer, so that this row does not tell what its settings reach in the end.""",
    MATNET_PUBLISHED: """
    Trained for far longer than ours, on the paper's own draw of instances. What we have against it is the search
    along a trajectory: each pass decodes anew and the best is kept, while MatNet has only another beginning for
    each sample.""",
    DIFFUSION_PUBLISHED: """
    As for those trained here: one optimum of an instance is a narrow target, the reward of a whole chain a noisy
    one, and elements that are denoised independently have to be made feasible greedily in the end.""",
    ICDC_PUBLISHED: """
    The paper counts the last solution of a trajectory. Ours counts the best on the way, and decodes several from
    every pass of the network, which takes no more passes. Part of the difference is this way of counting, part is
    network and targets.""",
    ICDC_PUBLISHED_LAST: """
    Counted as the paper counts. The model is run with the settings chosen for the best on the way, warm enough for
    samples that differ, and a single last sample suffers from that; with more samples this matters less. Where ours
    is better here, we believe in what the network sees and learns from; where it is worse, we suspect the short
    training first.""",
}
"""What we believe the reasons are, for each family of competitors, without figures: those are in the tables."""

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


def symmetric(plain: float) -> float:
    """Return the symmetric gap, in %, of a plain gap, in %."""
    return 200.0 * plain / (200.0 + plain)


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
    return judge(symmetric(mine.gap_low), symmetric(mine.gap_high), figure, figure)


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
