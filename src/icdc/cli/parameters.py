"""Parameters of commands that come from the table of options, and what commands do with some of them.

typer knows the options of a command by its signature. A command that says `@takes(Group.READING, "seed")` has a
parameter `given`; typer sees one parameter for each of these options in its place, and the command gets their checked
values by name.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, UsageError
from ..io import ReadOptions
from ..io.solutions import read_busy, read_pairs
from ..options import OPTIONS, SHELL, Group, Option, check_all, mention, options_of
from ..problems import get_problem
from ..problems.base import Problem

Given = dict[str, Any]
"""Values of options of the table, by name."""


def takes(*groups: Group | str, **helps: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command options of the table: whole groups, and single ones by name.

    helps : single options, with the sentence for `--help` where it is another for this command.
    """
    options = [one for one in options_of(SHELL) if one.group in groups or one.name in (*groups, *helps)]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for name, own in inspect.signature(command, eval_str=True).parameters.items():
            from_table = [parameter_of(one, helps.get(one.name)) for one in options]
            parameters += from_table if name == "given" else [own.replace(kind=inspect.Parameter.KEYWORD_ONLY)]

        @wraps(command)
        def called(**values: Any) -> None:
            given = check_all({one.name: values.pop(one.name) for one in options})
            command(given=given, **values)

        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return called

    return decorate


def parameter_of(option: Option, help: str | None = None) -> inspect.Parameter:
    """Return an option of the table as a parameter that typer understands."""
    flag = option.shell_name
    if option.two_way:
        flag += f"/--no-{flag[2:]}"
    kind: Any = option.kind if option.kind in (bool, int, float) else str
    if option.kind == int | float:
        kind = float
    if option.many:
        kind = list[str] | None
    elif option.default is None:
        kind = kind | None
    about = typer.Option(flag, metavar=option.metavar, help=help or option.shell_help or option.help)
    default = None if option.many else option.default
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about]
    )


def solver_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given for the solver."""
    return {name: v for name, v in given.items() if OPTIONS[name].group is Group.SOLVER and v is not None}


def read_options(given: Mapping[str, Any]) -> ReadOptions:
    """Return how files are to be read."""
    values = {name: value for name, value in given.items() if OPTIONS[name].group is Group.READING}
    return ReadOptions(nan_forbidden=values.pop("forbidden") == "nan", **values)


def files_of(given: Given) -> list[str]:
    """Return the files that options name."""
    return [value for name, value in given.items() if OPTIONS[name].file and value is not None]


def conditions_of(given: Given) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what solutions have to keep to, read from files too, and what each option is called in sentences."""
    values = {name: given[name] for name in ("fixed", "busy", "open", "first", "last", "stay")}
    words = {name: mention(name, values[name] if OPTIONS[name].file else None) for name in values}
    if values["fixed"] is not None:
        values["fixed"] = read_pairs(values["fixed"])
    if values["busy"] is not None:
        values["busy"] = read_busy(values["busy"], given["decimal"])
    return values, words


def check_files(paths: list[str]) -> None:
    """Refuse files that are not there, and standard input for two things."""
    if paths.count("-") > 1:
        raise UsageError("standard input can be read only once")
    for path in paths:
        if path != "-" and not Path(path).exists():
            raise InputError(f"{path}: no such file")


def check_output(option: str, path: Path | None, endings: Sequence[str] = ()) -> None:
    """Refuse, before any work, a file to write that has another ending, or no folder."""
    if path is not None and endings and path.suffix.lower() not in endings:
        raise UsageError(f"{option} {path}: the name must end in one of {', '.join(endings)}")
    if path is not None and not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder '{path.parent}'")


def find_problem(name: str) -> Problem:
    """Return a problem by name, or by `module:Class`; modules in the current folder are found too."""
    look_here(name)
    return get_problem(name)


def look_here(name: str) -> None:
    """Let `module:Class` find modules in the current folder, too."""
    here = str(Path.cwd())
    if ":" in name and here not in sys.path:
        sys.path.insert(0, here)


def read_size(text: str, problem: Problem) -> tuple[int, ...]:
    """Read a size of a problem, such as 20 or 20x4."""
    parts = text.lower().split("x")
    if len(parts) != len(problem.size_names) or not all(p.isdecimal() and len(p) < 10 and int(p) > 0 for p in parts):
        raise UsageError(f"--size of '{problem.name}' must be {' x '.join(problem.size_names)}, got '{text}'")
    return tuple(map(int, parts))
