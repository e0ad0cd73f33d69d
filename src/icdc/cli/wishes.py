"""The options that say what is asked of solutions, the same for `icdc solve` and `icdc verify`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..problems.conditions import Wishes

WORDS = {
    "fixed": "--fix",
    "busy": "--busy",
    "open": "--open",
    "first": "--first",
    "last": "--last",
    "stay": "--stay",
    "start": "--start FILE",
}
"""What wishes are called in sentences here."""


@dataclass(frozen=True)
class WishOptions:
    """What is asked for; see `icdc.problems.conditions.Wishes`."""

    fix: Annotated[
        str | None,
        typer.Option("--fix", metavar="FILE", help="Pairs to keep: job and machine, or city and the next one."),
    ] = None
    stay: Annotated[
        float | None, typer.Option(metavar="W", help="What each change of --start weighs; see the documentation.")
    ] = None
    open_path: Annotated[bool, typer.Option("--open", help="A tour need not return to where it began.")] = False
    first: Annotated[
        str | None, typer.Option(metavar="NAME", help="The first city or job, by name or number from 0.")
    ] = None
    last: Annotated[
        str | None, typer.Option(metavar="NAME", help="The last city or job, by name or number from 0.")
    ] = None
    busy: Annotated[
        str | None, typer.Option(metavar="FILE", help="Until when machines are busy: lines of machine and time.")
    ] = None

    @property
    def files(self) -> list[str]:
        """The files that say some of it."""
        return [path for path in (self.fix, self.busy) if path is not None]

    def read(self, decimal: str | None) -> "Wishes":
        """Return what is asked for, by files too, in which `decimal` is the mark before fractions."""
        from ..io.wishes import read_busy, read_pairs
        from ..problems.conditions import Wishes

        words = dict(WORDS)
        words |= {} if self.fix is None else {"fixed": f"--fix {self.fix}"}
        words |= {} if self.busy is None else {"busy": f"--busy {self.busy}"}
        pairs = None if self.fix is None else read_pairs(self.fix)
        times = None if self.busy is None else read_busy(self.busy, decimal)
        return Wishes(pairs, times, self.open_path, self.first, self.last, self.stay, words)
