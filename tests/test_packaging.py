"""The package as it is installed: versions agree, pins fit, examples are what their script makes."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import icdc
from icdc.io import read_instances
from icdc.problems import SHIPPED

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {re.sub(r"[-_.]+", "-", name).lower(): Version(version) for name, version in pairs}


def test_versions_agree() -> None:
    assert PROJECT["version"] == icdc.__version__
    assert re.search(rf"^version: {re.escape(icdc.__version__)}$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert f"## {icdc.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_is_pinned_to_a_version_that_is_allowed() -> None:
    pinned = pins()
    wanted = [
        *PROJECT["dependencies"],
        *(d for extra in PROJECT["optional-dependencies"].values() for d in extra),
    ]
    for requirement in map(Requirement, wanted):
        if requirement.name != "icdc":
            assert requirement.specifier.contains(pinned[requirement.name]), requirement
    assert pinned["torch"] == Version("2.13.0")


def test_the_extras_are_the_documented_ones() -> None:
    assert {"exact", "pyvrp", "lkh", "cluster", "serve", "dev"} <= set(PROJECT["optional-dependencies"])


def test_the_examples_are_what_their_script_makes(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_instances", ROOT / "examples" / "make_instances.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(tmp_path)
    made = sorted(tmp_path.iterdir())
    assert [path.name for path in made] == ["atsp20.atsp", "pmsp20x4.csv"]
    for path in made:
        assert path.read_bytes() == (ROOT / "examples" / path.name).read_bytes()
        (instance,) = read_instances(path)
        assert instance.problem.name == path.name[:4]


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "CITATION.cff", "CONTRIBUTING.md", ".ci/run", "Makefile"])
def test_files_people_look_for(name: str) -> None:
    assert (ROOT / name).stat().st_size > 0


def test_every_public_name_leads_somewhere() -> None:
    assert set(icdc.__all__) == {*icdc._MODULES, "__version__"}
    for name in icdc.__all__:
        assert getattr(icdc, name) is not None
    assert {problem.__name__ for problem in SHIPPED.values()} <= set(icdc.__all__)
