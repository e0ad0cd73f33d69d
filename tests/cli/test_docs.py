"""The documents show what happens: every console block is run, every Python block too, and links lead somewhere."""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from icdc.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL)


def blocks(path: Path, language: str) -> list[tuple[str, str]]:
    """Return the blocks of a language in a document, each with the mark before it: (mark, code)."""
    found = [match for match in BLOCK.finditer(path.read_text()) if match["language"] == language]
    return [(match["mark"] or "", match["code"]) for match in found]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def bare(code: str) -> str:
    """Return the lines of some code without their indentation, so that an excerpt can be found in its file."""
    return "\n".join(line.strip() for line in code.splitlines() if line.strip())


CONSOLE = [
    pytest.param(code, id=f"{named(path)}-{number}")
    for path in DOCUMENTS
    for number, (_, code) in enumerate(blocks(path, "console"))
]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand in a folder that has the examples, as a clone does."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "examples"]:
        del sys.modules[name]


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize("block", CONSOLE)
def test_console_blocks(icdc: Any, block: str) -> None:
    """Each `$ icdc …` prints first what the document shows (times aside, and the rest may be left out)."""
    for part in block.split("$ icdc ")[1:]:
        command, *shown = part.strip().splitlines()
        ran = icdc(*shlex.split(command))
        printed = re.sub(r'"seconds": [\d.e-]+', '"seconds": SECONDS', ran.out + ran.err).splitlines()
        assert printed[: len(shown)] == shown


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks(path, "python")], ids=named)
def test_python_blocks(path: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of a document runs from top to bottom, with tiny models in place of the shipped ones."""
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    monkeypatch.setattr("icdc.models.catalogue.models_folder", lambda: models["atsp"].parent)
    names: dict[str, Any] = {}
    for mark, code in blocks(path, "python"):
        if mark.startswith("not run: "):
            compile(code, named(path), "exec")
        elif mark.startswith("from "):
            assert bare(code) in bare((ROOT / mark.removeprefix("from ")).read_text())
        else:
            exec(compile(code, named(path), "exec"), names)
    pyplot.close("all")


def test_there_are_blocks_to_run() -> None:
    assert len(CONSOLE) >= 4
    assert sum(len(blocks(path, "python")) for path in DOCUMENTS) >= 10


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).is_file(), target


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "README.md" or f"({path.name})" in index, path.name


@pytest.mark.parametrize("command", [info.name or info.callback.__name__ for info in app.registered_commands])
def test_every_option_is_documented(command: str) -> None:
    """Each option of each command stands in some page, not only in --help."""
    text = "\n".join(path.read_text("utf-8") for path in DOCUMENTS)
    options = [
        option for one in get_command(app).commands[command].params for option in (*one.opts, *one.secondary_opts)
    ]
    missing = [o for o in options if o.startswith("--") and not re.search(rf"{re.escape(o)}(?![\w-])", text)]
    assert missing == []
