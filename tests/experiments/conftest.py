"""Rows and figures to put into tables, and tiny models in place of the shipped ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from experiments.tables.rows import Measured, Row
from icdc.evaluation.evaluate import Summary
from icdc.evaluation.published import symmetric_gap
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem

TINY = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)
Measure = Callable[..., Measured]


@pytest.fixture
def measured() -> Measure:
    """Return a row with figures: a gap and its interval."""

    def make(row: Row, gap: float, low: float, high: float, seconds: float = 0.001, instances: int = 1000) -> Measured:
        optimum = 1.5
        return Measured(
            row,
            Summary(
                dataset=row.dataset, solver=row.method, samples=row.samples, seed=3, instances=instances,
                cost=optimum * (1.0 + gap / 100.0), reference=optimum, gap=gap, gap_low=low, gap_high=high,
                gap_at_most=None, symmetric_gap=symmetric_gap(gap), optimal=50.0, feasible=100.0, below=0,
                seconds=seconds * instances, seconds_per_instance=seconds * instances / instances,
                device="a GPU" if row.model else "cpu",
            ),
            "steps=20", "0123456789ab",
        )  # fmt: skip

    return make


@pytest.fixture
def save() -> Callable[..., Path]:
    """Write a tiny model of a problem, its weights drawn from a seed."""

    def make(path: Path, problem: str, sizes: list[list[int]], seed: int = 0) -> Path:
        torch.manual_seed(seed)
        Model(get_problem(problem), ModelConfig(network=TINY), card={"sizes": sizes, "training": {}}).save(path)
        return path

    return make


@pytest.fixture
def shipped(tmp_path: Path, save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tiny models that stand for the shipped ones."""
    folder = tmp_path / "models"
    for name, sizes in (("atsp", [[20]]), ("pmsp", [[20, 3]]), ("navigation", [[20]])):
        save(folder / f"{name}.safetensors", name.split("-")[0], sizes)
    monkeypatch.setattr("icdc.models.catalogue.models_folder", lambda: folder)
    return folder
