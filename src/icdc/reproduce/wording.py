"""How a model was run, in a few words for a column of a table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..model import advised
from ..problem import Size
from ..sampling import SamplingOptions
from ..solving.solver import UNTUNED


def how(options: SamplingOptions, refine: int = 0) -> str:
    """Return sampling options, and rounds of refinement, in words."""
    words = [
        f"{options.steps} steps",
        options.reverse,
        f"{options.order} order",
        f"temperature {options.temperature:g}",
        f"decodes {options.decodes}",
    ]
    if options.keep == "last":
        words.append("last sample alone")
    if not options.any_start:
        words.append("from row 0")
    if refine:
        words.append(f"refined {refine}×")
    return ", ".join(words)


def settled(card: Mapping[str, Any], size: Size, samples: int, given: Mapping[str, Any]) -> SamplingOptions:
    """Return the options that a solver runs with: as given, else as the card of its model advises."""
    options = replace(UNTUNED, **{**advised(card, size, samples), **given})
    longest = card.get("settings", {}).get("model", {}).get("diffusion", {}).get("steps", options.steps)
    return replace(options, steps=min(options.steps, longest))
