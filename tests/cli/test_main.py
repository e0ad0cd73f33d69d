"""The command line as a whole: fast help, versions, models, exit codes, a reader that goes away."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from icdc import __version__
from icdc.models import catalogue as model


def test_help_names_every_command(icdc: Any) -> None:
    ran = icdc("--help")
    assert ran.code == 0
    for command in ("solve", "verify", "generate", "train", "evaluate", "models", "info", "check-problem"):
        assert command in ran.out


def test_help_does_not_import_torch() -> None:
    check = "import sys; from icdc.cli import run; run(['solve', '--help']); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"


def test_python_dash_m() -> None:
    ran = subprocess.run([sys.executable, "-m", "icdc", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"icdc {__version__}\n"


def test_no_command_and_an_unknown_one(icdc: Any) -> None:
    assert icdc().code == 2
    ran = icdc("sovle")
    assert ran.code == 2
    assert ran.err.startswith("icdc: no such command 'sovle'")
    assert ran.err.count("\n") == 1


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_text(json.dumps([{"durations": [[1, 2]] * 40}] * 600))
    command = f"{sys.executable} -m icdc solve {path} --solver ect --json | head -n 1"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert len(ran.stdout.splitlines()) == 1
    assert "Traceback" not in ran.stderr
    assert "Exception" not in ran.stderr


def test_info(icdc: Any) -> None:
    about = json.loads(icdc("info", "--json").out)
    assert about["icdc"] == __version__
    assert about["solvers"]["icdc"]["available"]
    assert about["solvers"]["lkh"]["extra"] == "lkh"
    text = icdc("info").out
    assert f"icdc {__version__}, Python" in text
    assert "CP-SAT" in text


def test_info_says_how_to_add_what_is_missing(icdc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    assert "(missing: pip install 'icdc[lkh]')" in icdc("info").out


def test_models(icdc: Any, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "models_folder", lambda: models["pmsp"].parent)
    ran = icdc("models")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["model", "problem", "sizes", "size"]
    assert lines[-1].split()[:3] == ["pmsp", "pmsp", "6×3"]
    found = [json.loads(line) for line in icdc("models", "--json").out.splitlines()]
    assert [row["model"] for row in found] == ["atsp", "navigation", "pmsp"]
    assert found[2]["bytes"] == models["pmsp"].stat().st_size


def test_no_models(icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "models_folder", lambda: tmp_path)
    ran = icdc("models")
    assert (ran.code, ran.out) == (0, "")
    assert "no models ship" in ran.err
