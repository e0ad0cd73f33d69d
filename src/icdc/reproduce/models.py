"""Which of our models answers a test set: the one that `icdc solve` takes, or the one trained on one size alone."""

from ..data.standard import STANDARD_SETS
from ..errors import UsageError
from ..model import card_of, default_for
from .session import Session

ITEMS = {"atsp": "cities", "pmsp": "jobs"}


def chosen(dataset: str) -> str:
    """Return the shipped model that `icdc solve` takes for a test set.

    Where that one was not trained on about this size, the preset of mixed sizes, which would be, is named instead.
    """
    spec = STANDARD_SETS[dataset]
    try:
        name = default_for(spec.problem, spec.size)
    except UsageError:
        return spec.problem
    axes = zip(spec.size, zip(*card_of(name)["sizes"], strict=True), strict=True)
    return name if all(min(known) <= extent <= max(known) for extent, known in axes) else spec.problem


def small(dataset: str) -> str:
    """Return the name of the model that is trained on 20 cities or jobs alone."""
    return f"{STANDARD_SETS[dataset].problem}-20"


def small_or_chosen(session: Session, dataset: str) -> str:
    """Return the model of 20 cities or jobs alone, or, where there is none, the one that `icdc solve` takes."""
    name = small(dataset)
    return name if session.model_file(name) is not None else chosen(dataset)
