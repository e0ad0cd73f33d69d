"""How large the package is, and how it hangs together: the figures that `tests/test_house.py` holds ceilings for.

    python -m benchmarks.house                # a table
    python -m benchmarks.house --list NAME    # and what is behind one figure, such as --list one_importer

Imports are read from the source, wherever they stand: inside functions, for types alone, and as strings that name a
module (`"icdc.solving.solver:Solver"`). The public names in `icdc/__init__.py` are left out: they lead everywhere.
"""

import argparse
import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "icdc"
SMALL = 60
"""Lines up to which a module is small."""
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
        lines = [line for one in self.modules for line in one.text.splitlines() if line.strip()]
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
    """Return the strongly connected parts of a graph that have more than one node (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    parts: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            part = set(stack[stack.index(node) :])
            del stack[stack.index(node) :]
            if len(part) > 1:
                parts.append(part)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return parts


def lines_in(*folders: str, endings: tuple[str, ...] = (".py",)) -> tuple[int, int]:
    """Return lines and files below some folders of the project."""
    files = [path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in endings]
    return sum(path.read_text().count("\n") for path in files), len(files)


def _dotted(path: Path, folder: Path) -> str:
    parts = ["icdc", *path.relative_to(folder).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lists = ["one_importer", "small", "repeated_names", "inner_imports", "knots", "cycles"]
    parser.add_argument("--list", choices=lists, help="print what is behind a figure, too")
    options = parser.parse_args()
    house = House()
    for name, value in house.figures().items():
        print(f"{name:24} {value:>10,}")
    print(f"{'lines of tests':24} {lines_in('tests', endings=('.py', '.toml'))[0]:>10,}")
    lines, files = lines_in("experiments", "benchmarks")
    print(f"{'lines of experiments':24} {lines:>10,} in {files} files")
    for part in sorted({one.package for one in house.modules}):
        mine = [one for one in house.modules if one.package == part]
        print(f"  {part or 'icdc':22} {sum(one.lines for one in mine):>10,} in {len(mine)}")
    if options.list:
        print(*(getattr(house, options.list)), sep="\n")


if __name__ == "__main__":
    main()
