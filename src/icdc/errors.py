"""What can go wrong, one class for each exit code of the command line, and how foreign text is shown in a sentence.

Sentences are written with the options of the command line (`--labels`), and say them as Python's arguments
(`labels=True`) wherever it is not the command line that shows them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

_on_command_line = False
_OPTIONS = re.compile(
    r"(?<![\w-])--(?:(?P<no>no-)?(?P<switch>labels|comments|transpose|hidden)\b"
    r"|(?P<name>id-column|decimal|metric|skip|problem|sheet|range)\b"
    r"(?: (?P<value>(?<=id-column )\d+|(?<=decimal )[.,]|(?<=metric )(?:euclidean|geo)|(?<=skip )(?:'[^']*'|\w+)"
    r"|(?<=problem )(?:atsp|pmsp|navigation|[\w.]+:\w+)))?)"
)


class IcdcError(Exception):
    """Base of every error that is the caller's to see: one clear sentence, no traceback needed."""

    exit_code = 1

    def __str__(self) -> str:
        said = super().__str__()
        return said if _on_command_line or "--" not in said else in_python(said)


@contextmanager
def on_command_line() -> Iterator[None]:
    """Let errors speak of options as a shell takes them while the block runs."""
    global _on_command_line
    before, _on_command_line = _on_command_line, True
    try:
        yield
    finally:
        _on_command_line = before


def in_python(sentence: str) -> str:
    """Return a sentence with options of the command line as Python's arguments."""
    about_files = False

    def argument(found: re.Match[str]) -> str:
        nonlocal about_files
        about_files |= found["name"] != "problem"
        if found["switch"]:
            return f"{found['switch']}={not found['no']}"
        name, value = found["name"].replace("-", "_"), found["value"]
        if value is None:
            return str(name)
        value = value.strip("'")
        return f'{name}=("{value}",)' if name == "skip" else f'{name}="{value}"'

    said = _OPTIONS.sub(argument, sentence)
    return f"{said} (in icdc.ReadOptions)" if about_files else said


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
