"""What the network should see of instances of many families: a table of the group `features` of `side_by_side`."""

from pathlib import Path

from experiments.markdown import percent, table
from experiments.paper_page import WORDS, lines_of
from experiments.side_by_side import VALIDATION
from experiments.variants import FAMILIES

GROUP = "features"


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
