"""The compiler that a short command leaves behind."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.search import afterwards

pytest.importorskip("numba")


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, Any]]]:
    """Processes that would have been left behind."""
    begun: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.delenv(afterwards.LEAVE_NOTHING, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **named: begun.append((command, named)))
    return begun


def test_one_at_a_time(tmp_path: Path, left: list[Any]) -> None:
    assert afterwards.compile_afterwards(tmp_path)
    assert not afterwards.compile_afterwards(tmp_path)
    (mark,) = tmp_path.iterdir()
    os.utime(mark, (0, time.time() - afterwards.STALE - 1))  # that one is done, or dead
    assert afterwards.compile_afterwards(tmp_path)
    assert len(left) == 2
    command, named = left[0]
    assert command == [sys.executable, "-P", "-m", "icdc.search.afterwards"]
    assert named["start_new_session"]


def test_nothing_is_left_where_it_is_forbidden(
    tmp_path: Path, left: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(afterwards.LEAVE_NOTHING, "1")
    assert not afterwards.compile_afterwards(tmp_path)
    assert not left
    assert not list(tmp_path.iterdir())


def test_a_link_in_its_place_is_not_followed(tmp_path: Path, left: list[Any]) -> None:
    """In a folder that all may write to somebody else may have put it there."""
    afterwards.compile_afterwards(tmp_path)
    (mark,) = tmp_path.iterdir()
    mark.unlink()
    mark.symlink_to(tmp_path / "elsewhere")
    assert not afterwards.compile_afterwards(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    assert not afterwards.compile_afterwards(tmp_path / "no such folder")
    assert len(left) == 1


def test_nothing_of_the_current_folder_is_run(tmp_path: Path) -> None:
    """A command in a folder of data runs none of the code that lies there."""
    (tmp_path / "numpy.py").write_text("raise SystemExit(7)")
    path = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
    environment = {**os.environ, "PYTHONPATH": path}
    program = "import icdc.search.afterwards, runpy"
    command = [sys.executable, "-P", "-c", program]
    assert subprocess.run(command, cwd=tmp_path, env=environment, timeout=60).returncode == 0


def test_everything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(afterwards, "try_out", lambda tour, kind: tried.append((tour, kind)))
    monkeypatch.setattr(os, "nice", lambda more: 0)
    afterwards.main()
    assert set(tried) == {(tour, kind) for tour in (False, True) for kind in (np.int64, np.float64)}
    assert len(tried) == 4
