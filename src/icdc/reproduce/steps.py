"""Gap and time against the number of sampling steps."""

from . import methods, models
from .rows import Line, Measured, Panel, Report, Row
from .session import Session

STEP_SETS = ("pmsp-20x3", "pmsp-50x3", "pmsp-50x5")


def sampling_steps(session: Session) -> Report:
    """Gap and time against the number of reverse steps."""
    steps = (1, 5, 20) if session.quick else (1, 2, 3, 4, 5, 7, 10, 20)
    rows: list[Row] = []
    for dataset in STEP_SETS:
        model = models.chosen(dataset)
        for count in session.samples:
            for number in steps:
                for words, options in (("ours", ""), ("last sample alone", f",{methods.last_of(model)}")):
                    label = f"IC/DC {words} ×{count}, {number} steps"
                    spec = f"icdc:steps={number}{options}"
                    rows.append(Row(dataset, label, spec, count, model, f"icdc train {model}", at=float(number)))
        matnet = "matnet-pmsp-50" if dataset.startswith("pmsp-50") else "matnet-pmsp-20"
        rows += methods.matnet(dataset, matnet, session.samples[-1:])
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


def _by_step(measured: list[Measured], *, gap: bool) -> list[Line]:
    """Return a line for each model and number of samples, over the number of steps."""
    found: dict[str, list[tuple[float, float]]] = {}
    for m in measured:
        if m.summary is None or m.row.at is None or m.gap is None:
            continue
        value = m.gap if gap else m.summary.seconds_per_instance
        found.setdefault(f"×{m.row.samples}, {m.row.model}", []).append((m.row.at, value))
    return [Line(label, points) for label, points in found.items()]
