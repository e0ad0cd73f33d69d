"""The account as Markdown: who is ahead and how often, then every comparison, then time beside the exact solvers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .compact import duration, percent, table, with_interval
from .comparisons import EXACT, Comparison, compare
from .gaps import symmetric_gap
from .methods import problem_of
from .reasons import WHY
from .rows import Measured

RULE = """A comparison with a method measured here is on the same instances: **equal** means that the 95 % intervals of
the two gaps overlap, **better** and **worse** that they do not and ours is the smaller or the larger. A published gap
has no interval, is symmetric and is for the paper's own instances: equal means that it lies within our interval,
translated to symmetric gaps. A published cost (navigation) is equal if, rounding allowed for, it lies within our
interval widened by what two draws of so many instances differ by. *Ours* is `IC/DC, ours`, the best of every
trajectory, unless the competitor's name says otherwise. Learned methods are compared at the same number of samples, or,
where we have no such row, at our next smaller one; a classical solver, which runs once, with our largest. Intervals
that overlap do not prove that two methods are alike. A comparison that several tables hold counts once."""


_EXACT_WINS = "the exact solver wins"


@dataclass(frozen=True)
class Section:
    """One problem in one table, and whether it is one of the paper's main tables."""

    title: str
    target: str
    problem: str
    main: bool = True


SECTIONS = (
    Section("parallel machines", "pmsp-table", "pmsp"),
    Section("tours", "atsp-table", "atsp"),
    Section("navigation", "navigation-table", "navigation"),
    Section("sources of learning, machines", "training-comparison", "pmsp", main=False),
    Section("sources of learning, tours", "training-comparison", "atsp", main=False),
    Section("other sizes, machines", "generalisation", "pmsp", main=False),
    Section("other sizes, tours", "generalisation", "atsp", main=False),
)


def account(tables: Mapping[str, Sequence[Measured]]) -> dict[Section, list[Comparison]]:
    """Return the comparisons of every section whose table is there, each comparison once.

    tables : the rows of the targets, by name.
    """
    found: dict[Section, list[Comparison]] = {}
    known = set()
    for section in SECTIONS:
        rows = [m for m in tables.get(section.target, ()) if problem_of(m.row.dataset) == section.problem]
        for comparison in compare(rows):
            key = _key(comparison)
            if key not in known:
                known.add(key)
                found.setdefault(section, []).append(comparison)
    return found


def counts(comparisons: Iterable[Comparison]) -> dict[str, int]:
    """Return how many comparisons have each verdict; "missing" are those that have none."""
    found = dict.fromkeys(("better", "equal", "worse", "missing"), 0)
    for comparison in comparisons:
        found[comparison.verdict or "missing"] += 1
    return found


def as_markdown(found: Mapping[Section, Sequence[Comparison]]) -> str:
    """Return the account: the rule, counts by family, a line for each competitor, all comparisons."""
    parts = [RULE]
    for main in (True, False):
        sections = {section: list(each) for section, each in found.items() if section.main is main}
        if sections:
            parts.append(_matrix(sections))
    missing = [section.title for section in SECTIONS if section not in found]
    if missing:
        parts.append(f"Not compared yet, for want of a table: {'; '.join(missing)}.")
    for section, comparisons in found.items():
        ours = sorted({c.mine.row.model for c in comparisons if c.mine is not None and c.mine.row.model is not None})
        words = f"Ours: {', '.join(f'`{name}`' for name in ours) or 'no row'}."
        parts += [f"### {section.title.capitalize()}", words, "\n".join(_lines(comparisons)), _details(comparisons)]
    return "\n\n".join(parts)


def reasons(found: Mapping[Section, Sequence[Comparison]]) -> str:
    """Return why we think so, for each family that was compared."""
    families = {comparison.family for each in found.values() for comparison in each}
    return "\n".join(
        f"- **{family}**: {' '.join(words.split())}" for family, words in WHY.items() if family in families
    )


def beside_exact(found: Mapping[Section, Sequence[Comparison]]) -> str:
    """Return time and quality beside the quickest exact solver of each test set, and who wins."""
    quickest: dict[str, Comparison] = {}
    for comparison in (c for section, each in found.items() if section.main for c in each):
        if comparison.family != EXACT or comparison.verdict is None:
            continue
        before = quickest.setdefault(comparison.theirs.row.dataset, comparison)
        if _seconds(comparison.theirs) < _seconds(before.theirs):
            quickest[comparison.theirs.row.dataset] = comparison
    if not quickest:
        return "No exact solver has been measured beside ours yet."
    ends = {dataset: _altogether(comparison) for dataset, comparison in quickest.items()}
    wins = sum(end == _EXACT_WINS for end in ends.values())
    words = (
        "The quickest exact solver of each test set, instance after instance on one core, beside ours with the most "
        "samples, which solves many instances at once: its time is a share of a batch, and one instance alone takes at "
        "least as long. "
        f"On {wins} of {len(ends)} test sets the exact solver is as good or better and takes no longer: there it wins, "
        "for one instance and for many."
    )
    if wins < len(ends):
        words += " Where ours takes less time, that is for many instances; for one alone it says nothing."
    rows = []
    for dataset, comparison in quickest.items():
        if comparison.mine is None or comparison.mine.summary is None or comparison.theirs.summary is None:
            continue
        mine, theirs = comparison.mine.summary, comparison.theirs.summary
        rows.append(
            [
                dataset,
                comparison.theirs.row.method,
                f"{percent(theirs.gap)}, {duration(theirs)}",
                f"{percent(mine.gap)} with ×{mine.samples}, {duration(mine)}",
                str(comparison.verdict),
                ends[dataset],
            ]
        )
    headings = ["test set", "exact solver", "its gap % and time", "our gap % and time", "quality of ours", "altogether"]
    return f"{words}\n\n{table(headings, rows)}"


def _altogether(comparison: Comparison) -> str:
    if _seconds(comparison.theirs) > _seconds(comparison.mine):
        return "ours takes less time, many at once"
    return "ours is better, the exact solver quicker" if comparison.verdict == "better" else _EXACT_WINS


def _key(comparison: Comparison) -> tuple[object, ...]:
    """Return what makes a comparison the same in another table: both rows, or our row and the printed figure."""
    mine, theirs = comparison.mine, comparison.theirs.row
    ours = None if mine is None else (mine.row.method, mine.row.solver, mine.row.samples, mine.row.model)
    other = (theirs.paper, theirs.paper_cost) if comparison.published else (theirs.solver, theirs.model)
    return comparison.against, theirs.dataset, theirs.samples, ours, other


def _matrix(sections: Mapping[Section, Sequence[Comparison]]) -> str:
    """Return how often ours is better, equal and worse, a line for each family and a column for each section."""
    everything = [comparison for each in sections.values() for comparison in each]
    known = {comparison.family for comparison in everything}
    families = [*(family for family in WHY if family in known), *sorted(known - set(WHY))]
    rows = []
    for family in families:
        groups = [[c for c in each if c.family == family] for each in sections.values()]
        rows.append([family, *map(_count, groups), _count([c for group in groups for c in group])])
    rows.append(["all", *map(_count, sections.values()), _count(everything)])
    return table(["better · equal · worse", *(section.title for section in sections), "all"], rows)


def _count(comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return ""
    number = counts(comparisons)
    words = f"{number['better']} · {number['equal']} · {number['worse']}"
    return words + (f" ({number['missing']} not measured)" if number["missing"] else "")


def _lines(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a line for each competitor: how often, and where it is not better or not measured."""
    lines = []
    for against in dict.fromkeys(comparison.against for comparison in comparisons):
        here = [comparison for comparison in comparisons if comparison.against == against]
        number = counts(here)
        total = len(here) - number["missing"]
        words = (
            f"- **{against}**: better in {number['better']}, equal in {number['equal']}, worse in {number['worse']} of "
            f"{total} comparison{'' if total == 1 else 's'}"
        )
        for verdict in ("better", "equal", "worse"):
            places = [comparison for comparison in here if comparison.verdict == verdict]
            if places and number[verdict] < total:
                words += f"; {verdict}: {_places(places)}"
        for reason in dict.fromkeys(comparison.reason for comparison in here if comparison.verdict is None):
            places = [c for c in here if c.verdict is None and c.reason == reason]
            words += f"; not measured ({reason}): {_places(places)}"
        lines.append(words)
    return lines


def _places(comparisons: Sequence[Comparison]) -> str:
    """Return test sets and numbers of samples in a few words."""
    found: dict[str, list[str]] = {}
    for comparison in comparisons:
        found.setdefault(comparison.theirs.row.dataset, []).append(f"×{comparison.theirs.row.samples}")
    # solvers without a model run once: their samples say nothing
    bare = all(comparison.theirs.row.model is None for comparison in comparisons)
    return ", ".join(dataset if bare else f"{dataset} {' '.join(samples)}" for dataset, samples in found.items())


def _details(comparisons: Sequence[Comparison]) -> str:
    headings = [
        "against",
        "test set",
        "samples (ours / theirs)",
        "ours %",
        "theirs %",
        "our time",
        "their time",
        "verdict",
    ]
    competitors = list(dict.fromkeys(comparison.against for comparison in comparisons))
    rows = [_detail(c) for c in sorted(comparisons, key=lambda c: competitors.index(c.against))]
    summary = f"<summary>All {len(rows)} comparisons</summary>"
    return f"<details>\n{summary}\n\n{table(headings, rows)}\n\n</details>"


def _detail(comparison: Comparison) -> list[str]:
    mine, row = comparison.mine, comparison.theirs.row
    own = None if mine is None else mine.summary
    samples = str(row.samples)
    if mine is not None and mine.row.samples != row.samples:
        samples = f"{mine.row.samples} / {row.samples}"
    if comparison.published and row.paper is None:
        ours = "–" if own is None or own.cost is None else f"cost {own.cost:.3f}"
        theirs, time = f"cost {row.paper_cost:.2f}", "–"
    elif comparison.published:
        interval = [] if own is None else [x for x in (own.gap, own.gap_low, own.gap_high) if x is not None]
        figures = [percent(symmetric_gap(x)) for x in interval]
        ours = f"{figures[0]} [{figures[1]} … {figures[2]}], symmetric" if len(figures) == 3 else "–"
        theirs, time = f"{row.paper:g}, symmetric", "–"
    else:
        other = comparison.theirs.summary
        ours = "–" if own is None else with_interval(own)
        theirs, time = ("–", "–") if other is None else (with_interval(other), duration(other))
    verdict = comparison.verdict or f"not measured ({comparison.reason})"
    our_time = "–" if own is None else duration(own)
    return [comparison.against, row.dataset, samples, ours, theirs, our_time, time, verdict]


def _seconds(measured: Measured | None) -> float:
    return float("inf") if measured is None or measured.summary is None else measured.summary.seconds_per_instance
