"""Steps of a tour or a sequence that are fixed beforehand: can one solution have all of them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import InputError
from .instance import Instance
from .naming import pair_text, row_text
from .sequencing import Sequencing

if TYPE_CHECKING:
    from .wishes import Wishes


def check_steps(
    instance: Instance, wishes: Wishes, chosen: Mapping[int, int], ends: list[int | None], items: int
) -> None:
    """Refuse fixed steps that no tour, path or sequence has all of."""
    said, (first, last) = wishes.word("fixed"), ends
    before: dict[int, int] = {}
    for row, column in chosen.items():
        if column in before:
            one, other = row_text(instance, before[column]), row_text(instance, row)
            raise InputError(f"{said}: both {one} and {other} come right before {row_text(instance, column)}")
        before[column] = row
    path = wishes.open or isinstance(instance.problem, Sequencing)
    if path and first is not None and first in before:
        step = pair_text(instance, (before[first], first))
        raise InputError(f"{said}: {step}, but {wishes.word('first')} says that nothing comes before")
    if path and last is not None and last in chosen:
        step = pair_text(instance, (last, chosen[last]))
        raise InputError(f"{said}: {step}, but {wishes.word('last')} says that nothing comes after")
    steps = dict(chosen)
    if first is not None and last is not None and first != last:
        # from the last back to the first: as a step of a closed tour, or as what closes a path
        if not path:
            _check_return(instance, wishes, steps, before, (last, first))
        steps[last] = first
    _check_circles(instance, wishes, steps, path, items, closing=steps.keys() - chosen.keys())


def _check_return(
    instance: Instance, wishes: Wishes, steps: Mapping[int, int], before: Mapping[int, int], back: tuple[int, int]
) -> None:
    """Refuse fixed or forbidden steps that keep a closed tour from returning from its last to its first city."""
    last, first = back
    ends, said = f"{wishes.word('first')} and {wishes.word('last')}", wishes.word("fixed")
    wanted = pair_text(instance, (last, first))
    if steps.get(last, first) != first:
        raise InputError(f"{said}: {pair_text(instance, (last, steps[last]))}, but {ends} say {wanted}")
    if before.get(first, last) != last:
        raise InputError(f"{said}: {pair_text(instance, (before[first], first))}, but {ends} say {wanted}")
    if instance.forbidden is not None and instance.forbidden[last, first]:
        raise InputError(f"{ends}: {wanted} is forbidden in {instance.name}")


def _check_circles(
    instance: Instance, wishes: Wishes, steps: Mapping[int, int], path: bool, items: int, closing: set[int]
) -> None:
    """Refuse steps that close a circle before every item is in it."""
    said = wishes.word("fixed")
    seen: set[int] = set()
    for begin in steps:
        round_trip, item = [], begin
        while item in steps and item not in seen:
            seen.add(item)
            round_trip.append(item)
            item = steps[item]
        if not round_trip or item != begin:
            continue
        labels = instance.row_labels(round_trip)
        words = " → ".join([*(labels if len(labels) <= 6 else [*labels[:5], "…"]), labels[0]])
        if closing & set(round_trip):  # from the last to the first
            if len(round_trip) < items:
                ends = f"{wishes.word('first')} to {wishes.word('last')}"
                raise InputError(f"{said}: the steps lead from {ends} and leave out {items - len(round_trip)} others")
        elif len(round_trip) < items:
            raise InputError(
                f"{said}: the steps close a circle before every {instance.problem.row_words[0]} is in it: {words}"
            )
        elif path:
            raise InputError(f"{said}: the steps lead back to where they begin, and a path does not: {words}")
