"""The options that say what is asked of solutions, the same for `icdc solve` and `icdc verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, UsageError

if TYPE_CHECKING:
    from ..problems.wishes import Wishes

Fix = Annotated[
    str | None,
    typer.Option("--fix", metavar="FILE", help="Pairs to keep: job and machine, or city and the next one."),
]
Stay = Annotated[
    float | None, typer.Option(metavar="W", help="What each change of --start weighs; see the documentation.")
]
Open = Annotated[bool, typer.Option("--open", help="A tour need not return to where it began.")]
First = Annotated[str | None, typer.Option(metavar="NAME", help="The first city or job, by name or number from 0.")]
Last = Annotated[str | None, typer.Option(metavar="NAME", help="The last city or job, by name or number from 0.")]
Busy = Annotated[
    str | None, typer.Option(metavar="FILE", help="Until when machines are busy: lines of machine and time.")
]
WORDS = {
    "fixed": "--fix",
    "busy": "--busy",
    "open": "--open",
    "first": "--first",
    "last": "--last",
    "stay": "--stay",
    "start": "--start FILE",
}


def check_files(fix: str | None, busy: str | None, others: list[str]) -> None:
    """Refuse files that are not there, and standard input for two things, before anything heavy is imported."""
    given = [path for path in (fix, busy) if path is not None]
    if [*others, *given].count("-") > 1:
        raise UsageError("standard input can be read only once")
    for path in given:
        if path != "-" and not Path(path).exists():
            raise InputError(f"{path}: no such file")


def read_wishes(
    fix: str | None,
    stay: float | None,
    open_path: bool,
    first: str | None,
    last: str | None,
    busy: str | None,
    decimal: str | None,
) -> "Wishes":
    """Return what the options ask for."""
    from ..io.wishes import read_busy, read_pairs
    from ..problems.wishes import Wishes

    words = dict(WORDS)
    words |= {} if fix is None else {"fixed": f"--fix {fix}"}
    words |= {} if busy is None else {"busy": f"--busy {busy}"}
    pairs = None if fix is None else read_pairs(fix)
    times = None if busy is None else read_busy(busy, decimal)
    return Wishes(pairs, times, open_path, first, last, stay, words)
