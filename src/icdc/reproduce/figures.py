"""The figures of the paper: other sizes than the one trained on, and fewer sampling steps."""

from dataclasses import replace

from ..baselines.published import published_generalisation
from . import methods
from .rows import Line, Measured, Panel, Report, Row
from .session import Session
from .tables import TRAIN_PMSP_50

SIZES = tuple(range(10, 51, 5))
STEP_SETS = ("pmsp-20x3", "pmsp-50x3", "pmsp-50x5")


def generalisation(session: Session) -> Report:
    """Trained on 20 cities, run on 10 to 50."""
    rows: list[Row] = []
    for cities in (10, 20, 50) if session.quick else SIZES:
        dataset = f"atsp-{cities}"
        trained = "atsp-20"
        found = methods.matnet(dataset, "matnet-atsp-20", [session.many])
        for key in ("sl", "rl"):
            found += methods.diffusion(dataset, key, [session.many], paper=True, trained=trained)
            found += methods.diffusion(dataset, key, [session.many], paper=False, trained=trained)
        found += methods.as_in_the_paper(dataset, "paper-atsp-20", [session.many])
        found += methods.ours(dataset, trained, [session.many], "icdc train atsp-20")
        found += [row for row in methods.classical(dataset) if row.solver == "patching"]
        for row in found:
            method = row.method.removesuffix(f", trained on {trained}")  # as all of them are
            rows.append(replace(row, method=method, at=float(cities), paper=_published(row)))
    measured = session.measure(rows)
    lines = _lines(measured)
    papers = {"IC/DC": "icdc", "MatNet": "matnet", "diffusion SL": "sl", "diffusion RL": "rl"}
    for label, key in papers.items():
        figures = [(float(cities), published_generalisation(f"atsp-{cities}", key)) for cities in SIZES]
        lines.append(Line(label, [(x, y) for x, y in figures if y is not None], paper=True))
    words = (
        f"Every learned method is trained on 20 cities and run with ×{session.many}; sizes it does not know are "
        "solved with the default settings. Test sets other than 20 and 50 cities hold 200 instances. The paper's "
        "figures are symmetric gaps, which are smaller than plain ones where gaps are large."
    )
    panel = Panel("trained on 20 cities", "cities", "gap to the optimum, %", lines)
    return Report("Other sizes than the one trained on", [words], measured, [panel])


def sampling_steps(session: Session) -> Report:
    """Gap and time against the number of reverse steps."""
    steps = (1, 5, 20) if session.quick else (1, 2, 3, 4, 5, 7, 10, 20)
    rows: list[Row] = []
    for dataset in STEP_SETS:
        large = dataset.startswith("pmsp-50")
        for count in session.samples:
            for number in steps:
                for words, options in (("ours", ""), ("last sample alone", f",{methods.LAST}")):
                    spec = f"icdc:steps={number}{options}"
                    label = f"IC/DC {words} ×{count}, {number} steps"
                    if large:
                        label += ", trained at 20 jobs"
                    rows.append(Row(dataset, label, spec, count, "pmsp-20", "icdc train pmsp-20", at=float(number)))
                    if large and session.model_file("pmsp-50") is not None:
                        label = f"IC/DC {words} ×{count}, {number} steps"
                        rows.append(Row(dataset, label, spec, count, "pmsp-50", TRAIN_PMSP_50, at=float(number)))
        rows += methods.matnet(dataset, "matnet-pmsp-50" if large else "matnet-pmsp-20", session.samples[-1:])
    measured = session.measure(rows)
    panels = []
    for dataset in STEP_SETS:
        here = [m for m in measured if m.row.dataset == dataset and m.row.at is not None]
        alone = [m for m in here if "last sample alone" in m.row.method]
        panels.append(Panel(dataset, "reverse steps", "gap to the optimum, %", _by_step(alone, gap=True), log_x=True))
        seconds = _by_step(alone, gap=False)
        panels.append(Panel(dataset, "reverse steps", "seconds an instance", seconds, percent=False, log_x=True))
    words = (
        "The paper gives these curves only as pictures (T = 10 and 15 there, 20 here), so no figures of its own stand "
        "beside ours. The picture shows the last sample alone, as the paper counts; the table also has the best of "
        "every trajectory."
    )
    return Report("Gap and time against the number of sampling steps", [words], measured, panels)


def _published(row: Row) -> float | None:
    """Return the paper's figure for a method trained on 20 cities."""
    key = "matnet" if row.solver == "matnet" else next(
        (name for name in ("sl", "rl") if row.model == f"paper-{name}-atsp-20"), ""
    )  # fmt: skip
    if row.solver == "icdc" or row.model == "paper-atsp-20" or "last sample alone" in row.method:
        key = "icdc"
    return published_generalisation(row.dataset, key)


def _lines(measured: list[Measured]) -> list[Line]:
    """Return a line for each method: its gap at each place of the axis."""
    lines = []
    for method in dict.fromkeys(m.row.method for m in measured):
        points = [
            (m.row.at, m.gap) for m in measured if m.row.method == method and m.gap is not None and m.row.at is not None
        ]
        if points:
            lines.append(Line(method, points))
    return lines


def _by_step(measured: list[Measured], *, gap: bool) -> list[Line]:
    """Return a line for each model and number of samples, over the number of steps."""
    found: dict[str, list[tuple[float, float]]] = {}
    for m in measured:
        if m.summary is None or m.row.at is None or m.gap is None:
            continue
        value = m.gap if gap else m.summary.seconds_per_instance
        found.setdefault(f"×{m.row.samples}, {m.row.model}", []).append((m.row.at, value))
    return [Line(label, points) for label, points in found.items()]
