"""How the command line finds a problem, by name or in a file of your own beside which you stand, and a size."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..problems.base import Problem

HELP = "pmsp, atsp, navigation, setups, flow-shop, or module:Class; needed where the file leaves it open."


def find_problem(name: str) -> "Problem":
    """Return a problem by name, or by `module:Class`; modules in the current folder are found too."""
    from ..problems.registry import get_problem

    look_here(name)
    return get_problem(name)


def look_here(name: str) -> None:
    """Let `module:Class` find modules in the current folder, too."""
    here = str(Path.cwd())
    if ":" in name and here not in sys.path:
        sys.path.insert(0, here)


def read_size(text: str, problem: "Problem") -> tuple[int, ...]:
    """Read a size of a problem, such as 20 or 20x4."""
    parts = text.lower().split("x")
    if len(parts) != len(problem.size_names) or not all(p.isdecimal() and len(p) < 10 and int(p) > 0 for p in parts):
        raise UsageError(f"--size of '{problem.name}' must be {' x '.join(problem.size_names)}, got '{text}'")
    return tuple(map(int, parts))
