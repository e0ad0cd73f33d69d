"""`docs/models.md`: the shipped models as their cards describe them, and how all models of the tables were trained."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.markdown import percent, table
from icdc.io.datasets import STANDARD_SETS
from icdc.models.catalogue import models_folder
from icdc.problems import get_problem

INTRODUCTION = """# The models

Written by `python -m experiments pages` from the cards inside the model files and from
[results/models.csv](results/models.csv). A model's card also holds its settings of training, and for every size and
number of samples the settings of solving that were best on validation data (`python -m experiments.card` measures and
writes them; for 50 and more cities, 100 and more jobs, and search inside the chain `python -m experiments.ways` chooses
them over all families); `icdc models` lists the cards, `icdc solve` follows them.

## Where a model is at home

`python -m experiments.cards` measures every model on families of instances that it may never have seen: the model
alone, the model with local search inside its chain, and search alone, in the same seconds each
([results/cards.csv](results/cards.csv) has the intervals). It writes the gaps into the card, with the numbers that
describe such matrices: an instance is judged by the family that it is most like, and `icdc solve --solver network` says
that it is new to the model only where the model alone would be more than two percentage points worse than search. The
same run chooses how many changes and passes are best at each size where time is limited.

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
    with (folder / "models.csv").open(encoding="utf-8", newline="") as file:
        trained = {line["model"]: line for line in csv.DictReader(file)}
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
    chosen = {tuple(entry["size"]): entry["options"] for entry in card.get("improving", [])}
    words = [f"{chosen[size]['improve_rounds']} changes, {chosen[size]['steps']} passes" for size in sizes]
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
