"""What can go wrong, one class for each exit code of the command line, and how foreign text is shown in a sentence."""


class IcdcError(Exception):
    """Base of every error that is the caller's to see: one clear sentence, no traceback needed."""

    exit_code = 1


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
