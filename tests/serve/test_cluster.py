"""`icdc serve --ray` as somebody would run it: two replicas, one of which is killed under load."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from icdc.cli import run

ROOT = Path(__file__).parents[2]
PRESENT = all(importlib.util.find_spec(name) is not None for name in ("ray", "grpc", "starlette"))


@pytest.mark.slow
@pytest.mark.skipif(not PRESENT, reason="Ray Serve is not installed (pip install icdc[serve-cluster])")
def test_no_job_is_lost_when_a_replica_dies() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "experiments.service.faults", "--ray", "--jobs", "24"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["accepted"] > 0
    assert found["lost"] == 0
    assert found["clean"]


def test_without_ray_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else find(name))
    assert run(["serve", "--ray", "local"]) == 5
    assert "pip install 'icdc[serve-cluster]'" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("icdc.serve.cluster._module", lambda name: pytest.fail("Ray was asked"))
    assert run(["serve", "--ray", "127.0.0.1:99999999"]) == 2
    assert "--ray 127.0.0.1:99999999: there is no Ray cluster to be reached (" in capsys.readouterr().err
