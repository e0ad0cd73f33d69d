"""Presets and TOML files: how they are found, and how they extend one another."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import InputError, UsageError

FOLDER = Path(str(files("icdc") / "training" / "presets"))


def presets() -> dict[str, str]:
    """Return the names of the presets, in order, each with one line that says what it trains."""
    return {path.stem: _first_comment(path) for path in sorted(FOLDER.glob("*.toml"), key=lambda path: path.stem)}


def read_settings(source: str, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read a preset by its name or a TOML file by its path, with all that it extends, as nested dictionaries.

    Parameters
    ----------
    source : the name of a preset, or the path of a file that ends in .toml.
    overrides : see `with_overrides`.
    """
    return with_overrides(_with_what_it_extends(path_of(source), []), overrides or {})


def with_overrides(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with changes such as {"cloning.batch": 256} or {"cloning": {"batch": 256}}.

    What they do not name stays.
    """
    values = dict(values)
    for key, value in overrides.items():
        *tables, last = key.split(".")
        change: dict[str, Any] = {last: value}
        for table in reversed(tables):
            change = {table: change}
        values = _merged(values, change)
    return values


def parse_override(text: str) -> tuple[str, Any]:
    """Read `key=value`, the value as TOML writes it; a bare word is a string."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f"'{text}' is not of the form key=value")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value


def _first_comment(path: Path) -> str:
    return path.read_text().partition("\n")[0].lstrip("# ")


def path_of(source: str, beside: Path | None = None) -> Path:
    """Return the file of a preset's name or of a path, which is relative to the folder `beside`."""
    if source.endswith(".toml"):
        return (beside or Path()) / source
    if source in presets():
        return FOLDER / f"{source}.toml"
    raise UsageError(f"unknown preset '{source}'; choose {', '.join(presets())}, or give a .toml file")


def _with_what_it_extends(path: Path, below: list[Path]) -> dict[str, Any]:
    """Read a file on top of the one that its key `extends` names; `below` are the files that extend this one."""
    if path.resolve() in below:
        circle = [*below[below.index(path.resolve()) :], path]
        raise UsageError(f"settings extend each other in a circle: {' → '.join(file.name for file in circle)}")
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    extended = values.pop("extends", None)
    if extended is None:
        return values
    if not isinstance(extended, str):
        raise UsageError(f"{path}: 'extends' must be the name of a preset or the path of a .toml file")
    return _merged(_with_what_it_extends(path_of(extended, path.parent), [*below, path.resolve()]), values)


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dictionaries with changes; a table changes only what it names."""
    merged = dict(values)
    for name, value in changes.items():
        old = merged.get(name)
        if isinstance(value, Mapping):
            merged[name] = _merged(old if isinstance(old, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged
