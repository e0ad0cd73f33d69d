"""The problems that ship, and how a name becomes a problem."""

import importlib

from ..errors import InputError, UsageError
from ..problem import Problem
from .atsp import Atsp
from .navigation import Navigation
from .pmsp import Pmsp

BUILT_IN: dict[str, type[Problem]] = {problem.name: problem for problem in (Atsp, Pmsp, Navigation)}


def get_problem(name: str) -> Problem:
    """Return a problem by its name, or by `module:Class` for one of your own."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if ":" not in name:
        raise UsageError(f"unknown problem '{name}'; choose {', '.join(BUILT_IN)}, or module:Class for your own")
    module_name, class_name = name.split(":", 1)
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        raise UsageError(f"cannot import the problem '{name}': {error}") from error
    except AttributeError:
        raise UsageError(f"the module '{module_name}' has no class '{class_name}'") from None
    if not (isinstance(found, type) and issubclass(found, Problem)):
        raise UsageError(f"'{name}' is not a subclass of icdc.Problem")
    return found()


def problem_path(problem: Problem) -> str:
    """Return the name under which `get_problem` finds this problem again."""
    cls = type(problem)
    return cls.name if BUILT_IN.get(cls.name) is cls else f"{cls.__module__}:{cls.__qualname__}"


def is_named(problem: Problem, name: str) -> bool:
    """Tell whether a file's `name` means this problem; a class of your own may have moved to another module."""
    path = problem_path(problem)
    return name == path or (":" in path and ":" in name and name.split(":")[1] == path.split(":")[1])


def problem_of_file(name: str, given: Problem | None, source: str) -> Problem:
    """Return the problem that a file names, where the caller gave it or where it ships.

    A file never decides which code is imported: a problem that does not ship must be given.
    """
    if given is not None:
        if not is_named(given, name):
            raise UsageError(f"{source} is for {name!r}, not for '{problem_path(given)}'")
        return given
    if name in BUILT_IN:
        return get_problem(name)
    raise InputError(
        f"{source} is for the problem {name!r}, which does not ship, and a file does not decide what is imported; "
        "if you trust it, give the problem: --problem module:Class, or problem=… in Python"
    )


__all__ = ["BUILT_IN", "Atsp", "Navigation", "Pmsp", "get_problem", "is_named", "problem_of_file", "problem_path"]
