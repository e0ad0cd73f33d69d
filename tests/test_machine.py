"""What this machine has to give."""

from pathlib import Path

import pytest

from icdc.machine import may_have_gpu


def test_a_gpu_is_possible_where_there_is_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert not may_have_gpu(tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert may_have_gpu(tmp_path)
    monkeypatch.setattr("sys.platform", "win32")
    assert may_have_gpu(tmp_path / "nowhere")
