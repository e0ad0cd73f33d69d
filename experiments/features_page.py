"""What the network should see of instances of many families: tables and curves of groups of `side_by_side`."""

from pathlib import Path

from experiments.markdown import percent, table
from experiments.paper_page import WORDS, lines_of
from experiments.side_by_side import VALIDATION
from experiments.tables.figures import GAP, Lines, Panel
from experiments.variants import FAMILIES

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
