"""The pages of results and of models, and the README's table, from CSV files and cards alone: nothing is measured here.

The words of the page of results are in `results.md`; a name in double braces there is filled in here.
"""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.csvfiles import read_rows
from experiments.markdown import duration, gap_with_interval, percent, table, time_in_words
from experiments.tables.measure import Comparison, compare, counts, exact_wins, quickest_exact
from experiments.tables.rows import METHODS, SHIPPED, TARGETS, Family, Measured, options_of, problem_of, read_table
from icdc.diffusion.sampler import SamplingOptions
from icdc.evaluation.published import plain_gap, published, published_generalisation
from icdc.io.datasets import STANDARD_SETS
from icdc.models.card import changes_advised
from icdc.models.catalogue import models_folder
from icdc.models.diffusion import CHAIN_STEPS
from icdc.problems import get_problem
from icdc.training import TrainingConfig, load_config, presets

TEMPLATE = Path(__file__).with_name("results.md")
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
    compared = {name: compare(rows) for name, rows in tables.items()}
    exact = quickest_exact(c for each in compared.values() for c in each)
    sizes = tables["generalisation"]
    parts = {
        "exact-wins": f"{sum(map(exact_wins, exact))} of {len(exact)}",
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
    rows = read_rows(folder / "baselines.csv")
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
    number = counts(comparisons)
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
            verdict = "the exact solver" if exact_wins(comparison) else "ours, for many at once"
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


INTRODUCTION = """# The models

Written by `python -m experiments pages` from the cards inside the model files and from
[results/models.csv](results/models.csv). A model's card also holds its settings of training, and for every
size two settings of solving that were best on validation data: one for the model alone, one for local search inside its
chain (`python -m experiments.cards.choose` chooses them over all families); `icdc models` lists the cards, `icdc solve`
follows them.

## Where a model is at home

`python -m experiments.cards.families` measures a model on families of instances that it may never have seen: the model
alone, the model with local search inside its chain, and search alone, in the same seconds each
([results/cards.csv](results/cards.csv) has the intervals). It writes the gaps into the card, with the numbers that
describe such matrices: an instance is judged by the family that it is most like, and `icdc solve --solver network` says
that it is new to the model only where the model alone would be more than two percentage points worse than search. The
same run chooses how many changes are best at each size where time is limited.

## Standard test sets

Gaps are in %, to proven optima of the standard test sets, 20 network passes a trajectory; *refined*, *last sample* and
the rest of the words are explained in [results.md](results.md), where competitors stand beside them, with intervals."""

TRAINING = """## How the models of the tables were trained

The three above ship. Those called previous, earlier and former, and `navigation-20`, are what they went on from. The
others are there to be compared with; `icdc train NAME` trains them. Seconds are those of all pieces together, on one
H200 that was shared with other runs; *from random weights* adds those of the model it began with; *alone* is what the
same rounds would take on an H200 of their own, where `experiments.speed.training` timed one. Updates are cloning steps,
or steps of the policy gradient."""


def models_page(cards: Mapping[str, Mapping[str, Any]], folder: Path) -> str:
    """Return the page.

    cards : of the shipped models, by name.
    folder : with `models.csv`, how each model was trained.
    """
    trained = {line["model"]: line for line in read_rows(folder / "models.csv")}
    limits = [f"None of them is for {text}." for text in dict.fromkeys(card["not_for"] for card in cards.values())]
    sections = [_section(name, card, trained[name], _whole_seconds(name, trained)) for name, card in cards.items()]
    headings = [
        "model",
        "seconds",
        "from random weights",
        "alone",
        "rounds",
        "updates",
        "seed",
        "began with",
        "shared the GPU with",
    ]
    rows = [_line(name, line, _whole_seconds(name, trained)) for name, line in trained.items()]
    return "\n\n".join([INTRODUCTION, *limits, *sections, TRAINING, table(headings, rows)]) + "\n"


def _section(name: str, card: Mapping[str, Any], trained: Mapping[str, str], seconds: str) -> str:
    whole = "" if seconds == trained["seconds"] else f", {seconds} s in all"
    network, steps = card["settings"]["model"]["network"], card["settings"]["model"]["diffusion"]["steps"]
    sizes = ", ".join("×".join(map(str, size)) for size in sorted({tuple(size) for size in card["sizes"]}))
    unit = " × ".join(get_problem(card["problem"]).size_names)
    file = models_folder() / f"{name}.safetensors"
    lines = [
        f"## {name}",
        "",
        f"- For {card['problem']}: {sizes} {unit}.",
        f"- Learned from {card['data']}; {trained['pieces']} s on one {trained['hardware']}, from "
        f"{_begun(trained['began_with'])}{whole}.",
        f"- {network['encoder_layers']} + {network['denoiser_layers']} layers, width {network['width']}, edge width "
        f"{network['edge_width']}, {network['heads']} heads; T = {steps}; {file.stat().st_size / 1e6:.1f} MB.",
        "",
    ]
    gaps = {(r["set"], r["way"], r["samples"]): float(r["gap"]) for r in card["results"]}
    columns = [*(("chain", n) for n in (1, 8, 32, 128)), ("refined", 128), ("last sample", 1), ("last sample", 128)]
    sets = sorted({r["set"] for r in card["results"]}, key=lambda name: STANDARD_SETS[name].size)
    rows = [[each, *(percent(gaps.get((each, *column))) for column in columns)] for each in sets]
    heads = ["test set", "×1", "×8", "×32", "×128", "refined ×128", "last sample ×1", "×128"]
    return "\n".join(lines) + "\n" + table(heads, rows) + _home(card)


def _home(card: Mapping[str, Any]) -> str:
    """Return where a model is at home: a line for each family, a column for each size, gaps of all three ways."""
    cells = {(cell["family"], tuple(cell["size"])): cell for cell in card.get("home", [])}
    if not cells:
        return ""
    sizes = list(dict.fromkeys(size for _, size in cells))
    families = list(dict.fromkeys(family for family, _ in cells))
    heads = ["alone / with search / search, %", *("×".join(map(str, size)) for size in sizes)]
    rows = [[family, *(_gaps(cells.get((family, size))) for size in sizes)] for family in families]
    words = [f"{changes_advised(card, size)} changes, {CHAIN_STEPS} passes" for size in sizes]
    about = card["measured"]
    where = "on a CPU" if about["device"] == "cpu" else "on a GPU"
    where += f" shared with {about['shared']}" if about.get("shared") else ""
    said = (
        f"\n\n{about['seconds']:g} s an instance, {about['instances']} instances of each family and size, {where}:\n\n"
    )
    return said + table(heads, [*rows, ["*search inside the chain*", *words]])


def _gaps(cell: Mapping[str, Any] | None) -> str:
    return "–" if cell is None else " / ".join(percent(cell[way]) for way in ("alone", "with_search", "search"))


def _whole_seconds(name: str, trained: Mapping[str, Mapping[str, str]]) -> str:
    """Return the seconds since random weights: those of a model and of all that it began with, where all are known."""
    line = trained[name]
    before = line["began_with"]
    if before == "random weights":
        return line["seconds"]
    earlier = _whole_seconds(before, trained) if before in trained else ""
    return str(int(line["seconds"]) + int(earlier)) if earlier else ""


def _line(name: str, line: Mapping[str, str], whole: str) -> list[str]:
    alone = f"{float(line['round_ms']) * int(line['rounds']) / 1000.0:.0f}" if line["round_ms"] else ""
    seconds = line["seconds"] if line["pieces"] == line["seconds"] else f"{line['seconds']} ({line['pieces']})"
    counts = [f"{int(line[key]):,}" if line[key] else "" for key in ("rounds", "updates")]
    return [f"`{name}`", seconds, whole, alone, *counts, line["seed"], _begun(line["began_with"]), line["shared_with"]]


def _begun(text: str) -> str:
    """Return what a model began with, the name of another model as code."""
    model, comma, rest = text.partition(",")
    return text if text == "random weights" else f"`{model}`{comma}{rest}"
