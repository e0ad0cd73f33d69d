"""`docs/results.md` and the table of the README, from the CSV files of a folder alone: nothing is measured here.

The words of the page are in `results_template.md`; a name in double braces there is filled in here.
"""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import compare
from experiments.compare import Comparison
from experiments.markdown import duration, gap_with_interval, percent, table, time_in_words
from experiments.methods import METHODS, SHIPPED, Family, problem_of
from experiments.table import Measured, options_of, read_table
from experiments.targets import TARGETS
from icdc.diffusion.sampler import SamplingOptions
from icdc.evaluation.published import plain_gap, published, published_generalisation
from icdc.io.datasets import STANDARD_SETS
from icdc.training import TrainingConfig, load_config, presets

TEMPLATE = Path(__file__).with_name("results_template.md")
ANSWERS = {"best": "best", "last": "last sample", "end": "end", "refined": "refined"}
"""How the page calls the kinds of answers."""
README_SETS = (
    "atsp-20", "atsp-50", "atsp-100", "navigation-20", "pmsp-20x4", "pmsp-50x5", "pmsp-100x5", "pmsp-100x10",
)  # fmt: skip
README_COLUMNS = (
    *(("chain", count) for count in (1, 8, 32, 128)), ("refined", 128), ("last sample", 1), ("last sample", 128),
)  # fmt: skip
"""What the README shows of a card's results: the way of solving, and the number of samples."""


def results_page(folder: Path) -> str:
    """Return the page of all results in a folder."""
    tables = {name: read_table(folder / f"{name}.csv") for name in TARGETS}
    compared = {name: compare.compare(rows) for name, rows in tables.items()}
    exact = compare.quickest_exact(c for each in compared.values() for c in each)
    sizes = tables["generalisation"]
    parts = {
        "exact-wins": f"{sum(map(compare.exact_wins, exact))} of {len(exact)}",
        "verdicts": _verdicts(compared),
        **{name: _main_table(tables[name]) for name in ("pmsp-table", "atsp-table", "navigation-table")},
        "costs": _published_costs(tables["navigation-table"]),
        "training-comparison": _pivot(tables["training-comparison"], _source, _set_and_samples, bare=True),
        "generalisation-atsp": _sizes([m for m in sizes if problem_of(m.row.dataset) == "atsp"]),
        "generalisation-pmsp": _sizes([m for m in sizes if problem_of(m.row.dataset) == "pmsp"]),
        "sampling-steps": _steps(tables["sampling-steps"]),
        "ablations": _pivot(tables["ablations"], lambda m: m.row.change, _set_and_samples),
        "training-switches": _as_it_is(folder / "training-switches.csv"),
        "exact": _beside_exact(exact),
        "commands": _as_it_is(folder / "commands.csv"),
        "not-measured": _not_measured(m for rows in tables.values() for m in rows),
    }
    page = TEMPLATE.read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace("{{" + name + "}}", text)
    return page


def readme_table(cards: Mapping[str, Mapping[str, Any]], folder: Path) -> str:
    """Return the table of the README: the shipped models, as their cards have them, and the paper's IC/DC.

    cards : of the shipped models, by name.
    folder : with the tables that have random solutions.
    """
    tables = [m for name in ("generalisation", "navigation-table") for m in read_table(folder / f"{name}.csv")]
    random = {m.row.dataset: m.gap for m in tables if (m.row.method, m.row.samples) == ("random", 1)}
    lines = []
    for dataset in README_SETS:
        model = SHIPPED[problem_of(dataset)]
        gaps = {(r["way"], r["samples"]): float(r["gap"]) for r in cards[model]["results"] if r["set"] == dataset}
        paper = [published(dataset, "icdc", count) for count in (1, 128)]
        values = [gaps.get(way) for way in README_COLUMNS] + [None if gap is None else plain_gap(gap) for gap in paper]
        lines.append([f"{dataset} (`{model}`)", *map(percent, [*values, random[dataset]])])
    heads = ["×1", "×8", "×32", "×128", "refined", "last sample ×1", "×128", "the paper ×1", "×128", "random"]
    return table(["gap to the optimum, %", *heads], lines)


def baselines_table(folder: Path) -> str:
    """Return the table of docs/baselines.md: gap and time of every classical solver on each test set."""
    with (folder / "baselines.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    sets = list(dict.fromkeys(row["dataset"] for row in rows))
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        # CP-SAT beside the MIPs, on ten instances, is in the file only
        if row["time_limit"] and row["solver"] == "cpsat":
            continue
        time = time_in_words(float(row["seconds"]) / int(row["instances"]))
        lines.setdefault(row["solver"], {})[row["dataset"]] = f"{percent(float(row['gap']))}, {time}"
    return table(["solver", *sets], [[f"`{name}`", *(cells.get(s, "") for s in sets)] for name, cells in lines.items()])


def training_commands(rows: Iterable[Measured]) -> list[str]:
    """Return the commands that train what some rows lack, each once."""
    missing = (m.row.train for m in rows if m.summary is None and m.row.train)
    return list(dict.fromkeys(command for train in missing for command in train.split(" && ")))


def _verdicts(compared: Mapping[str, Sequence[Comparison]]) -> str:
    """Return how often ours is better, equal and worse than each kind of competitor."""
    titles = {
        "pmsp-table": "schedules", "atsp-table": "tours", "navigation-table": "navigation",
        "training-comparison": "sources of learning", "generalisation": "other sizes",
    }  # fmt: skip
    here = [(family.value, family, False, "") for family in Family if family is not Family.OURS]
    printed = [
        ("MatNet, published", Family.MATNET, True, ""),
        ("diffusion by SL, RL or both, published", Family.PAPER_DIFFUSION, True, ""),
        ("IC/DC, published, beside our best", Family.OURS, True, "best"),
        ("IC/DC, published, beside our last sample", Family.OURS, True, "last"),
    ]
    lines = []
    for title, family, is_published, answer in [*here, *printed]:
        cells = []
        for target in titles:
            alike = [c for c in compared[target] if (c.family, c.published) == (family, is_published)]
            cells.append(_count([c for c in alike if answer in ("", c.theirs.row.answer)]))
        lines.append([title, *cells])
    return table(["better · equal · worse", *titles.values()], lines)


def _count(comparisons: Sequence[Comparison]) -> str:
    number = compare.counts(comparisons)
    words = f"{number['better']} · {number['equal']} · {number['worse']}"
    return (words + (f" ({number[None]} not measured)" if number[None] else "")) if comparisons else ""


def _pivot(
    rows: Iterable[Measured],
    line: Callable[[Measured], str],
    column: Callable[[Measured], str],
    *,
    bare: bool = False,
    timed: bool = False,
    fewest: int = 1,
    more: Callable[[Sequence[str]], Sequence[Sequence[str]]] = lambda columns: (),
) -> str:
    """Return a table of gaps.

    Parameters
    ----------
    line, column : where a row stands.
    bare : without intervals and published figures.
    timed : a last column has the time of an instance, in the last column before it that was measured.
    fewest : lines with fewer cells are left out.
    more : further lines, for the columns that there are.
    """
    columns: dict[str, None] = {}
    lines: dict[str, dict[str, str]] = {}
    times: dict[str, str] = {}
    for m in sorted(rows, key=lambda m: list(METHODS).index(m.row.method)):
        parts = []
        if m.summary is not None:
            parts.append(percent(m.gap) if bare else gap_with_interval(m.summary))
            parts += ["of 200"] if m.summary.instances == 200 < STANDARD_SETS[m.row.dataset].count else []
            times[line(m)] = duration(m.summary)
        # an exact solver is printed as 0 by definition
        if m.row.paper_gap is not None and not bare and METHODS[m.row.method].family is not Family.EXACT:
            parts.append(f"*{percent(plain_gap(m.row.paper_gap))}*")
        if parts:
            columns.setdefault(column(m))
            lines.setdefault(line(m), {})[column(m)] = " ".join(parts)
    found = [
        [name, *(cells.get(each, "") for each in columns), *([times.get(name, "")] if timed else [])]
        for name, cells in lines.items()
        if len(cells) >= fewest
    ]
    heading = ["time an instance, last column"] if timed else []
    return table(["", *columns, *heading], [*found, *more(list(columns))])


def _main_table(rows: Sequence[Measured]) -> str:
    """Return one of the paper's tables, a column for each test set.

    Of the shipped model it has every number of samples, of other rows the fewest and the most.
    """

    def kind(m: Measured) -> tuple[str, str, str]:
        return m.row.method, m.row.model, m.row.answer

    def is_shown(m: Measured) -> bool:
        row = m.row
        counts = [o.row.samples for o in rows if kind(o) == kind(m) and (o.summary is not None or m.summary is None)]
        if row.method == "icdc" and row.answer == "best" and row.model in SHIPPED.values():
            return m.summary is not None
        if row.method == "icdc" and row.model not in SHIPPED.values():
            return row.answer == "best" and row.samples == max(counts)
        ends = {max(counts)} if row.answer == "refined" else {min(counts), max(counts)}
        return row.answer != "end" and row.samples in ends

    work: dict[str, dict[str, None]] = {}
    for m in rows:
        if words := _work(m):
            work.setdefault(_label(m), {}).setdefault(words)

    def label(m: Measured) -> str:
        words = ", ".join(work.get(_label(m), {}))
        return _label(m) + (f" ({words})" if words else "")

    return _pivot(filter(is_shown, rows), label, lambda m: m.row.dataset, timed=True)


def _sizes(rows: Sequence[Measured]) -> str:
    """Return gaps by size, and what the paper prints for them; one or two sizes say nothing about others."""

    def printed(columns: Sequence[str]) -> list[list[str]]:
        lines = []
        for title, key in (("MatNet", "matnet"), ("diffusion SL", "sl"), ("diffusion RL", "rl"), ("IC/DC", "icdc")):
            figures = [published_generalisation(f"atsp-{column}", key) for column in columns]
            cells = ["" if figure is None else f"*{percent(plain_gap(figure))}*" for figure in figures]
            lines += [[f"{title}, published", *cells]] if any(cells) else []
        return lines

    return _pivot(rows, _label, lambda m: m.row.dataset.partition("-")[2], bare=True, fewest=3, more=printed)


def _steps(rows: Sequence[Measured]) -> str:
    with_steps = [m for m in rows if "steps" in options_of(m.row.options)]
    return _pivot(
        with_steps,
        lambda m: f"{m.row.dataset}, {ANSWERS[m.row.answer]} ×{m.row.samples}",
        lambda m: options_of(m.row.options)["steps"] + " steps",
        bare=True,
        timed=True,
    )


def _label(m: Measured) -> str:
    row = m.row
    if not row.model:
        return METHODS[row.method].title + (f" ×{row.samples}" if row.method == "random" else "")
    answer = f", {ANSWERS[row.answer]}" if row.method in ("icdc", "paper-icdc") else ""
    name = f" `{row.model}`" if row.method in ("icdc", "matnet") else ""
    return f"{METHODS[row.method].title}{name}{answer} ×{row.samples}"


def _work(m: Measured) -> str:
    """Return the passes of a trajectory × the solutions decoded from each, of a diffusion model that was measured."""
    if not m.settings or METHODS[m.row.method].solver != "network":
        return ""
    settings = options_of(m.settings)
    steps, decodes = int(settings.get("steps", SamplingOptions.steps)), settings.get("decodes", "1")
    if m.row.model in presets():
        config = load_config(m.row.model)
        steps = min(steps, config.model.diffusion.steps) if isinstance(config, TrainingConfig) else steps
    return f"{steps} × {decodes}"


def _source(m: Measured) -> str:
    ships = ", the model that ships" if m.row.model in SHIPPED.values() else ""
    answer = f", {ANSWERS[m.row.answer]}" if m.row.method in ("icdc", "paper-icdc") else ""
    return f"{METHODS[m.row.method].title}{ships}{answer}"


def _set_and_samples(m: Measured) -> str:
    return f"{m.row.dataset} ×{m.row.samples}"


def _beside_exact(comparisons: Iterable[Comparison]) -> str:
    lines = []
    for comparison in comparisons:
        mine, theirs = comparison.mine, comparison.theirs
        if mine is not None and mine.summary is not None and theirs.summary is not None:
            verdict = "the exact solver" if compare.exact_wins(comparison) else "ours, for many at once"
            times = duration(theirs.summary), percent(mine.gap), duration(mine.summary)
            lines.append([theirs.row.dataset, METHODS[theirs.row.method].title, *times, verdict])
    return table(["test set", "exact solver", "its time", "our gap", "our time", "quicker at equal quality"], lines)


def _published_costs(rows: Sequence[Measured]) -> str:
    """Return the mean costs that the paper prints, each behind ours."""
    found = {}
    for m in rows:
        if m.row.paper_cost is not None and m.summary is not None and m.summary.cost is not None:
            count = f" ×{m.row.samples}" if m.row.model else ""
            found[f"{METHODS[m.row.method].title}{count}"] = f"{m.summary.cost:.2f} (*{m.row.paper_cost:.2f}*)"
    return ", ".join(f"{name} {costs}" for name, costs in found.items())


def _not_measured(rows: Iterable[Measured]) -> str:
    """Return the models and solvers of rows without a measurement, by the reason."""
    notes: dict[str, dict[str, None]] = {}
    for m in rows:
        if m.summary is None:
            notes.setdefault(m.note, {}).setdefault(m.row.model or m.row.method)
    return "\n".join(f"- {note}: {', '.join(f'`{name}`' for name in names)}" for note, names in notes.items())


def _as_it_is(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        headings, *lines = csv.reader(file)
    return table([heading.replace("_", " ") for heading in headings], lines)
