"""Training curves, and solvers against time: each runs on something tiny and says what happened."""

import csv
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.cli import run as icdc
from icdc.models.catalogue import card_of

TINY = {
    "atsp-20": {
        "model.network.width": 16, "model.network.heads": 2, "model.network.edge_width": 4,
        "model.network.encoder_layers": 1, "model.network.denoiser_layers": 1, "targets.instances": 2,
        "cloning.batch": 2,
    },
    "matnet-atsp-20": {"network.width": 16, "network.heads": 2, "network.one_hots": 8, "network.layers": 1, "batch": 2},
}  # fmt: skip
WAYS = {"atsp-20": ("steps=2", "steps=2,keep=last,decodes=1"), "matnet-atsp-20": ("decoding=greedy",)}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a module of experiments with arguments."""

    def call(module: str, *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [module, *map(str, arguments)])
        importlib.import_module(f"experiments.{module}").main()

    return call


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("preset", TINY)
def test_a_training_curve_for_every_way(run: Any, preset: str, tmp_path: Path) -> None:
    """Every evaluation has a line for each way and number of samples, and two pieces make one curve."""
    data, first, second = tmp_path / "cities.npz", tmp_path / "first", tmp_path / "second"
    assert icdc(["generate", "atsp", "--size", "5", "--count", "3", "--reference", "branch", "--out", str(data)]) == 0
    settings = [f"--set={key}={value}" for key, value in {"sizes": "[[5]]", **TINY[preset]}.items()]
    ways = [f"--way={way}" for way in WAYS[preset]]
    asked = (preset, "--data", data, "--seconds", "0.1", "--samples", "1,2", "--device", "cpu", *ways, *settings)
    run("training.curve", *asked, "--shared", "with a test", "--out", first)
    assert card_of(first / "model.safetensors")["training"]["shared"] == "with a test"
    before = lines(first / "curve.csv")
    assert {(line["options"], line["samples"]) for line in before} == {(w, n) for w in WAYS[preset] for n in "12"}
    assert all(float(line["gap"]) >= 0 for line in before)
    run("training.curve", *asked, "--out", second, "--after", first / "curve.csv")
    curve = lines(second / "curve.csv")
    assert curve[: len(before)] == before
    assert len(curve) > len(before)
    assert float(curve[-1]["at"]) > float(before[-1]["at"])
    assert (second / "curve.png").stat().st_size > 1000


def test_solvers_against_time(run: Any, save: Any, tmp_path: Path) -> None:
    model = save(tmp_path / "tiny.safetensors", "atsp", [[10]])
    run("search.anytime", "--set", "atsp-10:3", "--seconds", "0.3", "--model", model, "--out", tmp_path)
    points = lines(tmp_path / "anytime.csv")
    assert {point["solver"] for point in points} == {"icdc", "cpsat", "lkh", "pyvrp"}
    assert {point["instance"] for point in points} == {"atsp-10[3]"}
    assert np.all(np.array([float(point["gap"]) for point in points]) > -1e-9)
    (proven,) = (point for point in points if point["solver"] == "cpsat" and point["proven"] == "True")
    assert float(proven["gap"]) == pytest.approx(0.0)  # ten cities
    assert (tmp_path / "anytime.png").read_bytes().startswith(b"\x89PNG")
