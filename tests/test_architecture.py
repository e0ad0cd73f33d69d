"""The arrows between modules point downward: who may import whom, read from the source itself."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import icdc
from icdc.training import TrainingConfig

PACKAGE = Path(icdc.__file__).parent

# What each part of the package may import from the rest of it, inside functions too. A part is a module or a
# folder of icdc/; "icdc" is the package itself (its version and its lazily imported public names).
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "options": {"errors"},
    "settings": {"options", "errors"},
    "machine": set(),
    "jit": set(),
    "kernels": {"jit"},
    "plots": {"errors"},
    "search": {"jit"},
    "problems": {"plots", "search", "kernels", "options", "errors"},
    "diffusion": {"problems", "kernels", "settings", "options", "errors"},
    "networks": {"problems", "kernels", "settings", "errors"},
    "io": {"problems", "plots", "options", "machine", "errors"},
    "conformance": {"problems", "io", "kernels", "options", "errors"},
    "models": {"icdc", "problems", "networks", "kernels", "diffusion", "io", "settings", "options", "errors"},
    "solving": {
        "icdc",
        "jit",
        "search",
        "problems",
        "diffusion",
        "models",
        "kernels",
        "io",
        "settings",
        "options",
        "machine",
        "errors",
    },
    "baselines": {
        "search",
        "problems",
        "diffusion",
        "networks",
        "models",
        "solving",
        "training",
        "kernels",
        "io",
        "settings",
        "options",
        "errors",
    },
    "solvers": {"problems", "solving", "options", "errors"},
    "api": {"problems", "models", "solving", "solvers", "io", "options", "errors"},
    "training": {
        "search",
        "solvers",
        "problems",
        "diffusion",
        "models",
        "solving",
        "kernels",
        "io",
        "settings",
        "options",
        "networks",
        "machine",
        "errors",
    },
    "evaluation": {"problems", "solving", "solvers", "io", "options", "errors"},
    "serve": {"icdc", "problems", "models", "search", "solvers", "solving", "io", "options", "machine", "errors"},
    "client": {"problems", "solving", "io", "options", "errors"},
}
LEAVES = {"cli", "__main__"}


def part_of(path: Path) -> str:
    """Return the part of the package a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return "icdc" if first == "__init__.py" else first.removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Return the parts of the package that a file imports anywhere, without those it only names for types."""
    package = ["icdc", *path.relative_to(PACKAGE).parts[:-1]]
    found = set()
    for node in _run(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [module] if module != "icdc" else [f"icdc.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "icdc":
                known = len(parts) > 1 and any((PACKAGE / (parts[1] + end)).exists() for end in (".py", ""))
                found.add(parts[1] if known else "icdc")
    return found - {part_of(path)}


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from _run(node)


FILES = sorted(path for path in PACKAGE.rglob("*.py"))
PARTS = sorted({part_of(path) for path in FILES})


def arrows(part: str) -> dict[str, str]:
    """Return what a part imports, each with one file that does."""
    return {
        target: str(path.relative_to(PACKAGE))
        for path in FILES
        if part_of(path) == part
        for target in sorted(imports_of(path))
    }


def test_the_reader_of_imports_sees_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative and absolute imports, at the top and inside functions, of modules and of names."""
    (tmp_path / "noise.py").touch()
    (tmp_path / "problems").mkdir()
    (tmp_path / "training").mkdir()
    (tmp_path / "diffusion").mkdir()
    file = tmp_path / "training" / "steps.py"
    file.write_text(
        "import icdc.problems.atsp\nfrom .. import noise, __version__\nfrom . import own\n"
        "def f():\n    from ..problems import x\n    from icdc.kernels import y\n    import torch\n"
        "if TYPE_CHECKING:\n    from ..diffusion import z\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    assert imports_of(file) == {"problems", "noise", "icdc"}


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_the_core_knows_only_what_is_below_it(part: str) -> None:
    """Diffusion and networks know no problem, problems no network, decoding rules only, and so on."""
    assert part in PARTS
    extra = {target: file for target, file in arrows(part).items() if target not in ALLOWED[part]}
    assert not extra, f"{part} must not import these: {extra}"


@pytest.mark.parametrize("part", [part for part in PARTS if part not in LEAVES])
def test_nobody_imports_the_leaves(part: str) -> None:
    """The command line is imported by nobody."""
    wrong = {target: file for target, file in arrows(part).items() if target in LEAVES}
    assert not wrong, f"{part} must not import these: {wrong}"


def test_the_core_has_no_cycles() -> None:
    """Between the parts of the core dependencies form no circle, wherever the import stands."""
    order: list[str] = []
    todo = {part: {t for t in arrows(part) if t in ALLOWED} for part in ALLOWED}
    while todo:
        ready = [part for part, needs in todo.items() if needs <= set(order)]
        assert ready, f"a circle among {sorted(todo)}"
        order += ready
        for part in ready:
            del todo[part]


def test_the_networks_take_only_features_from_the_problems() -> None:
    """A network is sized from feature dimensions; it never sees a Problem."""
    for path in FILES:
        if part_of(path) == "networks":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("problems"):
                    assert {alias.name for alias in node.names} <= {"Features", "FeatureSizes"}, path


def test_nobody_but_the_problems_names_a_problem() -> None:
    """Whatever depends on the problem at hand is asked of it; only the public names of the package list them."""
    concrete = {"Atsp", "Pmsp", "Navigation", "TourProblem", "atsp", "pmsp", "navigation", "tours"}
    for path in FILES:
        if part_of(path) not in ("problems", "search", "icdc"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom):
                    words = {alias.name for alias in node.names} | set((node.module or "").split("."))
                    assert not words & concrete, path


def test_only_the_kernels_know_of_implementations() -> None:
    """Nobody else imports triton, looks for it, or takes anything of the kernels but their operations."""
    asking = re.compile(r"\btriton\b(?!\(\))|is_cuda|get_device_capability|TRITON_")
    for path in FILES:
        text = path.read_text()
        if part_of(path) != "kernels":
            assert not asking.search(text), path
            assert not re.search(r"from \.+kernels\.|import icdc\.kernels\.", text), path


def test_triton_waits_until_it_is_needed() -> None:
    """Operations import their Triton kernels where they call them, never at the top of a module."""
    for path in FILES:
        if part_of(path) == "kernels" and not path.stem.startswith("triton"):
            top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
            names = {alias.name for node in top for alias in node.names}
            modules = {getattr(node, "module", None) or "" for node in top}
            known = {file.stem for file in path.parent.glob("triton*.py")} | {"triton"}
            assert not (names | modules) & known, path


def test_importing_the_package_is_light() -> None:
    """The package and the command line load without torch; heavy imports wait until they are needed."""
    for module in ("icdc", "icdc.errors", "icdc.cli"):
        code = f"import {module}, sys; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, module


@pytest.mark.parametrize("words", ["pmsp20x4.csv", "flow_shop.csv --problem flow-shop", "setups.csv --problem setups"])
def test_a_small_instance_is_solved_without_torch(words: str) -> None:
    """Reading, checking, bounding and proving need only NumPy and SciPy: answers begin a second earlier."""
    file, *options = words.split()
    command = ["solve", str(PACKAGE.parent.parent / "examples" / file), *options]
    code = (
        f"import sys; from icdc.cli import run; code = run({command}); sys.exit(code or ('torch' in sys.modules) * 99)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done


def test_every_name_in_the_map_of_equations_exists() -> None:
    """docs/method.md points to functions and files that are there."""
    text = (PACKAGE.parent.parent / "docs" / "method.md").read_text()
    defined = {"choice", "src/icdc/"}
    for path in FILES:
        defined.add(str(path.relative_to(PACKAGE)))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined.add(node.name)
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef):
                        defined.add(f"{node.name}.{item.name}")
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                        defined.add(item.target.id)
    names = {name for name in re.findall(r"`([^`]+)`", text) if not name.startswith(("tests/", "paper-"))}
    settings = {name for name in names if name.split(".")[0] in vars(TrainingConfig())}
    for name in settings:
        value: object = TrainingConfig()
        for part in name.split("."):
            value = getattr(value, part)  # a setting that is not there raises
    assert len(names) > 40
    assert not names - settings - defined
