"""The recorded comparison of solvers over time: the page and the picture are made, and say what happened."""

import subprocess
import sys
from pathlib import Path

import pytest

from icdc.model import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_page_and_the_picture(tmp_path: Path) -> None:
    tiny = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)
    model = tmp_path / "tiny.safetensors"
    Model(get_problem("atsp"), ModelConfig(network=tiny), card={"sizes": [[10]]}).save(model)
    options = ["--set", "atsp-10:3", "--seconds", "0.3", "--model", str(model), "--out", str(tmp_path)]
    command = [sys.executable, str(ROOT / "benchmarks" / "anytime.py"), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "anytime.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "anytime.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == ["| solver", "| icdc", "| cpsat", "| lkh", "| pyvrp"]
    assert rows[2][-1] == "0.00* |"  # ten cities, proven optimal
    assert "Load average when it began" in page
    assert float(rows[1][-1].strip(" |*")) >= 0
