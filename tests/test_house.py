"""The package stays as small and as untangled as it is: ceilings, to be lowered and never raised."""

from pathlib import Path

import pytest

from experiments.house import House, circles

CEILINGS = {
    "lines": 35_400,
    "modules": 169,
    "longest module": 545,
    "one importer": 42,
    "small": 5,
    "repeated names": 5,
    "inner imports": 18,
    "cycles of packages": 1,
    "largest knot": 6,
    "characters a line": 55.6,
    "statements a function": 7.2,
}


@pytest.fixture(scope="module")
def house() -> House:
    return House()


@pytest.mark.parametrize("name", sorted(CEILINGS))
def test_the_ceilings_hold(house: House, name: str) -> None:
    assert house.figures()[name] <= CEILINGS[name]


def test_imports_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    """Relative and absolute ones, in functions, for types alone, and modules named in strings."""
    for name in ("__init__", "errors", "search/__init__", "search/run", "io/__init__", "io/read", "io/write", "kinds"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "io" / "read.py").write_text(
        "import icdc.errors\nfrom . import write\n"
        "if TYPE_CHECKING:\n    from ..search.run import Incumbent\n"
        "HOME = 'icdc.kinds:Kind'\nTEXT = 'icdc.kinds is a module'\n"
        "def f():\n    from ..search import run\n    import torch\n"
    )
    (tmp_path / "search" / "__init__.py").write_text("from .run import Budget\n")
    (tmp_path / "search" / "run.py").write_text("def f():\n    import torch\n    return 'icdc.io.read'\n")
    house = House(tmp_path)
    assert house.graph["icdc.io.read"] == {"icdc.errors", "icdc.io.write", "icdc.search.run", "icdc.kinds"}
    assert house.graph["icdc.search"] == {"icdc.search.run"}
    assert house.graph["icdc.search.run"] == {"icdc.io.read"}
    assert house.knots == [{"icdc.io.read", "icdc.search.run"}]
    assert house.cycles == [{"io", "search"}]
    assert house.inner_imports == ["icdc.io.read.f"]
    assert house.one_importer == ["icdc.errors", "icdc.io.read", "icdc.io.write", "icdc.kinds"]


def test_names_of_files_that_stand_twice_are_seen(tmp_path: Path) -> None:
    """Within one part of the package a name may be used again; an `__init__` is in all of them."""
    for name in ("io/__init__", "io/read", "io/deep/read", "cli/__init__", "cli/table", "io/table"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert House(tmp_path).repeated_names == ["table.py"]


def test_circles_are_found_however_long_they_are() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"g", "a"}, "g": {"f"}}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["f", "g"]]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_imports_do_not_count_as_lines_of_text(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("import os\nfrom pathlib import (\n    Path,\n)\n\ndef f():\n    return 1\n")
    assert House(tmp_path).figures()["characters a line"] == (8 + 12) / 2
