"""How the command line finds a problem: by name, or in a file of your own beside which you stand."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..problem import Problem

HELP = "pmsp, atsp, navigation or module:Class; needed where the file leaves it open."


def find_problem(name: str) -> "Problem":
    """Return a problem by name, or by `module:Class`; modules in the current folder are found too."""
    from ..problems import get_problem

    here = str(Path.cwd())
    if ":" in name and here not in sys.path:
        sys.path.insert(0, here)
    return get_problem(name)
