"""What can go wrong, one class for each exit code of the command line, and how sentences name options and foreign text.

An option has another name on each surface: `--labels` on the command line, `labels=True` in Python, `"labels": true`
over HTTP. A sentence holds a reference to it (`icdc.options.mention`), with the words of all three, and an error shows
those of the surface that it is shown on.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum


class Surface(IntEnum):
    """Where options are given and sentences are read; the values are places in a reference."""

    SHELL = 0
    PYTHON = 1
    HTTP = 2


_surface: ContextVar[Surface] = ContextVar("surface", default=Surface.PYTHON)
_BEGIN, _NEXT, _END = "\ue000", "\ue001", "\ue002"  # private characters, which no text of a file or a terminal means
_REFERENCE = re.compile(f"{_BEGIN}([^{_END}]*){_END}")


def reference(shell: str, python: str, http: str, where: str = "") -> str:
    """Return words for a sentence that are others on each surface.

    where : said once behind a sentence that is shown in Python, such as "in icdc.ReadOptions".
    """
    return _BEGIN + _NEXT.join((shell, python, http, where)) + _END


def rendered(sentence: str, surface: Surface | None = None) -> str:
    """Return a sentence with its references in the words of a surface, by default the one it is shown on."""
    surface = _surface.get() if surface is None else surface
    places: dict[str, None] = {}

    def words(match: re.Match[str]) -> str:
        forms = match[1].split(_NEXT)
        places[forms[-1]] = None
        return forms[surface]

    text = _REFERENCE.sub(words, sentence)
    where = ", ".join(filter(None, places)) if surface is Surface.PYTHON else ""
    return f"{text} ({where})" if where else text


@contextmanager
def shown_on(surface: Surface) -> Iterator[None]:
    """Let errors name options as a surface takes them while the block runs."""
    before = _surface.set(surface)
    try:
        yield
    finally:
        _surface.reset(before)


class IcdcError(Exception):
    """Base of every error that is the caller's to see: one clear sentence, no traceback needed."""

    exit_code = 1

    def __str__(self) -> str:
        return rendered(super().__str__())


class UsageError(IcdcError, ValueError):
    """An option, a name or a configuration value that does not exist or does not fit."""

    exit_code = 2


class InputError(IcdcError, ValueError):
    """A file or an array that is not a valid instance; the message says which entry and why."""

    exit_code = 3


class InfeasibleError(IcdcError):
    """No feasible solution was found within the limits."""

    exit_code = 4


class DivergedError(IcdcError):
    """Training left the range of numbers; what was saved before it did is still there."""

    exit_code = 6


class MissingExtraError(IcdcError, ImportError):
    """A solver needs an optional package; the message carries the pip line that adds it."""

    exit_code = 5


def visible(text: str) -> str:
    """Write characters that a terminal would obey rather than show (escape codes, line breaks) as what they are."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
