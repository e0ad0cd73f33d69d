"""Results of the models that ship: into their cards, from the cards into the tables, and away with the old weights.

    python -m experiments.cards.results measure atsp --sets atsp-20,atsp-50 [--device cuda]
    python -m experiments.cards.results tables
    python -m experiments.cards.results replace atsp --by runs/atsp/model.safetensors [--shared schedules]

`measure` solves standard test sets as the card advises: the best solution decoded along each trajectory (the chain),
the last sample alone as the paper counts, and with the most samples refinement.

`tables` lets the tables follow the cards: rows of shipped models that were measured with other weights take what the
card has, where that is the same test set, number of samples and answer; the others are left to be measured, and say so.

`replace` lets a model that was trained on take the place of the one that ships. Weights, settings and what it learned
from are the new model's. Sizes and ranges are those that either has seen, since the new one began with the weights of
the old. How to solve and the gaps of families stay until they are measured again; results go.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.cards.choose import STEPS, save_card
from experiments.tables.rows import ANSWERS, TARGETS, Measured, options_as_text, options_of, read_table, write_table
from icdc.errors import IcdcError, UsageError
from icdc.evaluation.evaluate import Summary, evaluate, summarise
from icdc.io.datasets import STANDARD_SETS, standard_set
from icdc.io.files import write_atomically
from icdc.models.card import advised
from icdc.models.catalogue import available, card_of, models_folder, path_of, write_index
from icdc.models.diffusion import load
from icdc.models.file import digest_of, write_card
from icdc.solvers import make_solver

RESULTS = Path(__file__).parents[2] / "docs" / "results"
WAYS = {"best": "chain", "last": "last sample", "refined": "refined"}
"""How a card calls the answers of a table."""
FIGURES = (
    "cost", "gap", "gap_low", "gap_high", "symmetric_gap", "optimal", "feasible", "below", "seconds", "device",
)  # fmt: skip
"""What a card keeps of a measurement."""
OLD = "not measured yet with the weights that ship"
KEPT = ("solving", "home", "measured")
"""What a card keeps of the old weights until it is measured again."""


def measure(name: str, sets: Sequence[str], counts: Sequence[int], refine: int, limit: int | None, device: str) -> None:
    """Measure a model on test sets and write each result into its card, over the one of the same kind."""
    path, model = path_of(name), load(name, device)
    for place in sets:
        test = standard_set(place).first(limit or STANDARD_SETS[place].count)
        for way, samples in [*((way, n) for n in counts for way in ("chain", "last sample")), ("refined", counts[-1])]:
            advice = {**advised(model.card, STANDARD_SETS[place].size, samples), "steps": STEPS}
            if way == "refined":
                advice["refine"] = refine
            options = options_of(ANSWERS["last"]) if way == "last sample" else advice
            solver = make_solver(f"network:{options_as_text(options)}", model=model, device=device)
            summary = summarise(evaluate(test, solver, "network", samples=samples, chunk=1000)).as_dict()
            values = {
                key: round(summary[key], 4) if isinstance(summary[key], float) else summary[key] for key in FIGURES
            }
            row = {"set": place, "instances": len(test), "way": way, "samples": samples, **values, "options": options}
            card = card_of(name)
            kept = [old for old in card.get("results", []) if any(old[k] != row[k] for k in ("set", "way", "samples"))]
            save_card(path, {**card, "results": [*kept, row]})
            print(json.dumps(row), flush=True)


def follow(
    rows: Sequence[Measured], digests: Mapping[str, str], cards: Mapping[str, Mapping[str, Any]]
) -> list[Measured]:
    """Return rows of which those of shipped models are of the weights with these digests."""
    return [
        _from_card(m, digests[m.row.model], cards[m.row.model])
        if m.row.model in digests and (m.note == OLD or m.digest not in ("", digests[m.row.model]))
        else m
        for m in rows
    ]


def _from_card(old: Measured, digest: str, card: Mapping[str, Any]) -> Measured:
    row = old.row
    test = standard_set(row.dataset)
    wanted = row.dataset, WAYS.get(row.answer), row.samples, len(test)
    for result in card.get("results", []):
        same = result["set"], result["way"], result["samples"], result["instances"]
        if same != wanted or row.change or not _with_options(row.options, result["options"]):
            continue
        summary = Summary(
            dataset=row.dataset, solver=row.method, samples=row.samples, seed=0, instances=len(test),
            reference=None if test.reference is None else float(test.reference.mean()), gap_at_most=None,
            seconds_per_instance=result["seconds"] / len(test), **{name: result[name] for name in FIGURES},
        )  # fmt: skip
        settings = options_as_text(dict(sorted(result["options"].items())))
        return replace(old, summary=summary, settings=settings, digest=digest, note="")
    return Measured(row, note=OLD)


def _with_options(wanted: str, used: Mapping[str, Any]) -> bool:
    """Whether a measurement was made with the options that a row names, its steps and rounds of refinement above all.

    What a card does not name was left as it is; nothing is refined unless it says so.
    """
    used_words = {"refine": "0", **{name: str(value) for name, value in used.items()}}
    wanted_words = {"refine": "0", **options_of(wanted)}
    return all(used_words[name] == value for name, value in wanted_words.items() if name in used_words)


def write_tables(folder: Path = RESULTS) -> None:
    """Let the tables of a folder follow the cards of the models that ship."""
    names = available()
    digests, cards = {name: digest_of(path_of(name)) for name in names}, {name: card_of(name) for name in names}
    for path in (folder / f"{name}.csv" for name in TARGETS):
        if path.is_file():
            write_atomically(path, write_table(follow(read_table(path), digests, cards)))


def successor(new: Mapping[str, Any], old: Mapping[str, Any], shared: str = "") -> dict[str, Any]:
    """Return the card of a model that went on from another: the new one, and what of the old one still holds."""
    if new["problem"] != old["problem"]:
        raise UsageError(f"a model of {new['problem']} cannot take the place of one of {old['problem']}")
    sizes = sorted({tuple(size) for card in (new, old) for size in card["sizes"]})
    card = {**new, **{name: old[name] for name in KEPT if name in old}, "sizes": [list(size) for size in sizes]}
    card["results"] = []
    if "ranges" in new and "ranges" in old:
        card["ranges"] = _wider(new["ranges"], old["ranges"])
    before = old.get("training", {})
    pieces = [before["before"]] if before.get("before") else []
    pieces += [f"{before['seconds']:.0f} s as the model before it"] if "seconds" in before else []
    card["training"] = {**new["training"], **({"before": ", and ".join(pieces)} if pieces else {})}
    if shared:
        card["training"]["shared"] = f"the GPU was shared with {shared}"
    return card


def _wider(one: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return the ranges of both; where both have a name, one that covers both."""
    pairs = {name: [ranges[name] for ranges in (one, other) if name in ranges] for name in sorted({*one, *other})}
    return {name: [min(low for low, _ in some), max(high for _, high in some)] for name, some in pairs.items()}


def replace_model(name: str, by: Path, shared: str = "") -> str:
    """Put the file of a new model in the place of one that ships; return which weights came and which went."""
    place, old = path_of(name), digest_of(path_of(name))
    card = successor(card_of(str(by)), card_of(name), shared)
    with TemporaryDirectory() as folder:  # weights and card come together, or neither does
        ready = Path(folder) / place.name
        ready.write_bytes(by.read_bytes())
        write_card(ready, card)
        write_atomically(place, ready.read_bytes())
    if place.parent == models_folder():
        write_index()
    return f"{name}: {digest_of(place)} instead of {old}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring, replacing = commands.add_parser("measure"), commands.add_parser("replace")
    commands.add_parser("tables").add_argument("--out", type=Path, default=RESULTS, help="folder of the tables")
    for command in (measuring, replacing):
        command.add_argument("name", help="a shipped model")
    measuring.add_argument("--sets", required=True, help="standard test sets, with commas")
    measuring.add_argument("--samples", default="1,8,32,128", help="with commas")
    measuring.add_argument("--refine", type=int, default=6, help="rounds of refinement")
    measuring.add_argument("--limit", type=int, help="only the first so many instances of each set")
    measuring.add_argument("--device", default="auto")
    replacing.add_argument("--by", type=Path, required=True, help="the file of the new model")
    replacing.add_argument("--shared", default="", help="what shared the GPU while it was trained")
    options = parser.parse_args(arguments)
    try:
        if options.command == "measure":
            counts = [int(text) for text in options.samples.split(",")]
            measure(options.name, options.sets.split(","), counts, options.refine, options.limit, options.device)
        elif options.command == "tables":
            write_tables(options.out)
        else:
            print(replace_model(options.name, options.by, options.shared))
    except IcdcError as error:
        print(f"results: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
