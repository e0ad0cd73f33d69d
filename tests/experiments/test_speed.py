"""Seconds of training rounds and steps, and of whole test sets: each on something tiny."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.speed import kernels, sets, training

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


def test_errors_of_kernels_are_beside_those_of_torch_operations() -> None:
    """Without a GPU both are torch operations: the errors of bfloat16, and none where results are exact."""
    torch.manual_seed(0)
    device = torch.device("cpu")
    cases = kernels.network_cases(device, torch.bfloat16, 2, 4, 3) + kernels.sampling_cases(device, 2, 4, 3)
    errors = {(case.name, name): kernels.errors(case, name == "backward") for case in cases for name in case.passes}
    assert len(errors) == len(cases) + 2
    assert all(mine == plain for mine, plain in errors.values())
    assert all(0 < errors["edge_attention", name][0] < 0.03 for name in ("forward", "backward"))
    assert errors["join_tours", "forward"] == (0.0, 0.0)
    assert kernels.distance([torch.tensor([[1, 2], [3, 4]])], [torch.tensor([[1, 2], [3, 5]])], True) == 0.5
    assert kernels.distance([torch.tensor([3.0, 4.0])], [torch.tensor([3.0, 0.0])], False) == pytest.approx(4 / 3)
