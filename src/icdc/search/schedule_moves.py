"""Inner loops of the search for schedules: greedy, descent, and tabu search.

A descent takes a change only if every machine it touches ends below the makespan: the makespan falls, or the number of
machines that reach it does. This leaves plateaus and never cycles.

Tabu search brings every machine's load down to a target just below the best makespan so far. The target turns a minimum
of a maximum into a sum, the work above the target over all machines, which tells good steps from bad ones where
makespans are all the same. To it is added what the assignment gives away at the machines' prices: Σ_j (priced time on
its machine − least priced time). At the prices of the linear program the makespan is the bound plus what is given away
plus the imbalance, so that a search that forgets the first part balances work it should not have.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import compiled

Durations = NDArray[Any]
"""(jobs, machines) int64 or float64."""
Choice = NDArray[np.int64]

WEIGHTS = (0.3, 0.1, 1.0, 0.3, 0.6)
"""Weights of what is given away at prices, in turn from kick to kick."""


class Schedule(NamedTuple):
    """A schedule with the loads of its machines.

    durations : (jobs, machines). choice : (jobs,), the machine of each job. load : (machines,).
    members, size : (machines, jobs) and (machines,), the jobs on each machine, and how many they are.
    position : (jobs,), where each job stands among those of its machine.
    """

    durations: Durations
    choice: Choice
    load: NDArray[Any]
    members: Choice
    size: Choice
    position: Choice


class Counters(NamedTuple):
    """What changes during a tabu search besides the schedule: integers in arrays of length 1, `random` of length 2.

    step : made so far. quiet : steps since the last new best schedule, or the last kick.
    tenure : how long a job may not return. kicks : so far.
    """

    random: Choice
    step: Choice
    quiet: Choice
    tenure: Choice
    kicks: Choice


def schedule_of(durations: Durations, choice: Choice) -> Schedule:
    """Return a schedule with its loads, for durations and a choice (jobs,), which it changes in place."""
    jobs, machines = durations.shape
    schedule = Schedule(
        durations,
        choice,
        np.zeros(machines, durations.dtype),
        np.zeros((machines, jobs), np.int64),
        np.zeros(machines, np.int64),
        np.zeros(jobs, np.int64),
    )
    place(schedule)
    return schedule


@compiled
def greedy(durations, prices, order, level):  # type: ignore[no-untyped-def]
    """Give jobs in `order` to machines: least given away plus work above `level`, then the earliest end."""
    load = np.zeros(durations.shape[1], durations.dtype)
    choice = np.zeros(len(durations), np.int64)
    for job in order:
        best, best_score, best_end = -1, 0.0, load[0]
        for machine in range(len(load)):
            end = load[machine] + durations[job, machine]
            score = prices[job, machine] + max(0.0, float(end - level))
            if best < 0 or score < best_score or (score == best_score and end < best_end):
                best, best_score, best_end = machine, score, end
        choice[job] = best
        load[best] = best_end
    return choice


@compiled
def place(schedule):  # type: ignore[no-untyped-def]
    """Fill loads and the lists of jobs on each machine from the choice."""
    durations, choice, load, members, size, position = schedule
    load[:] = 0
    size[:] = 0
    for job in range(len(choice)):
        machine = choice[job]
        load[machine] += durations[job, machine]
        position[job] = size[machine]
        members[machine, size[machine]] = job
        size[machine] += 1


@compiled
def exchange(schedule, job, machine, other):  # type: ignore[no-untyped-def]
    """Move `job` to `machine`; `other` (−1: none), which runs there, takes its place."""
    durations, choice, load, members, size, position = schedule
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
def relieve(schedule, full):  # type: ignore[no-untyped-def]
    """Make the move or exchange off machine `full` that leaves the lowest maximum; tell whether there is one."""
    durations, _, load, members, size, _ = schedule
    top = load[full]
    best_job, best_machine, best_other = -1, -1, -1
    for at in range(size[full]):
        job = members[full, at]
        left = load[full] - durations[job, full]
        for machine in range(len(load)):
            if machine == full:
                continue
            arrived = load[machine] + durations[job, machine]
            if max(left, arrived) < top:
                top = max(left, arrived)
                best_job, best_machine, best_other = job, machine, -1
            for there in range(size[machine]):
                other = members[machine, there]
                worse = max(left + durations[other, full], arrived - durations[other, machine])
                if worse < top:
                    top = worse
                    best_job, best_machine, best_other = job, machine, other
    if best_job < 0:
        return False
    exchange(schedule, best_job, best_machine, best_other)
    return True


@compiled
def chain(schedule, near, full):  # type: ignore[no-untyped-def]
    """Make the first chain that helps: a job leaves `full` for a machine, one of whose jobs leaves for a third.

    The chain may close: a job of the third machine comes to `full`. Jobs go to their `near` machines (jobs, few) only.
    """
    durations, _, load, members, size, _ = schedule
    top = load[full]
    for at in range(size[full]):
        job = members[full, at]
        left = load[full] - durations[job, full]
        for second in near[job]:
            if second == full:
                continue
            arrived = load[second] + durations[job, second]
            for second_at in range(size[second]):
                other = members[second, second_at]
                if arrived - durations[other, second] >= top:
                    continue
                for third in near[other]:
                    if third in (full, second):
                        continue
                    last = -1
                    pushed = load[third] + durations[other, third]
                    helps = left < top and pushed < top
                    for third_at in range(size[third]):
                        if helps:
                            break
                        last = members[third, third_at]
                        helps = left + durations[last, full] < top and pushed - durations[last, third] < top
                    if helps:
                        exchange(schedule, job, second, -1)
                        exchange(schedule, other, third, -1)
                        if last >= 0:
                            exchange(schedule, last, full, -1)
                        return True
    return False


@compiled
def descend(schedule, near, limit):  # type: ignore[no-untyped-def]
    """Change the schedule until no change takes work off any fullest machine, at most `limit` times; tell how often."""
    load = schedule.load
    for done in range(limit):
        top = load.max()
        improved = False
        for full in range(len(load)):
            if load[full] == top and not improved:
                improved = relieve(schedule, full)
        for full in range(len(load)):
            if load[full] == top and not improved:
                improved = chain(schedule, near, full)
        if not improved:
            return done
    return limit


@compiled
def random_below(counters, limit):  # type: ignore[no-untyped-def]
    """Return a random integer from 0 to limit − 1: two multiplicative generators, combined (L'Ecuyer, 1988)."""
    state = counters.random
    state[0] = 40014 * state[0] % 2147483563
    state[1] = 40692 * state[1] % 2147483399
    return (state[0] - state[1]) % 2147483562 % limit


@compiled
def step(schedule, prices, weight, target, tabu, counters):  # type: ignore[no-untyped-def]
    """Make the best permitted move or exchange off a random machine above the target, even if it makes things worse.

    prices : (jobs, machines), what a pair gives away. tabu : (jobs, machines), from which step on a job may return.
    """
    durations, choice, load, members, size, _ = schedule
    machines = len(load)
    overfull, full = 0, 0
    for machine in range(machines):
        if load[machine] > target:
            overfull += 1
            if random_below(counters, overfull) == 0:
                full = machine
    dearest = np.zeros(machines)
    for job in range(len(choice)):
        dearest[choice[job]] = max(dearest[choice[job]], prices[job, choice[job]])
    now = counters.step[0]
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
            dearer = weight * (prices[job, machine] - prices[job, full])
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
                    + weight * (prices[other, full] - prices[other, machine])
                )
                if change <= least and tabu[other, full] <= now:
                    ties = 1 if change < least else ties + 1
                    if random_below(counters, ties) == 0:
                        best_job, best_machine, best_other = job, machine, other
                    least = change
    counters.step[0] += 1
    if best_job < 0:
        return
    tenure = counters.tenure[0]
    tabu[best_job, full] = now + 1 + tenure + random_below(counters, tenure)
    if best_other >= 0:
        tabu[best_other, best_machine] = now + 1 + tenure + random_below(counters, tenure)
    exchange(schedule, best_job, best_machine, best_other)


@compiled
def kick(schedule, near, best_choice, tabu, counters):  # type: ignore[no-untyped-def]
    """Go on from the best schedule (every second time from the present one) with a few jobs moved elsewhere."""
    choice = schedule.choice
    if random_below(counters, 2) == 0:
        choice[:] = best_choice
        place(schedule)
    for _ in range(2 + random_below(counters, 2 + len(choice) // 10)):
        job = random_below(counters, len(choice))
        machine = near[job, random_below(counters, near.shape[1])]
        if machine != choice[job]:
            exchange(schedule, job, machine, -1)
    tabu[:] = 0
    counters.quiet[0] = 0
    counters.tenure[0] = 2 + random_below(counters, 6)
    counters.kicks[0] += 1


@compiled
def tabu_search(  # type: ignore[no-untyped-def]
    schedule, prices, near, bound, least_gain, patience, steps, best, best_choice, tabu, counters, weights
):
    """Make `steps` steps or reach the bound; everything that changes is in the arrays, so that a call can be continued.

    near : (jobs, few), machines for kicks. best, best_choice : (1,) and (jobs,), the least makespan and its schedule.
    """
    load = schedule.load
    for _ in range(steps):
        target = max(bound, best[0] - least_gain)
        makespan = load.max()
        if makespan < best[0]:
            best[0] = makespan
            best_choice[:] = schedule.choice
            counters.quiet[0] = 0
            if makespan <= bound:
                return
            target = max(bound, makespan - least_gain)
        if makespan <= target or counters.quiet[0] >= patience:
            kick(schedule, near, best_choice, tabu, counters)
        else:
            step(schedule, prices, weights[counters.kicks[0] % len(weights)], target, tabu, counters)
            counters.quiet[0] += 1


class TabuSearch:
    """A tabu search that can be stopped and continued, on one thread.

    durations : (jobs, machines) int64 or float64. prices : float64 of the same shape, what pairs give away.
    start : (jobs,). bound : the makespan at which it is done.
    """

    def __init__(
        self, durations: Durations, prices: NDArray[np.float64], start: Choice, bound: float, seed: int
    ) -> None:
        jobs, machines = durations.shape
        self.whole = bool(np.issubdtype(durations.dtype, np.integer))
        self.prices = prices
        self.near = np.argsort(prices, axis=1, kind="stable")[:, : min(machines, 6)]
        self.schedule = schedule_of(durations, start.astype(np.int64))
        self.tabu = np.zeros((jobs, machines), np.int64)
        self.best = np.array([self.schedule.load.max()])
        self.best_choice = self.schedule.choice.copy()
        self.aim(bound)
        # whole numbers fall by one at least; real ones by a ten-thousandth, or the search would polish digits
        self.least_gain = durations.dtype.type(1 if self.whole else 1e-4 * float(self.best[0]))
        self.patience = min(20 * jobs, 8000)
        self.weights = np.array(WEIGHTS)
        state = np.random.SeedSequence(seed).generate_state(2, np.uint32).astype(np.int64)
        random = np.array([state[0] % 2147483562 + 1, state[1] % 2147483398 + 1])
        zero = np.zeros(1, np.int64)
        self.counters = Counters(random, zero, zero.copy(), zero + 10, zero.copy())

    def aim(self, bound: float) -> None:
        """Search for a makespan of the bound."""
        self.bound = self.schedule.durations.dtype.type(np.ceil(bound) if self.whole else bound)

    def run(self, steps: int) -> None:
        """Make `steps` more steps, or fewer if the bound is reached."""
        tabu_search(
            self.schedule, self.prices, self.near, self.bound, self.least_gain, self.patience, steps,
            self.best, self.best_choice, self.tabu, self.counters, self.weights,
        )  # fmt: skip

    @property
    def done(self) -> bool:
        """Whether the best schedule meets the bound."""
        return bool(self.best[0] <= self.bound)
