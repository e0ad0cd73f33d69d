"""Doing without forbidden pairs, where deciding step by step, or a search, ended with some."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..later import kernels, torch
from ..search.tour_branching import branch
from .base import Structure
from .permitted import permitted_in

OPENINGS, SECONDS = 1000, 0.5
"""Openings of branch and bound, and seconds, after which nobody looks any longer for what may not exist."""


def without_forbidden(structure: Structure, costs: NDArray[Any], choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return choices (count, rows) of which those that use forbidden pairs are changed until they use none.

    One change at a time, always the one that helps most: a job goes to another machine, a segment of a tour elsewhere.
    Where no such change helps a tour any more, branch and bound looks for one with as few forbidden steps as can be.
    What no way was found for in half a second stays as it is.

    costs : (count, rows, columns), with stand-ins for what is forbidden.
    choice : (count, rows), solutions of the structure.
    """
    tour = structure == "tour"
    permitted = permitted_in(costs, tour)
    if not _broken(permitted, choice).any():
        return choice
    choice, until = choice.copy(), time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        bad = np.flatnonzero(_broken(permitted, choice))
        if not len(bad):
            return choice
        improve = kernels.improve_tours if tour else kernels.improve_schedules
        changed = improve(torch.from_numpy(costs[bad]), torch.from_numpy(choice[bad])[:, None], 1)[:, 0].numpy()
        if np.array_equal(changed, choice[bad]):
            break
        choice[bad] = changed
    for place in np.flatnonzero(_broken(permitted, choice)) if tour else ():
        if time.perf_counter() >= until:
            break
        choice[place] = tour_with_fewest(~permitted[place], choice[place], until)[0]
    return choice


def tour_with_fewest(
    forbidden: NDArray[np.bool_], start: NDArray[np.int64] | None = None, until: float | None = None
) -> tuple[NDArray[np.int64], bool]:
    """Return a tour (n,) with few forbidden steps (n, n), and whether one without any is known not to exist.

    start : (n,) a tour to begin with; until : when to end, by `time.perf_counter`, half a second from now unless given.
    """
    # a tour costs as many units as it has forbidden steps
    deadline = time.perf_counter() + SECONDS if until is None else until
    found = branch(forbidden.astype(np.int64), start, OPENINGS, deadline)
    return found.choice, bool(found.bound > 0)


def _broken(permitted: NDArray[np.bool_], choice: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which answers (count, rows) use a pair that is not permitted (count, rows, columns); (count,)."""
    return np.asarray(~np.take_along_axis(permitted, choice[:, :, None], 2).all((1, 2)))
