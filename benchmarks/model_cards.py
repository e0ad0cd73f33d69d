"""Write docs/models.md, and the table of results in the README, from the cards of models.

python benchmarks/model_cards.py

The cards are those of the shipped models, and of models that do not ship but are compared with (`benchmarks/cards`,
written by `ship.py --card`).
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from icdc.baselines.published import published
from icdc.data.standard import STANDARD_SETS
from icdc.files import write_atomically
from icdc.model import available, card_of, models_folder
from icdc.problems import get_problem
from icdc.reproduce.gaps import plain_gap
from icdc.reproduce.wording import how, settled
from icdc.solving import DiffusionSolver

WAYS = ("chain", "refined", "last sample")
README_SETS = (
    "atsp-20", "atsp-50", "atsp-100", "navigation-20", "pmsp-20x3", "pmsp-20x4", "pmsp-20x5", "pmsp-50x3", "pmsp-50x4",
    "pmsp-50x5", "pmsp-100x5", "pmsp-100x10",
)  # fmt: skip
"""The sets that the README shows, where a card has results for them; the page shows all."""
CARDS = Path(__file__).parent / "cards"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

INTRODUCTION = """# The shipped models

Written by `python benchmarks/model_cards.py` from the cards inside the model files; the results come from
`benchmarks/ship.py`, on the standard test sets (references proven optimal, seeds in `icdc.data.standard`). The gap is
100 · (mean cost − mean optimum) / mean optimum, with a bootstrap 95 % confidence interval over instances.

×n is n independent trajectories, of 20 network passes unless *how* has other steps. **chain**: the best solution
decoded anywhere along each trajectory; *decodes* solutions are decoded from every pass, and how they are was chosen on
validation data. **last sample**: one solution decoded at the end of each trajectory, as the paper counts. **refined**:
the chain and then rounds of noising the best solution again, for at most twice the time. Seconds are for all
instances, on the device named, which other runs shared at the time.
"""


def all_cards(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the cards of the shipped models and then of those in a folder, by name."""
    others = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {name: card_of(name) for name in available()} | others


def row_in_words(row: Mapping[str, Any], steps: int) -> str:
    """Return how a row was measured; the way says whether the last sample is alone. `steps` is T of the model."""
    spec = STANDARD_SETS[row["set"]]
    solver = DiffusionSolver(**{name: value for name, value in row["options"].items() if name != "keep"})
    options = settled(solver, get_problem(spec.problem), spec.size, row["samples"], {})
    return how(replace(options, steps=min(options.steps, steps)), solver.refine)


def sizes_in_words(problem: str, sizes: Iterable[Iterable[int]]) -> str:
    """Return the sizes a model was trained on, each once and in order, with what they count."""
    known = ", ".join(" × ".join(map(str, size)) for size in sorted({tuple(size) for size in sizes}))
    return f"{known} {' × '.join(get_problem(problem).size_names)}"


def by_size(name: str) -> tuple[str, tuple[int, ...]]:
    """Return what standard sets are ordered by."""
    return STANDARD_SETS[name].problem, STANDARD_SETS[name].size


def section(name: str, card: Mapping[str, Any]) -> str:
    """Return the text about one model."""
    training = card["training"]
    file = models_folder() / f"{name}.safetensors"
    ships = (
        f"{file.stat().st_size / 1e6:.1f} MB, half precision" if file.is_file() else "Does not ship; to compare with"
    )
    steps = card["settings"]["model"]["diffusion"]["steps"]
    trained_on = sizes_in_words(card["problem"], card["sizes"])
    init = card["settings"].get("init")
    start = f", from the weights of `{init}`" if init else ""
    if "before" in training:  # earlier pieces of the same training, as whoever shipped the model tells them
        start = f", after {training['before']}"
    shared = f" ({training['shared']})" if "shared" in training else ""
    network = card["settings"]["model"]["network"]
    lines = [
        f"## {name}",
        "",
        f"- **For**: {card['problem']}, {trained_on}. {ships}.",
        f"- **Learned from**: {card['data']}.",
        f"- **Training**: `icdc train {name} --time-limit {training['seconds']:.0f} --seed {training['seed']}`: "
        f"{training['rounds']} rounds, {training['seconds']:.0f} s on one {training['hardware']}{shared}{start}.",
        f"- **Network**: {network['encoder_layers']} + {network['denoiser_layers']} layers, width {network['width']}, "
        f"edge width {network['edge_width']}, {network['heads']} heads; "
        f"T = {steps}.",
        f"- **Not for**: {card['not_for']}.",
        "",
        "| set | instances | way | samples | gap % | 95 % interval | optimal % | seconds | device | how |",
        "| --- | ---: | --- | ---: | ---: | --- | ---: | ---: | --- | --- |",
    ]
    for row in sorted(card["results"], key=lambda r: (by_size(r["set"]), WAYS.index(r["way"]), r["samples"])):
        lines.append(
            f"| {row['set']} | {row['instances']:,} | {row['way']} | ×{row['samples']} | {row['gap']:.4f} "
            f"| {row['gap_low'] + 0.0:.4f} – {row['gap_high']:.4f} | {row['optimal']:.1f} | {row['seconds']:.1f} "
            f"| {row['device']} | {row_in_words(row, steps)} |"
        )
    return "\n".join(lines) + "\n"


def summary(cards: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the README: gaps of every set by number of samples, the paper's beside ours."""
    counts = (1, 8, 32, 128)
    heads = " | ".join(f"×{count}" for count in counts)
    lines = [f"| gap to the optimum, % | | {heads} | refined |", "| --- | --- |" + " ---: |" * (len(counts) + 1)]
    gaps = {
        (row["set"], name, row["way"], row["samples"]): float(row["gap"])
        for name, card in cards.items()
        for row in card.get("results", [])
    }
    for dataset in README_SETS:
        named = []
        for name in cards:
            refined = gaps.get((dataset, name, "refined", counts[-1]))
            for way, more in (("chain", refined), ("last sample", None)):
                values = [gaps.get((dataset, name, way, count)) for count in counts]
                named.append((f"`{name}`, {way}", [*values, more]))
        shown = [(words, values) for words, values in named if any(value is not None for value in values)]
        if not shown:
            continue
        paper = [published(dataset, "icdc", count) for count in counts]
        if any(value is not None for value in paper):
            shown.append(("the paper", [*(None if value is None else plain_gap(value) for value in paper), None]))
        count = STANDARD_SETS[dataset].count
        title = dataset if count == 1000 else f"{dataset} ({count} instances)"
        for place, (words, values) in enumerate(shown):
            lines.append(f"| {'' if place else title} | {words} | {' | '.join(map(_short, values))} |")
    return "\n".join(lines)


def _short(gap: float | None) -> str:
    if gap is None:
        return "–"
    digits = 2 if gap >= 0.1 else 3 if gap >= 0.01 else 4
    return f"{gap + 0.0:.{digits}f}"


def main() -> None:
    """Write the page and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/models.md"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--cards", type=Path, default=CARDS, help="folder with the cards of models that do not ship")
    options = parser.parse_args()
    cards = all_cards(options.cards)
    text = "\n".join([INTRODUCTION, *(section(name, card) for name, card in cards.items())])
    write_atomically(options.out, text.encode())
    before, begin, rest = options.readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{options.readme} has no place for the table, between '{BEGIN}' and '{END}'")
    write_atomically(options.readme, f"{before}{BEGIN}\n{summary(cards)}\n{END}{after}".encode())


if __name__ == "__main__":
    main()
