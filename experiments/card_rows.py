"""Let the tables follow the models that ship: what their cards measured, and nothing of the weights before.

    python -m experiments.card_rows

A model that was trained again is another model. Rows of shipped models that were measured with other weights take what
`python -m experiments.card` measured with the present ones, where that is the same test set, number of samples and
answer; the others are left to be measured, and say so. `python -m experiments pages` then writes the pages.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.tables.rows import TARGETS, Measured, options_as_text, options_of, read_table, write_table
from icdc.evaluation.evaluate import Summary
from icdc.io.datasets import standard_set
from icdc.io.files import write_atomically
from icdc.models.catalogue import available, card_of, path_of
from icdc.models.file import digest_of

RESULTS = Path(__file__).parents[1] / "docs" / "results"
WAYS = {"best": "chain", "last": "last sample", "refined": "refined"}
"""How a card calls the answers of a table."""
OLD = "not measured yet with the weights that ship"


FIGURES = (
    "cost", "gap", "gap_low", "gap_high", "symmetric_gap", "optimal", "feasible", "below", "seconds", "device",
)  # fmt: skip
"""What a card keeps of a measurement."""


def follow(
    rows: Sequence[Measured], digests: Mapping[str, str], cards: Mapping[str, Mapping[str, Any]]
) -> list[Measured]:
    """Return rows of which those of shipped models are of the weights with these digests."""
    return [
        _followed(m, digests[m.row.model], cards[m.row.model])
        if m.row.model in digests and (m.note == OLD or m.digest not in ("", digests[m.row.model]))
        else m
        for m in rows
    ]


def _followed(old: Measured, digest: str, card: Mapping[str, Any]) -> Measured:
    row = old.row
    test = standard_set(row.dataset)
    wanted = row.dataset, WAYS.get(row.answer), row.samples, len(test)
    for found in card.get("results", []):
        same = found["set"], found["way"], found["samples"], found["instances"]
        if same != wanted or row.change or not _as_asked(row.options, found["options"]):
            continue
        summary = Summary(
            dataset=row.dataset, solver=row.method, samples=row.samples, seed=0, instances=len(test),
            reference=None if test.reference is None else float(test.reference.mean()), gap_at_most=None,
            seconds_per_instance=found["seconds"] / len(test), **{name: found[name] for name in FIGURES},
        )  # fmt: skip
        settings = options_as_text(dict(sorted(found["options"].items())))
        return replace(old, summary=summary, settings=settings, digest=digest, note="")
    return Measured(row, note=OLD)


def _as_asked(asked: str, used: Mapping[str, Any]) -> bool:
    """Whether a measurement was made with the options that a row names, its steps and rounds of refinement above all.

    What a card does not name was left as it is; nothing is refined unless it says so.
    """
    known = {"refine": "0", **{name: str(value) for name, value in used.items()}}
    wanted = {"refine": "0", **options_of(asked)}
    return all(known[name] == value for name, value in wanted.items() if name in known)


def main(folder: Path = RESULTS) -> int:
    """Rewrite the tables of a folder."""
    names = available()
    digests, cards = {name: digest_of(path_of(name)) for name in names}, {name: card_of(name) for name in names}
    for path in (folder / f"{name}.csv" for name in TARGETS):
        if path.is_file():
            write_atomically(path, write_table(follow(read_table(path), digests, cards)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
