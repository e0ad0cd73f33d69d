"""What a solver answers with: a trained model alone, search alone, both, or other code. Tables never leave it open."""

from typing import Literal

from ..solving.registry import SOLVERS

Kind = Literal["model", "search", "model + search", "classical", "own"]

MODEL_ALONE = "network"
"""The solver that is a diffusion model alone, where `icdc` is that model together with search."""
LEARNED = ("icdc", MODEL_ALONE)


def kind_of(spec: str) -> Kind:
    """Return what the solver that a text describes answers with.

    `icdc` is a model and search where the model alone has a name of its own; a model with local search inside its chain
    (`improve_rounds`) is both, too. A model whose decodes are merged, as its card may advise, is still a model.
    "classical" are heuristics and exact solvers beside our own search; "own" is a solver given as module:Class, of
    which nothing is known.
    """
    name, _, rest = spec.partition(":")
    if name not in (*SOLVERS, MODEL_ALONE):
        return "own"
    if name == "matnet":
        return "model"
    if name not in LEARNED:
        return "search" if name == "search" else "classical"
    options = dict(part.partition("=")[::2] for part in rest.split(","))
    combined = name == "icdc" and MODEL_ALONE in SOLVERS
    return "model + search" if combined or options.get("improve_rounds", "0") != "0" else "model"


def default_rows() -> list[str]:
    """Return the solvers to compare where none is named: the model alone, the search alone, and both where they are."""
    return [MODEL_ALONE, "search", "icdc"] if MODEL_ALONE in SOLVERS else ["icdc", "search"]
