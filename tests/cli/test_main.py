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


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Instances whose answers are longer than what a pipe holds."""
    path = tmp_path / "many.json"
    path.write_text(json.dumps([[[1, 2, 3]] * 40] * 900))
    return path


def _broken_pipe(command: list[str]) -> int:
    """Run a command whose reader takes one line and goes away; return its exit code."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        return process.wait()


def test_a_reader_that_goes_away_ends_the_command_and_is_no_error(many: Path, tmp_path: Path) -> None:
    assert _broken_pipe([sys.executable, "-m", "icdc", "solve", str(many), "--solver", "ect", "--json"]) == 0


def test_files_are_written_all_the_same_when_the_reader_goes_away(many: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "icdc", "solve", str(many), "--solver", "ect", "--json"]
    assert _broken_pipe([*command, "--out", str(tmp_path / "plan.txt")]) == 0
    assert len(list(tmp_path.glob("plan-*.txt"))) == 900


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["models"], ["solve", "-", "--json"]])
def test_an_output_without_room_is_said(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "icdc", *arguments], stdout=full, stderr=subprocess.PIPE, input="1,2,3\n", text=True,
            check=False,
        )  # fmt: skip
    assert ran.returncode == 3
    assert ran.stderr == "icdc: standard output cannot be written (No space left on device)\n"


def test_info(icdc: Any) -> None:
    about = json.loads(icdc("info", "--json").out)
    assert about["icdc"] == __version__
    assert about["solvers"]["icdc"]["available"]
    assert about["solvers"]["lkh"]["extra"] == "lkh"
    assert about["problems"] == ["atsp", "pmsp", "navigation", "flow-shop", "setups"]
    text = icdc("info").out
    assert f"icdc {__version__}, Python" in text
    assert "CP-SAT" in text
    assert "problems: atsp, pmsp, navigation, flow-shop, setups" in text


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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["solve", "x.csv", "--samples", "0"], "--samples must be at least 1, got 0"),
        (["solve", "x.csv", "--samples", "x"], "--samples must be a whole number (see icdc solve --help)"),
        (["solve", "x.csv", "--time-limit", "5s"], "--time-limit must be a number (see icdc solve --help)"),
        (["serve", "--port", "99999"], "--port must be at most 65535 (see icdc serve --help)"),
    ],
)
def test_values_that_do_not_fit_are_refused_in_our_words(icdc: Any, options: list[str], sentence: str) -> None:
    ran = icdc(*options)
    assert (ran.code, ran.err) == (2, f"icdc: {sentence}\n")
