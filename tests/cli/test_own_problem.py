"""The worked example from instances to answers: generate, train, resume, solve, evaluate, all by module:Class."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAME = "eligible_machines:EligibleMachines"
CONFIG = f"""
problem = "{NAME}"
sizes = [[5, 3]]
rounds = 2

[model.network]
width = 16
heads = 2
edge_width = 4
encoder_layers = 1
denoiser_layers = 1
identifiers = 2

[targets]
instances = 4
trajectories = 2

[cloning]
batch = 8

[improvement]
weight = 0.0
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the example's module in it, not importable from anywhere else."""
    shutil.copy(EXAMPLES / "eligible_machines.py", tmp_path)
    (tmp_path / "shop.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(EXAMPLES)])
    sys.modules.pop("eligible_machines", None)
    yield tmp_path
    sys.modules.pop("eligible_machines", None)


def test_from_instances_to_answers(icdc: Any, here: Path) -> None:
    made = icdc("generate", NAME, "--size", "5x3", "--count", 3, "--out", "set.npz")
    assert made.code == 0, made.err
    trained = icdc("train", "shop.toml", "--problem", NAME, "--out", "run", "--device", "cpu")
    assert trained.code == 0, trained.err
    model = trained.out.strip()
    resumed = icdc("train", "shop.toml", "--problem", NAME, "--out", "run", "--device", "cpu", "--resume")
    assert resumed.code == 0, resumed.err
    options = ("--problem", NAME, "--samples", 4, "--device", "cpu", "--json")
    ran = icdc("solve", "set.npz", "--model", model, *options)
    assert ran.code == 0, ran.err
    assert [json.loads(line)["feasible"] for line in ran.out.splitlines()] == [True] * 3
    compared = icdc("evaluate", "set.npz", "--problem", NAME, "--solver", f"network:model={model}", "--json")
    assert compared.code == 0, compared.err
    assert json.loads(compared.out.splitlines()[0])["instances"] == 3


def test_files_do_not_bring_their_code_along(icdc: Any, here: Path) -> None:
    """Without --problem, a dataset and a model of a problem that does not ship are refused, and say how."""
    assert icdc("generate", NAME, "--size", "5x3", "--count", 1, "--out", "set.npz").code == 0
    model = icdc("train", "shop.toml", "--problem", NAME, "--out", "run", "--device", "cpu").out.strip()
    (here / "shop.csv").write_text("1,2\n3,4\n5,6\n")
    for arguments in (
        ("solve", "set.npz", "--solver", "random"),
        ("solve", "shop.csv", "--model", model),
        ("evaluate", "set.npz", "--solver", "random"),
        ("train", "shop.toml", "--out", "other"),
        ("train", "shop.toml", "--out", "run", "--resume"),
    ):
        sys.modules.pop("eligible_machines", None)
        ran = icdc(*arguments)
        assert (ran.code, ran.out) == (3, "")
        assert f"is for the problem '{NAME}', which does not ship" in ran.err
        assert "--problem module:Class" in ran.err
        assert "eligible_machines" not in sys.modules
