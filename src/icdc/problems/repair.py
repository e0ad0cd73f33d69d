"""Doing without forbidden pairs, where deciding step by step, or a search, ended with some."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..later import kernels, torch
from ..search.tour_branching import branch
from .base import Structure
from .permitted import permitted_in

OPENINGS = 1000
"""Openings of branch and bound on small matrices, after which nobody looks any longer for what may not exist."""
SIZE = 60
"""Cities up to which there are as many; of larger matrices fewer, as every one takes longer."""


def without_forbidden(
    structure: Structure, costs: NDArray[Any], choice: NDArray[np.int64], seconds: float | None = None
) -> NDArray[np.int64]:
    """Return choices (count, rows) of which those that use forbidden pairs are changed, until they use none.

    Jobs go to the permitted machine that is done first with them. On tours a segment goes elsewhere, always the one
    that helps most, and where that does not help any more, branch and bound looks for a tour with as few forbidden
    steps as can be. What no way was found for stays as it is, and so does what would become dearer: where every tour
    needs such a step, the cheapest one need not be among those with the fewest.

    costs : (count, rows, columns), with stand-ins for what is forbidden.
    choice : (count, rows), solutions of the structure.
    seconds : after which to end; by default only steps are counted, so that the same comes out again.
    """
    permitted = permitted_in(costs, structure == "tour")
    broken = _broken(permitted, choice)
    if not broken.any():
        return choice
    changed = choice.copy()
    if structure == "makespan":
        for place in np.flatnonzero(broken):
            changed[place] = _schedule(permitted[place], costs[place], choice[place])
        return changed
    changed[broken] = _tours(permitted[broken], costs[broken], choice[broken], seconds)
    before, after = (_lengths(costs, tours) for tours in (choice, changed))
    return np.where((after < before)[:, None], changed, choice)


def _schedule(permitted: NDArray[np.bool_], durations: NDArray[Any], choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a schedule (jobs,) without forbidden pairs: what was on one goes where it is done first."""
    jobs = np.arange(len(choice))
    moved = ~permitted[jobs, choice]
    loads = np.zeros(durations.shape[1], dtype=durations.dtype)
    np.add.at(loads, choice[~moved], durations[jobs, choice][~moved])
    choice = choice.copy()
    for job in np.flatnonzero(moved):
        machines = np.flatnonzero(permitted[job])
        choice[job] = machines[(loads[machines] + durations[job, machines]).argmin()]
        loads[choice[job]] += durations[job, choice[job]]
    return choice


def _tours(
    permitted: NDArray[np.bool_], costs: NDArray[Any], choice: NDArray[np.int64], seconds: float | None
) -> NDArray[np.int64]:
    """Return tours (count, n), all of which use forbidden steps, with as few of them as can be found."""
    improve = kernels.improve_tours
    matrices = torch.from_numpy(costs)
    deadline = np.inf if seconds is None else time.perf_counter() + seconds  # importing is no part of the search
    for _ in range(2 * choice.shape[1]):
        bad = np.flatnonzero(_broken(permitted, choice))
        if not len(bad) or time.perf_counter() > deadline:
            return choice
        changed = improve(matrices[bad], torch.from_numpy(choice[bad])[:, None], 1)[:, 0].numpy()
        if np.array_equal(changed, choice[bad]):
            break
        choice[bad] = changed
    for place in np.flatnonzero(_broken(permitted, choice)):
        if time.perf_counter() > deadline:
            break
        choice[place] = tour_with_fewest(~permitted[place], choice[place], deadline)[0]
    return choice


def _lengths(costs: NDArray[Any], tours: NDArray[np.int64]) -> NDArray[Any]:
    return np.asarray(np.take_along_axis(costs, tours[:, :, None], 2)[:, :, 0].sum(1))


def tour_with_fewest(
    forbidden: NDArray[np.bool_], start: NDArray[np.int64] | None = None, deadline: float = np.inf
) -> tuple[NDArray[np.int64], bool]:
    """Return a tour (n,) with few forbidden steps (n, n), and whether one without any is known not to exist.

    start : (n,) a tour to begin with; deadline : when to end, by `time.perf_counter`.
    """
    # a tour costs as many units as it has forbidden steps
    openings = max(1, round(OPENINGS * min(1.0, (SIZE / len(forbidden)) ** 3)))
    found = branch(forbidden.astype(np.int64), start, openings, deadline)
    return found.choice, bool(found.bound > 0)


def _broken(permitted: NDArray[np.bool_], choice: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which answers (count, rows) use a pair that is not permitted (count, rows, columns); (count,)."""
    return np.asarray(~np.take_along_axis(permitted, choice[:, :, None], 2).all((1, 2)))
