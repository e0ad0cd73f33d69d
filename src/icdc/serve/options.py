"""What a request says about how its content is to be read: the options of `icdc solve` for files, as words.

Not among them is `--metric`: points become a distance for each pair, so a small body could become a large matrix.
"""

import json
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..io import ReadOptions

READING = (
    *("labels", "comments", "decimal", "id_column", "skip", "transpose"),
    *("sheet", "range", "hidden", "forbidden"),
)
"""What a request may say about its content."""


def read_options(words: Mapping[str, Any]) -> ReadOptions:
    """Return what a request says about its content; raise UsageError where a word has no sense."""
    forbidden = words.get("forbidden")
    if forbidden not in (None, "nan"):
        raise UsageError(f"'forbidden' takes 'nan' or nothing, got {str(forbidden)[:80]!r}")
    column = words.get("id_column")
    if isinstance(column, int) and not isinstance(column, bool):
        column = str(column)
    return ReadOptions(
        labels=flag(words, "labels"),
        comments=flag(words, "comments"),
        decimal=_text(words.get("decimal"), "decimal"),
        id_column=_text(column, "id_column"),
        sheet=_text(words.get("sheet"), "sheet"),
        range=_text(words.get("range"), "range"),
        nan_forbidden=forbidden == "nan",
        skip=_skipped(words.get("skip")),
        transpose=flag(words, "transpose"),
        hidden=flag(words, "hidden"),
    )


def flag(words: Mapping[str, Any], word: str) -> bool | None:
    """Return whether a word is said to be true or false; None where nothing is said."""
    value = words.get(word)
    if not isinstance(value, str | bool | int | None):
        raise UsageError(f"'{word}' must be true or false")
    if value in (None, ""):
        return None
    if value in (False, "false", "0"):
        return False
    if value in (True, "true", "1"):
        return True
    raise UsageError(f"'{word}' must be true or false")


def _text(value: Any, word: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"'{word}' must be a text, got {str(value)[:80]!r}")
    return value


def _skipped(value: Any) -> tuple[str, ...]:
    """Return the rows and columns to leave out: one name, or a list of them, in a query as JSON."""
    if value is None:
        return ()
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise UsageError(f"'skip' must be a name or a list of names, got {value[:80]!r}") from None
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"'skip' must be a name or a list of names, got {str(value)[:80]!r}")
    return tuple(names)
