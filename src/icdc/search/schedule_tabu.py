"""Tabu search for schedules: bring every machine's load down to a target just below the best makespan so far.

The target turns a minimum of a maximum into a sum, the work above the target over all machines, which tells good steps
from bad ones where makespans are all the same. To it is added what the assignment gives away at the machines' prices:
Σ_j (priced time on its machine − least priced time). At the prices of the linear program the makespan is the bound plus
what is given away plus the imbalance, so that a search that forgets the first part balances work it should not have.
"""

import numpy as np
from numpy.typing import NDArray

from ..jit import compiled

Array = NDArray[np.generic]
FIRST, SECOND, STEP, QUIET, TENURE, KICKS = range(6)
"""Places in `counters`: the two halves of the random state, steps made, steps since the last new best schedule (or
the last kick), how long a job may not return, kicks so far."""
_WEIGHTS = (0.3, 0.1, 1.0, 0.3, 0.6)
"""Weights of what is given away at prices, in turn from kick to kick."""


@compiled
def random_below(counters, limit):  # type: ignore[no-untyped-def]
    """Return a random integer from 0 to limit − 1: two multiplicative generators, combined (L'Ecuyer, 1988)."""
    counters[0] = 40014 * counters[0] % 2147483563
    counters[1] = 40692 * counters[1] % 2147483399
    return (counters[0] - counters[1]) % 2147483562 % limit


@compiled
def place(durations, choice, load, members, size, position):  # type: ignore[no-untyped-def]
    """Fill loads and the lists of jobs on each machine from a choice."""
    load[:] = 0
    size[:] = 0
    for job in range(len(choice)):
        machine = choice[job]
        load[machine] += durations[job, machine]
        position[job] = size[machine]
        members[machine, size[machine]] = job
        size[machine] += 1


@compiled
def exchange(durations, choice, load, members, size, position, job, machine, other):  # type: ignore[no-untyped-def]
    """Move `job` to `machine`; `other` (−1: none), which runs there, takes its place."""
    old = choice[job]
    load[old] -= durations[job, old]
    load[machine] += durations[job, machine]
    choice[job] = machine
    if other >= 0:
        load[machine] -= durations[other, machine]
        load[old] += durations[other, old]
        choice[other] = old
        position[job], position[other] = position[other], position[job]
        members[machine, position[job]] = job
        members[old, position[other]] = other
    else:
        size[old] -= 1
        last = members[old, size[old]]
        members[old, position[job]] = last
        position[last] = position[job]
        members[machine, size[machine]] = job
        position[job] = size[machine]
        size[machine] += 1


@compiled
def step(durations, given, weight, target, choice, load, members, size, position, tabu, counters):  # type: ignore[no-untyped-def]
    """Make the best allowed move or exchange off a random machine above the target, even if it makes things worse."""
    machines = len(load)
    overfull, full = 0, 0
    for machine in range(machines):
        if load[machine] > target:
            overfull += 1
            if random_below(counters, overfull) == 0:
                full = machine
    dearest = np.zeros(machines)
    for job in range(len(choice)):
        dearest[choice[job]] = max(dearest[choice[job]], given[job, choice[job]])
    now = counters[2]
    excess = float(load[full] - target)
    least, ties = 1e300, 0
    best_job, best_machine, best_other = -1, -1, -1
    for at in range(size[full]):
        job = members[full, at]
        left = load[full] - durations[job, full]
        for machine in range(machines):
            if machine == full or tabu[job, machine] > now:
                continue
            there = load[machine]
            before = excess + max(0.0, float(there - target))
            dearer = weight * (given[job, machine] - given[job, full])
            # no exchange with this machine can be better than taking all excess off both, and its dearest job with it
            if not dearer - weight * dearest[machine] - before <= least:
                continue
            arrived = there + durations[job, machine]
            change = max(0.0, float(left - target)) + max(0.0, float(arrived - target)) - before + dearer
            if change <= least:
                ties = 1 if change < least else ties + 1
                if random_below(counters, ties) == 0:
                    best_job, best_machine, best_other = job, machine, -1
                least = change
            for there_at in range(size[machine]):
                other = members[machine, there_at]
                change = (
                    max(0.0, float(left + durations[other, full] - target))
                    + max(0.0, float(arrived - durations[other, machine] - target))
                    - before
                    + dearer
                    + weight * (given[other, full] - given[other, machine])
                )
                if change <= least and tabu[other, full] <= now:
                    ties = 1 if change < least else ties + 1
                    if random_below(counters, ties) == 0:
                        best_job, best_machine, best_other = job, machine, other
                    least = change
    counters[2] += 1
    if best_job < 0:
        return
    tenure = counters[4]
    tabu[best_job, full] = now + 1 + tenure + random_below(counters, tenure)
    if best_other >= 0:
        tabu[best_other, best_machine] = now + 1 + tenure + random_below(counters, tenure)
    exchange(durations, choice, load, members, size, position, best_job, best_machine, best_other)


@compiled
def kick(durations, near, best_choice, choice, load, members, size, position, tabu, counters):  # type: ignore[no-untyped-def]
    """Go on from the best schedule (every second time from the present one) with a few jobs sent elsewhere."""
    if random_below(counters, 2) == 0:
        choice[:] = best_choice
        place(durations, choice, load, members, size, position)
    for _ in range(2 + random_below(counters, 2 + len(choice) // 10)):
        job = random_below(counters, len(choice))
        machine = near[job, random_below(counters, near.shape[1])]
        if machine >= 0 and machine != choice[job]:
            exchange(durations, choice, load, members, size, position, job, machine, -1)
    tabu[:] = 0
    counters[3] = 0
    counters[4] = 2 + random_below(counters, 6)
    counters[5] += 1


@compiled
def search(  # type: ignore[no-untyped-def]
    durations,
    given,
    near,
    bound,
    least_gain,
    patience,
    steps,
    best,
    best_choice,
    choice,
    load,
    members,
    size,
    position,
    tabu,
    counters,
    weights,
):
    """Make `steps` steps or reach the bound; everything that changes is in the arrays, so that a call can be continued.

    durations (jobs, machines) int64 or float64; given (jobs, machines) what a pair gives away at prices, ∞ where it is
    forbidden; near (jobs, few) machines for kicks, −1: none; best (1,) the least makespan, best_choice (jobs,).
    """
    for _ in range(steps):
        target = max(bound, best[0] - least_gain)
        makespan = load.max()
        if makespan < best[0]:
            best[0] = makespan
            best_choice[:] = choice
            counters[3] = 0
            if makespan <= bound:
                return
            target = max(bound, makespan - least_gain)
        if makespan <= target or counters[3] >= patience:
            kick(durations, near, best_choice, choice, load, members, size, position, tabu, counters)
        else:
            weight = weights[counters[5] % len(weights)]
            step(durations, given, weight, target, choice, load, members, size, position, tabu, counters)
            counters[3] += 1


class Tabu:
    """A tabu search that can be stopped and continued, on one thread.

    `durations` (jobs, machines) int64 or float64, `given` float64 of the same shape, `start` (jobs,) an allowed choice.
    """

    def __init__(
        self, durations: Array, given: NDArray[np.float64], start: NDArray[np.int64], bound: float, seed: int
    ) -> None:
        jobs, machines = durations.shape
        whole = np.issubdtype(durations.dtype, np.integer)
        near = np.argsort(given, axis=1, kind="stable")[:, : min(machines, 6)]
        near[~np.isfinite(np.take_along_axis(given, near, 1))] = -1
        self.durations, self.given, self.near = durations, given, near
        self.choice = start.astype(np.int64)
        self.load, self.size = np.zeros(machines, durations.dtype), np.zeros(machines, np.int64)
        self.members, self.position = np.zeros((machines, jobs), np.int64), np.zeros(jobs, np.int64)
        self.tabu = np.zeros((jobs, machines), np.int64)
        place(durations, self.choice, self.load, self.members, self.size, self.position)
        self.best = np.array([self.load.max()])
        self.best_choice = self.choice.copy()
        self.aim(bound)
        # whole numbers fall by one at least; real ones by a ten-thousandth, or the search would polish digits
        self.least_gain = durations.dtype.type(1 if whole else 1e-4 * float(self.best[0]))
        self.patience = min(20 * jobs, 8000)
        self.weights = np.array(_WEIGHTS)
        state = np.random.SeedSequence(seed).generate_state(2, np.uint32).astype(np.int64)
        self.counters = np.array([state[0] % 2147483562 + 1, state[1] % 2147483398 + 1, 0, 0, 10, 0], np.int64)

    def aim(self, bound: float) -> None:
        """Take a makespan of the bound for the goal."""
        whole = np.issubdtype(self.durations.dtype, np.integer)
        self.bound = self.durations.dtype.type(np.ceil(bound) if whole else bound)

    def run(self, steps: int) -> None:
        """Make `steps` more steps, or fewer if the bound is reached."""
        search(
            self.durations, self.given, self.near, self.bound, self.least_gain, self.patience, steps,
            self.best, self.best_choice, self.choice, self.load, self.members, self.size, self.position,
            self.tabu, self.counters, self.weights,
        )  # fmt: skip

    @property
    def done(self) -> bool:
        """Whether the best schedule meets the bound."""
        return bool(self.best[0] <= self.bound)
