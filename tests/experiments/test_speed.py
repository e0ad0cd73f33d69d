"""Seconds of training rounds and steps, and of whole test sets: each on something tiny."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.speed import sets, training

TINY = {
    "sizes": "[[5]]", "model.network.width": 16, "model.network.heads": 2, "model.network.edge_width": 4,
    "model.network.encoder_layers": 1, "model.network.denoiser_layers": 1, "targets.instances": 2, "cloning.batch": 2,
}  # fmt: skip


@pytest.mark.parametrize(("what", "key"), [("rounds", "round ms"), ("steps", "clone")])
def test_training_is_timed(what: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [f"--set={name}={value}" for name, value in TINY.items()]
    out = tmp_path / "lines.jsonl"
    words = [what, "atsp-20", "--repeats", "1", "--device", "cpu", "--variants", "eager", "--out", str(out), *settings]
    monkeypatch.setattr(sys, "argv", ["training", *words])
    training.main()
    (line,) = map(json.loads, out.read_text().splitlines())
    assert line[key] > 0
    assert line.get("preset", "atsp-20") == "atsp-20"
    assert line.get("variant", "eager") == "eager"


def test_whole_sets_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: Any) -> None:
    out = tmp_path / "throughput.csv"
    words = "--set atsp-20 --steps 1,2 --samples 2 --limit 2 --device cpu --out".split()
    monkeypatch.setattr(sys, "argv", ["sets", *words, str(out)])
    sets.main()
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["steps"], row["samples"], row["instances"]) for row in rows] == [("1", "2", "2"), ("2", "2", "2")]
    assert all(float(row["seconds"]) > 0 for row in rows)
