"""What became of variants that were trained side by side: tables and curves, from the files of `side_by_side`.

The words of `docs/paper-recipe.md` are in `paper.md`.
"""

from collections.abc import Sequence
from pathlib import Path

from experiments.csvfiles import read_rows
from experiments.markdown import percent, table
from experiments.tables.figures import GAP, Lines, Panel
from experiments.tables.rows import read_table
from experiments.training.side_by_side import COLUMNS, VALIDATION, choose
from experiments.training.variants import BASELINES, FAMILIES, PAPER
from icdc.errors import InputError
from icdc.evaluation.published import plain_gap, published
from icdc.io.datasets import STANDARD_SETS
from icdc.io.files import write_atomically

FILES = {
    "cause": "paper-cause",
    "readings": "paper-readings",
    "presets": "paper-presets",
    "ours": "our-recipe",
    "features": "features",
    "learning": "learning",
}
"""The file in docs/results that has the curves of each group."""
TEMPLATE = Path(__file__).with_name("paper.md")
WORDS = {"atsp-20": "tours", "pmsp-20x4": "schedules"}

Line = dict[str, str]


def paper_page(folder: Path) -> str:
    """Return `docs/paper-recipe.md`; its words are in `paper.md`."""
    page = TEMPLATE.read_text(encoding="utf-8")
    parts = {
        "paper-cause": switches_table(folder, "cause"),
        "paper-readings": switches_table(folder, "readings"),
        "paper-presets": presets_table(folder),
        "paper-baselines": presets_table(folder, baselines=True),
        "our-recipe": ablation_table(folder),
    }
    for name, text in parts.items():
        page = page.replace("{{" + name + "}}", text)
    return page


def take(group: str, source: Path, folder: Path) -> Path:
    """Put the curves of a call into the folder of results; runs that are there already and not in it stay.

    source : the folder that `side_by_side` wrote.
    """
    known = {variant.name: variant for variant in choose(group)}
    if not (source / "curves.csv").is_file():
        raise InputError(f"there is no file '{source / 'curves.csv'}'")
    found = [line for line in read_rows(source / "curves.csv") if line["run"] in known]
    if not found:
        raise InputError(f"'{source}' has no curves of the group '{group}'")
    path = folder / f"{FILES[group]}.csv"
    new = {line["run"] for line in found}
    kept = [line for line in read_rows(path) if line["run"] not in new]
    order = list(known)
    rows = sorted([*kept, *found], key=lambda line: order.index(line["run"]) if line["run"] in known else len(order))
    text = [",".join(COLUMNS)]
    for line in rows:
        line["words"] = known[line["run"]].words if line["run"] in known else line["words"]
        line["way"] = line.get("way") or "last"
        text.append(_csv_line([line.get(name) or "" for name in COLUMNS]))
    write_atomically(path, "\n".join(text) + "\n")
    return path


def switches_table(folder: Path, group: str) -> str:
    """Return what every change of a group came to, tours and schedules side by side: current weights, then averaged."""
    lines = lines_of(folder, group)
    if not lines:
        return "Not measured yet."
    last = {(line["words"], _set(line), line["weights"], line["data"], line["samples"]): line for line in lines}
    rows = []
    for words, short in {line["words"]: _short(line) for line in lines}.items():
        cells, effective = [f"{words} (`{short}`)"], []
        for data in PAPER:
            wanted = [("current", VALIDATION, "1"), ("current", VALIDATION, "8"), ("current", data, "128")]
            found = [last.get((words, data, *key)) for key in (*wanted, ("average", VALIDATION, "8"))]
            cells += ["" if line is None else percent(float(line["gap"])) for line in found]
            cells.append(found[1]["round"] if found[1] else "")
            effective += [f"{float(found[1]['effective']):.2g}"] if found[1] and found[1]["effective"] else []
        rows.append([*cells, ", ".join(effective)])
    heads = ["changed"]
    for data in PAPER:
        heads += [f"{WORDS[data]} ×1", "×8", "×128", "averaged ×8", "rounds"]
    return table([*heads, "effective share"], rows)


def ablation_table(folder: Path) -> str:
    """Return what our recipe is worth without each of its parts, the mean of all seeds that were trained."""
    lines = [line for line in lines_of(folder, "ours") if _valid(line) and line["weights"] == "average"]
    if not lines:
        return "Not measured yet: `python -m experiments.training.side_by_side ours` trains it."
    last = {(line["run"], line["samples"]): line for line in lines}
    rows = []
    for words in dict.fromkeys(line["words"] for line in lines):
        cells = [words]
        for data in PAPER:
            for samples in ("1", "8"):
                gaps = [
                    float(line["gap"])
                    for (_, count), line in last.items()
                    if (line["words"], _set(line), count) == (words, data, samples)
                ]
                cells.append(" / ".join(map(percent, gaps)))
        rows.append(cells)
    heads = [f"{WORDS[data]} ×{n}" for data in PAPER for n in (1, 8)]
    return table(["without", *heads], rows)


def presets_table(folder: Path, *, baselines: bool = False) -> str:
    """Return the last sample of the presets, or of the baselines, on the standard test sets, beside the paper's own."""
    lines = [line for line in lines_of(folder, "presets") if line["run"].startswith(BASELINES) == baselines]
    final = [line for line in lines if line["data"] in STANDARD_SETS and line["weights"] == "average"]
    if not final:
        return "Not measured yet."
    random = {
        (m.row.dataset, m.row.samples): m.gap
        for m in read_table(folder / "training-comparison.csv")
        if m.row.method == "random"
    }
    counts = ("1", "8", "32", "128")
    rows = []
    for data in PAPER:
        cells = [published(data, "icdc", int(count)) for count in counts]
        rows.append(
            [data, "IC/DC, published", "", "", *("" if c is None else f"*{percent(plain_gap(c))}*" for c in cells)]
        )
        rows.append([data, "random", "", "", *(percent(random.get((data, int(count)))) for count in counts)])
        for run, way in dict.fromkeys((line["run"], line["way"]) for line in final if line["data"] == data):
            here = {line["samples"]: line for line in final if (line["run"], line["way"]) == (run, way)}
            one = next(iter(here.values()))
            words = one["words"] + ("" if way == "last" else f", {way} end")
            gaps = [percent(float(here[n]["gap"])) if n in here else "" for n in counts]
            rows.append([data, words, f"{float(one['at']):.0f}", one["round"], *gaps])
    return table(["test set", "", "seconds", "rounds", *(f"×{n}" for n in counts)], rows)


def training_panels(folder: Path) -> list[Panel]:
    """Return the curves: gap of the last sample ×8 against training seconds, a panel for each group and problem."""
    panels = []
    for group, weights in (("cause", "current"), ("readings", "current"), ("presets", "average")):
        for data in PAPER:
            lines: Lines = {}
            for line in lines_of(folder, group):
                if _valid(line) and (_set(line), line["weights"], line["samples"]) == (data, weights, "8"):
                    label = _short(line) if line["way"] == "last" else f"{_short(line)}, {line['way']}"
                    lines.setdefault(label, []).append((float(line["at"]), float(line["gap"])))
            if lines:
                titles = {"cause": "the search for the cause", "readings": "readings", "presets": "presets"}
                panels.append(Panel(f"{WORDS[data]} ×8: {titles[group]}", "training seconds", GAP, lines))
    return panels


def lines_of(folder: Path, group: str) -> list[Line]:
    """Return the lines of the file that has the curves of a group; none where there is no file."""
    path = folder / f"{FILES[group]}.csv"
    return read_rows(path)


def _valid(line: Line) -> bool:
    return line["data"] == VALIDATION


def _set(line: Line) -> str:
    """Return the test set whose size a run was trained for."""
    return next(data for data in PAPER if data in line["run"])


def _short(line: Line) -> str:
    """Return the name of a run without its test set, as figures call it."""
    return line["run"].removeprefix(f"{_set(line)}-")


def _csv_line(cells: Sequence[str]) -> str:
    return ",".join(f'"{cell}"' if "," in cell else cell for cell in cells)


GROUP = "features"
LEARNING = "learning"
LEARNED = {"atsp-20": "tours of 20 cities", "pmsp-20x4": "schedules of 20×4", "atsp-100": "tours of 100 cities"}
"""What the learning curves are of, by the test set of their size."""


def features_table(folder: Path) -> str:
    """Return the gap of every variant after as many rounds as all of them have had, tours and schedules apart.

    Averaged weights where a run has them. Variants are in the order of their gaps with the most samples.
    """
    lines = [line for line in lines_of(folder, GROUP) if line["data"] == VALIDATION and line["weights"] == "average"]
    parts = []
    for data in FAMILIES:
        own = [line for line in lines if line["run"].startswith(data)]
        if not own:
            continue
        counts = sorted({int(line["samples"]) for line in own})
        last = {(line["run"], int(line["samples"])): line for line in own}
        words = {line["run"]: line["words"] for line in own}
        whole = {run for run in words if all((run, count) in last for count in counts)}
        ordered = sorted(whole, key=lambda run: float(last[run, counts[-1]]["gap"]))
        rows = [
            [words[run], *(percent(float(last[run, count]["gap"])) for count in counts), last[run, counts[-1]]["round"]]
            for run in ordered
        ]
        parts.append(table([WORDS[data], *(f"×{count}" for count in counts), "rounds"], rows))
    return "\n\n".join(parts) if parts else "Not measured yet."


def learning_table(folder: Path) -> str:
    """Return what every run of the learning curves came to: seconds, rounds, and the gap with averaged weights."""
    lines = _averaged(folder)
    if not lines:
        return "Not measured yet."
    counts = sorted({int(line["samples"]) for line in lines})
    last = {(line["run"], int(line["samples"])): line for line in lines}
    rows = []
    for run, count in last:
        if count == counts[0]:
            one = last[run, count]
            gaps = (percent(float(last[run, n]["gap"])) if (run, n) in last else "" for n in counts)
            rows.append([LEARNED[_data_of(run)], one["words"], f"{float(one['at']):.0f}", one["round"], *gaps])
    return table(["instances", "what the network sees", "seconds", "rounds", *(f"×{count}" for count in counts)], rows)


def learning_panels(folder: Path) -> list[Panel]:
    """Return the curves: gap with averaged weights against training seconds, a panel for each size."""
    found: dict[str, Lines] = {}
    for line in _averaged(folder):
        label = f"{line['words']}, ×{line['samples']}"
        point = float(line["at"]), float(line["gap"])
        found.setdefault(LEARNED[_data_of(line["run"])], {}).setdefault(label, []).append(point)
    return [Panel(title, "training seconds", GAP, lines) for title, lines in found.items()]


def _data_of(run: str) -> str:
    """Return the test set of the size that a run learns."""
    return next(data for data in LEARNED if run.startswith(f"{data}-"))


def _averaged(folder: Path) -> list[dict[str, str]]:
    wanted = VALIDATION, "average"
    return [line for line in lines_of(folder, LEARNING) if (line["data"], line["weights"]) == wanted]
