"""The problems that ship, and how a name becomes a problem."""

import importlib

from ..errors import UsageError
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


__all__ = ["BUILT_IN", "Atsp", "Navigation", "Pmsp", "get_problem", "problem_path"]
