"""What is asked of a solution of one instance beyond its matrix, in numbers that count from 0.

Whoever asks uses names, and `wishes` turns them into these; `restating` puts them to solvers that know only a matrix.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

Number = int | float


@dataclass(frozen=True)
class Conditions:
    """What a solution must keep to, and what changes of an earlier solution cost.

    fixed : pairs (row, column) that every solution has: this job on that machine, this city and the one after it.
    open : a tour does not return: it is a path, whose last city has no successor.
    first, last : where the solution of a tour or a sequence begins and ends; None where any item may.
    busy : until when each machine is busy with something else; None where all are free from the beginning.
    stay : what each change of an earlier solution weighs; None where changes cost nothing.
    before : the earlier solution, the column of each row; None without `stay`.
    """

    fixed: tuple[tuple[int, int], ...] = ()
    open: bool = False
    first: int | None = None
    last: int | None = None
    busy: tuple[Number, ...] | None = None
    stay: Number | None = None
    before: tuple[int, ...] | None = None

    @property
    def busy_machines(self) -> list[int]:
        """The machines that are busy for any time."""
        return [machine for machine, time in enumerate(self.busy or ()) if time > 0]

    def as_dict(self) -> dict[str, Any]:
        """Return what is asked as it stands in an answer's JSON, without what is not."""
        found: dict[str, Any] = {}
        if self.fixed:
            found["fixed"] = [list(pair) for pair in self.fixed]
        if self.open:
            found["open"] = True
        for name in ("first", "last", "stay"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        if self.busy is not None:
            found["busy"] = list(self.busy)
        if self.before is not None:
            found["before"] = list(self.before)
        return found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read what `as_dict` writes."""
        lists = {name: tuple(found[name]) for name in ("busy", "before") if name in found}
        pairs = tuple((int(row), int(column)) for row, column in found.get("fixed", ()))
        return cls(**{**found, **lists, "fixed": pairs})
