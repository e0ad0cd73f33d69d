"""The compiler that goes on after a short command has ended."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.search import precompile


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, Any]]]:
    """Processes that would have been started."""
    begun: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.delenv(precompile.SWITCHED_OFF, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **named: begun.append((command, named)))
    return begun


def test_one_at_a_time(tmp_path: Path, started: list[Any]) -> None:
    assert precompile.compile_in_background(tmp_path)
    assert not precompile.compile_in_background(tmp_path)
    (mark,) = tmp_path.iterdir()
    os.utime(mark, (0, time.time() - precompile.STALE - 1))  # that one is done, or dead
    assert precompile.compile_in_background(tmp_path)
    assert len(started) == 2
    command, named = started[0]
    assert command == [sys.executable, "-P", "-m", "icdc.search.precompile"]
    assert named["start_new_session"]


def test_nothing_is_started_where_it_is_switched_off(
    tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(precompile.SWITCHED_OFF, "1")
    assert not precompile.compile_in_background(tmp_path)
    assert not started
    assert not list(tmp_path.iterdir())


def test_a_link_in_its_place_is_not_followed(tmp_path: Path, started: list[Any]) -> None:
    """In a folder that all may write to another user may have put it there."""
    precompile.compile_in_background(tmp_path)
    (mark,) = tmp_path.iterdir()
    mark.unlink()
    mark.symlink_to(tmp_path / "elsewhere")
    assert not precompile.compile_in_background(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    assert not precompile.compile_in_background(tmp_path / "no such folder")
    assert len(started) == 1


def test_nothing_of_the_current_folder_is_run(tmp_path: Path) -> None:
    """A command in a folder of data runs none of the code that lies there."""
    (tmp_path / "numpy.py").write_text("raise SystemExit(7)")
    path = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
    environment = {**os.environ, "PYTHONPATH": path}
    program = "import icdc.search.precompile, runpy"
    command = [sys.executable, "-P", "-c", program]
    assert subprocess.run(command, cwd=tmp_path, env=environment, timeout=60).returncode == 0


def test_everything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    for structure in precompile.STRUCTURES.values():
        monkeypatch.setattr(structure, "compile", lambda kind, name=structure.name: compiled.append((name, kind)))
    monkeypatch.setattr(os, "nice", lambda more: 0)
    precompile.main()
    assert sorted(compiled, key=str) == [(n, k) for n in ("makespan", "tour") for k in (np.float64, np.int64)]
