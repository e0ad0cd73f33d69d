"""Let a model that was trained on take the place of the one that ships, with what its card keeps until it is measured.

    python -m experiments.successor runs/atsp/model.safetensors --name atsp [--shared schedules]

Weights, settings and what it learned from are the new model's. Sizes and ranges are those that either has seen, since
the new one began with the weights of the old. How to solve, where it is at home and how it is improved by search stay
as they were until `experiments.card`, `experiments.ways` and `experiments.cards` measure them again. Results are of the
old weights, and go; `experiments.card_rows` then lets the tables say what is to be measured.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from icdc.errors import IcdcError, UsageError
from icdc.io.files import write_atomically
from icdc.models.catalogue import card_of, models_folder, path_of, write_index
from icdc.models.file import digest_of, write_card

KEPT = ("solving", "home", "measured")
"""What a card keeps of the old weights until somebody measures it again."""


def successor(new: Mapping[str, Any], old: Mapping[str, Any], shared: str = "") -> dict[str, Any]:
    """Return the card of a model that went on from another: the new one, and what the old one knew beside it."""
    if new["problem"] != old["problem"]:
        raise UsageError(f"a model of {new['problem']} cannot take the place of one of {old['problem']}")
    sizes = sorted({tuple(size) for card in (new, old) for size in card["sizes"]})
    card = {**new, **{name: old[name] for name in KEPT if name in old}, "sizes": [list(size) for size in sizes]}
    card["results"] = []
    if "ranges" in new and "ranges" in old:
        card["ranges"] = _wider(new["ranges"], old["ranges"])
    before, pieces = old.get("training", {}), []
    if before.get("before"):
        pieces.append(before["before"])
    if "seconds" in before:
        pieces.append(f"{before['seconds']:.0f} s as the model before it")
    card["training"] = {**new["training"], **({"before": ", and ".join(pieces)} if pieces else {})}
    if shared:
        card["training"]["shared"] = f"the GPU was shared with {shared}"
    return card


def _wider(one: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return the ranges of both; where both have a name, one that covers both."""
    return {
        name: [min(one[name][0], other[name][0]), max(one[name][1], other[name][1])]
        if name in one and name in other
        else list({**other, **one}[name])
        for name in sorted({*one, *other})
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Replace a shipped model; say which weights went and which came."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="the file of the new model")
    parser.add_argument("--name", required=True, help="the shipped model that it replaces")
    parser.add_argument("--shared", default="", help="what shared the GPU while it was trained")
    asked = parser.parse_args(arguments)
    try:
        place, old = path_of(asked.name), digest_of(path_of(asked.name))
        card = successor(card_of(str(asked.model)), card_of(asked.name), asked.shared)
        with TemporaryDirectory() as folder:  # weights and card come together, or neither does
            ready = Path(folder) / place.name
            ready.write_bytes(asked.model.read_bytes())
            write_card(ready, card)
            write_atomically(place, ready.read_bytes())
        if place.parent == models_folder():
            write_index()
    except IcdcError as error:
        print(f"successor: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{asked.name}: {digest_of(place)} instead of {old}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
