"""Values that callers give, checked alike from Python and from the command line; every refusal names the option."""

import math
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any

from .errors import UsageError

LARGEST_SEED = 2**63 - 1
"""Seeds fill a signed word: what random generators, files and other programs all take."""
MOST_SAMPLES = 10**7
"""Samples of an instance that may be asked for without a time limit; with one, any number is as many as fit."""


def whole(value: Any, name: str, least: int = 0, most: int = LARGEST_SEED) -> int:
    """Return a whole number between `least` and `most`, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise UsageError(f"{name} must be a whole number, got {_shown(value)}")
    found = int(value)
    if not least <= found <= most:
        limit = f"at least {least}" if found < least else f"at most {most}"
        raise UsageError(f"{name} must be {limit}, got {found}")
    return found


def seed(value: Any) -> int:
    """Return a seed: a whole number from 0 to 2⁶³ − 1."""
    return whole(value, "the seed")


def samples(value: Any, time_limit: float | None, name: str = "samples") -> int:
    """Return a number of samples; without a time limit a number that could never be made is refused."""
    asked = whole(value, name, 1)
    if asked > MOST_SAMPLES and time_limit is None:
        raise UsageError(f"{asked} samples need a time limit: then as many are made as fit")
    return asked


def seconds(value: Any, name: str = "the time limit") -> float:
    """Return a positive, finite number of seconds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise UsageError(f"{name} must be a number of seconds, got {_shown(value)}")
    found = float(value)
    if not found > 0:
        raise UsageError(f"{name} must be more than 0 seconds, got {found:g}")
    if math.isinf(found):
        raise UsageError(f"{name} must be a finite number of seconds; leave it out for no limit")
    return found


def optional(check: Callable[..., Any], value: Any, *arguments: Any) -> Any:
    """Return None for None, anything else as `check` returns it."""
    return None if value is None else check(value, *arguments)


def of_kind(value: Any, kind: Any, name: str) -> Any:
    """Return a value of the type that an option declares (a number may be of any numeric type), or say what it is not.

    Types that are neither numbers, text nor truth values are left to who takes them.
    """
    kinds = typing.get_args(kind) if _is_union(kind) else (kind,)
    if value is None:
        if type(None) in kinds or Any in kinds:
            return None
    elif any(_fits(value, one) for one in kinds):
        return int(value) if kinds == (int,) else value
    words = " or ".join(dict.fromkeys(_words(one) for one in kinds))
    raise UsageError(f"{name} must be {words}, got {_shown(value)}")


def _fits(value: Any, kind: Any) -> bool:
    """Tell whether a value is of a type, as far as that can be told from the type."""
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return not isinstance(value, bool) and isinstance(value, numbers.Integral)
    if kind is float:
        return not isinstance(value, bool) and isinstance(value, numbers.Real) and not math.isnan(value)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _words(kind: Any) -> str:
    """Return a type in words."""
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    named = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "None"}
    return named.get(kind, f"a {getattr(kind, '__name__', kind)}")


def _is_union(kind: Any) -> bool:
    return isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union


def _shown(value: Any) -> str:
    """Return a value for a message: short, and of one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"{text[:37]}…"
