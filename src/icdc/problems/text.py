"""Words and numbers for people: what problems print their answers with."""

import textwrap

_WIDTH = 100
"""Columns of a terminal that a printed answer keeps to."""


def number(value: int | float) -> str:
    """Write integers exactly and reals to ten digits."""
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def counted(count: int, words: tuple[str, str]) -> str:
    """Write how many there are of something: "1 job", "3 jobs"."""
    return f"{count} {words[0] if count == 1 else words[1]}"


def wrapped(prefix: str, words: str) -> list[str]:
    """Break a long line; what follows is indented as far as the first line's beginning."""
    return textwrap.wrap(
        words,
        width=max(_WIDTH, len(prefix) + 40),
        initial_indent=prefix,
        subsequent_indent=" " * len(prefix),
        break_long_words=False,
        break_on_hyphens=False,
    )
