"""How long the way through the package is: functions, modules and changes of package on three everyday paths.

    python benchmarks/path_length.py             # a table
    python benchmarks/path_length.py --list      # and every function, in the order of its first call

The paths are `icdc solve examples/pmsp20x4.csv`, `icdc.solve(matrix)` with the same matrix, and one round of training
(after set-up) of the preset `atsp-20` on a CPU, made tiny. What is counted:

functions
    Distinct functions of the package that are called, in any thread; methods, nested functions, lambdas and
    comprehensions count, class bodies and whatever runs while a module is imported do not.
modules
    Distinct modules that those functions are defined in.
changes of package
    List the functions in the order of their first call: neighbours that are defined in different packages. A package
    is a folder directly under `icdc`; a module at the root is a package of its own.

A path is walked once before it is counted, so that nothing is left to import. Measured so before the package was
redesigned: 302/45/99, 189/33/71 and 144/33/48; after it: 290/43/70, 238/35/63 and 161/32/50.
"""

import argparse
import contextlib
import io
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import icdc
from icdc.cli import run as command_line

EXAMPLE = Path(__file__).parents[1] / "examples" / "pmsp20x4.csv"
PACKAGE = Path(icdc.__file__).parent
ROUND = ("_round", "train_round", "run_round", "round")
"""Names that the function of one round may have, in `icdc.training`."""
BEFORE = {"icdc solve FILE": (302, 45, 99), "icdc.solve(matrix)": (189, 33, 71), "one training round": (144, 33, 48)}


@dataclass(frozen=True)
class Called:
    """A function of the package: the file of its module, relative to the package, and its qualified name."""

    module: str
    name: str

    @property
    def package(self) -> str:
        """Return the folder directly under the package, or the module itself where it lies at the root."""
        return self.module.partition("/")[0]


def functions_called(path: Callable[[], object], within: tuple[str, ...] = ()) -> list[Called]:
    """Return the functions that a path calls, in the order of their first calls.

    within : count only what is called by the training function of one of these names; everything if there are none.
    """
    found: dict[Called, None] = {}
    inside: list[FrameType] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        called = _of_the_package(frame.f_code)
        if called is None:
            return
        if within and called.module.startswith("training/") and frame.f_code.co_name in within:
            if event == "call":
                inside.append(frame)
            elif event == "return" and inside and inside[-1] is frame:
                inside.pop()
        if event == "call" and (inside or not within) and called not in found and not _importing(frame):
            found[called] = None

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        path()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return list(found)


@cache
def _of_the_package(code: CodeType) -> Called | None:
    """Return the function of the package that some code is; None for others, for modules and for class bodies."""
    is_function = bool(code.co_flags & 1)  # only functions keep their locals in fast slots
    path = Path(code.co_filename)
    if not is_function or not path.is_relative_to(PACKAGE):
        return None
    return Called(path.relative_to(PACKAGE).as_posix(), code.co_qualname)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def length(functions: list[Called]) -> tuple[int, int, int]:
    """Return the number of functions, of modules, and of changes of package."""
    changes = sum(a.package != b.package for a, b in pairwise(functions))
    return len(functions), len({called.module for called in functions}), changes


def solve_file() -> None:
    """Solve the example by the command line, its words thrown away."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if command_line(["solve", str(EXAMPLE)]):
            raise SystemExit(f"icdc solve {EXAMPLE} failed")


def solve_matrix() -> None:
    """Solve the same matrix from Python."""
    icdc.solve(np.loadtxt(EXAMPLE, dtype=np.int64, delimiter=",", skiprows=1, usecols=range(1, 5)))


def train_a_round() -> None:
    """Train a tiny model for one round."""
    network = {"width": 16, "heads": 2, "edge_width": 4, "encoder_layers": 1, "denoiser_layers": 1}
    tiny = {"targets": {"instances": 2}, "cloning": {"batch": 2}, "model": {"network": network}}
    icdc.train("atsp-20", device="cpu", sizes=[[5]], rounds=1, **tiny)


def paths() -> dict[str, list[Called]]:
    """Return the functions called on every path."""
    found = {}
    for name, path, within in (
        ("icdc solve FILE", solve_file, ()),
        ("icdc.solve(matrix)", solve_matrix, ()),
        ("one training round", train_a_round, ROUND),
    ):
        path()  # imports, and what is kept between calls
        found[name] = functions_called(path, within)
        if not found[name]:
            raise SystemExit(f"nothing was counted for '{name}': is the function of a round called one of {ROUND}?")
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print every function, too")
    options = parser.parse_args()
    found = paths()
    print(f"{'':20} {'functions':>16} {'modules':>16} {'changes of package':>20}")
    for name, functions in found.items():
        cells = [f"{now} (was {before})" for now, before in zip(length(functions), BEFORE[name], strict=True)]
        print(f"{name:20} {cells[0]:>16} {cells[1]:>16} {cells[2]:>20}")
    if options.list:
        for name, functions in found.items():
            print(f"\n{name}", *(f"  {called.module}  {called.name}" for called in functions), sep="\n")


if __name__ == "__main__":
    main()
