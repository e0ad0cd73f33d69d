"""How a model was run, in a few words for a column of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ..model import Model, advised
from ..problem import Problem, Size
from ..sampling import SamplingOptions
from ..solving import DiffusionSolver


def how(options: SamplingOptions, refine: int = 0) -> str:
    """Return sampling options, and rounds of refinement, in words."""
    words = [
        f"{options.steps} steps",
        options.reverse,
        f"{options.order} order",
        f"temperature {options.temperature:g}",
        f"decodes {options.decodes}",
    ]
    if options.reverse == "independent" and options.reverse_temperature:
        words.insert(4, f"reverse temperature {options.reverse_temperature:g}")
    if options.keep == "last":
        words.append("last sample alone")
    if not options.any_start:
        words.append("from row 0")
    if refine:
        words.append(f"refined {refine}×")
    return ", ".join(words)


@dataclass(frozen=True)
class _WithoutWeights:
    """As much of a model as decides how it is run."""

    problem: Problem
    card: Mapping[str, Any]

    def advice(self, size: Size, samples: int) -> dict[str, Any]:
        return advised(self.card, size, samples)


def settled(
    solver: DiffusionSolver, problem: Problem, size: Size, samples: int, card: Mapping[str, Any]
) -> SamplingOptions:
    """Return the options that a solver runs with when its model has this card; weights need not be loaded for it."""
    options = solver.options_for(cast(Model, _WithoutWeights(problem, card)), size, samples)
    longest = card.get("settings", {}).get("model", {}).get("diffusion", {}).get("steps", options.steps)
    return replace(options, steps=min(options.steps, longest))
