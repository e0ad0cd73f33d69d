"""The documents show what the commands print: every console block is run."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("docs/quickstart.md", "docs/command-line.md", "docs/file-formats.md")
BLOCKS = [
    pytest.param(block, id=f"{Path(name).stem}-{number}")
    for name in DOCUMENTS
    for number, block in enumerate(re.findall(r"```console\n(.*?)```", (ROOT / name).read_text(), re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_console_blocks(icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    """Each `$ icdc …` prints first what the document shows (times aside, and the rest may be left out)."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for part in block.split("$ icdc ")[1:]:
        command, *shown = part.strip().splitlines()
        ran = icdc(*shlex.split(command))
        printed = re.sub(r'"seconds": [\d.e-]+', '"seconds": SECONDS', ran.out + ran.err).splitlines()
        assert printed[: len(shown)] == shown


def test_there_are_blocks_to_run() -> None:
    assert len(BLOCKS) >= 4


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (ROOT / "docs" / target).is_file(), target


def test_the_python_of_the_quick_start_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second Python block needs no model; it is run as it stands."""
    import matplotlib

    matplotlib.use("Agg")
    import icdc

    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    block = re.findall(r"```python\n(.*?)```", (ROOT / "docs/quickstart.md").read_text(), re.S)[1]
    exec(compile(block, "quickstart.md", "exec"), {"icdc": icdc})
    assert (tmp_path / "gantt.png").stat().st_size > 10_000
    matplotlib.pyplot.close("all")
