"""Descent for schedules: moves, exchanges and short chains that take work off a fullest machine.

A change is taken if every machine it touches ends below the makespan: the makespan falls, or the number of machines
that reach it does. So plateaus are left, and no schedule is seen twice.
"""

from ..jit import compiled
from .schedule_tabu import exchange


@compiled
def relieve(durations, allowed, full, choice, load, members, size, position):  # type: ignore[no-untyped-def]
    """Make the move or exchange off machine `full` that leaves the lowest maximum; tell whether there is one."""
    top = load[full]
    best_job, best_machine, best_other = -1, -1, -1
    for at in range(size[full]):
        job = members[full, at]
        left = load[full] - durations[job, full]
        for machine in range(len(load)):
            if machine == full or not allowed[job, machine]:
                continue
            arrived = load[machine] + durations[job, machine]
            if max(left, arrived) < top:
                top = max(left, arrived)
                best_job, best_machine, best_other = job, machine, -1
            for there in range(size[machine]):
                other = members[machine, there]
                worse = max(left + durations[other, full], arrived - durations[other, machine])
                if worse < top and allowed[other, full]:
                    top = worse
                    best_job, best_machine, best_other = job, machine, other
    if best_job < 0:
        return False
    exchange(durations, choice, load, members, size, position, best_job, best_machine, best_other)
    return True


@compiled
def chain(durations, allowed, near, full, choice, load, members, size, position):  # type: ignore[no-untyped-def]
    """Make the first chain found: a job leaves `full` for a machine, one of whose jobs leaves for a third.

    The chain may close: a job of the third machine comes to `full`. Jobs go to their `near` machines (jobs, few) only.
    """
    top = load[full]
    for at in range(size[full]):
        job = members[full, at]
        left = load[full] - durations[job, full]
        for second in near[job]:
            if second < 0 or second == full:
                continue
            arrived = load[second] + durations[job, second]
            for second_at in range(size[second]):
                other = members[second, second_at]
                if arrived - durations[other, second] >= top:
                    continue
                for third in near[other]:
                    if third < 0 or third in (full, second):
                        continue
                    last = -1
                    pushed = load[third] + durations[other, third]
                    found = left < top and pushed < top
                    for third_at in range(size[third]):
                        if found:
                            break
                        last = members[third, third_at]
                        found = (
                            allowed[last, full]
                            and left + durations[last, full] < top
                            and pushed - durations[last, third] < top
                        )
                    if found:
                        exchange(durations, choice, load, members, size, position, job, second, -1)
                        exchange(durations, choice, load, members, size, position, other, third, -1)
                        if last >= 0:
                            exchange(durations, choice, load, members, size, position, last, full, -1)
                        return True
    return False


@compiled
def descend(durations, allowed, near, limit, choice, load, members, size, position):  # type: ignore[no-untyped-def]
    """Change the schedule until no change takes work off any fullest machine, at most `limit` times; tell how often."""
    for done in range(limit):
        top = load.max()
        improved = False
        for full in range(len(load)):
            if load[full] == top and not improved:
                improved = relieve(durations, allowed, full, choice, load, members, size, position)
        for full in range(len(load)):
            if load[full] == top and not improved:
                improved = chain(durations, allowed, near, full, choice, load, members, size, position)
        if not improved:
            return done
    return limit
