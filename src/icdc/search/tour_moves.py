"""Inner loops of the search for tours: segments change places, or are reversed.

Two neighbouring blocks of a tour's order swap places: three steps are replaced, and swapping back undoes it; or a block
is reversed, and once more to undo that. A journal has a row for each change: the position where the blocks start, the
lengths of both (the second 0 for a reversed block), and three cities at the changed steps.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import compiled

Numbers = NDArray[Any]
"""Costs: int64, or float64."""
Indices = NDArray[np.int64]


class Tour(NamedTuple):
    """A tour with what it costs.

    costs : (n, n). near : (n, k), the successors to try, cheapest first.
    order, position : (n,), the cities as they are visited, and where each city stands there.
    leave : (n,), what each city's step costs.
    """

    costs: Numbers
    near: Indices
    order: Indices
    position: Indices
    leave: Numbers


class Queue(NamedTuple):
    """Cities to look at: a ring (n + 1,), whether each city is in it (n,), and where it begins and ends (2,)."""

    cities: Indices
    queued: Indices
    ends: Indices


@compiled
def swap_blocks(tour: Tour, start: int, first: int, second: int) -> None:
    """Swap the block of `first` cities at position `start` with the block of `second` cities after it."""
    costs, _, order, position, leave = tour
    size = len(order)
    moved = np.empty(first, np.int64)
    for i in range(first):
        at = start + i
        moved[i] = order[at - size if at >= size else at]
    for i in range(first + second):
        at = start + i
        if at >= size:
            at -= size
        if i < second:
            source = at + first
            city = order[source - size if source >= size else source]
        else:
            city = moved[i - second]
        order[at] = city
        position[city] = at
    for end in (start - 1, start + second - 1, start + first + second - 1):
        at = end % size
        city = order[at]
        leave[city] = costs[city, order[at + 1 if at + 1 < size else 0]]


@compiled
def reverse(tour: Tour, start: int, length: int) -> None:
    """Reverse the block of `length` cities at position `start`."""
    costs, _, order, position, leave = tour
    size = len(order)
    low, high = start % size, (start + length - 1) % size
    for _ in range(length // 2):
        one, other = order[low], order[high]
        order[low], order[high] = other, one
        position[other], position[one] = low, high
        low = low + 1 if low + 1 < size else 0
        high = high - 1 if high > 0 else size - 1
    at = start - 1 if start > 0 else size - 1
    for _ in range(length + 1):
        after = at + 1 if at + 1 < size else 0
        leave[order[at]] = costs[order[at], order[after]]
        at = after


@compiled
def best_reversal(tour: Tour, tail: int, tolerance: Any) -> tuple[Any, int]:
    """Look for a block after city `tail` that gains when it is reversed; return the gain and its length, or 0.

    Its last city is one of `near`; the two new steps at its ends must gain before those within it are counted.
    """
    costs, near, order, position, leave = tour
    size = len(order)
    offset = position[tail] + 1
    head = order[offset if offset < size else 0]
    for p in range(near.shape[1]):
        into = near[tail, p]
        gain = leave[tail] - costs[tail, into]
        if gain <= tolerance:
            break
        length = (position[into] - offset) % size + 1
        if length == 1 or length == size - 1:
            continue
        beyond = position[into] + 1
        gain += leave[into] - costs[head, order[beyond if beyond < size else 0]]
        if gain <= tolerance:
            continue
        city = into
        for back in range(1, length):
            before = order[position[into] - back]
            gain += leave[before] - costs[city, before]
            city = before
        if gain > tolerance:
            return gain, length
    return tolerance, 0


@compiled
def reverse_block(tour: Tour, journal: Indices, used: int, start: int, length: int) -> int:
    """Reverse a block and write that to row `used` of the journal; return the number of rows then used."""
    order = tour.order
    journal[used, 0], journal[used, 1], journal[used, 2] = start, length, 0
    journal[used, 3], journal[used, 4] = order[start - 1], order[start]
    journal[used, 5] = order[(start + length - 1) % len(order)]
    reverse(tour, start, length)
    return used + 1


@compiled
def exchange(tour: Tour, journal: Indices, used: int, one: int, two: int, three: int) -> int:
    """Replace the steps out of three cities, visited in this order: a→a', b→b', c→c' become a→b', c→a', b→c'.

    Of the three segments between them the longest stays where it is. The swap is written to row `used` of the journal;
    return the number of rows then used.
    """
    position, size = tour.position, len(tour.order)
    first = (position[two] - position[one]) % size
    second = (position[three] - position[two]) % size
    third = size - first - second
    if third >= first and third >= second:
        start, left, right = position[one] + 1, first, second
    elif first >= second:
        start, left, right = position[two] + 1, second, third
    else:
        start, left, right = position[three] + 1, third, first
    start = start % size
    swap_blocks(tour, start, left, right)
    journal[used, 0], journal[used, 1], journal[used, 2] = start, left, right
    journal[used, 3], journal[used, 4], journal[used, 5] = one, two, three
    return used + 1


@compiled
def undo(tour: Tour, journal: Indices, used: int, kept: int) -> None:
    """Undo the changes in rows `kept` to `used` of the journal, the last one first."""
    for row in range(used - 1, kept - 1, -1):
        if journal[row, 2] == 0:
            reverse(tour, journal[row, 0], journal[row, 1])
        else:
            swap_blocks(tour, journal[row, 0], journal[row, 2], journal[row, 1])


@compiled
def push(queue: Queue, city: int) -> None:
    """Put a city at the end of the queue, unless it is in it already."""
    cities, queued, ends = queue
    if queued[city] == 0:
        queued[city] = 1
        cities[ends[1]] = city
        ends[1] = (ends[1] + 1) % len(cities)


@compiled
def pop(queue: Queue) -> Any:
    """Take the first city off the queue."""
    cities, queued, ends = queue
    city = cities[ends[0]]
    ends[0] = (ends[0] + 1) % len(cities)
    queued[city] = 0
    return city


@compiled
def descend(  # noqa: C901
    tour: Tour, queue: Queue, journal: Indices, used: int, depth: int, tolerance: Any, reversals: bool
) -> tuple[Any, int]:
    """Exchange segments until no city of the queue has an exchange that gains more than `tolerance`.

    - Start: a city of the queue gets a better step to one of `near`, then the city that this leaves without a step gets
      a better one, again to one of `near`, then the way back. Sums of gains stay positive on the way, which loses
      nothing: of the three cities of an exchange that gains, one can start like that.
    - Continuation: an exchange that does not gain may be followed by another that begins where it would have closed
      (Lin and Kernighan's idea, for exchanges that do not reverse).
    - Depth: at most `depth` exchanges in a row.
    - Undo: if none of them gains, all are undone.

    Return the gain and the rows of the journal then used. It stops early when the journal is nearly full.
    """
    costs, near, order, position, leave = tour
    size, width = near.shape
    gained = leave[0] - leave[0]
    while queue.ends[0] != queue.ends[1] and used + depth < len(journal):
        tail, kept, level, reversed_length = pop(queue), used, 0, 0
        opened = leave[tail]
        while level < depth:
            level += 1
            offset = position[tail] + 1  # the step tail → head is open
            head = order[offset - size if offset >= size else offset]
            most, most_two, most_three = tolerance, -1, -1
            done = False
            for p in range(width):
                into = near[tail, p]
                gain = opened - costs[tail, into]
                if gain <= tolerance:
                    break
                place = position[into] - offset
                if place < 0:
                    place += size
                if place == 0:
                    continue
                two = order[position[into] - 1]
                gain += leave[two]
                for q in range(width):
                    last = near[two, q]
                    more = gain - costs[two, last]
                    if more <= tolerance:
                        break
                    end = position[last] - offset
                    if end < 0:
                        end += size
                    if end <= place:
                        continue
                    three = order[position[last] - 1]
                    more += leave[three]
                    if more - costs[three, head] > tolerance:
                        most, most_two, most_three, done = more, two, three, True
                        break
                    if more > most and level < depth:
                        most, most_two, most_three = more, two, three
                if done:
                    break
            if reversals and level == 1 and not done:
                gain, reversed_length = best_reversal(tour, tail, tolerance)
                if reversed_length > 0:
                    used = reverse_block(tour, journal, used, offset % size, reversed_length)
                    gained += gain
                    break
            if most_two < 0:
                break
            used = exchange(tour, journal, used, tail, most_two, most_three)
            if done:
                break
            tail, opened = most_three, most
        if done:
            gained += most - costs[most_three, head]
        if done or reversed_length > 0:
            for row in range(kept, used):
                for column in range(3, 6):  # where steps changed, both ends of the new ones are worth a look
                    city = journal[row, column]
                    push(queue, city)
                    push(queue, order[position[city] + 1 if position[city] + 1 < size else 0])
        elif used > kept:
            undo(tour, journal, used, kept)
            used = kept
    return gained, used


@compiled
def draw(state: Indices, count: int) -> Any:
    """Return a pseudo-random number from 0 to `count` − 1 (Lehmer's generator; `state` (1,) within 1 to 2³¹ − 2)."""
    state[0] = state[0] * 48271 % 2147483647
    return state[0] % count


@compiled
def kicks(
    tour: Tour,
    best: Indices,
    gained: Numbers,
    state: Indices,
    count: int,
    reach: int,
    slack: Any,
    depth: int,
    tolerance: Any,
    reversals: bool,
) -> None:
    """Iterated local search: `count` times put three short segments in a row in the reverse order, and descend.

    The result is kept if it is no more than `slack` above the best so far, else undone. `gained` (2,) is by how much
    the present and the best tour are shorter than the first, `best` (n,) the order of the best.
    """
    order, leave = tour.order, tour.leave
    size = len(order)
    queue = Queue(np.empty(size + 1, np.int64), np.zeros(size, np.int64), np.zeros(2, np.int64))
    journal = np.empty((1000, 6), np.int64)
    for _ in range(count):
        start = draw(state, size)
        one, two, three = 1 + draw(state, reach), 1 + draw(state, reach), 1 + draw(state, reach)
        before = leave[order[start - 1]] - leave[order[start - 1]]
        for length in (0, one, one + two, one + two + three):
            before += leave[order[(start + length - 1) % size]]
        swap_blocks(tour, start, one, two + three)
        swap_blocks(tour, start, two, three)
        journal[0, 0], journal[0, 1], journal[0, 2] = start, one, two + three
        journal[1, 0], journal[1, 1], journal[1, 2] = start, two, three
        for length in (0, three, three + two, three + two + one):
            city = order[(start + length - 1) % size]
            before -= leave[city]
            push(queue, city)
            push(queue, order[(start + length) % size])
        gain, used = descend(tour, queue, journal, 2, depth, tolerance, reversals)
        while queue.ends[0] != queue.ends[1]:  # the journal was full
            pop(queue)
        now = gained[0] + before + gain
        if now >= gained[1] - slack:
            gained[0] = now
            if now > gained[1] + tolerance:
                gained[1] = now
                best[:] = order
        else:
            undo(tour, journal, used, 0)
