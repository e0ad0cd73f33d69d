"""Write docs/models.md, and the table of results in the README, from the cards of the shipped models.

python benchmarks/model_cards.py
"""

import argparse
from pathlib import Path
from typing import Any

from icdc.baselines.published import published
from icdc.files import write_atomically
from icdc.model import available, card_of, models_folder

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

INTRODUCTION = """# The shipped models

Written by `python benchmarks/model_cards.py` from the cards inside the model files; the results come from
`benchmarks/ship.py`, on the standard test sets (1,000 instances each, references proven optimal, seeds in
`icdc.data.standard`). The gap is 100 · (mean cost − mean optimum) / mean optimum, with a bootstrap 95 % confidence
interval over instances.

×n is n independent trajectories of 20 network passes. **chain**: the best solution decoded anywhere along each
trajectory; *decodes* solutions are decoded from every pass, and how they are was chosen on validation data. **last
sample**: one solution decoded at the end of each trajectory, as the paper counts. **refined**: the chain and then
rounds of noising the best solution again, for at most twice the time. Seconds are for all instances, on the
device named, which other runs shared at the time.
"""


def options_in_words(options: dict[str, Any]) -> str:
    """Return the settings of a row in a few words."""
    reverse, order = options.get("reverse", "fresh"), options.get("order", "rule")
    return f"{reverse}, {order} order, T = {options['temperature']:g}, decodes {options.get('decodes', 1)}"


def section(name: str) -> str:
    """Return the text about one model."""
    card = card_of(name)
    training = card["training"]
    size = (models_folder() / f"{name}.safetensors").stat().st_size / 1e6
    sizes = ", ".join(" × ".join(map(str, known)) for known in card["sizes"])
    shared = f" ({training['shared']})" if "shared" in training else ""
    network = card["settings"]["model"]["network"]
    lines = [
        f"## {name}",
        "",
        f"- **For**: {card['problem']}, {sizes}. {size:.1f} MB, half precision.",
        f"- **Learned from**: {card['data']}.",
        f"- **Training**: `icdc train {name} --time-limit {training['seconds']:.0f} --seed {training['seed']}`: "
        f"{training['rounds']} rounds, {training['seconds']:.0f} s on one {training['hardware']}{shared}.",
        f"- **Network**: {network['encoder_layers']} + {network['denoiser_layers']} layers, width {network['width']}, "
        f"edge width {network['edge_width']}, {network['heads']} heads; "
        f"T = {card['settings']['model']['diffusion']['steps']}.",
        f"- **Not for**: {card['not_for']}.",
        "",
        "| set | way | samples | gap % | 95 % interval | optimal % | seconds | device | how |",
        "| --- | --- | ---: | ---: | --- | ---: | ---: | --- | --- |",
    ]
    order = {"chain": 0, "refined": 1, "last sample": 2}
    for row in sorted(card["results"], key=lambda r: (r["set"], order[r["way"]], r["samples"])):
        lines.append(
            f"| {row['set']} | {row['way']} | ×{row['samples']} | {row['gap']:.4f} "
            f"| {row['gap_low'] + 0.0:.4f} – {row['gap_high']:.4f} | {row['optimal']:.1f} | {row['seconds']:.1f} "
            f"| {row['device']} | {options_in_words(row['options'])} |"
        )
    return "\n".join(lines) + "\n"


def summary() -> str:
    """Return the table of the README: gaps of every set by number of samples, the paper's beside ours."""
    counts = (1, 8, 32, 128)
    heads = " | ".join(f"×{count}" for count in counts)
    lines = [f"| gap to the optimum, % | | {heads} |", "| --- | --- |" + " ---: |" * len(counts)]
    for name in available():
        rows = {(r["set"], r["way"], r["samples"]): r for r in card_of(name)["results"]}
        for dataset in sorted({key[0] for key in rows}):
            for way in ("chain", "last sample"):
                cells = [rows.get((dataset, way, count)) for count in counts]
                shown = " | ".join("–" if cell is None else _short(cell["gap"]) for cell in cells)
                if any(cells):
                    lines.append(f"| {dataset} | `{name}`, {way} | {shown} |")
            paper = [published(dataset, "icdc", count) for count in counts]
            if any(value is not None for value in paper):
                shown = " | ".join("–" if value is None else _short(plain(value)) for value in paper)
                lines.append(f"| | the paper | {shown} |")
    return "\n".join(lines)


def plain(symmetric: float) -> float:
    """Return the plain gap in % that a symmetric gap in % stands for."""
    return 100 * 2 * symmetric / (200 - symmetric)


def _short(gap: float) -> str:
    digits = 2 if gap >= 0.1 else 3 if gap >= 0.01 else 4
    return f"{gap + 0.0:.{digits}f}"


def main() -> None:
    """Write the page and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/models.md"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    options = parser.parse_args()
    text = "\n".join([INTRODUCTION, *map(section, available())])
    write_atomically(options.out, text.encode())
    before, begin, rest = options.readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{options.readme} has no place for the table, between '{BEGIN}' and '{END}'")
    write_atomically(options.readme, f"{before}{BEGIN}\n{summary()}\n{END}{after}".encode())


if __name__ == "__main__":
    main()
