"""How large the package is, how it hangs together, and how long the ways through it are.

    python -m experiments.house                # the figures that `tests/test_house.py` holds ceilings for
    python -m experiments.house --list NAME    # and what is behind one figure, such as --list one_importer
    python -m experiments.house --journeys     # functions, modules and changes of package on three everyday journeys

Imports are read from the source, wherever they stand: inside functions, for types alone, and as strings that name a
module (`"icdc.solving.solver:Solver"`). The public names in `icdc/__init__.py` are left out: they lead everywhere.

The journeys are `icdc solve examples/pmsp20x4.csv`, `icdc.solve` with the same matrix, and one round of training of the
preset `atsp-20`, made tiny. Each is made once before it is counted, so that nothing is left to import. Distinct
functions of the package in any thread count, and not what runs while a module is imported; a change of package is
between neighbours in the order of first calls.
"""

import argparse
import ast
import contextlib
import io
import re
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import icdc
from icdc.cli import run as command_line

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "icdc"
EXAMPLE = ROOT / "examples" / "pmsp20x4.csv"
LISTS = ("one_importer", "small", "repeated_names", "inner_imports", "knots", "cycles")
"""Figures behind which there are names."""
SMALL = 60
"""Lines up to which a module is small."""
Call = tuple[str, str]
"""A function of the package: the file of its module, relative to the package, and its qualified name."""
ROUND = "round"
"""The function of one round, in `icdc.training`."""
NAMES_A_MODULE = re.compile(r"(icdc(?:\.\w+)+)(?::\w+)?")


@dataclass(frozen=True)
class Module:
    """A file of the package.

    name : dotted, "icdc.search.run"; that of a package for its `__init__`.
    imports : the modules of the package that it names anywhere.
    """

    name: str
    path: Path
    tree: ast.Module
    text: str
    imports: frozenset[str]

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return self.text.count("\n")

    @property
    def package(self) -> str:
        """The folder directly under the package, or the module itself where it lies at the root."""
        return part_of(self.name)

    @property
    def is_init(self) -> bool:
        """Whether it is the `__init__` of a package."""
        return self.path.name == "__init__.py"


def part_of(name: str) -> str:
    """Return the part of the package that a module belongs to: "search" for "icdc.search.run"."""
    return name.split(".")[1] if "." in name else ""


class House:
    """The modules of the package in a folder, and what they import of each other."""

    def __init__(self, folder: Path = PACKAGE) -> None:
        self.folder = folder
        self.files = {_dotted(path, folder): path for path in sorted(folder.rglob("*.py"))}

    @cached_property
    def modules(self) -> list[Module]:
        """All modules, each read once."""
        return [self._read(name, path) for name, path in self.files.items()]

    def _read(self, name: str, path: Path) -> Module:
        text = path.read_text()
        tree = ast.parse(text)
        named = {target for node in ast.walk(tree) for target in self._targets(node, name, path)}
        return Module(name, path, tree, text, frozenset(named - {name}))

    def _targets(self, node: ast.AST, name: str, path: Path) -> Iterator[str]:
        """Yield the modules of the package that one node imports or names."""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.files)
        elif isinstance(node, ast.ImportFrom):
            parts = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module or ""]))
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                if inner in self.files:
                    yield inner
                elif module in self.files:
                    yield module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = NAMES_A_MODULE.fullmatch(node.value)
            if match is not None and match[1] in self.files:
                yield match[1]

    @cached_property
    def graph(self) -> dict[str, set[str]]:
        """What each module imports, without the public names of the package."""
        return {module.name: set(module.imports) - {"icdc"} for module in self.modules if module.name != "icdc"}

    @cached_property
    def packages(self) -> dict[str, set[str]]:
        """What each part of the package imports from others."""
        arrows: dict[str, set[str]] = defaultdict(set)
        for name, targets in self.graph.items():
            arrows[part_of(name)] |= {part_of(target) for target in targets} - {part_of(name)}
        return dict(arrows)

    @property
    def knots(self) -> list[set[str]]:
        """Sets of modules that all lead to each other."""
        return circles(self.graph)

    @property
    def cycles(self) -> list[set[str]]:
        """Sets of parts of the package that all lead to each other."""
        return circles(self.packages)

    @property
    def one_importer(self) -> list[str]:
        """Modules that exactly one other module imports."""
        importers = Counter(target for targets in self.graph.values() for target in targets)
        return [one.name for one in self.modules if not one.is_init and importers[one.name] == 1]

    @property
    def small(self) -> list[str]:
        """Modules of few lines."""
        return [one.name for one in self.modules if not one.is_init and one.lines <= SMALL]

    @property
    def repeated_names(self) -> list[str]:
        """File names that occur in several parts of the package."""
        parts: dict[str, set[str]] = defaultdict(set)
        for one in self.modules:
            if not one.is_init:
                parts[one.path.name].add(one.package)
        return sorted(name for name, places in parts.items() if len(places) > 1)

    @property
    def inner_imports(self) -> list[str]:
        """Functions inside which something of the package is imported."""
        return [
            f"{one.name}.{function.name}"
            for one in self.modules
            for function in _functions(one.tree)
            if any(True for node in ast.walk(function) for _ in self._imported(node, one))
        ]

    def _imported(self, node: ast.AST, module: Module) -> Iterator[str]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from self._targets(node, module.name, module.path)

    def figures(self) -> dict[str, float]:
        """Return every figure by its name."""
        # imports are short, and fewer where modules are merged: they would hide, or feign, packed lines
        lines = [line for one in self.modules for line in _lines_without_imports(one)]
        functions = [function for one in self.modules for function in _functions(one.tree)]
        statements = [sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1 for function in functions]
        return {
            "lines": sum(one.lines for one in self.modules),
            "modules": len(self.modules),
            "longest module": max(one.lines for one in self.modules),
            "one importer": len(self.one_importer),
            "small": len(self.small),
            "repeated names": len(self.repeated_names),
            "inner imports": len(self.inner_imports),
            "cycles of packages": len(self.cycles),
            "largest knot": max((len(knot) for knot in self.knots), default=0),
            "characters a line": round(sum(map(len, lines)) / len(lines), 1),
            "statements a function": round(sum(statements) / len(statements), 2),
        }


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of more than one node of a graph that all lead to each other."""
    leads_to = {node: set(targets) for node, targets in graph.items()}
    for middle in leads_to:
        for targets in leads_to.values():
            if middle in targets:
                targets |= leads_to[middle]
    parts = {frozenset(other for other in there if node in leads_to.get(other, ())) for node, there in leads_to.items()}
    return [set(part) for part in sorted(parts, key=sorted) if len(part) > 1]


def _lines_without_imports(module: Module) -> list[str]:
    imports = {
        number
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return [line for number, line in enumerate(module.text.splitlines(), 1) if line.strip() and number not in imports]


def _dotted(path: Path, folder: Path) -> str:
    parts = ["icdc", *path.relative_to(folder).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def functions_called(journey: Callable[[], object], within: str = "") -> list[Call]:
    """Return the functions that a journey calls, in the order of their first calls.

    within : count only what the training function of this name calls.
    """
    calls: dict[Call, None] = {}
    inside: list[FrameType] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        call = _of_the_package(frame.f_code)
        if call is None:
            return
        if within and call[0].startswith("training/") and frame.f_code.co_name == within:
            if event == "call":
                inside.append(frame)
            elif event == "return" and inside and inside[-1] is frame:
                inside.pop()
        if event == "call" and (inside or not within) and call not in calls and not _importing(frame):
            calls[call] = None

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        journey()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(calls)


@cache
def _of_the_package(code: CodeType) -> Call | None:
    """Return the function of the package that some code is; None for others, for modules and for class bodies."""
    is_function = bool(code.co_flags & 1)  # only functions keep their locals in fast slots
    path = Path(code.co_filename)
    if not is_function or not path.is_relative_to(PACKAGE):
        return None
    return path.relative_to(PACKAGE).as_posix(), code.co_qualname


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def length(calls: list[Call]) -> tuple[int, int, int]:
    """Return the number of functions, of modules, and of changes of package; root modules are their own packages."""
    packages = [module.partition("/")[0] for module, _ in calls]
    return len(calls), len({module for module, _ in calls}), sum(a != b for a, b in pairwise(packages))


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
    tiny: dict[str, Any] = {"targets": {"instances": 2}, "cloning": {"batch": 2}, "model": {"network": network}}
    icdc.train("atsp-20", device="cpu", sizes=[[5]], rounds=1, **tiny)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=LISTS, help="print what is behind a figure, too")
    parser.add_argument("--journeys", action="store_true", help="print how long the journeys are instead")
    options = parser.parse_args()
    if options.journeys:
        print(f"{'':20} {'functions':>17} {'modules':>17} {'changes of package':>18}")
        for journey, within in ((solve_file, ""), (solve_matrix, ""), (train_a_round, ROUND)):
            journey()  # imports, and what is kept between calls
            print(f"{journey.__name__:20}", *(f"{number:>17}" for number in length(functions_called(journey, within))))
        return
    house = House()
    for figure, value in house.figures().items():
        print(f"{figure:24} {value:>10,}")
    for folder in ("tests", "experiments"):
        texts = [path.read_text() for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".toml")]
        print(f"{f'lines of {folder}':24} {sum(len(text.splitlines()) for text in texts):>10,} in {len(texts)} files")
    for part in sorted({one.package for one in house.modules}):
        mine = [one for one in house.modules if one.package == part]
        print(f"  {part or 'icdc':22} {sum(one.lines for one in mine):>10,} in {len(mine)}")
    if options.list:
        print(*(getattr(house, options.list)), sep="\n")


if __name__ == "__main__":
    main()
