"""`icdc train`: presets are listed, every one can be started, and the words at the end are true."""

import json
from pathlib import Path
from typing import Any

import pytest

from icdc.training import presets

TINY = {
    "model.network.width": 16,
    "model.network.heads": 2,
    "model.network.edge_width": 4,
    "model.network.encoder_layers": 1,
    "model.network.denoiser_layers": 1,
    "targets.instances": 4,
    "targets.trajectories": 2,
    "cloning.batch": 4,
    "sizes": [[5, 2]],
}


def settings(**changes: Any) -> list[str]:
    values = {**TINY, **changes}
    return [part for name, value in values.items() for part in ("--set", f"{name}={json.dumps(value)}")]


def test_without_a_preset_they_are_listed(icdc: Any) -> None:
    ran = icdc("train")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines] == list(presets())
    assert all(line.endswith(words) for line, words in zip(lines, presets().values(), strict=True))


def test_an_unknown_preset_names_those_there_are(icdc: Any) -> None:
    ran = icdc("train", "nothing")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown preset 'nothing'; choose atsp, atsp-20, " in ran.err


def test_a_run_says_what_it_did(icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = icdc("train", "pmsp-20", *settings(), "--rounds", 2, "--device", "cpu")
    assert ran.code == 0, ran.err
    assert ran.out == "runs/pmsp-20/model.safetensors\n"
    said = ran.err.splitlines()[-1]
    assert said.startswith("trained for ")
    assert " s (rounds: 2); wrote the model runs/pmsp-20/model.safetensors and its metrics " in said
    assert "100.0 %" in ran.err
    again = icdc("train", "pmsp-20", *settings(), "--rounds", 2)
    assert again.code == 2
    assert "give --resume" in again.err
    resumed = icdc("train", "pmsp-20", "--resume", "--device", "cpu")
    assert resumed.code == 0, resumed.err


def test_the_preset_of_many_schedules_starts_from_a_fresh_clone(
    icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first weights ship; the folder one stands in holds nothing."""
    monkeypatch.chdir(tmp_path)
    small = ["--set", "sizes=[[5, 2]]", "--set", "targets.instances=2", "--set", "cloning.batch=2"]
    small += ["--set", "targets.trajectories=1", "--set", "cloning.steps_first=1", "--set", "cloning.steps_last=1"]
    ran = icdc("train", "pmsp", *small, "--rounds", 1, "--device", "cpu", "--out", "run")
    assert ran.code == 0, ran.err


def test_what_must_come_first_is_said(icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = icdc("train", "slrl-atsp-20", "--rounds", 1, "--device", "cpu")
    assert ran.code == 2
    assert "no weights to begin with" in ran.err
    assert "runs/sl-atsp-20/model.safetensors" in ran.err
    ran = icdc("train", "sl-atsp-20", "--rounds", 1, "--device", "cpu")
    assert ran.code == 3
    assert "make them with: icdc generate atsp" in ran.err
