"""Settings: frozen dataclasses whose fields say what values they take, built from what presets and model files say.

@dataclass(frozen=True)
class MemoryConfig(Settings):
    rounds: int = setting(16, least=1)
    mixture: float = setting(1.0, above=0, most=1)
"""

import math
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, ClassVar, TypeVar

from .errors import UsageError
from .options import check_kind, check_range

Built = TypeVar("Built")


def setting(default: Any, *, least: float | None = None, above: float | None = None, most: float | None = None) -> Any:
    """Return a field with a default and a range; `above` itself is not in it."""
    return field(default=default, metadata={"least": least, "above": above, "most": most})


@dataclass(frozen=True)
class Settings:
    """A group of settings, each of which has the type and the range that its field says, however it is made."""

    REMOVED: ClassVar[Mapping[str, Any]] = {}
    """Settings of earlier versions, with what each did that this version still does: all other values are refused."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, one in _types(kind).items():
            if not is_dataclass(one):
                object.__setattr__(self, name, _checked(kind, name, getattr(self, name), name))


def build(kind: type[Built], values: Any, base: Built | None = None, path: str = "") -> Built:
    """Return settings with the values of nested tables; what they do not name stays as in `base`, or as by default.

    Unknown names, wrong types and values out of range are refused with a sentence.

    Parameters
    ----------
    kind : a dataclass, some of whose fields may be dataclasses themselves.
    path : where the table is, for messages: "model.network.".
    """
    table = f"'{path[:-1]}'" if path else "a configuration"
    if not isinstance(values, Mapping):
        raise UsageError(f"{table} must be a table of settings")
    dataclass: Any = kind
    types, removed = _types(dataclass), getattr(kind, "REMOVED", {})
    changed: dict[str, Any] = {}
    for name, value in values.items():
        if name in types and is_dataclass(types[name]):
            default = _defaults(dataclass).get(name) if base is None else getattr(base, name)
            changed[name] = build(types[name], value, default, f"{path}{name}.")
        elif name in types:
            changed[name] = _checked(dataclass, name, value, f"{path}{name}")
        elif name not in removed:
            raise UsageError(f"unknown setting '{path}{name}'; there are {', '.join(types)}")
        elif _plain(value) != _plain(removed[name]):
            raise UsageError(f"the setting '{path}{name}' is gone: it can only be {removed[name]!r} now, got {value!r}")
    if base is not None:
        return replace(base, **changed)  # type: ignore[type-var]
    if missing := [name for name in types if name not in changed and name not in _defaults(dataclass)]:
        raise UsageError(f"{table} lacks {', '.join(missing)}")
    return kind(**changed)


@cache
def _types(kind: Any) -> dict[str, Any]:
    """Return the types of the settings of a dataclass, by name."""
    hints = typing.get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """Return the defaults of the settings of a dataclass, by name, of those that have one."""
    made = {one.name: one.default_factory() for one in fields(kind) if one.default_factory is not MISSING}
    return {one.name: one.default for one in fields(kind) if one.default is not MISSING} | made


@cache
def _ranges(kind: Any) -> dict[str, Any]:
    """Return the ranges of the settings of a dataclass, by name."""
    return {one.name: one.metadata for one in fields(kind)}


def _checked(kind: Any, name: str, value: Any, full_name: str) -> Any:
    """Return a value as its field has it: a list as a tuple, a whole number as a real one where those are wanted."""
    value = _converted(_types(kind)[name], value, f"'{full_name}'")
    if isinstance(value, int | float) and not isinstance(value, bool):
        check_range(value, f"'{full_name}'", **_ranges(kind)[name])
        if not math.isfinite(value):
            raise UsageError(f"'{full_name}' must be a finite number")
    return value


def _converted(kind: Any, value: Any, name: str) -> Any:
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise UsageError(f"{name} must be a list, got {value!r}")
        return tuple(_converted(typing.get_args(kind)[0], item, name) for item in value)
    value = check_kind(value, kind, name)
    return float(value) if kind is float else value


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, where lists are no tuples."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
