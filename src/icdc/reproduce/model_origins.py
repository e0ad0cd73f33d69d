"""How the models behind some rows were trained, as their cards tell."""

import re
from collections.abc import Iterable
from pathlib import Path

from ..model import card_of
from ..trained import digest_of
from .compact import table
from .rows import Measured
from .session import model_file


def as_markdown(rows: Iterable[Measured], runs: Path) -> str:
    """Return a table of the models that the measured rows used.

    runs : folder of training runs, where models are looked for that are not shipped.
    """
    measured: dict[str, set[str]] = {}
    for m in rows:
        if m.row.model is not None and m.summary is not None:
            digest = re.search(r"@([0-9a-f]{12})\b", m.summary.solver)
            measured.setdefault(m.row.model, set()).update([digest[1]] if digest else [])
    if not measured:
        return "No model has been measured yet."
    headings = ["model", "seconds", "hardware", "processes", "rounds", "seed", "began with", "remarks"]
    return table(headings, [_line(name, digests, runs) for name, digests in sorted(measured.items())])


def _line(name: str, digests: set[str], runs: Path) -> list[str]:
    """Return what the card of a model says; `digests` are those of the files that were measured."""
    path = model_file(name, runs)
    if path is None:
        return [f"`{name}`", *["?"] * 6, "its card was not found where this page was made"]
    card = card_of(path)
    training = card.get("training", {})
    remarks = [str(training["shared"])] if training.get("shared") else []
    if digests - {digest_of(path)}:
        remarks.append("trained again since some rows were measured: this is the card of the newer one")
    begun = card.get("settings", {}).get("init")
    return [
        f"`{name}`",
        *(str(training.get(key, "?")) for key in ("seconds", "hardware")),
        str(training.get("processes", 1)),
        *(str(training.get(key, "?")) for key in ("rounds", "seed")),
        f"`{begun}`" if begun else "random weights",
        "; ".join(remarks),
    ]
