"""The benchmarks of quality against training time: any method, any ways of solving, and pieces of one run."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from icdc.cli import run as icdc
from icdc.model import card_of

FOLDER = Path(__file__).parents[2] / "benchmarks"
TINY = {
    "atsp-20": {
        "model.network.width": 16,
        "model.network.heads": 2,
        "model.network.edge_width": 4,
        "model.network.encoder_layers": 1,
        "model.network.denoiser_layers": 1,
        "targets.instances": 2,
        "cloning.batch": 2,
    },
    "matnet-atsp-20": {"network.width": 16, "network.heads": 2, "network.one_hots": 8, "network.layers": 1, "batch": 2},
}
WAYS = {"atsp-20": ("steps=2", "steps=2,keep=last,decodes=1"), "matnet-atsp-20": ("decoding=greedy",)}


def run(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: Any) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    runpy.run_path(str(FOLDER / script), run_name="__main__")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("preset", TINY)
def test_a_curve_for_every_way(preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every evaluation has a line for each way and number of samples, and two pieces make one curve."""
    data, pieces = tmp_path / "cities.npz", [tmp_path / "first", tmp_path / "second"]
    generate = ["generate", "atsp", "--size", "5", "--count", "3", "--reference", "branch", "--out", str(data)]
    assert icdc(generate) == 0
    settings = [f"--set={key}={value}" for key, value in {"sizes": "[[5]]", **TINY[preset]}.items()]
    for out in pieces:
        run(
            monkeypatch, "time_to_quality.py", preset, "--data", data, "--seconds", "0.1", "--samples", "1,2",
            *[f"--way={way}" for way in WAYS[preset]], "--shared", "with a test", "--device", "cpu", "--out", out,
            *settings,
        )  # fmt: skip
        assert card_of(out / "model.safetensors")["training"]["shared"] == "with a test"
    first, second = (lines(out / "quality.jsonl") for out in pieces)
    expected = {(way, samples) for way in WAYS[preset] for samples in (1, 2)}
    assert {(line["way"], line["samples"]) for line in first} == expected
    assert all(line["gap"] >= 0 for line in first)
    run(
        monkeypatch, "learning_curve.py", *(out / "quality.jsonl" for out in pieces), "--samples", "2",
        "--out", tmp_path / "curve.jsonl",
    )  # fmt: skip
    curve = lines(tmp_path / "curve.jsonl")
    assert {line["samples"] for line in curve} == {2}
    assert curve[-1]["at"] == pytest.approx(first[-1]["at"] + second[-1]["at"])
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_the_time_of_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [f"--set={key}={value}" for key, value in {"sizes": "[[5]]", **TINY["atsp-20"]}.items()]
    out = tmp_path / "rounds.jsonl"
    run(monkeypatch, "round_time.py", "atsp-20", "--repeats", "1", "--device", "cpu", "--out", out, *settings)
    line = json.loads(out.read_text())
    assert line["preset"] == "atsp-20"
    assert line["round ms"] > 0
