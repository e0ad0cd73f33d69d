"""Problems: the contract, those that ship, and how a name becomes a problem."""

import importlib
from typing import TypeVar

from ..errors import InputError, UsageError
from ..options import mention
from .atsp import Atsp
from .base import FeatureSizes, Problem
from .instance import Instance
from .navigation import Navigation
from .pmsp import Pmsp
from .sequencing import FlowShop, Setups
from .tours import TourProblem

__all__ = [
    "BUILT_IN",
    "SHIPPED",
    "Atsp",
    "FeatureSizes",
    "FlowShop",
    "Instance",
    "Navigation",
    "Pmsp",
    "Problem",
    "Setups",
    "TourProblem",
    "get_problem",
    "import_class",
    "is_named",
    "problem_of_file",
    "problem_path",
    "problems_of_matrix",
]

BUILT_IN: dict[str, type[Problem]] = {problem.name: problem for problem in (Atsp, Pmsp, Navigation)}
"""Those that have models, and whose instances may be recognised as such."""

SHIPPED: dict[str, type[Problem]] = BUILT_IN | {problem.name: problem for problem in (FlowShop, Setups)}
"""All that have a name."""

T = TypeVar("T")


def import_class(path: str, base: type[T], what: str) -> type[T]:
    """Return the class that `module:Class` names, a subclass of `base`; `what` is the word for it in messages."""
    module_name, _, class_name = path.partition(":")
    try:
        value = getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        raise UsageError(f"cannot import the {what} '{path}': {error}") from error
    except AttributeError:
        raise UsageError(f"the module '{module_name}' has no class '{class_name}'") from None
    if not (isinstance(value, type) and issubclass(value, base)):
        raise UsageError(f"'{path}' is not a subclass of icdc.{base.__name__}")
    return value


def get_problem(name: str) -> Problem:
    """Return a problem by its name, or by `module:Class` for one of your own."""
    if name in SHIPPED:
        return SHIPPED[name]()
    if ":" not in name:
        raise UsageError(f"unknown problem '{name}'; choose {', '.join(SHIPPED)}, or module:Class for your own")
    return import_class(name, Problem, "problem")()  # type: ignore[type-abstract]


def problems_of_matrix(shape: tuple[int, ...], same_items: bool = False) -> list[type[Problem]]:
    """Return the problems that ship of which a nameless array may be an instance; see `Problem.recognises`."""
    return [cls for cls in BUILT_IN.values() if cls.recognises(shape, same_items)]


def problem_path(problem: Problem) -> str:
    """Return the name under which `get_problem` finds this problem again."""
    cls = type(problem)
    return cls.name if SHIPPED.get(cls.name) is cls else f"{cls.__module__}:{cls.__qualname__}"


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
    if name in SHIPPED:
        return get_problem(name)
    raise InputError(
        f"{source} is for the problem {name!r}, which does not ship, and a file does not decide what is imported; "
        f"if you trust it, give the problem: {mention('problem', 'module:Class')}"
    )
