"""Other sizes than those trained on: tours through 10 to 100 cities, 20 to 100 jobs on 3 to 10 machines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..baselines.published import published_generalisation
from ..data.standard import STANDARD_SETS
from . import methods
from .gaps import plain_gap
from .rows import Line, Measured, Panel, Report, Row
from .session import Session

SETS: Mapping[str, tuple[str, ...]] = {
    "atsp": tuple(f"atsp-{cities}" for cities in (*range(10, 51, 5), 100)),
    "pmsp": tuple(f"pmsp-{size}" for size in ("20x3", "20x4", "20x5", "50x3", "50x4", "50x5", "100x5", "100x10")),
}
"""The test sets of each problem, the smallest first."""
QUICK_SETS: Mapping[str, tuple[str, ...]] = {
    "atsp": ("atsp-10", "atsp-20", "atsp-50"),
    "pmsp": ("pmsp-20x3", "pmsp-50x5"),
}
PAPER = {"icdc": "IC/DC", "matnet": "MatNet", "sl": "diffusion SL", "rl": "diffusion RL"}
"""The methods that the paper trains on 20 cities and runs on others, as `published_generalisation` knows them."""
_PAPER_OF_MODEL = {
    "atsp-20": "icdc",
    "paper-atsp-20": "icdc",
    "matnet-atsp-20": "matnet",
    "paper-sl-atsp-20": "sl",
    "paper-rl-atsp-20": "rl",
}


def generalisation(session: Session) -> Report:
    """Trained on 20 cities or jobs alone, and on mixed sizes."""
    sets = QUICK_SETS if session.quick else SETS
    rows = [row for dataset in sets["atsp"] for row in _tours(dataset, session.many)]
    rows += [row for dataset in sets["pmsp"] for row in _schedules(dataset, session.many)]
    words = (
        f"Learned methods are trained on 20 cities or jobs, unless they say *mixed sizes*, and run with "
        f"×{session.many}; sizes that a model does not know are solved with the default settings. "
        "Test sets hold 1,000 instances at 20 and 50 cities or jobs, 200 at other sizes below 100, and 128 at 100. The "
        "paper's figures are symmetric gaps; the picture has them as plain ones."
    )
    return as_report(session.measure(rows), [words], PAPER)


def as_report(measured: Sequence[Measured], words: Sequence[str], papers: Iterable[str]) -> Report:
    """Return the report of rows on sets of several sizes: a panel for each problem.

    papers : the methods whose lines in the paper are drawn, keys of `PAPER`.
    """
    panels = []
    cities = _lines(measured, "atsp")
    if cities:
        panels.append(Panel("tours", "cities", "gap to the optimum, %", [*cities, *map(_published_line, papers)]))
    jobs = _lines(measured, "pmsp")
    if jobs:
        ticks = [dataset.removeprefix("pmsp-").replace("x", "×") for dataset in SETS["pmsp"]]
        panels.append(Panel("machines", "jobs × machines", "gap to the optimum, %", jobs, ticks=ticks))
    return Report("Other sizes than those trained on", words, measured, panels)


def published_at(row: Row) -> float | None:
    """Return the symmetric gap, in %, that the paper prints where a row is what it measured."""
    if "refined" in row.method:
        return None
    return published_generalisation(row.dataset, _PAPER_OF_MODEL.get(row.model or "", ""))


def _tours(dataset: str, samples: int) -> list[Row]:
    trained = "atsp-20"
    rows = methods.matnet(dataset, "matnet-atsp-20", [samples])
    for key in ("sl", "rl"):
        for paper in (True, False):
            rows += methods.diffusion(dataset, key, [samples], paper=paper, trained=trained)
    rows += methods.as_in_the_paper(dataset, "paper-atsp-20", [samples])
    rows += methods.ours(dataset, trained, [samples])
    rows += _mixed(dataset, samples)
    rows += [row for row in methods.classical(dataset) if row.solver == "patching"]
    # all of them are trained on 20 cities, unless they say otherwise
    return [
        replace(row, method=row.method.removesuffix(f", trained on {trained}"), paper=published_at(row)) for row in rows
    ]


def _schedules(dataset: str, samples: int) -> list[Row]:
    rows = methods.matnet(dataset, "matnet-pmsp-20", [samples])
    rows += methods.ours(dataset, "pmsp-20", [samples])
    rows += _mixed(dataset, samples)
    rows += [row for row in methods.classical(dataset) if row.solver == "lpt"]
    return [replace(row, paper=None) for row in rows]  # the paper has no such table for machines


def _mixed(dataset: str, samples: int) -> list[Row]:
    rows = methods.ours(dataset, methods.problem_of(dataset), [samples], methods.MIXED)
    return [row for row in rows if "last sample" not in row.method]


def _lines(measured: Sequence[Measured], problem: str) -> list[Line]:
    """Return a line for each method: its gap at each size of a problem, the smallest first."""
    here = [m for m in measured if m.gap is not None and m.row.dataset in SETS[problem]]
    lines = []
    for label in dict.fromkeys((m.row.method, m.row.samples) for m in here):
        points = [(_place(m.row.dataset), m.gap) for m in here if (m.row.method, m.row.samples) == label]
        several = len({m.row.samples for m in here if m.row.method == label[0]}) > 1
        name = f"{label[0]}, ×{label[1]}" if several else label[0]
        lines.append(Line(name, sorted((x, y) for x, y in points if y is not None)))
    return lines


def _published_line(key: str) -> Line:
    figures = [(_place(dataset), published_generalisation(dataset, key)) for dataset in SETS["atsp"]]
    return Line(PAPER[key], [(x, plain_gap(y)) for x, y in figures if y is not None], paper=True)


def _place(dataset: str) -> float:
    """Return where a set lies on the horizontal axis: at its cities, or, for machines, at its place in the list."""
    if dataset in SETS["pmsp"]:
        return float(SETS["pmsp"].index(dataset))
    return float(STANDARD_SETS[dataset].size[0])
